//! Noise from workload to readings: what is drawn, how it spreads, and a published slowdown.

use stepsim::core::engine::{Record, undisturbed_time};
use stepsim::core::ids::{OpId, RankId};
use stepsim::core::program::{Op, Work};
use stepsim::read::analysis::stalls::StallCause;
use stepsim::simulate::{Inputs, Options, Simulation};

fn run(name: &str, sets: &[&str], seed: u64) -> Simulation {
    let sets: Vec<String> = sets.iter().map(|s| s.to_string()).collect();
    let inputs = Inputs::load(name, None, &sets).unwrap_or_else(|e| panic!("{e}"));
    Simulation::run(&inputs, &Options { seed, ..Options::default() }).unwrap_or_else(|e| panic!("{e}"))
}

fn step_s(record: &Record) -> f64 {
    record.step_end.s()
}

#[test]
fn samples_are_the_runs_of_their_seeds() {
    let noise = ["noise.compute_sigma=0.05"];
    let samples = run("gpt2-8", &noise, 3).sample(3, 5, &mut |_| {}).unwrap();
    let mut steps: Vec<f64> = (3..8).map(|seed| step_s(&run("gpt2-8", &noise, seed).record)).collect();
    steps.sort_by(f64::total_cmp);
    assert_eq!((samples.min_s, samples.p50_s, samples.max_s), (steps[0], steps[2], steps[4]));
    assert!(samples.cv > 0.0 && samples.count == 5);
    let share: f64 = samples.critical_stages.iter().map(|s| s.share).sum();
    assert!((share - 1.0).abs() < 1e-9, "the critical path fills every step: {share}");
    let again = run("gpt2-8", &noise, 3).sample(3, 5, &mut |_| {}).unwrap();
    assert_eq!(samples, again);
}

/// Samples of a step that is not played by itself are those beside its run.
#[test]
fn samples_need_no_run() {
    let noise = "noise.compute_sigma=0.05";
    let beside = run("gpt2-8", &[noise], 3).sample(3, 4, &mut |_| {}).unwrap();
    let inputs = Inputs::load("gpt2-8", None, &[noise.to_owned()]).unwrap();
    let options = Options { seed: 3, ..Options::default() };
    assert_eq!(Simulation::sample_alone(&inputs, &options, 4, &mut |_| {}).unwrap(), beside);
}

/// Kernels draw each for itself: the sum of n equal ones varies by σ/√n, of unequal ones by σ·√Σt²/Σt.
#[test]
fn jitter_of_many_kernels_averages_out() {
    let sigma = 0.2;
    let noisy = run("gpt2-8", &["noise.compute_sigma=0.2"], 1);
    let world = &noisy.folded.world;
    assert_eq!(world.ranks().len(), 8);
    let ops = &world.program_of(RankId(0)).ops;
    let time = |op: &Op| if let Work::Compute { time } = op.work { time.s() } else { 0.0 };
    let whole: f64 = ops.iter().map(time).sum();
    let expected = sigma * ops.iter().map(|op| time(op).powi(2)).sum::<f64>().sqrt() / whole;
    let busy = |rank: u32| -> f64 {
        (0..ops.len() as u32).map(|op| undisturbed_time(world, RankId(rank), OpId(op)).s()).sum()
    };
    let busy: Vec<f64> = (0..8).map(|rank| busy(rank) / whole).collect();
    let mean = busy.iter().sum::<f64>() / 8.0;
    let spread = (busy.iter().map(|b| (b - mean).powi(2)).sum::<f64>() / 7.0).sqrt();
    // Of eight ranks: χ² with 7 degrees of freedom lies in here with 99.9 %.
    assert!((0.29..1.9).contains(&(spread / expected)), "{spread}, not {expected}");
    assert!(spread < sigma / 4.0, "a rank draws more than one factor");
}

#[test]
fn a_slow_link_and_a_slow_stage_slow_the_step() {
    let healthy = step_s(&run("llama3-70b", &[], 0).record);
    let link = r#"noise.slow_links=[{"link":"node3.dev5*","slowness":4}]"#;
    assert!(step_s(&run("llama3-70b", &[link], 0).record) > 1.001 * healthy);
    let stage = r#"noise.stragglers=[{"pipeline_rank":1,"slowness":2}]"#;
    assert!(step_s(&run("llama3-70b", &[stage], 0).record) > 1.3 * healthy);
}

