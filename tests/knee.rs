//! How much is enough, on one device whose weights lie on a host: the values next to each border are held to steps that
//! are played by themselves.

use serde_json::json;
use stepsim::read::analysis::kind::OpKind;
use stepsim::simulate::{Options, Simulation};
use stepsim::study::{Knee, KneeBorder, KneeCondition, KneeField, Question, StudyAxis, StudyBase, knee};

/// The device and its host, the link at 20 GB/s.
fn base(folder: &std::path::Path, sets: &[&str]) -> StudyBase {
    let machine = json!({
        "device": {
            "name": "device", "peak_dense_TFLOPs": {"bf16": 100, "fp32": 50}, "hbm": {"GB": 4000, "GBps": 1e9},
        },
        "nodes": 1,
        "node": {"devices": 1, "memory": [{
            "name": "host", "capacity_GiB": 4096, "shared_by": 1, "via": "device",
            "link": {"bandwidth_GBps_per_direction": 20},
        }]},
    });
    let workload = json!({
        "topology": folder.join("machine.json"),
        "model": {
            "name": "small", "layers": 64, "hidden": 4096, "heads": 32, "ffn": 16384,
            "vocabulary": 64, "sequence": 128, "gated_mlp": false,
        },
        "batch": {"global": 64, "micro_batch": 64},
        "offload": {"weights": [{"fraction": 1, "tier": "host"}], "prefetch": {"depth": 2}},
        "fidelity": {"compute": "constant", "constant_fraction": 1, "interference": false, "collectives": "formula"},
    });
    let write = |name: &str, value: serde_json::Value| {
        std::fs::write(folder.join(name), value.to_string()).unwrap();
    };
    write("machine.json", machine);
    write("workload.json", workload);
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    StudyBase::load(folder.join("workload.json").to_str().unwrap(), None, &sets).unwrap()
}

