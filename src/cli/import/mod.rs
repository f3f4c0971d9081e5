//! `stepsim import`: files of other tools as our own.

mod any;
mod from;
mod hugging_face;
mod nccl_tests;
mod nvidia_smi;
mod recipe;

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::write::write_json;
use super::{Failure, say};
use from::ImportSource;
use stepsim_fabric::topology::Machine;
use stepsim_simulate::Inputs;
use stepsim_spec::topology::Topology;
use stepsim_spec::{LoadedSpec, SpecError, WorkloadSpec, from_value};

/// Turn files of other tools into files of ours: a workload, a model or a topology.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Examples:
  stepsim import pretrain.sh --devices 1024 -o workload.json        whose file it is, is told by its content
  stepsim import config.json -o model.json
  stepsim import ds_config.json --model config.json --devices 8 -o workload.json")]
pub struct Args {
    #[command(subcommand)]
    from: Option<ImportSource>,
    #[command(flatten)]
    any: any::Args,
}

/// Runs the command.
///
/// # Errors
/// Wrong files (status 2); a file that cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.from {
        Some(from) => of_kind(from),
        None => of_kind(&any::command(&args.any)?),
    }
}

fn of_kind(from: &ImportSource) -> Result<(), Failure> {
    match from {
        ImportSource::Calculon { app, exe, sys, out } => calculon([app, exe, sys], out),
        ImportSource::HuggingFace(asked) => hugging_face::run(asked),
        ImportSource::NcclTests(asked) => nccl_tests::run(asked),
        ImportSource::NvidiaSmi(asked) => nvidia_smi::run(asked),
        ImportSource::Format(asked) => recipe::run(asked.format, &asked.args),
    }
}

fn calculon(files: [&PathBuf; 3], out: &Path) -> Result<(), Failure> {
    let case = super::calculon::read(files)?;
    let topology = case.to_topology().map_err(Failure::input)?;
    let files = [out.join("topology.json"), out.join("workload.json")].map(|file| file.display().to_string());
    let workload = case.to_workload(&files[0]).map_err(Failure::input)?;
    // The files to be written must load: better a refusal now than at the next command.
    loads(&workload, &topology, &files).map_err(Failure::input)?;
    std::fs::create_dir_all(out)
        .map_err(|e| Failure::run(format!("{}: cannot be made: {e}", out.display())))?;
    write_json(Path::new(&files[0]), &topology)?;
    write_json(Path::new(&files[1]), &workload)?;
    say(&format!("wrote {} and {}\nnext: stepsim run {}\n", files[1], files[0], files[1]))
}

/// Reads both back as the next command will, from memory.
fn loads(workload: &WorkloadSpec, topology: &Topology, files: &[String; 2]) -> Result<(), SpecError> {
    let text = |value: Result<Value, serde_json::Error>, file: &str| {
        value.map_err(|e| SpecError::file(file, e.to_string()))
    };
    let (name, file) = ("topology".to_string(), files[0].clone());
    let topology: LoadedSpec<Topology> =
        from_value(text(serde_json::to_value(topology), &file)?, name, file, &[])?;
    let (name, file) = ("workload".to_string(), files[1].clone());
    let workload: LoadedSpec<WorkloadSpec> =
        from_value(text(serde_json::to_value(workload), &file)?, name, file, &[])?;
    let machine = Machine::build(&topology.value).map_err(|e| e.in_file(&files[0]))?;
    Inputs::new(workload, topology, machine).map(|_| ())
}
