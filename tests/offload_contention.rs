//! Copies that are hidden alone, and are not beside other devices on the same link.

use stepsim::form::compare::workload::closed_form;
use stepsim::read::analysis::kind::OpKind;
use stepsim::read::analysis::stalls::StallCause;
use stepsim::simulate::{Inputs, Options, Simulation};

const HOST_LINK: &str = r#"{"model": "llama3-8b", "topology": "h100-superpod-8", "batch": {"global": 32, "micro_batch": 1},
 "parallelism": {"data": 8, "sharding": {"kind": "zero2"}},
 "offload": {"activations": [{"fraction": 0.25, "tier": "host"}, {"fraction": 0.75, "tier": "hbm"}],
             "prefetch": {"depth": 2, "unit": "layers"}}}"#;

/// Seconds of exposed offload by the closed form, of the simulated step, and that copies off a device run for.
fn seconds(workload: &str, sets: &[&str]) -> [f64; 3] {
    let sets: Vec<String> = sets.iter().map(|s| s.to_string()).collect();
    let inputs = Inputs::load(workload, None, &sets).expect("inputs");
    let hidden = closed_form(&inputs).expect("a closed form").terms.offload;
    let run = Simulation::run(&inputs, &Options::default()).expect("a run");
    let report = run.report(false);
    let out = &report.communication[&OpKind::CopyOut];
    [hidden, report.step_time_s, out.op_seconds]
}

/// As many devices as share a link, as many times longer take their copies; the closed form says so too.
fn shared(workload: &str, alone: &[&str], together: &[&str], devices: f64) {
    let [hidden_alone, step_alone, out_alone] = seconds(workload, alone);
    let [hidden_together, step_together, out_together] = seconds(workload, together);
    assert!(hidden_alone < 0.01 * step_alone, "{hidden_alone} of {step_alone} s");
    let exposed = (hidden_together - hidden_alone) / (step_together - step_alone);
    assert!((0.5..1.5).contains(&exposed), "{exposed} of what the step is longer");
    assert!(step_together > 1.05 * step_alone, "{step_alone} s alone, {step_together} s together");
    let longer = out_together / out_alone;
    assert!((longer / devices - 1.0).abs() < 0.001, "copies take {longer} times as long");
}

#[test]
fn two_devices_on_one_host_link() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("host-link.json");
    std::fs::write(&file, HOST_LINK).expect("a file");
    shared(file.to_str().expect("UTF-8"), &[], &["topology.node.host.link_shared_by=2"], 2.0);
}

#[test]
fn eight_devices_on_one_pool_port() {
    let own = ["topology.node.memory[1].shared_by=1", "topology.node.memory[1].port=null"];
    shared("cxl-pool-8", &own, &[], 8.0);
}

/// GH200: copies to the device cross C2C at 414 GB/s, and away from it at 170, all four modules at once.
#[test]
fn a_superchip_copies_over_its_own_link() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("gh200.json");
    std::fs::write(
        &file,
        HOST_LINK.replace("h100-superpod-8", "4xgh200").replace(r#""data": 8"#, r#""data": 4"#),
    )
    .expect("a file");
    let inputs = Inputs::load(file.to_str().expect("UTF-8"), None, &[]).expect("inputs");
    let report = Simulation::run(&inputs, &Options::default()).expect("a run").report(false);
    for (kind, gbps) in [(OpKind::CopyIn, 414.0), (OpKind::CopyOut, 170.0)] {
        let copies = &report.communication[&kind];
        let found = copies.bytes / copies.op_seconds / 1e9;
        assert!((found / gbps - 1.0).abs() < 0.02, "{found} GB/s, {gbps} by its file");
    }
}

/// An NVMe whose reads and writes share one limit: what fetches wait for is the write-back beside them, by name.
#[test]
fn a_write_back_that_holds_back_fetches_is_named() {
    let seconds = |settings: &[&str]| {
        let away = r#"[{"fraction":1,"tier":"nvme","via":["host"]}]"#;
        let mut sets: Vec<String> =
            ["weights", "gradients", "optimizer"].map(|c| format!("offload.{c}={away}")).into();
        sets.push("offload.optimizer_on=device".into());
        sets.extend(settings.iter().map(|s| s.to_string()));
        let inputs = Inputs::load("llama3-70b-offload", None, &sets).expect("inputs");
        let report = Simulation::run(&inputs, &Options::default()).expect("a run").report(false);
        report.mean.stalls_s.get(&StallCause::WriteBackBeside).copied().unwrap_or(0.0)
    };
    assert_eq!(seconds(&[]), 0.0, "reads and writes have a limit each");
    let held = seconds(&["topology.node.memory[1].link.combined_GBps=45"]);
    assert!(held > 5.0, "{held}");
}
