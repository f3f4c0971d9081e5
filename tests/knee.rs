//! How much is enough, held to a hand model: one device whose weights lie on a host, a chain of copies and kernels.
//!
//! ```text
//! a layer:   forward f = (24 h² + 2 s h) · tokens / peak     backward 2f and half a product of attention more     copy c = 24 h² / B
//! a visit:   its copy starts when the visit `depth + 1` before it is over, its kernels when the copy and the visit before are;
//!            the embedding and the head are visits of no length
//! a step:    the visits of all micro-batches, then all weights back to the host: W / B
//! ```

use serde_json::json;
use stepsim::study::{Knee, KneeBorder, KneeCondition, KneeField, Question, StudyAxis, StudyBase, knee};

const LAYERS: usize = 64;
const HIDDEN: f64 = 4096.0;
const SEQUENCE: f64 = 128.0;
const DEPTH: usize = 2;

/// What the hand model is asked about.
#[derive(Clone, Copy)]
struct Hand {
    /// Bytes a second of the link.
    link: f64,
    /// FLOP/s.
    peak: f64,
    /// Micro-batches of 64 sequences.
    micro_batches: usize,
    /// Layers that are brought in ahead.
    depth: usize,
}

impl Hand {
    /// Seconds of kernels, of waiting for copies to the device, of writing weights back.
    fn step(self) -> (f64, f64, f64) {
        let tokens = 64.0 * SEQUENCE;
        let products = 24.0 * HIDDEN * HIDDEN * tokens / self.peak;
        let attention = 2.0 * SEQUENCE * HIDDEN * tokens / self.peak;
        let copy = 24.0 * HIDDEN * HIDDEN / self.link;
        let forward = [(products + attention, copy); LAYERS];
        let backward = [(2.0 * products + 2.5 * attention, copy); LAYERS];
        // The embedding, and the head twice, take no time here; they are visits like any other.
        let ends = [&[(0.0, 0.0)][..], &forward, &[(0.0, 0.0); 2], &backward, &[(0.0, 0.0)]];
        let micro_batch = ends.concat();
        let (mut copied, mut done, mut kernels) = (vec![], vec![0.0; self.depth + 1], 0.0);
        for _ in 0..self.micro_batches {
            for (length, copy) in &micro_batch {
                let visit = copied.len();
                let begun: f64 = copied.last().copied().unwrap_or(0.0);
                copied.push(begun.max(done[visit]) + copy);
                done.push(copied[visit].max(done[visit + self.depth]) + length);
                kernels += length;
            }
        }
        let end = done.last().copied().unwrap_or(0.0);
        (kernels, end - kernels, LAYERS as f64 * 24.0 * HIDDEN * HIDDEN / self.link)
    }
    fn seconds(self) -> f64 {
        let (kernels, waits, back) = self.step();
        kernels + waits + back
    }
    fn stall(self) -> f64 {
        let (_, waits, back) = self.step();
        (waits + back) / self.seconds()
    }
    /// Model FLOPs over what the device could do: a backward pass of attention counts twice the forward one.
    fn mfu(self) -> f64 {
        let tokens = 64.0 * SEQUENCE * self.micro_batches as f64;
        let layer = (24.0 * HIDDEN * HIDDEN + 2.0 * SEQUENCE * HIDDEN) * tokens / self.peak;
        3.0 * LAYERS as f64 * layer / self.seconds()
    }
}

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
            "name": "small", "layers": LAYERS, "hidden": HIDDEN as u64, "heads": 32, "ffn": 4 * HIDDEN as u64,
            "vocabulary": 64, "sequence": SEQUENCE as u64, "gated_mlp": false,
        },
        "batch": {"global": 64, "micro_batch": 64},
        "offload": {"weights": [{"fraction": 1, "tier": "host"}], "prefetch": {"depth": DEPTH}},
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
        form.into_iter()
            .for_each(|(form, played)| near(form, played, &format!("{field} until {until}, by the form")));
    }
    report.knees
}

