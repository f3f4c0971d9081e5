//! Messages have the bytes of theory: gradients are summed once, tokens reach every expert that they visit, and what is
//! computed again sends what it sent.

use super::read::{Sums, alike};
use super::steps::{
    BATCH, DEVICES, Draws, EXPERT_WIDTH, EXPERTS, HIDDEN, LAYERS, SEQUENCE, Step, TOP_K, VOCABULARY, count,
    draw,
};

/// Bytes of a token's row in 16 bits.
const ROW: f64 = 2.0 * HIDDEN as f64;
const TOKENS: f64 = (BATCH * SEQUENCE) as f64;

/// The first message whose bytes are not those of theory.
fn broken(step: &Step, sums: &Sums) -> Option<String> {
    let w = &step.inputs.workload.value;
    let p = &w.parallelism;
    let (tensor, context, stages, expert, cut) =
        (p.tensor, p.context.size, p.pipeline.size, p.expert, p.expert_tensor());
    let copies = if p.sequence_parallel { 1 } else { tensor };
    let shared = copies.min(cut).max(1);
    let gathered = cut / shared;
    // A rank's experts get its rows from all ranks that cut them; each holds them all then.
    let visits = TOKENS * (TOP_K * LAYERS * copies) as f64;
    let rows = visits * gathered as f64 * ROW;
    let mut laws: Vec<(&[&str], f64)> = vec![
        (&["all-gather expert input"], if gathered > 1 { rows } else { 0.0 }),
        (&["all-gather expert output gradient"], if gathered > 1 { rows } else { 0.0 }),
        (&["sum expert output"], if cut > 1 { rows } else { 0.0 }),
    ];
    if w.expert.dispatcher == stepsim::spec::workload::DispatcherKind::Alltoall {
        let probabilities = 4.0 * visits;
        let sent = if expert > 1 { visits * ROW } else { 0.0 };
        let weighed = if expert > 1 { sent + probabilities } else { 0.0 };
        laws.push((&["dispatch tokens"], weighed));
        laws.push((&["combine tokens"], sent));
    }
    let holders = DEVICES / tensor / stages;
    let dense = LAYERS * (4 * HIDDEN * HIDDEN) + 2 * VOCABULARY * HIDDEN;
    let whole = LAYERS * (2 * HIDDEN + HIDDEN * EXPERTS) + HIDDEN;
    let experts = LAYERS * EXPERTS * 3 * HIDDEN * EXPERT_WIDTH;
    let expert_holders = DEVICES / stages / (expert * cut);
    let each = w.precision.gradient_communication().bytes();
    if !w.sharding().cuts_gradients() {
        let of = |parameters: u64, holders: u64| {
            if holders > 1 { (parameters * holders) as f64 * each } else { 0.0 }
        };
        laws.push((
            &["all-reduce gradients", "reduce-scatter gradients"],
            of(dense + tensor * whole, holders),
        ));
        let names: &[&str] = &["all-reduce expert gradients", "reduce-scatter expert gradients"];
        laws.push((names, of(experts, expert_holders)));
    }
    let _ = context;
    laws.into_iter().find_map(|(names, expected)| {
        let got: f64 = names.iter().map(|name| sums.bytes_of(name)).sum();
        (!alike(got, expected))
            .then(|| format!("`{}`: {got} bytes, expected {expected}", names.join("` or `")))
    })
}

#[test]
fn messages_have_the_bytes_of_theory() {
    let mut draws = Draws(0x5eed_0002);
    let mut caught = None;
    for i in 0..count() {
        let step = draw(&mut draws);
        let Ok(plan) = step.inputs.plan() else { continue };
        let sums = Sums::of(&plan);
        let again = sums.sent_again(&step.inputs.workload.value).err();
        if let Some(what) = broken(&step, &sums).or(again) {
            panic!("step {i}: {what}\n{}", step.text);
        }
        // One bucket of one rank is a byte in a thousand short.
        let mut faulty = sums.clone();
        let gradients = faulty.bytes.iter_mut().find(|(name, _)| name.ends_with("gradients"));
        if let (Some((_, bytes)), true) = (gradients, i < 50) {
            *bytes -= 1e-3 * *bytes / DEVICES as f64;
            caught = caught.or(broken(&step, &faulty).map(|_| i));
        }
    }
    println!("a bucket that is a byte in a thousand short is caught at draw {caught:?}");
    assert!(caught.is_some(), "no step with gradients to sum among the first 50");
}
