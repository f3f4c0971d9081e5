//! What slices are called.
//!
//! Names are cut at the end when a slice is narrow, and coloured by what is left without the digits. So a name begins
//! with the pass and layer (`F3`: forward, layer 3) or with the collective (`AG`: all-gather), then the micro-batch
//! (`m0`), then the kernel.

use crate::program::{NO_MICRO_BATCH, OpInfo, Phase, StreamKind};
use crate::trace::writer::Value;

/// Short names of collectives, as the field writes them.
const COLLECTIVES: [(&str, &str); 5] = [
    ("all-gather", "AG"),
    ("reduce-scatter", "RS"),
    ("all-reduce", "AR"),
    ("all-to-all", "A2A"),
    ("broadcast", "BC"),
];

/// `F3 m0`, `F m0`, `O`: pass, layer, micro-batch.
fn push_place(name: &mut String, letter: &str, layer: Option<u32>, micro_batch: u32) {
    name.push_str(letter);
    if let Some(layer) = layer {
        name.push_str(itoa::Buffer::new().format(layer));
    }
    if micro_batch != NO_MICRO_BATCH {
        name.push_str(" m");
        name.push_str(itoa::Buffer::new().format(micro_batch));
    }
}

/// The name of one op: `F3 m0 qkv`, `AG F3 m0`, `send F m0`, `optimizer step`.
pub fn op(row: StreamKind, info: &OpInfo, micro_batch: u32) -> String {
    if info.layer.is_none() && micro_batch == NO_MICRO_BATCH && info.phase == Phase::Optimizer {
        return info.name.to_string();
    }
    let collective =
        COLLECTIVES.iter().find_map(|(long, short)| Some((*short, info.name.strip_prefix(long)?)));
    let (before, after) = match collective {
        _ if row == StreamKind::Compute => ("", &*info.name),
        Some((short, rest)) => (short, rest),
        None => (&*info.name, ""),
    };
    let mut name = String::with_capacity(before.len() + after.len() + 32);
    name.push_str(before);
    if !before.is_empty() {
        name.push(' ');
    }
    push_place(&mut name, info.phase.letter(), info.layer, micro_batch);
    if row == StreamKind::Compute {
        name.push(' ');
    }
    name.push_str(after);
    name
}

/// The name of several ops in a row: `F3 m0` on the compute row, `tp F3 m0` elsewhere.
pub fn merged(row: StreamKind, letter: &str, layer: Option<u32>, micro_batch: u32) -> String {
    let mut name = String::with_capacity(32);
    if row != StreamKind::Compute {
        name.push_str(row.name());
        name.push(' ');
    }
    push_place(&mut name, letter, layer, micro_batch);
    name
}

/// The letter of ops that stand in one slice; both gradients together are the backward pass.
pub fn merged_letter(mut phases: impl Iterator<Item = Phase>) -> &'static str {
    let first = phases.next().unwrap_or(Phase::Backward);
    if phases.all(|phase| phase == first) { first.letter() } else { Phase::Backward.letter() }
}

/// Whether ops of two phases may stand in one slice.
pub fn same_pass(a: Phase, b: Phase) -> bool {
    let backward = |phase| matches!(phase, Phase::Backward | Phase::InputGrad | Phase::WeightGrad);
    a == b || backward(a) && backward(b)
}

/// Arguments that all executions of an op have.
pub fn arguments(info: &OpInfo, micro_batch: u32) -> Vec<(&'static str, Value<'_>)> {
    let mut args = Vec::with_capacity(6);
    args.extend([("op", Value::Text(&info.name)), ("phase", Value::Text(info.phase.name()))]);
    args.extend(place_arguments(info.layer, micro_batch));
    args.extend((info.flops > 0.0).then_some(("flops", Value::Float(info.flops))));
    args.extend((info.bytes > 0.0).then_some(("bytes", Value::Float(info.bytes))));
    args
}

/// Layer and micro-batch, as far as there are any.
pub fn place_arguments<'v>(
    layer: Option<u32>,
    micro_batch: u32,
) -> impl Iterator<Item = (&'static str, Value<'v>)> {
    let layer = layer.map(|layer| ("layer", Value::Uint(u64::from(layer))));
    let micro_batch =
        (micro_batch != NO_MICRO_BATCH).then_some(("micro_batch", Value::Uint(micro_batch.into())));
    layer.into_iter().chain(micro_batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &'static str, phase: Phase, layer: Option<u32>) -> OpInfo {
        OpInfo { name: name.into(), phase, layer, class: None, flops: 0.0, bytes: 0.0 }
    }

    #[test]
    fn the_first_characters_tell_most() {
        let name = |row, name, phase, layer, m| op(row, &info(name, phase, layer), m);
        assert_eq!(name(StreamKind::Compute, "qkv", Phase::Forward, Some(3), 0), "F3 m0 qkv");
        assert_eq!(name(StreamKind::Compute, "qkv", Phase::WeightGrad, Some(3), 12), "W3 m12 qkv");
        assert_eq!(name(StreamKind::Tensor, "all-gather", Phase::Forward, Some(3), 0), "AG F3 m0");
        assert_eq!(
            name(StreamKind::Data, "reduce-scatter gradients", Phase::Backward, Some(3), NO_MICRO_BATCH),
            "RS B3 gradients"
        );
        assert_eq!(name(StreamKind::PipelineSend, "send", Phase::Forward, None, 1), "send F m1");
        let step = name(StreamKind::Compute, "optimizer step", Phase::Optimizer, None, NO_MICRO_BATCH);
        assert_eq!(step, "optimizer step");
        assert_eq!(merged(StreamKind::Tensor, "B", Some(2), 1), "tp B2 m1");
    }

    #[test]
    fn passes_and_collectives_differ_without_their_digits() {
        let mut seen = std::collections::BTreeSet::new();
        let phases = [Phase::Forward, Phase::Recompute, Phase::Backward, Phase::InputGrad, Phase::WeightGrad];
        let mut count = 0;
        for phase in phases {
            for (long, _) in COLLECTIVES {
                let name = op(StreamKind::Tensor, &info(long, phase, Some(7)), 5);
                seen.insert(name.chars().filter(|c| !c.is_ascii_digit()).collect::<String>());
                count += 1;
            }
        }
        assert_eq!(seen.len(), count);
    }
}
