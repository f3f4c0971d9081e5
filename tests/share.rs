//! Several jobs on one machine: what shares a link is slowed, what shares none is not, to the picosecond.

use serde_json::{Value, json};
use stepsim::core::engine;
use stepsim::core::fold::fold;
use stepsim::core::ids::DeviceId;
use stepsim::simulate::share::{JobTimes, SharedRun};
use stepsim::simulate::{Inputs, Options, Simulation, Site};
use stepsim::spec::{WorkloadSpec, from_value};

use crate::command::Folder;

/// Four nodes of two devices; two nodes under a leaf, whose uplinks carry a quarter of what its nodes can send.
fn machine() -> Value {
    json!({
        "device": "h100-sxm",
        "nodes": 4,
        "node": {
            "devices": 2,
            "scale_up": {"switch": {"link": {"bandwidth_GBps_per_direction": 450}, "latency_us": 1}},
            "nics": {"link": {"bandwidth_GBps_per_direction": 50}},
        },
        "fabric": {"clos": {"tiers": [
            {"name": "leaf", "serves": 2, "oversubscription": 4, "latency_us": 1},
            {"name": "spine", "latency_us": 1},
        ]}},
    })
}

fn workload(hidden: u64, global: u64) -> Value {
    json!({
        "model": {
            "name": "small", "layers": 8, "hidden": hidden, "heads": 16, "ffn": 4 * hidden, "gated_mlp": true,
            "vocabulary": 32000, "sequence": 2048,
        },
        "batch": {"global": global, "micro_batch": 1},
        "parallelism": {"sharding": {"kind": "fsdp"}},
    })
}

fn site() -> Site {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("machine.json");
    std::fs::write(&path, machine().to_string()).unwrap();
    Site::load(path.to_str().unwrap(), &[]).unwrap()
}

fn job(site: &Site, workload: Value, devices: &[u32]) -> Inputs {
    let devices: Vec<DeviceId> = devices.iter().map(|d| DeviceId(*d)).collect();
    let loaded = from_value::<WorkloadSpec>(workload, "job".into(), "job.json".into(), &[]).unwrap();
    site.inputs_on(loaded, &devices).unwrap()
}

fn play(jobs: &[Inputs], folds: bool) -> Vec<JobTimes> {
    SharedRun::play(jobs, 2, folds).unwrap().jobs
}

#[test]
fn jobs_that_share_a_spine_slow_each_other() {
    let site = site();
    // Each has a node under either leaf: all of their traffic between nodes meets at the uplinks.
    let jobs = [job(&site, workload(2048, 8), &[0, 1, 4, 5]), job(&site, workload(2048, 4), &[2, 3, 6, 7])];
    let times = play(&jobs, true);
    for (i, job) in times.iter().enumerate() {
        assert!(job.together.s() > 1.1 * job.alone.s(), "job {i}: {job:?}");
        // Two of them: nobody gets less than half of a link.
        assert!(job.together.s() < 2.01 * job.alone.s(), "job {i}: {job:?}");
    }
    // The shorter one made more steps meanwhile.
    assert!(times[1].steps > times[0].steps, "{times:?}");
    // Folding changes no span.
    assert_eq!(play(&jobs, false), times);
}

#[test]
fn jobs_that_share_nothing_take_what_they_take_alone() {
    let site = site();
    let jobs = [job(&site, workload(2048, 8), &[0, 1, 2, 3]), job(&site, workload(1024, 4), &[4, 5, 6, 7])];
    for folds in [true, false] {
        for (i, job) in play(&jobs, folds).iter().enumerate() {
            assert_eq!(job.together, job.alone, "job {i}");
        }
    }
    // And a job on all devices is the step that `run` plays.
    let whole = job(&site, workload(2048, 8), &[0, 1, 2, 3, 4, 5, 6, 7]);
    let run = Simulation::run(&whole, &Options::default()).unwrap();
    let alone = SharedRun::play(std::slice::from_ref(&whole), 1, true).unwrap();
    assert_eq!(alone.jobs[0].alone, run.record.step_end);
    assert_eq!(alone.record.step_end, run.record.step_end);
}

/// Ranks of a job are where it says: the same job inside one leaf is quicker than over two.
#[test]
fn a_job_runs_on_its_own_devices() {
    let site = site();
    let alone = |devices: &[u32]| play(&[job(&site, workload(2048, 8), devices)], true)[0].alone;
    assert!(alone(&[0, 1, 4, 5]) > alone(&[0, 1, 2, 3]));
    assert_eq!(alone(&[4, 5, 6, 7]), alone(&[0, 1, 2, 3]));
    // A rank map of its own counts the job's devices.
    let mut mapped = workload(2048, 8);
    mapped["parallelism"]["rank_map"] = json!([3, 2, 1, 0]);
    let turned = job(&site, mapped, &[4, 5, 6, 7]);
    let list = turned.workload.value.parallelism.rank_map.as_ref().unwrap().content().unwrap().clone();
    assert_eq!(list, json!([7, 6, 5, 4]));
}

#[test]
fn the_command_reports_both_times() {
    let folder = Folder::new();
    folder.write("machine.json", machine().to_string());
    folder.write("a.json", workload(2048, 8).to_string());
    let share = |jobs: &str| folder.stepsim(&format!("share {jobs} -t ./machine.json --report report.json"));
    let text = share("./a.json@0-1,4-5 ./a.json@2-3,6-7").ok();
    assert!(text.contains("shared: ") && text.contains("leaf"), "{text}");
    let report = folder.json("report.json");
    let jobs = report["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 2);
    assert!(jobs.iter().all(|job| job["slowed_by"].as_f64().unwrap() > 0.1), "{report}");
}

/// A job alone takes what it takes on a machine of its own devices, however many others stand beside them.
#[test]
fn devices_that_a_job_does_not_have_change_nothing() {
    let alone = |nodes: u32| {
        let site = Site::load(&format!("h100-superpod-{nodes}"), &[]).unwrap();
        let devices: Vec<u32> = (0..8).collect();
        job(&site, workload(2048, 32), &devices).plan().unwrap()
    };
    let ends = [8, 16, 64].map(|nodes| engine::run(&fold(&alone(nodes).world).world).unwrap().step_end);
    assert!(ends[0] == ends[1] && ends[1] == ends[2], "{ends:?}");
}
