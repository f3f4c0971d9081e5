//! Names of slices.
//!
//! Kernels of one kind have one name in every layer and micro-batch, so that viewers sum them by name: `qkv`, `qkv
//! backward`, `all-gather forward`. Layer and micro-batch are arguments, and on the compute row the slices around: the
//! pass (`m17 fwd`) and the layer (`layer 3`). A pass has its number first: a narrow slice shows the beginning of its
//! name.
//!
//! Perfetto colours by the name without its digits ([`perfetto_hue`]). The words of [`pass_word`] and `PAIRED` are
//! chosen so that its colours lie far apart; single letters do not (`m F` and `m B` are four degrees apart). A cause
//! of waiting is followed by the first of the words of `WAITS` that makes it brown or orange (`WAITING`): no pass
//! is.

use std::fmt::Write;

use crate::trace::writer::Value;
use stepsim_core::program::{NO_MICRO_BATCH, OpInfo, Phase, StreamKind};

/// Short names of collectives, as the field writes them.
pub const COLLECTIVES: [(&str, &str); 4] =
    [("all-gather", "AG"), ("reduce-scatter", "RS"), ("all-reduce", "AR"), ("all-to-all", "A2A")];

/// The word for a pass of a micro-batch.
pub fn pass_word(phase: Phase) -> &'static str {
    match phase {
        Phase::Forward => "fwd",
        Phase::Recompute => "recompute",
        Phase::Backward => "bwd",
        Phase::InputGrad => "input grad",
        Phase::WeightGrad => "W",
        Phase::Optimizer => "optimizer",
    }
}

/// The text between the names of two passes that are taken in turn.
const PAIRED: &str = " + ";

/// Hues of waiting, in degrees.
pub const WAITING: std::ops::Range<u32> = 20..76;

/// Words that may stand behind a cause of waiting.
const WAITS: [&str; 14] = [
    "",
    " …",
    ": wait",
    ": waits",
    ": stall",
    ": idle",
    " (idle)",
    " (wait)",
    " (stall)",
    " wait",
    " idle",
    " stall",
    ", waiting",
    ", idle",
];

/// The name of a stall by its cause, or of a stretch of them by its causes: `pipeline bubble`, `tensor parallel …`.
pub fn waiting(cause: &str) -> String {
    let joined = [" and ", ", ", " + "].map(|and| cause.replace(" and ", and));
    let all = || joined.iter().flat_map(|cause| WAITS.iter().map(move |wait| format!("{cause}{wait}")));
    all().find(|name| WAITING.contains(&perfetto_hue(name))).unwrap_or_else(|| cause.to_owned())
}

/// The hue, in degrees, that Perfetto gives to a name: FNV-1a over its characters without numbers and the blanks before
/// them, in the doubles of JavaScript (`ui/src/base/hash.ts`, `ui/src/components/colorizer.ts`).
pub fn perfetto_hue(name: &str) -> u32 {
    let mut hash = 0x811c_9dc5_u32 & 0x0fff_ffff;
    let units: Vec<u16> = name.encode_utf16().collect();
    let digit = |unit: Option<&u16>| unit.is_some_and(|unit| (48..58).contains(unit));
    let kept = |(i, unit): (usize, &u16)| {
        let dropped = digit(Some(unit)) || *unit == 32 && digit(units.get(i + 1));
        (!dropped).then_some(*unit)
    };
    for character in units.iter().enumerate().filter_map(kept) {
        let product = 16_777_619.0 * f64::from((hash ^ u32::from(character)) as i32);
        hash = (product as i64) as u32;
    }
    (hash as i32).unsigned_abs() % 360
}

/// The word that a kernel's name ends with: nothing in the forward pass, and where its name says it already.
fn kernel_word(name: &str, phase: Phase) -> &'static str {
    match phase {
        Phase::Forward | Phase::Optimizer => "",
        _ if name.contains("gradient") || name.contains("backward") => "",
        Phase::Recompute => " recompute",
        Phase::Backward => " backward",
        Phase::InputGrad => " dgrad",
        Phase::WeightGrad => " wgrad",
    }
}