const LINK: &str = "topology.node.memory[0].link.bandwidth_GBps_per_direction";
const AS_IT_IS: Hand = Hand { link: 20e9, peak: 100e12, micro_batches: 1, depth: DEPTH };

/// The least value of a range that is enough by the hand model, to a thousandth.
fn by_hand(from: f64, to: f64, enough: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (from, to);
    while high / low > 1.001 {
        let middle = (low * high).sqrt();
        if enough(middle) { high = middle } else { low = middle }
    }
    high
}

fn near(found: f64, hand: f64, what: &str) {
    assert!((found / hand - 1.0).abs() < 0.02, "{what}: {found} and by hand {hand}");
}

/// Which bandwidth of the link is enough, by the step, the stall, MFU and a field of the report.
#[test]
fn the_bandwidth_that_is_enough_is_that_of_the_hand_model() {
    let folder = tempfile::tempdir().unwrap();
    let base = base(folder.path(), &[]);
    let at = |gbps: f64| Hand { link: gbps * 1e9, ..AS_IT_IS };
    let best = at(20.0 * 64.0 * 1000.0).seconds();
    let questions: [(&str, &dyn Fn(Hand) -> bool); 5] = [
        ("step<1.02x", &|hand| hand.seconds() < 1.02 * best),
        ("step < 9", &|hand| hand.seconds() < 9.0),
        ("stall<1%", &|hand| hand.stall() < 0.01),
        ("mfu>0.7", &|hand| hand.mfu() > 0.7),
        ("communication.h2d.exposed_s < 0.5 and stall<60%", &|hand| {
            hand.step().1 < 0.5 && hand.stall() < 0.6
        }),
    ];
    for (until, enough) in questions {
        let [found] = &ask(&base, LINK, until, None)[..] else { panic!("one border") };
        assert_eq!(found.border, KneeBorder::AtLeast, "{until}");
        near(found.value.unwrap(), by_hand(0.3, 1280.0, |gbps| enough(at(gbps))), until);
        assert!(found.not_enough.unwrap() < found.value.unwrap());
        assert!(found.at().unwrap().enough);
    }
    // No border: the range ends before it, on either side.
    let border = |field: &str| ask(&base, &format!("{LINK}={field}"), "stall<1%", None)[0].border;
    assert_eq!((border("1:20"), border("900:1000")), (KneeBorder::Nowhere, KneeBorder::Everywhere));
}

/// The link for devices of two speeds.
#[test]
fn each_value_of_a_second_field_has_its_border() {
    let folder = tempfile::tempdir().unwrap();
    let base = base(folder.path(), &[]);
    let peak = "topology.device.peak_dense_TFLOPs.bf16";
    let knees = ask(&base, LINK, "step<1.05x", Some(&format!("{peak}=50,200")));
    for (knee, tflops) in knees.iter().zip([50.0, 200.0]) {
        let at = |gbps: f64| Hand { link: gbps * 1e9, peak: tflops * 1e12, ..AS_IT_IS };
        let best = at(1280.0 * 1000.0).seconds();
        near(
            knee.value.unwrap(),
            by_hand(0.3, 1280.0, |gbps| at(gbps).seconds() < 1.05 * best),
            "two devices",
        );
        assert_eq!(knee.across, Some(json!(tflops as u64)));
    }
}

/// A host with an NVMe behind it, and devices beside it: `sets` are changes of machine and workload.
fn asked(sets: &[&str], field: &str, until: &str) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let base = base(folder.path(), sets);
    let [found] = &ask(&base, field, until, None)[..] else { panic!("one border") };
    found.value.unwrap_or_else(|| panic!("{field} until {until}: {:?}", found.border))
}

const NVME: &str = r#"topology.node.memory=[{"name":"host","capacity_GiB":4096,"shared_by":1,"via":"device","link":{"bandwidth_GBps_per_direction":20}},{"name":"nvme","capacity_GiB":4096,"shared_by":1,"via":"device","link":{"bandwidth_GBps_per_direction":20},"write_GBps":10}]"#;
const AWAY: &str = r#"offload.weights=[{"fraction":1,"tier":"nvme"}]"#;

