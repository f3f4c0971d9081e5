//! `stepsim show`: a shipped file as it is, or any file with everything resolved.

use std::path::PathBuf;

use super::Failure;
use super::write::write_json;
use stepsim_simulate::{Settings, under};
use stepsim_spec::{
    Collectives, Device, Kind, ModelSpec, Reliability, SpecError, StackSpec, Topology, WorkloadSpec, catalog,
    load,
};

/// Print a workload, machine, device, model or collectives file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim show gpt3-175b
  stepsim show gpt3-175b --resolved --set batch.global=768 > mine.json
  stepsim show h100-sxm
  stepsim show megatron-2022                          a software stack")]
pub struct Args {
    /// The name of a shipped file, or with --resolved a path too
    name: String,
    /// The kind of file, where several have the name
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<Kind>,
    /// Its base, the files that it refers to, defaults and settings put in place
    #[arg(long)]
    resolved: bool,
    /// Change a field, and print all resolved; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
}

/// The kinds, in the order in which a name is looked up.
const KINDS: [Kind; 9] = [
    Kind::Workload,
    Kind::Topology,
    Kind::Model,
    Kind::Device,
    Kind::Collectives,
    Kind::Reliability,
    Kind::Stack,
    Kind::Recipe,
    Kind::Rules,
];

fn kind(text: &str) -> Result<Kind, String> {
    let names = || KINDS.map(Kind::name).join(", ");
    KINDS.into_iter().find(|k| k.name() == text).ok_or_else(|| format!("allowed: {}", names()))
}

/// Runs the command.
///
/// # Errors
/// There is no such file, or it is wrong (status 2).
pub fn run(args: &Args) -> Result<(), Failure> {
    let resolves = args.resolved || !args.sets.is_empty();
    let shipped = KINDS.into_iter().find(|k| catalog::text(*k, &args.name).is_some());
    let Some(kind) = args.kind.or(shipped).or(resolves.then_some(Kind::Workload)) else {
        let names: Vec<&str> = KINDS.into_iter().flat_map(catalog::names).collect();
        let near = stepsim_spec::nearest(&args.name, names.iter().copied());
        let hint = if near.is_empty() {
            "see `stepsim list`".into()
        } else {
            format!("did you mean `{}`?", near.join("`, `"))
        };
        return Err(SpecError::at("", format!("no shipped file has the name `{}`", args.name))
            .hint(hint)
            .into());
    };
    if resolves {
        return write_json(&PathBuf::from("-"), &resolved(kind, &args.name, &args.sets)?);
    }
    match catalog::text(kind, &args.name) {
        Some(text) => super::say(text),
        None => {
            Err(SpecError::at("", format!("no shipped {} has the name `{}`", kind.name(), args.name)).into())
        }
    }
}

/// A workload; of settings behind `topology.` its machine's content stands where its name stood.
fn with_machine(name: &str, sets: &[String]) -> Result<WorkloadSpec, SpecError> {
    let Settings { machine, workload } = Settings::of(sets);
    let mut value = load::<WorkloadSpec>(name, &workload)?.value;
    if !machine.is_empty() {
        let own = value.topology.as_deref().ok_or_else(|| {
            let hint =
                format!("show the machine's own file: stepsim show MACHINE --set {}", sets.join(" --set "));
            SpecError::file(name, "names no machine whose fields could be set").hint(hint)
        })?;
        let machine = load::<Topology>(own, &machine).map_err(|e| under("topology", e))?.value;
        value.topology =
            Some(serde_json::to_string(&machine).map_err(|e| SpecError::at("topology", e.to_string()))?);
    }
    Ok(value)
}

/// The whole content of a file.
fn resolved(kind: Kind, name: &str, sets: &[String]) -> Result<serde_json::Value, SpecError> {
    // Of a machine as `run` has it: `topology.device.price_USD_per_h=2.5`.
    let own = |set: &String| {
        set.strip_prefix("topology.").filter(|_| kind == Kind::Topology).unwrap_or(set).to_string()
    };
    let sets: &[String] = &sets.iter().map(own).collect::<Vec<_>>();
    let value = match kind {
        Kind::Workload => serde_json::to_value(with_machine(name, sets)?),
        Kind::Topology => serde_json::to_value(load::<Topology>(name, sets)?.value),
        Kind::Model => serde_json::to_value(load::<ModelSpec>(name, sets)?.value),
        Kind::Device => serde_json::to_value(load::<Device>(name, sets)?.value),
        Kind::Reliability => serde_json::to_value(load::<Reliability>(name, sets)?.value),
        Kind::Stack => serde_json::to_value(load::<StackSpec>(name, sets)?.value),
        Kind::Collectives => serde_json::to_value(load::<Collectives>(name, sets)?.value),
        // These have no base, and refer to no other file.
        _ => serde_json::from_str(catalog::text(kind, name).unwrap_or("null")),
    };
    let mut value = value.map_err(|e| SpecError::at("", e.to_string()))?;
    // The stack's defaults stand in its place by now; read again, they would come back where the workload had taken
    // them away.
    if let Some(stack) = value.get_mut("stack").and_then(serde_json::Value::as_object_mut) {
        stack.shift_remove("defaults");
    }
    Ok(value)
}
