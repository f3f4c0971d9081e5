//! `stepsim list`: the files that the program carries, a line each.

use std::fmt::Write;
use std::io::IsTerminal;

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::{Failure, say, width};
use stepsim_bring::describe::models_by_name;
use stepsim_core::declare::named;
use stepsim_measure::score::ranges::MeasuredSteps;
use stepsim_schedule::ScheduleChoice;
use stepsim_schedule::sharding::ALL;
use stepsim_spec::{Device, Kind, LoadedSpec, ModelSpec, WorkloadSpec, catalog, load, simple};

/// List the workloads, machines, devices, models and stacks that the program carries.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim list                  everything
  stepsim list topologies       the machines
  stepsim list schedules        the values of parallelism.pipeline.schedule
  stepsim list models --json    for scripts")]
pub struct Args {
    /// Of which kind [default: all]
    #[arg(value_enum)]
    what: Option<Listing>,
    /// Names alone, for scripts
    #[arg(long)]
    names: bool,
    /// As JSON, for scripts: kind, name and description of each
    #[arg(long = "json", conflicts_with = "names")]
    as_json: bool,
}

named! {
    head:
    /// The subject of a list.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
    pub enum Listing {
        /// Training steps
        Workloads = "workloads (stepsim run NAME)",
        /// Machines
        Topologies = "topologies (--topology NAME)",
        /// Device classes
        Devices = "devices (\"device\" of a topology file)",
        /// Models
        Models = "models (\"model\" of a workload file)",
        /// Further models that are known by name
        Names = "further models known by name (stepsim plan NAME --on 64xh100; import --model NAME)",
        /// Training software
        Stacks = "stacks (\"stack\" of a workload file)",
        /// Precision recipes
        Recipes = "recipes (\"precision.recipe\" of a workload file)",
        /// Rules and measured times of collectives
        Collectives = "tables of collectives (\"collectives\" of a topology file)",
        /// Rules from rows of measurements to workloads
        Rules = "rules for rows of measurements (stepsim score)",
        /// Interruptions, restarts and checkpoints of jobs
        Reliability = "reliability of jobs (stepsim goodput --reliability NAME)",
        /// Pipeline schedules
        Schedules = "schedules (--set parallelism.pipeline.schedule=NAME; stepsim schedule --kind NAME)",
        /// Kinds of sharding
        Shardings = "kinds of sharding (--set parallelism.sharding.kind=NAME)",
    }
}

impl Listing {
    /// Name and description of each.
    fn entries(self) -> Vec<(String, String)> {
        let of = |kind: Kind, describe: fn(&str) -> String| {
            catalog::names(kind).map(|name| (name.to_string(), describe(name))).collect()
        };
        match self {
            Listing::Workloads => of(Kind::Workload, workload),
            Listing::Topologies => of(Kind::Topology, |name| described(Kind::Topology, name)),
            Listing::Devices => of(Kind::Device, device),
            Listing::Models => of(Kind::Model, model),
            Listing::Names => {
                models_by_name().into_iter().map(|(name, columns)| (name, dimensions(&columns))).collect()
            }
            Listing::Stacks => of(Kind::Stack, |name| described(Kind::Stack, name)),
            Listing::Recipes => of(Kind::Recipe, |name| described(Kind::Recipe, name)),
            Listing::Collectives => of(Kind::Collectives, |name| described(Kind::Collectives, name)),
            Listing::Rules => of(Kind::Rules, |name| described(Kind::Rules, name)),
            Listing::Reliability => of(Kind::Reliability, |name| described(Kind::Reliability, name)),
            Listing::Shardings => {
                ALL.iter().map(|facts| (facts.name.to_string(), facts.about.to_string())).collect()
            }
            Listing::Schedules => ScheduleChoice::all()
                .map(|choice| (choice.name().to_string(), choice.about().to_string()))
                .collect(),
        }
    }
}

