//! Candidates are right: of steps with one planted cause that cause is named first, and the step with it otherwise is
//! the one that was drawn before the cause was planted; and what is printed of a candidate is the run with its
//! settings, to the digit.

use super::steps::Draws;
use crate::slow::{slow, tried};
use serde_json::{Value, json};
use stepsim::read::analysis::candidates::{Candidate, CandidateKind};
use stepsim::read::analysis::report::Report;
use stepsim::simulate::jump::{figures, glanced};
use stepsim::simulate::whatif::{Base, Subject};
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::step::spec::{Disk, Kind, catalog};
use stepsim::study::otherwise::{Depth, with_candidates};

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
    without["stack"] = json!({"base": stack, "host": {"slowness": 1}});
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
    let (heavy, more) = (draws.of(&[0, stages - 1]), draws.of(&[1u64, 2]));
    let layers = |s| if s == heavy { 16 / stages + more * (stages - 1) } else { 16 / stages - more };
    with["parallelism"]["pipeline"]["layer_split"] = (0..stages).map(layers).collect::<Vec<u64>>().into();
    Planted { with, without, named: format!("stage {heavy} (") }
}

/// A model with experts over eight ranks, which get unlike numbers of rows.
fn uneven_experts(draws: &mut Draws) -> Planted {
    let mut without = drawn(draws);
    without["model"] = "mixtral-8x7b".into();
    without["model"] = json!({"base": "mixtral-8x7b", "layers": 4});
    without["parallelism"] = json!({"expert": 8, "sharding": {"kind": "zero1"}});
    let mut with = without.clone();
    with["expert_load"] = json!({"balance": "factor", "max_over_mean": draws.of(&[1.5, 2.0, 3.0])});
    Planted { with, without, named: "experts' imbalance".into() }
}

/// Documents of unlike lengths, which the order of packing deals out unevenly.
fn long_documents(draws: &mut Draws) -> Planted {
    let mut without = drawn(draws);
    without["sequence"] = 32768.into();
    without["parallelism"] = json!({"tensor": 4, "sequence_parallel": true, "sharding": {"kind": "zero1"}});
    without["recompute"]["granularity"] = "full".into();
    let lengths = json!({"median": draws.of(&[1024, 4096]), "sigma": draws.of(&[1.5, 2.0]), "seed": draws.of(&[1, 2, 3])});
    without["documents"] = json!({"drawn": lengths, "order": "balanced"});
    let mut with = without.clone();
    with["documents"]["order"] = "packed".into();
    Planted { with, without, named: "documents".into() }
}

/// One of two nodes of another class.
fn other_device(draws: &mut Draws) -> Planted {
    let without = drawn(draws);
    let mut with = without.clone();
    let device = draws.of(&["a100-sxm-80", "a100-sxm-40"]);
    with[SETS] = format!(r#"topology.other_nodes=[{{"first":1,"count":1,"device":"{device}"}}]"#).into();
    Planted { with, without, named: "device class of node 1".into() }
}

/// Links between nodes slower than on any machine of their device.
fn weak_nic(draws: &mut Draws) -> Planted {
    let mut without = drawn(draws);
    without["parallelism"] = json!({"sharding": {"kind": draws.of(&["none", "zero1", "fsdp"])}});
    let mut with = without.clone();
    let rate = draws.of(&[1.0, 2.5, 5.0]);
    with[SETS] = format!("topology.node.nics.link.bandwidth_GBps_per_direction={rate}").into();
    Planted { with, without, named: "nic, ".into() }
}

fn jitter(draws: &mut Draws) -> Planted {
    let without = drawn(draws);
    let mut with = without.clone();
    with["noise"]["compute_sigma"] = draws.of(&[0.3, 0.6]).into();
    Planted { with, without, named: "jitter".into() }
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
            4 => uneven_experts(draws),
            5 => long_documents(draws),
            6 => other_device(draws),
            7 => weak_nic(draws),
            8 => jitter(draws),
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
        let (step, inputs, report, plain) = planted(&mut draws, i % 10);
        let report = with_candidates(&inputs, &Options::default(), report, Depth::Tables).expect("runs");
        for c in &report.candidates {
            assert!((c.own_s + c.induced_s - (report.step_time_s - c.step_s)).abs() < 1e-12, "{c:?}");
        }
        // Limits and choices may be dearer: they are no causes.
        let cause = |c: &&Candidate| matches!(c.kind, CandidateKind::Fault | CandidateKind::Uneven);
        let first = report.candidates.iter().find(cause).filter(|c| c.what.starts_with(&step.named));
        let off = first.map_or(1.0, |c| (c.step_s / plain - 1.0).abs());
        if off > CLOSE {
            let named =
                |c: &Candidate| (c.what.clone(), c.otherwise.clone(), c.cost_s() / report.step_time_s);
            let named: Vec<_> = report.candidates.iter().map(named).collect();
            let felt = 1.0 - plain / report.run_time_s;
            missed.push(format!(
                "{} costs {felt:.3}, off by {off:.3}, named {named:?}\n{}",
                step.named, step.with
            ));
        }
    }
    println!("{} of {count} missed", missed.len());
    assert!(20 * missed.len() <= count, "{} of {count}\n{}", missed.len(), missed.join("\n"));
}

/// Shipped workloads: each candidate's step is that of a run with its settings, and of `--without` where no field does.
#[test]
fn a_printed_gain_is_that_of_the_run_with_the_change() {
    let mut held = 0;
    for name in catalog::names(Kind::Workload).filter(|name| tried(name)) {
        let inputs = Inputs::load(name, None, &[]).unwrap_or_else(|e| panic!("{name}: {e}"));
        let options = Options::default();
        let Ok(report) = glanced(&inputs, &options) else { continue };
        let depth = if slow() { Depth::All } else { Depth::Tables };
        let report =
            with_candidates(&inputs, &options, report, depth).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(report.candidates.is_sorted_by_key(|c| c.step_s), "{name}");
        for c in &report.candidates {
            assert_ne!(c.sets.is_empty(), c.without.is_none(), "{name}: {c:?}");
            let run = match &c.without {
                None => {
                    let again =
                        Inputs::load(name, None, &c.sets).unwrap_or_else(|e| panic!("{name} {c:?}: {e}"));
                    figures(&again, &options, false).expect("a run").step_end.s()
                }
                Some(without) => {
                    let base = Base::new(&inputs, options).expect("a run");
                    let change = Subject::without(without, &inputs.topology.value).expect("a cost");
                    base.with(&[change]).expect("a run").step_time_s
                }
            };
            assert_eq!(run, c.step_s, "{name}: {c:?}");
            assert!(c.step_s < report.step_time_s, "{name}: {c:?}");
            held += 1;
        }
    }
    assert!(held >= 20, "{held} candidates");
}
