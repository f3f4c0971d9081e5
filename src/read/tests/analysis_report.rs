//! Reports of random worlds.

use proptest::prelude::*;
use stepsim_core::power::PowerAndPrice;
use stepsim_core::units::{Bandwidth, FlopRate, Flops};
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_read::analysis::report::*;
use stepsim_read::analysis::run::Run;
use stepsim_read::analysis::slack;
use stepsim_read::analysis::stalls::Breakdown;
use stepsim_read::analysis::waterfall::MfuFlops;

use crate::random_world;

/// A report of a random world in which rank `r` stands for `weight(r)` ranks of stage `r`.
pub(crate) fn of_random(seed: u64, weight: impl Fn(u32) -> u32) -> Report {
    let s = random_world::random(seed);
    let mut next = 0;
    let ranks: Vec<RankInfo> = (0..s.record.ranks())
        .map(|stage| {
            let members = (next..next + weight(stage)).collect();
            next += weight(stage);
            RankInfo { members, stage }
        })
        .collect();
    let info = RunInfo {
        extent: Extent::Whole,
        workload: "a workload",
        topology: "a machine",
        model_flops: Flops(3e15),
        model_flops_causal: Flops(2.5e15),
        hardware_flops: Flops(4e15),
        hardware_flops_causal: Flops(3.5e15),
        tokens: 4096,
        peak: FlopRate::from_tflops(1e9),
        counted: MfuFlops { matrices: 2e15, mixing: 1e15 },
        memory: Bandwidth(1e12),
        devices: u64::from(next),
        rates: PowerAndPrice { watts: Some([700.0, 300.0, 150.0]), usd_per_h: Some(2.5) },
        ranks: &ranks,
        rank_name: &|r| format!("rank {r}"),
        resources: &|r| (r, 1),
        resource_name: &|r| format!("link {}", r.0),
        simulation_wall_s: None,
        conventions: vec!["A multiply-add counts two.".into()],
    };
    let slacks = slack::slack(&Causes::new(&s.world, &s.record));
    let (mut causes, mut idle) = (Causes::new(&s.world, &s.record), IdleTimes::new(&s.world));
    report(Run::new(&mut causes, &mut idle, Some(&slacks), &info), &[])
}

fn sum(b: &Breakdown) -> f64 {
    b.busy_s + b.stalls_s.values().sum::<f64>()
}

proptest! {
    #[test]
    fn every_breakdown_sums_to_the_step(seed in any::<u64>(), weight in 1u32..40) {
        let r = of_random(seed, |stage| weight + stage);
        let close = |b: &Breakdown| (sum(b) - r.step_time_s).abs() <= 1e-12 * r.step_time_s;
        prop_assert!(close(&r.mean));
        prop_assert!(r.stages.iter().all(|s| close(&s.time)));
        prop_assert!(r.ranks.iter().all(|s| close(&s.time)));
        prop_assert_eq!(r.ranks.iter().map(|r| r.count).sum::<u64>(), r.classes.ranks);
        let path: f64 = r.critical_path.by_kind_s.values().sum();
        let path = path + r.critical_path.contention_s + r.critical_path.memory_s;
        prop_assert!((path - r.step_time_s).abs() <= 1e-12 * r.step_time_s);
    }

    #[test]
    fn json_holds_the_whole_report(seed in any::<u64>()) {
        let mut r = of_random(seed, |_| 1);
        let text = serde_json::to_string(&r).expect("serialisable");
        // Read from memory alone.
        r.critical_path.contention_by_kind_s.clear();
        prop_assert_eq!(serde_json::from_str::<Report>(&text).expect("readable"), r);
    }
}

#[test]
fn field_names_are_those_of_the_documentation() {
    let json = serde_json::to_value(of_random(7, |_| 20)).expect("serialisable");
    for field in ["step_time_s", "tokens_per_s", "mfu", "hfu", "model_tflops_per_device", "ops", "events"] {
        assert!(json[field].is_number(), "{field}");
    }
    assert!(json["memory"]["hbm"]["peak_bytes"].is_number());
    assert!(json["memory"]["hbm"]["by_class"]["weights"].is_number());
    assert!(json["ranks"][0]["busy_s"].is_number() && json["ranks"][0]["stalls_s"].is_object());
    assert!(json.get("simulation_wall_s").is_none());
}

#[test]
fn classes_list_their_members() {
    let infos = RankInfo::of_classes(&[0, 1, 0, 2, 1], |rank| rank * 10);
    let expected = [(vec![0, 2], 0), (vec![1, 4], 10), (vec![3], 30)];
    assert_eq!(infos, expected.map(|(members, stage)| RankInfo { members, stage }));
}

#[test]
fn utilisation_counts_devices_and_time() {
    let r = of_random(11, |_| 2);
    let expected = 3e15 / (r.step_time_s * r.devices as f64 * 1e21);
    assert!((r.mfu - expected).abs() < 1e-12 * expected);
    assert!((r.hfu / r.mfu - 4.0 / 3.0).abs() < 1e-12);
    assert!((r.tokens_per_s * r.step_time_s - 4096.0).abs() < 1e-9);
}
