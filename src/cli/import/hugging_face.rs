//! `stepsim import hf`: a Hugging Face configuration as a model file, and how many parameters it has.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::super::outputs::WRITTEN;
use super::super::{Failure, say};
use crate::write::{write_json, write_report};
use stepsim_bring::hugging_face;
use stepsim_price::model::ParameterCount;
use stepsim_spec::model::ModelSpec;
use stepsim_spec::{Disk, Files, SpecError, read_of_others};

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The config.json of a release
    config: PathBuf,
    /// Write the model file here; without it the model goes to the standard output
    #[arg(short, long, value_name = "MODEL.json", help_heading = WRITTEN)]
    output: Option<PathBuf>,
    /// Write the parameter counts here as JSON
    #[arg(long, value_name = "FILE.json", help_heading = WRITTEN)]
    report: Option<PathBuf>,
}

/// The output of `--report`.
#[derive(Clone, Debug, Serialize)]
struct ParameterReport {
    /// The model's name.
    model: String,
    /// Its `model_type`.
    architecture: String,
    /// How many parameters it has.
    parameters: ParameterCounts,
}

/// Parameter counts as papers and model hubs give them.
#[derive(Clone, Copy, Debug, Serialize)]
struct ParameterCounts {
    /// All, modules in front of the model included; multi-token-prediction modules are not.
    total: u64,
    /// Those that one token passes, the input embedding included, modules not.
    active: u64,
    /// The same without the input embedding, which multiplies nothing.
    active_without_input_embedding: u64,
    /// Embedding tables and LM head.
    embedding: u64,
    /// Routed experts, all of them.
    experts: u64,
    /// Modules in front of the model: encoders and their projectors.
    modules: u64,
}

impl ParameterReport {
    fn of(model: &ModelSpec, config: &Value) -> ParameterReport {
        let count = ParameterCount::of(model);
        let input = if model.tied_embeddings { 0 } else { model.vocabulary * model.hidden };
        ParameterReport {
            model: model.name.clone(),
            architecture: config.get("model_type").and_then(Value::as_str).unwrap_or_default().to_owned(),
            parameters: ParameterCounts {
                total: count.total() + count.modules,
                active: count.active,
                active_without_input_embedding: count.active - input,
                embedding: count.embedding,
                experts: count.experts,
                modules: count.modules,
            },
        }
    }
}

/// Runs the command.
///
/// # Errors
/// A wrong file or an architecture that is not known (status 2); a file that cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let file = args.config.display().to_string();
    let text = Disk
        .read(Path::new(&file))
        .map_err(|e| Failure::input(SpecError::file(&file, format!("cannot be read: {e}"))))?;
    let value = read_of_others(&file, &text).map_err(Failure::input)?;
    let model = hugging_face::model(&value, &file).map_err(Failure::input)?;
    let report = ParameterReport::of(&model, &value);
    write_report(args.report.as_deref(), &report)?;
    let counts = report.parameters;
    let summary = format!("{}: {} parameters, {} active\n", report.model, counts.total, counts.active);
    match &args.output {
        Some(path) => {
            write_json(path, &model)?;
            say(&format!("{summary}wrote {0}\nnext: stepsim plan {0} --on 8xh100\n", path.display()))
        }
        None if args.report.is_some() => say(&summary),
        None => {
            let text = serde_json::to_string_pretty(&model).map_err(|e| Failure::run(e.to_string()))?;
            say(&format!("{text}\n"))
        }
    }
}