/// The name of one op: `qkv`, `qkv wgrad`, `AG forward`, `RS gradients`, `send backward`.
pub fn op(row: StreamKind, info: &OpInfo) -> String {
    if row == StreamKind::Compute {
        return format!("{}{}", info.name, kernel_word(&info.name, info.phase));
    }
    let (short, rest) = COLLECTIVES
        .iter()
        .find_map(|(long, short)| Some((*short, info.name.strip_prefix(long)?)))
        .unwrap_or((&*info.name, ""));
    match (rest, info.phase) {
        ("", Phase::Optimizer) => short.to_owned(),
        ("", phase) => format!("{short} {}", phase.name()),
        _ => format!("{short}{rest}"),
    }
}

/// The name of a pass, or of two that are taken in turn: `m3 fwd`, `m3 fwd + m1 bwd`, `optimizer`.
pub fn pass(parts: impl IntoIterator<Item = (Phase, u32)>) -> String {
    let mut name = String::with_capacity(32);
    for (phase, micro_batch) in parts {
        if !name.is_empty() {
            name.push_str(PAIRED);
        }
        if micro_batch != NO_MICRO_BATCH {
            write!(name, "m{micro_batch} ").expect("a String takes every write");
        }
        name.push_str(pass_word(phase));
    }
    name
}

/// The name of the ops of one layer in one pass: `layer 3`, and of those that only compute again `recomputed layer 3`.
/// Ops of no layer are named after their pass.
pub fn layer(layer: Option<u32>, phase: Phase) -> String {
    match layer {
        Some(layer) if phase == Phase::Recompute => format!("recomputed layer {layer}"),
        Some(layer) => format!("layer {layer}"),
        None => pass_word(phase).to_owned(),
    }
}

/// The name of ops in a row that stand in one slice: of kernels as [`layer`], of others after their row
/// (`tp backward`).
pub fn stretch(row: StreamKind, layer: Option<u32>, phase: Phase) -> String {
    match row {
        StreamKind::Compute => self::layer(layer, phase),
        _ => format!("{} {}", row.name(), phase.name()),
    }
}

/// The phase of ops that stand in one slice; both gradients together, or with what was computed again, are the backward
/// pass.
pub fn merged(mut phases: impl Iterator<Item = Phase>) -> Phase {
    let first = phases.next().unwrap_or(Phase::Backward);
    if phases.all(|phase| phase == first) { first } else { Phase::Backward }
}

/// Arguments that all executions of an op have, whatever the micro-batch.
/// Bytes and FLOPs are whole: means over draws have digits that are not the same on every machine.
pub fn arguments(info: &OpInfo) -> Vec<(&'static str, Value<'_>)> {
    let mut args = Vec::with_capacity(6);
    args.extend([("op", Value::Text(&info.name)), ("phase", Value::Text(info.phase.name()))]);
    args.extend(place_arguments(info.layer, NO_MICRO_BATCH));
    args.extend((info.flops > 0.0).then_some(("flops", Value::Float(info.flops.round()))));
    args.extend((info.bytes > 0.0).then_some(("bytes", Value::Float(info.bytes.round()))));
    args
}

/// Layer and micro-batch, as far as there are any.
pub fn place_arguments<'v>(
    layer: Option<u32>,
    micro_batch: u32,
) -> impl Iterator<Item = (&'static str, Value<'v>)> {
    let layer = layer.map(|layer| ("layer", Value::Uint(u64::from(layer))));
    layer.into_iter().chain(self::micro_batch(micro_batch).map(|number| ("micro_batch", number)))
}

/// The number of a micro-batch, if it is one.
pub fn micro_batch<'v>(number: u32) -> Option<Value<'v>> {
    (number != NO_MICRO_BATCH).then_some(Value::Uint(number.into()))
}
