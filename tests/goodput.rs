//! Goodput: the closed form against another program's, and days that are drawn against the closed form.

use serde_json::Value;
use stepsim::around::goodput::{
    CheckpointTimes, GoodputJob, best_interval, daly_interval, simulate, young_interval,
};
use stepsim::simulate::Inputs;
use stepsim::spec::load;
use stepsim::spec::reliability::{Reliability, Restart, SlowDevices};

use crate::command::{json, stepsim};

fn golden() -> Value {
    json("tests/data/goodput.json")
}

fn close(a: f64, b: f64, to: f64, what: &str) {
    assert!((a - b).abs() <= to * b.abs(), "{what}: {a}, expected {b}");
}

fn job(case: &Value) -> GoodputJob {
    let s = |name: &str| case[name].as_f64().unwrap_or_else(|| panic!("{name} of {case}"));
    GoodputJob {
        devices: 1,
        rate: s("rate_per_s"),
        interval: s("tau_s"),
        stall: s("stall_s"),
        safe_after: s("safe_after_s"),
        restart: Restart { time_s: s("restart_s"), can_fail: case["restart_can_fail"].as_bool().unwrap() },
    }
}

#[test]
fn the_closed_form_has_the_golden_values() {
    let golden = golden();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 12);
    for case in cases {
        let what = case["case"].as_str().unwrap();
        let job = job(case);
        close(job.expected_segment().unwrap(), case["expected_segment_s"].as_f64().unwrap(), 1e-5, what);
        close(job.expected_goodput().unwrap(), case["goodput"].as_f64().unwrap(), 1e-5, what);
    }
    let optima = golden["optimum"].as_array().unwrap();
    assert_eq!(optima.len(), 5);
    for case in optima {
        let s = |name: &str| case[name].as_f64().unwrap();
        let (rate, d) = (1.0 / s("mtbf_s"), s("cost_s"));
        for (found, name) in [
            (young_interval(rate, d), "young"),
            (daly_interval(rate, d), "daly"),
            (best_interval(rate, d), "exact"),
        ] {
            close(found, s(&format!("{name}_s")), 1e-5, name);
            let restart = Restart { time_s: s("restart_s"), can_fail: false };
            let job = GoodputJob { devices: 1, rate, interval: found, stall: d, safe_after: 0.0, restart };
            close(job.expected_goodput().unwrap(), s(&format!("goodput_{name}")), 1e-5, name);
        }
    }
}

/// The shipped rate and its causes are the unexpected interruptions of one count.
#[test]
fn shipped_rates_are_the_golden_ones() {
    let golden = &golden()["rates"];
    let spec: Reliability = load("llama3-h100", &[]).unwrap().value;
    let hours = spec.failures.device_hours_between;
    close(hours, golden["mtbf_device_hours"].as_f64().unwrap(), 1e-5, "hours");
    close(24.0 / hours, golden["unexpected_per_device_day"].as_f64().unwrap(), 1e-5, "a day");
    let counted: f64 = spec.failures.causes.values().copied().map(f64::from).sum();
    close(counted / (16384.0 * 54.0), golden["unexpected_per_device_day"].as_f64().unwrap(), 1e-5, "causes");
    for (devices, wanted) in golden["job_mtbf_h"].as_object().unwrap() {
        let times = CheckpointTimes { bytes: None, stall: 3.0, safe_after: 0.0 };
        let job = GoodputJob::new(&spec, devices.parse().unwrap(), 6.0, times);
        close(1.0 / job.rate / 3600.0, wanted.as_f64().unwrap(), 1e-5, devices);
    }
}

/// Runs long enough that the standard error is below one percent, and within four of them of the closed form.
#[test]
fn drawn_days_meet_the_closed_form() {
    for case in golden()["cases"].as_array().unwrap() {
        let job = job(case);
        let days = 400.0 * job.expected_segment().unwrap() / 86_400.0;
        let found = simulate(&job, &[], days, 200, 3).goodput;
        let exact = job.expected_goodput().unwrap();
        assert!(found.standard_error < 0.01 * exact, "{case}: {found:?}");
        // The last interval of a run counts as kept: up to half a percent of 400 segments.
        let off = (found.mean - exact).abs();
        assert!(off < 4.0 * found.standard_error + 0.003 * exact, "{case}: {found:?} and {exact}");
    }
}

