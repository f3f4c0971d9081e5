//! Where encoders run as a choice of a search: beside the language model, in its bubbles, on pipeline stages, or on
//! devices of their own.

use serde_json::{Value, json};

use super::base::StudyBase;
use super::options::SearchOptions;
use super::space::StudyAxis;
use stepsim_spec::SpecError;
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::ModelRef;

/// Largest number of a module's own stages that is tried.
const MOST_STAGES: u64 = 2;
/// Tensor-parallel degrees that are tried on devices of its own.
const TENSOR: [u64; 4] = [1, 2, 4, 8];

/// The assumptions about it, in words.
pub(super) const ASSUMED: &str = "encoders: their layers or their images shared, beside the language model, \
                                  in its bubbles, or on 1 or 2 stages of their own; or on devices of their \
                                  own, up to half of the machine in powers of two, tensor 1, 2, 4 or 8";

/// The places of each module of a step, but of those that have a field of their place given.
pub(super) fn axes(
    options: &SearchOptions,
    base: &StudyBase,
    fixed: &[String],
) -> Result<Vec<StudyAxis>, SpecError> {
    let (workload, site) = base.unchecked(fixed)?;
    let ModelRef::Inline(model) = &workload.model else { return Ok(Vec::new()) };
    let devices = u64::from(site.machine().devices());
    let paths = |name: &String| {
        ["parallelism", "stages", "devices", "bubbles"].map(|field| format!("modules.{name}.{field}"))
    };
    let free =
        workload.modules.keys().map(paths).filter(|paths| !paths.iter().any(|path| options.asks(path)));
    Ok(free.map(|paths| StudyAxis::of(paths.into(), places(model, devices))).collect())
}

/// Values of parallelism, stages, devices and bubbles.
fn places(model: &ModelSpec, devices: u64) -> Vec<Vec<Value>> {
    let stages = (0..=MOST_STAGES).map(|stages| if stages == 0 { Value::Null } else { stages.into() });
    let shared = stages.flat_map(|stages| {
        ["tensor", "data"].map(|kind| vec![kind.into(), stages.clone(), Value::Null, false.into()])
    });
    let bubbles = ["tensor", "data"].map(|kind| vec![kind.into(), Value::Null, Value::Null, true.into()]);
    let heads = model.modules.iter().map(|module| module.heads).max().unwrap_or(1);
    let degrees = TENSOR.into_iter().filter(|tensor| heads.is_multiple_of(*tensor));
    let apart = degrees.flat_map(|tensor| {
        let data = std::iter::successors(Some(1_u64), |data| Some(2 * data));
        let data = data.take_while(move |data| 2 * tensor * data <= devices);
        data.map(move |data| {
            vec!["tensor".into(), Value::Null, json!({"tensor": tensor, "data": data}), false.into()]
        })
    });
    shared.chain(bubbles).chain(apart).collect()
}