fn ask(base: &StudyBase, field: &str, until: &str, across: Option<&str>) -> Vec<Knee> {
    let question = Question {
        field: KneeField::of(field, base).unwrap(),
        until: KneeCondition::parse(until).unwrap(),
        across: across.map(|text| StudyAxis::parse("--across", text).unwrap()),
        precision: 0.005,
        threads: Some(2),
    };
    let report = knee(base, &question, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    for knee in &report.knees {
        let most = if knee.border == KneeBorder::Between { 25 } else { 15 };
        assert!(knee.played.len() <= most, "few steps are played");
        let form = knee.closed_form.zip(knee.value).filter(|_| knee.border != KneeBorder::Between);
        form.into_iter().for_each(|(form, played)| {
            assert!((form / played - 1.0).abs() < 0.02, "{field} until {until}: {form} {played}")
        });
    }
    report.knees
}

const LINK: &str = "topology.node.memory[0].link.bandwidth_GBps_per_direction";
const PEAK: &str = "topology.device.peak_dense_TFLOPs.bf16";
/// A host with an NVMe behind it, which holds the weights.
const NVME: [&str; 2] = [
    r#"topology.node.memory=[{"name":"host","capacity_GiB":4096,"shared_by":1,"via":"device","link":{"bandwidth_GBps_per_direction":20}},{"name":"nvme","capacity_GiB":4096,"shared_by":1,"via":"device","link":{"bandwidth_GBps_per_direction":20},"write_GBps":10}]"#,
    r#"offload.weights=[{"fraction":1,"tier":"nvme"}]"#,
];

/// Seconds of a step in which a value stands at all of these paths, the share of it that waits for copies either way, its
/// MFU, and the seconds that it waits for copies to the device.
fn played(base: &StudyBase, paths: &str, value: f64) -> [f64; 4] {
    let sets: Vec<String> = paths.split(',').map(|path| format!("{path}={value}")).collect();
    let report = Simulation::run(&base.inputs(&sets).unwrap(), &Options::default()).unwrap().report(false);
    let [fetched, written] =
        [OpKind::CopyIn, OpKind::CopyOut].map(|kind| report.communication[&kind].exposed_s);
    [report.step_time_s, (fetched + written) / report.step_time_s, report.mfu, fetched]
}

/// What is said to be enough is, what lies next to it is not, and these two are near each other.
#[test]
fn a_border_lies_between_what_is_enough_and_what_is_not() {
    let folder = tempfile::tempdir().unwrap();
    // Of a rate, the best is that of far more than the range has.
    let best = played(&base(folder.path(), &[]), LINK, 20.0 * 64.0 * 1000.0)[0];
    let deep = [&*format!("{LINK}=8"), "batch.global=512"];
    let of_depth = |depth| played(&base(folder.path(), &deep), "offload.prefetch.depth", depth)[0];
    let (eight, nine) = (of_depth(8.0), of_depth(9.0));
    let depth = format!("step<{}", 0.5 * (eight + nine));
    let reads = "topology.node.memory[1].link.bandwidth_GBps_per_direction";
    let plain = played(&base(folder.path(), &[]), LINK, 20.0)[0];
    let slower = "noise.slow_links[0].slowness=1:64";
    let longer = format!("step<{}", 1.5 * plain);
    let shared = [r#"noise.slow_links=[{"link":"*host*","slowness":1}]"#, "fidelity.collectives=fluid"];
    let both = format!("{reads},topology.node.memory[1].write_GBps=1:640");
    type Enough<'a> = &'a dyn Fn([f64; 4]) -> bool;
    let questions: [(&[&str], &str, &str, KneeBorder, Enough<'_>); 9] = [
        (&[], LINK, "step<1.02x", KneeBorder::AtLeast, &|[s, ..]| s < 1.02 * best),
        (&[], LINK, "stall<1%", KneeBorder::AtLeast, &|[_, stall, ..]| stall < 0.01),
        (&[], LINK, "mfu>0.7", KneeBorder::AtLeast, &|[_, _, mfu, _]| mfu > 0.7),
        (&[], LINK, "communication.h2d.exposed_s < 0.5 and stall<60%", KneeBorder::AtLeast, &|[
            _,
            stall,
            _,
            fetched,
        ]| {
            fetched < 0.5 && stall < 0.6
        }),
        (&[], PEAK, "stall<30%", KneeBorder::AtMost, &|[_, stall, ..]| stall < 0.3),
        (&[], "batch.global=64:4096:+64", "mfu>0.9", KneeBorder::AtLeast, &|[_, _, mfu, _]| mfu > 0.9),
        (&shared, slower, &longer, KneeBorder::AtMost, &|[s, ..]| s < 1.5 * plain),
        (&NVME, &both, "step<9", KneeBorder::AtLeast, &|[s, ..]| s < 9.0),
        (&deep, "offload.prefetch.depth=0:40", &depth, KneeBorder::AtLeast, &|[s, ..]| {
            s < 0.5 * (eight + nine)
        }),
    ];
    for (sets, field, until, border, enough) in questions {
        let base = base(folder.path(), sets);
        let [found] = &ask(&base, field, until, None)[..] else { panic!("one border") };
        assert_eq!(found.border, border, "{field} until {until}");
        assert!(found.at().unwrap().enough);
        let values = [found.value, found.not_enough].map(Option::unwrap);
        let paths = field.split('=').next().unwrap_or_default();
        let holds = values.map(|value| enough(played(&base, paths, value)));
        assert_eq!(holds, [true, false], "{field} until {until}: {values:?}");
        let next = match field.split('=').nth(1) {
            Some("64:4096:+64") => 64.0,
            Some("0:40") => 1.0,
            _ => 0.0051 * values[0].max(values[1]),
        };
        assert!((values[0] - values[1]).abs() <= next, "{field} until {until}: {values:?}");
    }
    // Three quarters of a link that other jobs take leave a link of a quarter.
    let left = played(&base(folder.path(), &shared), "noise.slow_links[0].slowness", 4.0)[0];
    assert!((left / played(&base(folder.path(), &[]), LINK, 5.0)[0] - 1.0).abs() < 1e-3, "{left}");
    // No border: the range ends before it, on either side.
    let base = base(folder.path(), &[]);
    let border = |field: &str| ask(&base, &format!("{LINK}={field}"), "stall<1%", None)[0].border;
    assert_eq!((border("1:20"), border("900:1000")), (KneeBorder::Nowhere, KneeBorder::Everywhere));
}

/// The link for devices of two speeds.
#[test]
fn each_value_of_a_second_field_has_its_border() {
    let folder = tempfile::tempdir().unwrap();
    let knees = ask(&base(folder.path(), &[]), LINK, "step<1.05x", Some(&format!("{PEAK}=50,200")));
    for (knee, tflops) in knees.iter().zip([50, 200]) {
        let alone = ask(&base(folder.path(), &[&format!("{PEAK}={tflops}")]), LINK, "step<1.05x", None);
        assert_eq!((knee.value, knee.not_enough), (alone[0].value, alone[0].not_enough));
        assert_eq!(knee.across, Some(json!(tflops)));
    }
}

/// Buckets of gradients: few are late, many are slow, and the best lies between.
#[test]
fn a_best_value_inside_a_range_is_found() {
    let base = StudyBase::load("gpt2-8", None, &[]).unwrap();
    let [knee] = &ask(&base, "gradient_buckets.bucket_bytes=1e5:1e9", "step<1.001x", None)[..] else {
        panic!("one border")
    };
    let [from, best, to] = [knee.value, knee.best_at, knee.up_to].map(Option::unwrap);
    assert!(
        knee.border == KneeBorder::Between && 1e5 < from && from <= best && best <= to && to < 1e9,
        "{knee:?}"
    );
    let shortest =
        knee.played.iter().filter_map(|play| play.outcome.step_time_s).fold(f64::INFINITY, f64::min);
    assert!(knee.best_s <= shortest * 1.001, "{shortest} and {}", knee.best_s);
}

/// Numbers that no step can have lie on no side of a border: micro-batches that do not divide the batch, batches that the
/// replicas do not.
#[test]
fn values_that_no_step_can_have_are_left_out() {
    let base = StudyBase::load("gpt2-8", None, &[]).unwrap();
    for (field, border) in [("batch.micro_batch=1:8", [1.0, 2.0]), ("batch.global=8:256", [32.0, 64.0])] {
        let found = &ask(&base, field, "mfu>0.5", None)[0];
        assert_eq!([found.not_enough, found.value], border.map(Some), "{field}: {found:?}");
        assert!(
            found.left_out > 0 && found.played.iter().all(|play| play.outcome.message.is_none()),
            "{field}"
        );
    }
}
