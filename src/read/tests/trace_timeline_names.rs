use stepsim_core::program::{NO_MICRO_BATCH, OpInfo, Phase, StreamKind};
use stepsim_read::analysis::stall_cause::StallCause;
use stepsim_read::trace::timeline::names::*;

fn info(name: &'static str, phase: Phase, layer: Option<u32>) -> OpInfo {
    OpInfo { name: name.into(), phase, layer, class: None, flops: 0.0, bytes: 0.0 }
}

#[test]
fn names_repeat_in_every_layer_and_micro_batch() {
    let name = |row, name, phase| op(row, &info(name, phase, Some(3)));
    assert_eq!(name(StreamKind::Compute, "qkv", Phase::Forward), "qkv");
    assert_eq!(name(StreamKind::Compute, "qkv", Phase::WeightGrad), "qkv wgrad");
    assert_eq!(name(StreamKind::Compute, "attention backward", Phase::Backward), "attention backward");
    assert_eq!(name(StreamKind::Tensor, "all-gather", Phase::Forward), "AG forward");
    assert_eq!(name(StreamKind::Data, "reduce-scatter gradients", Phase::Backward), "RS gradients");
    assert_eq!(name(StreamKind::PipelineSend, "send", Phase::Forward), "send forward");
    assert_eq!(name(StreamKind::Compute, "optimizer step", Phase::Optimizer), "optimizer step");
    assert_eq!(pass([(Phase::Forward, 3), (Phase::Backward, 1)]), "m3 fwd + m1 bwd");
    assert_eq!(pass([(Phase::Optimizer, NO_MICRO_BATCH)]), "optimizer");
    assert_eq!(layer(Some(3), Phase::Recompute), "recomputed layer 3");
}

#[test]
fn passes_and_collectives_differ_without_their_digits() {
    let mut seen = std::collections::BTreeSet::new();
    let mut count = 0;
    for phase in Phase::ALL {
        for (long, _) in COLLECTIVES {
            let name = op(StreamKind::Tensor, &info(long, phase, Some(7)));
            seen.insert(name.chars().filter(|c| !c.is_ascii_digit()).collect::<String>());
            count += 1;
        }
    }
    assert_eq!(seen.len(), count);
}

#[test]
fn passes_have_colours_far_apart_in_perfetto() {
    let mut hues = Phase::ALL.map(|phase| {
        let m = if phase == Phase::Optimizer { NO_MICRO_BATCH } else { 17 };
        perfetto_hue(&pass([(phase, m)]))
    });
    assert_eq!(hues, [140, 116, 280, 12, 188, 216]);
    // Nothing is computed again in a pass of its own beside a pair of passes and a bubble.
    hues[1] = perfetto_hue(&pass([(Phase::Forward, 17), (Phase::Backward, 3)]));
    let bubble = perfetto_hue(&waiting("pipeline bubble"));
    let hues = [hues.as_slice(), &[bubble]].concat();
    for (i, a) in hues.iter().enumerate() {
        for b in &hues[..i] {
            let apart = a.abs_diff(*b).min(360 - a.abs_diff(*b));
            assert!(apart > 20, "{hues:?}");
        }
    }
}

#[test]
fn waiting_has_colours_of_its_own_in_perfetto() {
    for cause in StallCause::ALL {
        let name = waiting(cause.name());
        assert!(name.starts_with(cause.name()) && WAITING.contains(&perfetto_hue(&name)), "{name}");
        for other in StallCause::ALL {
            let both = waiting(&format!("{} and {}", cause.name(), other.name()));
            assert!(WAITING.contains(&perfetto_hue(&both)), "{both}");
        }
    }
    for phase in Phase::ALL {
        let hue = perfetto_hue(&pass([(phase, 17)]));
        assert!(phase == Phase::InputGrad || !WAITING.contains(&hue), "{phase:?} is {hue}");
    }
}
