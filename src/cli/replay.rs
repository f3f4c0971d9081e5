//! `stepsim replay`: a measured step played again.

use std::path::{Path, PathBuf};

use super::outputs::WRITTEN;
use super::write::write_json;
use super::{Failure, inputs, say};
use stepsim_core::units::Time;
use stepsim_measure::profile::programs::StepPrograms;
use stepsim_measure::replay::{TimeScale, check, replay};
use stepsim_spec::SpecError;

/// Play a measured step again, unchanged or with something faster or slower.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim import kineto rank*.json.gz -o step.json
  stepsim replay step.json                                   the measured step
  stepsim replay step.json --scale cuBLAS=0.8                GEMMs a fifth shorter
  stepsim replay step.json --scale communication=0.5 --scale host=0.5

The factors scale a class of kernels (as `stepsim analyze` names it), `compute`, `communication`, `memory`, `host`,
a kind of communication (`all-gather`), or `leads`: the time between an op and the last op that it waits for. Other
machines and layouts are asked with the prices of the profile: `stepsim learn`, then `run --prices`.")]
pub struct Args {
    /// The output of `stepsim import kineto`
    file: PathBuf,
    /// A factor on the time of a class of work
    #[arg(long, value_name = "WHAT=FACTOR")]
    scale: Vec<String>,
    /// Also write the result as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    report: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The file or a factor is wrong (status 2); the step cannot be played, or a file not be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let step = read(&args.file).map_err(Failure::input)?;
    let scales: Vec<TimeScale> =
        args.scale.iter().map(|s| scale(s)).collect::<Result<_, _>>().map_err(Failure::input)?;
    let file = args.file.display().to_string();
    check(&step, &scales).map_err(|e| Failure::input(e.in_file(&file)))?;
    let unchanged = replay(&step, &[]).map_err(Failure::run)?;
    let changed = if scales.is_empty() { unchanged } else { replay(&step, &scales).map_err(Failure::run)? };
    let measured = Time::from_ns(step.measured_ns);
    if let Some(path) = &args.report {
        let value = serde_json::json!({
            "step": step.step, "measured_s": measured.s(), "replayed_s": unchanged.s(), "changed_s": changed.s(),
        });
        write_json(path, &value)?;
    }
    let off = |a: Time, b: Time| 100.0 * (a.s() / b.s().max(f64::MIN_POSITIVE) - 1.0);
    let (name, ranks) = (&step.step, step.ranks.len());
    let mut text = format!(
        "{name}: {ranks} ranks, measured {measured}, replayed {unchanged} ({:+.2} %)\n",
        off(unchanged, measured)
    );
    if !scales.is_empty() {
        text += &format!("  with {}: {changed} ({:+.2} %)\n", args.scale.join(", "), off(changed, unchanged));
    }
    say(&text)
}

fn read(path: &Path) -> Result<StepPrograms, SpecError> {
    inputs::document(path, "what `stepsim import kineto` writes")
}

fn scale(text: &str) -> Result<TimeScale, SpecError> {
    let wrong = || {
        SpecError::file(format!("--scale {text}"), "is no name with a factor")
            .allowed("WHAT=FACTOR, like `cuBLAS=0.8`")
    };
    let (what, factor) = text.rsplit_once('=').ok_or_else(wrong)?;
    Ok(TimeScale { what: what.to_string(), factor: factor.parse().map_err(|_| wrong())? })
}
