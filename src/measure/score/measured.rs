//! The measured seconds of a row, from whatever its source prints.

use stepsim_bring::describe::{DescribedLayout, Ruling};
use stepsim_price::model::flops::StepFlops;
use stepsim_spec::ModelSpec;
use stepsim_spec::rules::FlopsCount;

/// Seconds of the step that was measured, and from which column they come. `peak` is the device's in FLOP/s.
///
/// # Errors
/// No column gives a time or a rate.
pub fn seconds(
    ruling: &Ruling,
    layout: &DescribedLayout,
    model: &ModelSpec,
    peak: f64,
) -> Result<(f64, &'static str), String> {
    let c = &ruling.columns;
    if let Some(s) = c.number("step_time_s") {
        return Ok((s, "step_time_s"));
    }
    if let Some(ms) = c.number("step_time_ms") {
        return Ok((1e-3 * ms, "step_time_ms"));
    }
    let devices = c.needs("n_devices")? as f64;
    let sequences = layout.printed;
    let tokens = sequences * model.sequence as f64;
    let per_second = [
        ("tokens_per_s", tokens, 1.0),
        ("tokens_per_s_per_device", tokens, devices),
        ("samples_per_s", sequences, 1.0),
        ("samples_per_s_per_device", sequences, devices),
    ];
    for (column, amount, times) in per_second {
        if let Some(rate) = c.number(column) {
            return Ok((amount / (rate * times), column));
        }
    }
    let flops = flops(ruling.flops, model, layout.printed);
    let rates = [("tflops_per_device", 1e12), ("mfu", peak), ("hfu", peak)];
    for (column, unit) in rates {
        if let Some(rate) = c.number(column) {
            // A utilisation above 1.5 is in per cent.
            let rate = if column.ends_with("fu") && rate > 1.5 { rate / 100.0 } else { rate };
            return Ok((flops / (rate * unit * devices), column));
        }
    }
    Err("neither a time nor a rate is printed".into())
}

/// FLOPs of a step as a source counts them.
fn flops(count: FlopsCount, model: &ModelSpec, sequences: f64) -> f64 {
    let one = StepFlops::of(model, 1, model.sequence);
    let step = StepFlops {
        model: sequences * one.model,
        model_causal: sequences * one.model_causal,
        mixing: sequences * one.mixing,
    };
    let tokens = sequences * model.sequence as f64;
    match count {
        FlopsCount::Model => step.model,
        FlopsCount::ModelCausal => step.model_causal,
        FlopsCount::WithRecomputation => {
            // The logits are not computed again.
            let logits = 6.0 * tokens * model.hidden as f64 * model.vocabulary as f64;
            (step.model - logits) * 4.0 / 3.0 + logits
        }
        FlopsCount::SixPerParameter => {
            let attention = step.model - step.model_causal;
            step.model - 2.0 * attention
        }
    }
}