#[test]
fn days_are_split_whole_and_drawn_again_alike() {
    let case = &golden()["cases"][5];
    let slow = [SlowDevices { per_device_day: 40.0, slowness: 1.5, duration_s: [60.0, 3600.0] }];
    let found = simulate(&job(case), &slow, 5.0, 50, 1);
    let sum: f64 = found.mean.parts().iter().map(|p| p.1).sum();
    close(sum, 5.0 * 86_400.0, 1e-9, "the parts");
    assert!(found.mean.slow_s > 0.0 && found.mean.lost_s > 0.0 && found.mean.restart_s > 0.0);
    assert_eq!(found, simulate(&job(case), &slow, 5.0, 50, 1));
    assert_ne!(found, simulate(&job(case), &slow, 5.0, 50, 2));
}

/// A device that is slow all the time makes every second of work so much longer.
#[test]
fn slow_devices_stretch_work() {
    let mut job = job(&golden()["cases"][0]);
    job.rate = 1e-12;
    let slow = [SlowDevices { per_device_day: 1e4, slowness: 2.0, duration_s: [1e6, 1e6] }];
    let found = simulate(&job, &slow, 10.0, 4, 1).mean;
    close(found.slow_s, found.work_s, 1e-3, "twice as slow");
}

/// 405e9 parameters of 12 bytes: on their way for so long, and so much of each device.
#[test]
fn llamas_checkpoint_is_the_golden_one() {
    let golden = golden();
    let of = |name: &str| golden["checkpoint"][name].as_f64().unwrap();
    let sets = [format!("checkpoint.total_GB={}", 1e3 * of("TB")), "checkpoint.host_GBps=1".to_owned()];
    let spec: Reliability = load("llama3-h100", &sets).unwrap().value;
    let times = CheckpointTimes::new(&spec.checkpoint, 16384, None).unwrap();
    close(times.safe_after, of("seconds_at_2_TBps"), 1e-5, "storage");
    close(times.stall, of("GB_per_gpu_16384"), 1e-5, "a device's share at 1 GB/s");
}

/// Llama 3's: 12 bytes a parameter over 16,384 devices and 2 TB/s.
#[test]
fn a_checkpoint_follows_from_state_and_links() {
    let with = |sets: &[&str], workload: &[&str]| {
        let [sets, workload] =
            [sets, workload].map(|sets| sets.iter().map(ToString::to_string).collect::<Vec<_>>());
        let spec: Reliability = load("llama3-h100", &sets).unwrap().value;
        let inputs = Inputs::load("llama3-405b", None, &workload).unwrap();
        CheckpointTimes::new(&spec.checkpoint, inputs.machine.devices(), Some(&inputs)).unwrap()
    };
    let of = |sets: &[&str]| with(sets, &[]);
    let plain = of(&[]);
    close(plain.bytes.unwrap(), 12.0 * 405.85e9, 1e-3, "bytes");
    close(plain.safe_after, plain.bytes.unwrap() / 2e12, 1e-12, "storage");
    let together = of(&["checkpoint.mode=synchronous"]);
    close(together.stall, plain.stall + plain.safe_after, 1e-12, "synchronous");
    let with_weights = of(&["checkpoint.weights=true"]);
    close(with_weights.bytes.unwrap(), 14.0 / 12.0 * plain.bytes.unwrap(), 1e-12, "BLOOM's 14 bytes");
    // Without master weights those in 16 bits are the only ones: they are written, asked for or not.
    let no_master = ["precision.master_bytes_per_parameter=0"];
    for sets in [&[][..], &["checkpoint.weights=true"]] {
        let bytes = with(sets, &no_master).bytes.unwrap();
        close(bytes, 10.0 / 12.0 * plain.bytes.unwrap(), 1e-12, "weights and moments");
    }
}

#[test]
fn the_command_prints_the_golden_case() {
    let line = "goodput --step-s 6 --devices 16384 --runs 20 --set reliability.checkpoint.stall_s=3 \
                --set reliability.checkpoint.safe_after_s=0 --set reliability.checkpoint.every_s=600";
    let report = stepsim(&format!("{line} --report -")).json();
    close(report["expected_segment_s"].as_f64().unwrap(), 636.3198, 1e-5, "segment");
    close(report["intervals"][1]["interval_s"].as_f64().unwrap(), 256.481, 1e-5, "best");
    assert_eq!(report["reliability"]["failures"]["causes"]["NIC"], 7);
    let out = stepsim(line).out;
    assert!(out.contains("exact 94.29 %") && out.contains("Daly") && out.contains("faulty GPU"), "{out}");
}
