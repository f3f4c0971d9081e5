//! The batch, where a description prints what it took and not how large it was.

use super::columns::Columns;
use super::origin::Origin;
use stepsim_step::model::flops::StepFlops;
use stepsim_step::spec::ModelSpec;

/// Fills tokens of a step from its time and a rate.
pub fn batch(c: &mut Columns) {
    let counted = c.has("mbs_seqs") && c.has("grad_accum") && c.has("dp");
    if c.has("gbs_seqs") || c.has("gbs_tokens") || counted {
        return;
    }
    let seconds = c.number("step_time_s").or(c.number("step_time_ms").map(|ms| 1e-3 * ms));
    let devices = c.number("n_devices");
    let each = |column: &str| Some(c.number(column)? * devices?);
    if let (Some(seconds), Some(rate)) =
        (seconds, c.number("tokens_per_s").or(each("tokens_per_s_per_device")))
    {
        let tokens = (seconds * rate).round();
        fill(c, "gbs_tokens", rounded(tokens, c.number("seq")), "tokens a second times the time of a step");
    }
    let rate = c.number("samples_per_s").or_else(|| Some(c.number("samples_per_s_per_device")? * devices?));
    if let (Some(seconds), Some(rate)) = (seconds, rate) {
        fill(c, "gbs_seqs", (seconds * rate).round(), "samples a second times the time of a step");
    }
    // One sequence a device, so many nodes, and the like.
    if let (Some(each), Some(devices)) = (c.number("per_device_batch"), devices) {
        fill(c, "gbs_seqs", (each * devices).round(), "sequences of a device times devices");
    }
}

/// Fills how many layers are computed again, where FLOPs are printed with them and without: a layer's forward pass is
/// a third of its FLOPs.
pub fn recomputed(c: &mut Columns) {
    let (Some(with), Some(without), Some(layers)) = (c.number("hfu"), c.number("mfu"), c.number("layers"))
    else {
        return;
    };
    if !(with > without && without > 0.0) {
        return;
    }
    let again = (3.0 * layers * (with / without - 1.0)).round().min(layers);
    fill(
        c,
        "recomputed_layers",
        again,
        "HFU over MFU, less one, is a third of the share that is computed again",
    );
}

/// A rate is printed with a few figures: the batch is a whole number of sequences.
fn rounded(tokens: f64, sequence: Option<f64>) -> f64 {
    sequence.map_or(tokens, |s| (tokens / s).round().max(1.0) * s)
}

fn fill(c: &mut Columns, column: &str, value: f64, why: &str) {
    if value >= 1.0 {
        c.fill(column, (value as u64).into(), Origin::assumed(why));
    }
}

/// Fills sequences of a step from its time, the FLOP/s of a device and the FLOPs of a sequence: the nearest number
/// that all replicas can share.
pub fn from_rate(c: &mut Columns, model: &ModelSpec) {
    let degrees = ["tp", "pp", "cp"].iter().map(|d| c.degree(d)).product::<u64>();
    let seconds = c.number("step_time_s").or(c.number("step_time_ms").map(|ms| 1e-3 * ms));
    let (Some(seconds), Some(rate), Some(devices)) =
        (seconds, c.number("tflops_per_device"), c.count("n_devices"))
    else {
        return;
    };
    if c.has("gbs_seqs") {
        return;
    }
    let replicas = (devices / degrees.max(1)).max(1) as f64;
    let sequences = seconds * rate * 1e12 * devices as f64 / StepFlops::of(model, 1, model.sequence).model;
    let whole = (sequences / replicas).round().max(1.0) * replicas;
    fill(
        c,
        "gbs_seqs",
        whole,
        "FLOP/s times the time of a step over the FLOPs of a sequence, shared evenly by the replicas",
    );
}
