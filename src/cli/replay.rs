//! `stepsim replay`: a measured step played again.

use std::path::{Path, PathBuf};

use super::outputs::WRITTEN;
use super::{Failure, run::write_json, say};
use crate::profile::programs::StepPrograms;
use crate::simulate::replay::{Scale, check, replay};
use crate::spec::SpecError;
use crate::units::Time;

/// Play a measured step again, unchanged or with something faster or slower.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim import kineto rank*.json.gz --out step.json
  stepsim replay step.json                                   the measured step
  stepsim replay step.json --scale cuBLAS=0.8                GEMMs a fifth shorter
  stepsim replay step.json --scale communication=0.5 --scale host=0.5

What is scaled is a class of kernels (as `stepsim analyze` names it), `compute`, `communication`, `memory`, `host`, a kind of
communication (`all-gather`), or `leads`: what lies between an op and all that it waits for.")]
pub struct Args {
    /// What `stepsim import kineto` wrote
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
    let scales: Vec<Scale> =
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
    let mut text = format!(
        "{}: {} ranks, measured {measured}, replayed {unchanged} ({:+.2} %)\n",
        step.step,
        step.ranks.len(),
        off(unchanged, measured)
    );
    if !scales.is_empty() {
        text += &format!("  with {}: {changed} ({:+.2} %)\n", args.scale.join(", "), off(changed, unchanged));
    }
    say(&text)
}

fn read(path: &Path) -> Result<StepPrograms, SpecError> {
    let file = path.display().to_string();
    let unreadable = |e: std::io::Error| SpecError::file(&file, format!("cannot be read: {e}"));
    let bytes = std::fs::read(path).map_err(unreadable)?;
    let mut unpacked = Vec::new();
    let text = match bytes.as_slice() {
        [0x1F, 0x8B, ..] => {
            let mut unpack = flate2::read::MultiGzDecoder::new(bytes.as_slice());
            std::io::Read::read_to_end(&mut unpack, &mut unpacked).map_err(unreadable)?;
            unpacked.as_slice()
        }
        plain => plain,
    };
    let mut json = serde_json::Deserializer::from_slice(text);
    serde_path_to_error::deserialize(&mut json).map_err(|e| {
        let at = e.path().to_string();
        SpecError::at(if at == "." { "" } else { &at }, e.inner().to_string())
            .in_file(&file)
            .allowed("what `stepsim import kineto` writes")
    })
}

fn scale(text: &str) -> Result<Scale, SpecError> {
    let wrong = || {
        SpecError::file(format!("--scale {text}"), "is no name with a factor")
            .allowed("WHAT=FACTOR, like `cuBLAS=0.8`")
    };
    let (what, factor) = text.rsplit_once('=').ok_or_else(wrong)?;
    Ok(Scale { what: what.to_string(), factor: factor.parse().map_err(|_| wrong())? })
}
