//! Files of other software where a workload or a model is meant.

use serde_json::Value;

use crate::hugging_face::model_of;
use crate::imports::{Beside, FileKind, Invocation, recognise, translate, translate_model, unpacked};
use stepsim_spec::{Readers, SpecError, json, register};

/// Sequences of a step whose description names the model alone: four million tokens in sequences of 4,096, as Llama 2
/// was trained (arXiv 2307.09288).
pub const USUAL_BATCH: u64 = 1024;

/// The way out where nobody knows whose a file is.
pub const FOREIGN: &str = "say by itself what it trains: \
    stepsim plan llama3-8b --on 64xh100 --batch 512 --set parallelism.tensor=2";

/// From now on a file of other software is read wherever a workload or a model is meant.
pub fn read_other_software() {
    register(Readers { path: |word| Invocation::of(word).file, workload: foreign, model: model_of });
}

/// A workload of a file that is none: arguments of training software, or a model, which is run as Megatron-Bridge
/// runs it.
fn foreign(text: &str, file: &str) -> Result<Option<Value>, SpecError> {
    let plan = |e: SpecError| match e.problem.as_str() {
        problem if problem.contains("which model") => {
            e.hint(format!("name one beside it: stepsim plan {file} llama3-8b --on 64xh100"))
        }
        _ if e.hint.is_empty() || e.hint.starts_with("give --") => {
            e.hint(format!("say the machine and the batch: stepsim plan {file} --on 64xh100 --batch 512"))
        }
        _ => e,
    };
    let text = &unpacked(text);
    match recognise(text.as_bytes()) {
        None | Some(FileKind::Workload) => Ok(None),
        Some(FileKind::Arguments(format)) => {
            Ok(Some(translate(format, text, file, &Beside::default()).map_err(plan)?.workload))
        }
        Some(FileKind::Model | FileKind::HuggingFace) => {
            let beside = Beside {
                model: Some(model_of(json::read_of_others(file, text)?, file)?),
                usual_batch: Some(USUAL_BATCH),
                ..Beside::default()
            };
            let made = translate_model("megatron-bridge", file, &beside)?;
            let mut workload = made.workload;
            workload["description"] =
                format!("The model of {file}; assumed: {}", made.assumed.join("; ")).into();
            Ok(Some(workload))
        }
        Some(other) => {
            let next = match other {
                FileKind::Machine => format!("stepsim plan MODEL --on {file}"),
                FileKind::Kineto => format!("stepsim analyze {file}"),
                FileKind::Foreign(software) => software.way_out.clone(),
                _ => format!("stepsim import {file}"),
            };
            Err(SpecError::file(file, format!("is {}, not a workload", other.words())).hint(next))
        }
    }
}
