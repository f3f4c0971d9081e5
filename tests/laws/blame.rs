//! Blame is right: of steps with one planted cause (a slow rank, a slow link, a late host, a small tier, a heavy stage) that cause
//! is named first, and the step without it is the one that was drawn before the cause was planted.

use super::steps::Draws;
use crate::slow::slow;
use serde_json::{Value, json};
use stepsim::read::analysis::report::Report;
use stepsim::simulate::whatif::blame::blame;
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::step::spec::Disk;

/// A planted cause costs at least this part of the step.
const FELT: f64 = 0.05;
/// The step without the cause may differ by so much from the one drawn without it.
const CLOSE: f64 = 0.02;

/// Where a step has one more setting: that of the machine's memory.
const SETS: &str = "set";

/// A step with a cause and without, and how the name of the cause begins.
struct Planted {
    with: Value,
    without: Value,
    named: String,
}

/// A model of eight layers on sixteen devices.
fn drawn(draws: &mut Draws) -> Value {
    json!({
        "topology": "h100-superpod-64",
        "model": {
            "name": "small", "source": "made up", "layers": 8, "hidden": 4096, "heads": 32, "ffn": 16384,
            "vocabulary": 8192, "sequence": 2048,
        },
        "batch": {"global": 32, "micro_batch": 1},
        "parallelism": {
            "tensor": draws.of(&[1, 2, 4]), "sequence_parallel": true,
            "pipeline": {"size": draws.of(&[1, 2, 4]), "schedule": draws.of(&["1f1b", "gpipe", "zb-h1"])},
            "sharding": {"kind": draws.of(&["none", "zero1", "zero2"])},
        },
        "recompute": {"granularity": draws.of(&["none", "full"])},
    })
}

fn slow_rank(draws: &mut Draws) -> Planted {
    let without = drawn(draws);
    let mut with = without.clone();
    let rank = draws.of(&[0, 3, 5, 8, 11, 15]);
    with["noise"]["stragglers"] = json!([{"rank": rank, "slowness": draws.of(&[1.3, 1.7, 2.85])}]);
    Planted { with, without, named: format!("rank {rank} (×") }
}

fn slow_link(draws: &mut Draws) -> Planted {
    let without = drawn(draws);
    let mut with = without.clone();
    let link =
        draws.of(&["node0.dev0 -> nvswitch*", "node1.dev3 -> *", "* -> node0.dev2", "node0.dev* -> leaf*"]);
    with["noise"]["slow_links"] = json!([{"link": link, "slowness": draws.of(&[20, 50, 200])}]);
    Planted { with, without, named: format!("links {link} (÷") }
}

fn late_host(draws: &mut Draws) -> Planted {
    let mut without = drawn(draws);
    let stack = draws.of(&["megatron-2021", "megatron-te-2024", "nanotron"]);
    without["stack"] = json!({"base": stack, "host": {"slowness": 0.001}});
    let mut with = without.clone();
    with["stack"]["host"]["slowness"] = draws.of(&[5, 10, 20]).into();
    Planted { with, without, named: "host".into() }
}

fn small_tier(draws: &mut Draws) -> Option<Planted> {
    let mut without = drawn(draws);
    let on_host = json!([{"fraction": 1, "tier": "host"}]);
    without["parallelism"] = json!({"sharding": {"kind": "fsdp"}});
    without["recompute"]["granularity"] = "full".into();
    without["model"]["layers"] = 12.into();
    without["batch"]["global"] = 64.into();
    without["offload"] = json!({
        "weights": on_host, "gradients": on_host, "optimizer": on_host,
        "prefetch": {"depth": draws.of(&[2, 3, 5, 8]), "unit": "layers"},
    });
    let peak = played(&without)?.1.memory["hbm"].peak_bytes as f64;
    let mut with = without.clone();
    let room = peak * draws.of(&[0.8, 0.83, 0.86, 0.9, 0.95]);
    with[SETS] = format!("topology.device.hbm.GB={}", room / 1e9).into();
    Some(Planted { with, without, named: "full tier".into() })
}

fn heavy_stage(draws: &mut Draws) -> Planted {
    let mut without = drawn(draws);
    let stages = draws.of(&[2u64, 4]);
    without["parallelism"]["pipeline"]["size"] = stages.into();
    without["model"]["layers"] = 16.into();
    let mut with = without.clone();
    let (heavy, more) = (draws.of(&[0, stages - 1]), draws.of(&[1u64, 2, 4]));
    let split: Vec<u64> = (0..stages).map(|s| 16 / stages + if s == heavy { more } else { 0 }).collect();
    with["model"]["layers"] = (16 + more).into();
    with["parallelism"]["pipeline"]["layer_split"] = split.into();
    Planted { with, without, named: format!("stage {heavy} (") }
}

fn played(workload: &Value) -> Option<(Inputs, Report)> {
    let mut workload = workload.clone();
    let more = workload.as_object_mut().and_then(|fields| fields.remove(SETS));
    let mut sets = vec!["topology.nodes=2".to_owned()];
    sets.extend(more.as_ref().and_then(Value::as_str).map(String::from));
    let inputs = Inputs::from_json(&workload.to_string(), None, &sets, &Disk).ok()?;
    let report = Simulation::run(&inputs, &Options::default()).ok()?.report(false);
    Some((inputs, report))
}

/// Draws until a cause is felt.
fn planted(draws: &mut Draws, cause: usize) -> (Planted, Inputs, Report, f64) {
    for _ in 0..100 {
        let planted = match cause {
            0 => slow_rank(draws),
            1 => slow_link(draws),
            2 => late_host(draws),
            3 => match small_tier(draws) {
                Some(planted) => planted,
                None => continue,
            },
            _ => heavy_stage(draws),
        };
        let (Some((inputs, report)), Some((_, plain))) = (played(&planted.with), played(&planted.without))
        else {
            continue;
        };
        let plain = plain.run_time_s;
        if report.run_time_s - plain >= FELT * report.run_time_s {
            return (planted, inputs, report, plain);
        }
    }
    panic!("cause {cause} is never felt")
}

#[test]
fn a_planted_cause_is_named_first_with_its_cost() {
    let mut draws = Draws(0x5eed_b1a3);
    let count = if slow() { 200 } else { 40 };
    let mut missed = Vec::new();
    for i in 0..count {
        let (step, inputs, report, plain) = planted(&mut draws, i % 5);
        let causes = blame(&inputs, &Options::default(), &report).expect("a plan");
        for b in &causes {
            assert!((b.itself_s + b.others_s - b.cost_s).abs() < 1e-12, "{b:?}");
            assert!((b.cost_s - (report.run_time_s - b.without_s)).abs() < 1e-12, "{b:?}");
        }
        let first = causes.first().filter(|b| b.cause.starts_with(&step.named));
        let off = first.map_or(1.0, |b| (b.without_s / plain - 1.0).abs());
        if off > CLOSE {
            let named: Vec<_> = causes.iter().map(|b| (&b.cause, b.cost_s / report.run_time_s)).collect();
            let felt = 1.0 - plain / report.run_time_s;
            missed.push(format!(
                "{} costs {felt:.3}, off by {off:.3}, blamed {named:?}\n{}",
                step.named, step.with
            ));
        }
    }
    println!("{} of {count} missed", missed.len());
    assert!(20 * missed.len() <= count, "{} of {count}\n{}", missed.len(), missed.join("\n"));
}
