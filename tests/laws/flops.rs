//! Work is conserved: however a step is laid out, its products are the same, each once, but for what is recomputed
//! and for the duplicates that are named here.

use super::read::{Sums, alike};
use super::steps::{Draws, Step, count, draw, plain};
use stepsim::spec::WorkloadSpec;

/// How often a kernel's work is done: without sequence parallelism, tensor-parallel ranks hold the same tokens
/// between their matrices. Each routes them, and sends them to experts that it does not share with the others.
pub fn duplicates(name: &str, w: &WorkloadSpec) -> f64 {
    let p = &w.parallelism;
    let copies = if p.sequence_parallel { 1 } else { p.tensor };
    let routed = name.starts_with("expert ");
    let (router, experts) = (name.starts_with("router"), copies / copies.min(p.expert_tensor()).max(1));
    if router {
        copies as f64
    } else if routed {
        experts as f64
    } else {
        1.0
    }
}

/// What is wrong with the products of a step, against those of the plain one.
fn broken(step: &Step, sums: &Sums, plain: &Sums) -> Option<String> {
    let w = &step.inputs.workload.value;
    for (name, flops) in &plain.flops {
        let expected = flops * duplicates(name, w);
        let got = sums.flops.get(name).copied().unwrap_or(0.0);
        if !alike(got, expected) {
            return Some(format!("`{name}`: {got} FLOPs, expected {expected}"));
        }
    }
    let unknown = sums.flops.keys().find(|name| !plain.flops.contains_key(*name));
    unknown.map(|name| format!("`{name}` is no product of the plain step"))
}

#[test]
fn products_are_done_once_in_every_layout() {
    let whole = Step::of(&plain()).expect("the plain step");
    let reference = whole.inputs.plan().expect("its plan");
    let expected = Sums::of(&reference);
    let mut draws = Draws(0x5eed_0001);
    let mut caught = None;
    for i in 0..count() {
        let step = draw(&mut draws);
        let plan = match step.inputs.plan() {
            Ok(plan) => plan,
            Err(e) => {
                assert!(
                    e.to_string().contains("p2p") || e.to_string().contains("schedule"),
                    "{}: {e}",
                    step.text
                );
                continue;
            }
        };
        assert_eq!(plan.model_flops, reference.model_flops, "{}", step.text);
        let sums = Sums::of(&plan);
        if let Some(what) = broken(&step, &sums, &expected) {
            panic!("step {i}: {what}\n{}", step.text);
        }
        // The experts' tokens not gathered: each rank that cuts an expert works on its own tokens alone.
        let w = &step.inputs.workload.value;
        let copies = if w.parallelism.sequence_parallel { 1 } else { w.parallelism.tensor };
        let gathered = w.parallelism.expert_tensor() / copies.min(w.parallelism.expert_tensor());
        if gathered > 1 && i < 50 {
            let mut faulty = sums.clone();
            let experts = faulty.flops.iter_mut().filter(|(name, _)| name.starts_with("expert "));
            experts.for_each(|(_, flops)| *flops /= gathered as f64);
            caught = caught.or(broken(&step, &faulty, &expected).map(|_| i));
        }
    }
    println!("experts that do not gather are caught at draw {caught:?}");
    assert!(caught.is_some(), "no step whose experts gather among the first 50");
}
