use stepsim_simulate::behaviour::*;
use stepsim_simulate::{Inputs, Options, Simulation};

fn picked(workload: &str, sets: &[&str], fold: bool) -> Vec<(u32, u32)> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let inputs = Inputs::load(workload, None, &sets).unwrap();
    let run = Simulation::run(&inputs, &Options { fold, ..Options::default() }).unwrap();
    drawn(&run).iter().map(|drawn| (drawn.rank.0, drawn.like_it)).collect()
}

#[test]
fn one_of_each_behaviour_is_drawn_folded_or_not() {
    // Two stages of two tensor ranks that are alike.
    let sets = ["parallelism.tensor=2", "parallelism.pipeline.size=2"];
    assert_eq!(picked("tiny-4", &sets, true), [(0, 1), (2, 1)]);
    assert_eq!(picked("tiny-4", &sets, false), [(0, 1), (2, 1)]);
    // Each rank computes for another time.
    let noise =
        ["noise.compute_sigma=0.05", "parallelism.pipeline.size=1", "parallelism.data=4", "batch.global=8"];
    assert_eq!(picked("tiny-4", &noise, true).len(), 4);
}

#[test]
fn the_slow_and_the_waiting_are_among_them() {
    let ranks = picked("straggler-64", &["batch.global=64"], true);
    assert!(ranks.len() > 2 && ranks[0] == (0, 3), "{ranks:?}");
    assert_eq!(ranks.iter().map(|(_, like_it)| 1 + like_it).sum::<u32>(), 64);
}
