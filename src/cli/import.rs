//! `stepsim import`: files of other tools as our own.

use std::path::{Path, PathBuf};

use super::run::write_json;
use super::{Failure, say};
use crate::simulate::Inputs;
use crate::spec::calculon::Calculon;

/// Turn files of other tools into a workload and a topology.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    from: From,
}

#[derive(Debug, clap::Subcommand)]
enum From {
    /// Calculon's application, execution and system file
    Calculon {
        /// The application file (.json or .json.gz)
        app: PathBuf,
        /// The execution file
        exe: PathBuf,
        /// The system file
        sys: PathBuf,
        /// The folder in which workload.json and topology.json are written; made if it is not there
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

/// Runs the command.
///
/// # Errors
/// Wrong files (status 2); a file that cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let From::Calculon { app, exe, sys, out } = &args.from;
    calculon(&Calculon::load(app, exe, sys).map_err(Failure::input)?, out)
}

fn calculon(case: &Calculon, out: &Path) -> Result<(), Failure> {
    let topology = case.to_topology().map_err(Failure::input)?;
    let workload =
        case.to_workload(&out.join("topology.json").display().to_string()).map_err(Failure::input)?;
    std::fs::create_dir_all(out)
        .map_err(|e| Failure::run(format!("{}: cannot be made: {e}", out.display())))?;
    let files = [out.join("topology.json"), out.join("workload.json")];
    write_json(&files[0], &topology)?;
    write_json(&files[1], &workload)?;
    // What was written must load: better a refusal now than at the next command.
    let name = files[1].display().to_string();
    if let Err(e) = Inputs::load(&name, Some(&files[0].display().to_string()), &[]) {
        files.iter().for_each(|file| drop(std::fs::remove_file(file)));
        return Err(Failure::input(e));
    }
    say(&format!(
        "wrote {} and {}\nnext: stepsim run {name} --topology {}\n",
        files[1].display(),
        files[0].display(),
        files[0].display()
    ))
}