/// Job AR of the OSDI 2025 artifact: TP4 PP4 DP4, one stage-worker of 16 (the first stage of the first replica) slowed
/// 2.5 times; slowdown 1.973.
///
/// Slowdown there is the step over an ideal one, in which every pass takes the **mean** over all workers, the slow one
/// included: with equal stages (15 + 2.5)/16 = 1.09375 times the healthy time. A slow first stage hides the filling
/// of the pipeline behind its own work, so with m micro-batches and x passes' worth of time outside the pipeline
///
/// ```text
/// S = (2.5·m + x) / (1.09375·(m + 3) + x)
/// ```
/// Neither m nor the model is published; the formula reaches 1.973 between m = 22 (x = 1) and m = 24 (x = 2). So 24 and
/// 32 micro-batches are assumed, and two models on two machines. The artifact measures passes: kernels get the
/// factor that makes a pass with its exposed tensor-parallel communication 2.5 times as long.
#[test]
fn one_slow_stage_worker_of_16_slows_the_step_as_published() {
    let sets = ["model=\"megatron-22b\"", "model=\"gpt3-13b\""];
    for (model, topology) in sets.iter().flat_map(|m| ["h100-superpod-64", "dgx-a100-64"].map(|t| (*m, t))) {
        for micro_batches in [24, 32] {
            let (slowdown, formula) = slowdown(model, topology, micro_batches);
            println!(
                "{model} on {topology}, {micro_batches} micro-batches: {slowdown:.3}, formula {formula:.3}"
            );
            // At 32 micro-batches the formula itself is 3 to 4.5 % above what was published, so that tells of 24 alone.
            assert!(micro_batches != 24 || (slowdown / 1.973 - 1.0).abs() < 0.015, "{slowdown}");
            assert!((slowdown / formula - 1.0).abs() < 0.01, "{slowdown}, formula {formula}");
        }
    }
}

/// Slowdown as the artifact defines it, and by the formula.
fn slowdown(model: &str, topology: &str, micro_batches: u32) -> (f64, f64) {
    let step = |stragglers: &[String]| {
        let batch = format!("batch.global={}", 4 * micro_batches);
        let noise = format!("noise.stragglers=[{}]", stragglers.join(","));
        let sets = [model.to_string(), batch, noise];
        let inputs = Inputs::load("straggler-64", Some(topology), &sets).unwrap_or_else(|e| panic!("{e}"));
        Simulation::run(&inputs, &Options::default()).unwrap_or_else(|e| panic!("{e}")).report(false)
    };
    let healthy = step(&[]);
    // Seconds of all passes of a stage: kernels, and communication that they wait for.
    let parts: Vec<(f64, f64)> = healthy
        .stages
        .iter()
        .map(|s| (s.time.busy_s, s.time.stalls_s[&StallCause::TensorParallel]))
        .collect();
    let passes = |stage: usize| parts[stage].0 + parts[stage].1;
    let kernels = |stage: usize, target: f64| (target - parts[stage].1) / parts[stage].0;
    let all: f64 = (0..4).map(passes).sum();
    let mean = (4.0 * all + 1.5 * passes(0)) / 16.0;
    let slow = kernels(0, 2.5 * passes(0));
    let slowed = step(&[format!(r#"{{"pipeline_rank":0,"data_rank":0,"slowness":{slow}}}"#)]);
    let to_mean = |stage| format!(r#"{{"pipeline_rank":{stage},"slowness":{}}}"#, kernels(stage, mean));
    let ideal = step(&(0..4).map(to_mean).collect::<Vec<_>>());
    let m = f64::from(micro_batches);
    let x = healthy.step_time_s / (all / 4.0 / m) - (m + 3.0);
    let formula = (2.5 * m + x) / (mean / (all / 4.0) * (m + 3.0) + x);
    (slowed.step_time_s / ideal.step_time_s, formula)
}