/// The `description` that stands in a shipped file itself, not in its base.
fn described(kind: Kind, name: &str) -> String {
    let value: Value =
        catalog::text(kind, name).and_then(|t| serde_json::from_str(t).ok()).unwrap_or_default();
    value["description"].as_str().unwrap_or_default().to_string()
}

fn workload(name: &str) -> String {
    let text = described(Kind::Workload, name);
    match load::<WorkloadSpec>(name, &[]) {
        Ok(LoadedSpec { value: WorkloadSpec { topology: Some(machine), .. }, .. }) => {
            format!("[{machine}] {text}")
        }
        _ => text,
    }
}

fn device(name: &str) -> String {
    let Ok(LoadedSpec { value: d, .. }) = load::<Device>(name, &[]) else { return String::new() };
    format!("{}: {}; {}", d.name, rates(&d, 3).join(", "), MeasuredSteps::shipped().behind(&d))
}

/// Peaks of a device in the first `formats` of bf16, fp8 and fp4, where it has them, and its memory.
pub(super) fn rates(device: &Device, formats: usize) -> Vec<String> {
    let p = &device.peak_dense_tflops;
    let peaks = [("bf16", p.bf16), ("fp8", p.fp8), ("fp4", p.fp4)].into_iter().take(formats);
    let peaks = peaks.filter_map(|(format, peak)| Some(format!("{format} {} TFLOP/s", peak?)));
    peaks.chain(device.hbm.iter().map(|hbm| format!("{} GB at {} GB/s", hbm.gb, hbm.gbps))).collect()
}

fn model(name: &str) -> String {
    let Ok(LoadedSpec { value: m, .. }) = load::<ModelSpec>(name, &[]) else { return String::new() };
    let experts = m.moe.as_ref().map_or("", |_| EXPERTS);
    format!("{} layers, hidden {}, {} heads, sequence {}{experts}", m.layers, m.hidden, m.heads, m.sequence)
}

/// The dimensions of a model in the vocabulary; its sequence is the run's.
fn dimensions(columns: &Map<String, Value>) -> String {
    let experts = columns.get("experts").map_or("", |_| EXPERTS);
    let [layers, hidden, heads] =
        ["layers", "hidden", "heads"].map(|name| columns.get(name).unwrap_or(&Value::Null));
    format!("{layers} layers, hidden {hidden}, {heads} heads{experts}")
}

const EXPERTS: &str = ", mixture of experts";

/// Runs the command.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut out = String::new();
    let kinds = args.what.map_or(Listing::ALL.to_vec(), |what| vec![what]);
    if args.as_json {
        return say(&format!("{:#}\n", documents(&kinds)));
    }
    for what in kinds {
        let entries = what.entries();
        if args.names {
            entries.iter().for_each(|(name, _)| {
                let _ = writeln!(out, "{name}");
            });
            continue;
        }
        if !out.is_empty() {
            out.push('\n');
        }
        let _ = writeln!(out, "{}", what.head());
        let longest = entries.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let room = match std::io::stdout().is_terminal() {
            true => usize::from(width()).saturating_sub(longest + 4).max(20),
            false => usize::MAX,
        };
        for (name, text) in &entries {
            let _ = writeln!(out, "  {name:<longest$}  {}", cut(text, room));
        }
        if what == Listing::Topologies {
            let _ = writeln!(out, "  or by count and name, of these or of a device: 64xh100, '512 of b200'");
            let _ = writeln!(out, "  or simple ones, without a file: {}", simple::FORMS);
        }
    }
    say(&out)
}

/// Kind, name and description of each.
fn documents(kinds: &[Listing]) -> Value {
    let of = |what: &Listing| {
        let kind = what.to_possible_value().map(|value| value.get_name().to_string());
        let entries = what.entries().into_iter();
        entries.map(|(name, about)| json!({"kind": kind, "name": name, "about": about})).collect::<Vec<_>>()
    };
    kinds.iter().flat_map(of).collect()
}

/// At most `room` characters.
fn cut(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_string();
    }
    text.chars().take(room - 1).collect::<String>() + "…"
}