/// Eight questions of a study, each one `knee`, each equal to the hand model within 2 %.
#[test]
fn eight_questions_have_the_answers_of_the_hand_model() {
    let at = |gbps: f64| Hand { link: gbps * 1e9, ..AS_IT_IS };
    let best = at(20.0 * 64.0 * 1000.0).seconds();
    // 1. How fast must the link be that weights stream through? 2. How fast so that nobody waits?
    near(asked(&[], LINK, "step<1.1x"), by_hand(0.3, 1280.0, |g| at(g).seconds() < 1.1 * best), "link");
    near(asked(&[], LINK, "stall<5%"), by_hand(0.3, 1280.0, |g| at(g).stall() < 0.05), "no wait");
    // 3. How fast may the device become beside it?
    let peak = "topology.device.peak_dense_TFLOPs.bf16";
    let slowest = by_hand(1.0 / 6400.0, 1.0, |slow| Hand { peak: 1e12 / slow, ..AS_IT_IS }.stall() < 0.3);
    near(asked(&[], peak, "stall<30%"), 1.0 / slowest, "device");
    // 4. How many sequences a step hide the way back?
    let least = (1..64).find(|n| Hand { micro_batches: *n, ..AS_IT_IS }.mfu() > 0.9).unwrap();
    near(asked(&[], "batch.global=64:4096:+64", "mfu>0.9"), 64.0 * least as f64, "batch");
    // 5. What must an NVMe write, that reads at 20 GB/s? Only the way back is written.
    let (kernels, waits, back) = AS_IT_IS.step();
    let written = |gbps: f64| kernels + waits + back * 20.0 / gbps;
    let writes = "topology.node.memory[1].write_GBps=1:640";
    near(
        asked(&[NVME, AWAY], writes, "step<9"),
        by_hand(1.0, 640.0, |gbps| written(gbps) < 9.0),
        "writes of an NVMe",
    );
    // 6. What must it read, that writes at 10 GB/s?
    let reads = "topology.node.memory[1].link.bandwidth_GBps_per_direction=1:640";
    let read = |gbps: f64| at(gbps).step().0 + at(gbps).step().1 + back * 2.0;
    near(asked(&[NVME, AWAY], reads, "step<9"), by_hand(1.0, 640.0, |gbps| read(gbps) < 9.0), "its reads");
    // Both at once are a link that is as fast either way.
    let both =
        "topology.node.memory[1].link.bandwidth_GBps_per_direction,topology.node.memory[1].write_GBps=1:640";
    near(asked(&[NVME, AWAY], both, "step<9"), by_hand(1.0, 640.0, |gbps| at(gbps).seconds() < 9.0), "both");
    // Beside an update that takes its time, weights go back; the form says as much (`ask`).
    assert!(asked(&["topology.device.hbm.GBps=2000"], LINK, "step<1.02x") > 0.0);
    // 7. How much of a link may other jobs take?
    let slow = r#"noise.slow_links=[{"link":"*host*","slowness":1}]"#;
    let slowness = by_hand(1.0 / 64.0, 1.0, |share| at(20.0 * share).seconds() < 1.5 * AS_IT_IS.seconds());
    let field = "noise.slow_links[0].slowness=1:64";
    let step = format!("step<{}", 1.5 * AS_IT_IS.seconds());
    near(asked(&[slow, "fidelity.collectives=fluid"], field, &step), 1.0 / slowness, "other jobs");
    // 8. How deep must the prefetch be? Where forward passes are shorter than copies and backward ones longer, eight
    // micro-batches carry what was brought ahead from one to the next.
    let deep = |depth: f64| Hand { link: 8e9, micro_batches: 8, depth: depth as usize, ..AS_IT_IS }.seconds();
    let until = 0.5 * (deep(8.0) + deep(9.0));
    let sets = [&*format!("{LINK}=8"), "batch.global=512"];
    assert_eq!(asked(&sets, "offload.prefetch.depth=0:40", &format!("step<{until}")), 9.0, "{until}");
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
