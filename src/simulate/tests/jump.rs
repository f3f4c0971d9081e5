//! Jumped steps against the same steps played whole.

use stepsim_core::ids::RankId;
use stepsim_core::kernel_class::KernelClass;
use stepsim_core::program::{Edit, StreamKind};
use stepsim_plan::step::order;
use stepsim_read::analysis::report::{Extent, Report};
use stepsim_schedule::sharding;
use stepsim_simulate::jump::{Figures, TurnJump, figures, figures_among, figures_edited, report};
use stepsim_simulate::{Inputs, Options, Simulation, SimulationError, StepCache};

/// The turns that are left out of a step.
fn jumped(inputs: &Inputs, options: &Options) -> Option<TurnJump> {
    figures(inputs, options, true).ok()?.jumped
}

/// True if the report of a step, as far as it is shown, is made by jumping; asserts that it then equals the report
/// without jumping but for the lines about the playing.
fn reports(what: &str, inputs: &Inputs, run: &Simulation, extent: Extent) -> bool {
    let Some(mut by_jumping) = report(inputs, &Options::default(), extent, false) else { return false };
    let whole = run.read(extent, false);
    assert!(by_jumping.jumped.take().is_some_and(|jumped| jumped.micro_batches > 0), "{what}");
    by_jumping.events = whole.events;
    // In parts, because whole reports are long.
    let parts = |report: &Report| match serde_json::to_value(report) {
        Ok(serde_json::Value::Object(parts)) => parts,
        other => panic!("{what}: {other:?}"),
    };
    for (name, part) in parts(&whole) {
        assert_eq!(parts(&by_jumping)[&name], part, "{what}: {name}");
    }
    assert_eq!(by_jumping, whole, "{what}");
    true
}

/// True for the figures of a step, one screen of its report, and all of it, if they are found by jumping; asserts that
/// they then equal the figures without, to the picosecond.
fn jumps(what: &str, inputs: &Inputs) -> [bool; 3] {
    let options = Options::default();
    let Some(by_jumping) = figures(inputs, &options, true).ok().filter(|figures| figures.jumped.is_some())
    else {
        return [false; 3];
    };
    let whole = Options { jump: false, ..options };
    let run = Simulation::run(inputs, &whole).unwrap_or_else(|e| panic!("{what}: jumped, and {e}"));
    let (step_end, peak) = (run.record.step_end, run.memory_peak_bytes());
    let unrecorded = figures(inputs, &whole, false).expect("figures");
    for (figures, how) in [(&unrecorded, "unrecorded"), (&by_jumping, "jumped")] {
        assert_eq!((figures.step_end, figures.memory_peak_bytes), (step_end, peak), "{what}: {how}");
    }
    assert_eq!(by_jumping.exposed, run.exposed(), "{what}");
    let speed = run.speed();
    assert_eq!((by_jumping.mfu, by_jumping.tokens_per_s), (speed.mfu, speed.tokens_per_s), "{what}: speed");
    [true, reports(what, inputs, &run, Extent::Screen), reports(what, inputs, &run, Extent::Whole)]
}

/// Draws from a fixed sequence (xorshift64, Marsaglia 2003).
struct Draws(u64);

impl Draws {
    fn of<'a>(&mut self, values: &[&'a str]) -> &'a str {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        values[(self.0 % values.len() as u64) as usize]
    }
}

fn drawn(draws: &mut Draws) -> Vec<String> {
    let [tensor, stages, count, size] = [
        draws.of(&["1", "2", "4"]),
        draws.of(&["1", "2", "4", "4"]),
        draws.of(&["24", "40", "48", "64"]),
        draws.of(&["1", "1", "2"]),
    ];
    let number = |text: &str| text.parse::<u32>().expect("a number");
    let global = number(count) * number(size) * 64 / number(tensor) / number(stages);
    let kinds = [
        "1f1b",
        "1f1b",
        "eager-1f1b",
        "zb-h1",
        "zb-h2",
        "gpipe",
        "interleaved-1f1b chunks=2",
        "interleaved-1f1b chunks=3",
        "interleaved-torch chunks=2",
        "looped-bfs chunks=2",
        "zb-v",
        "dualpipe",
        "dualpipe-v",
    ];
    let kind = draws.of(&kinds).replace(" chunks", " parallelism.pipeline.chunks");
    let sets = [
        ("parallelism.tensor", tensor),
        ("parallelism.pipeline.size", stages),
        ("batch.global", &global.to_string()),
        ("batch.micro_batch", size),
        ("parallelism.pipeline.p2p", draws.of(&["async", "async", "blocking", "batched"])),
        (
            "parallelism.sharding.kind",
            draws.of(&sharding::ALL.iter().map(|kind| kind.name).collect::<Vec<_>>()),
        ),
        ("parallelism.sequence_parallel", if tensor == "1" { "false" } else { draws.of(&["false", "true"]) }),
        (
            "parallelism.tensor_overlap",
            if tensor == "1" { "none" } else { draws.of(&["none", "none", "ring"]) },
        ),
        ("recompute.granularity", draws.of(&["none", "full", "selective"])),
        ("fidelity.collectives", draws.of(&["fluid", "fluid", "formula", "steps"])),
        ("fidelity.interference", draws.of(&["true", "false"])),
    ];
    let of_schedule = format!("parallelism.pipeline.schedule={kind}");
    let mut sets: Vec<String> = sets.iter().map(|(path, value)| format!("{path}={value}")).collect();
    sets.extend(of_schedule.split(' ').map(String::from));
    for state in ["activations", "weights", "gradients", "optimizer"] {
        if draws.of(&["", "", "", "y"]) == "y" {
            sets.push(format!(r#"offload.{state}=[{{"fraction": 0.5, "tier": "host"}}]"#));
        }
    }
    if draws.of(&["", "", "y"]) == "y" {
        sets.push(format!("stack={}", draws.of(&["fsdp2-eager", "megatron-te-2024", "fsdp2-compiled"])));
    }
    if draws.of(&["", "", "y"]) == "y" {
        sets.push(r#"noise.stragglers=[{"pipeline_rank": 0, "slowness": 1.3}]"#.into());
    }
    sets
}

/// Steps of a small model under all schedules, shardings, overlaps and offloads; `STEPSIM_JUMP_CASES` takes more of
/// them.
#[test]
fn random_steps_jump_exactly() {
    let cases: u32 = std::env::var("STEPSIM_JUMP_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    let (mut draws, mut ran, mut jumped) = (Draws(88_172_645_463_325_252), 0, [0; 3]);
    for _ in 0..cases {
        let sets = drawn(&mut draws);
        let Ok(inputs) = Inputs::load("../../tests/data/jump.json", None, &sets) else { continue };
        ran += 1;
        jumped.iter_mut().zip(jumps(&sets.join(" "), &inputs)).for_each(|(all, is)| *all += u32::from(is));
    }
    let [figures, screens, reports] = jumped;
    println!(
        "{cases} drawn, {ran} can be planned, {figures} jumped, {screens} with a screen, {reports} with reports"
    );
    assert!(figures > cases / 8 && 4 * screens > 3 * figures, "{jumped:?} of {ran} jumped");
}

/// Changes between points of a study: prices of devices, links and hosts, noise, memory, and the ops that are written.
const VARIED: [&str; 12] = [
    "topology.device.cost.matrix_fraction=0.5",
    "topology.device.cost.matrix_fraction=0.8",
    "topology.device.cost.memory_fraction=0.4",
    "topology.device.cost.kernel_gap_us=3",
    "topology.device.cost.host_slowness=1.5",
    "topology.device.peak_dense_tflops.bf16=300",
    "topology.node.nics.link.bandwidth_GBps_per_direction=5",
    "topology.node.nics.link.latency_us=20",
    r#"noise.stragglers=[{"pipeline_rank": 0, "slowness": 1.3}]"#,
    "noise.compute_sigma=0.02",
    "topology.device.hbm.GB=20",
    "gradient_buckets.bucket_bytes=1000000",
];

/// Steps of a study are what each is alone, to the last digit.
#[test]
fn steps_of_a_study_are_what_each_is_alone() {
    let cases: u32 = std::env::var("STEPSIM_JUMP_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let mut draws = Draws(2_463_534_242);
    let mut ran = 0;
    for _ in 0..cases {
        let (base, common) = (drawn(&mut draws), StepCache::default());
        let mut sets = base.clone();
        for _ in 0..6 {
            let Ok(inputs) = Inputs::load("../../tests/data/jump.json", None, &sets) else { continue };
            let what = sets.join(" ");
            let among = figures_among(&common, &inputs, &Options::default(), true);
            let alone = figures(&inputs, &Options::default(), true);
            let (Ok(among), Ok(alone)) = (&among, &alone) else {
                let text = |figures: &Result<Figures, SimulationError>| {
                    figures.as_ref().err().map(|e| e.to_string())
                };
                assert_eq!(text(&among), text(&alone), "{what}");
                continue;
            };
            ran += 1;
            assert_eq!(
                Figures { jumped: None, ..among.clone() },
                Figures { jumped: None, ..alone.clone() },
                "{what}"
            );
            // One more change, mostly of prices.
            sets = base.clone();
            sets.extend([draws.of(&VARIED[..9]), draws.of(&VARIED)].map(String::from));
        }
    }
    assert!(ran > cases / 2, "{ran} steps of {cases} studies");
}

/// The same step once more leaves out the turns that it had to spare, and comes to the same.
#[test]
fn a_step_without_the_turns_it_can_spare_comes_to_rest_as_well() {
    let sets = ["parallelism.tensor=1", "parallelism.pipeline.size=8", "batch.global=1280"];
    let inputs = Inputs::load("../../tests/data/jump.json", None, &sets.map(String::from)).expect("inputs");
    let common = StepCache::default();
    let [first, second] =
        [(); 2].map(|()| figures_among(&common, &inputs, &Options::default(), true).expect("figures"));
    let left_out = |figures: &Figures| figures.jumped.expect("a jump").micro_batches;
    assert!(left_out(&first) < left_out(&second), "{:?} {:?}", first.jumped, second.jumped);
    assert_eq!(Figures { jumped: None, ..first }, Figures { jumped: None, ..second });
}

/// The shortest step is one that fills its pipeline once more than the shortest order of its schedule.
#[test]
fn short_steps_are_as_short_as_their_schedule_allows() {
    let sets = ["parallelism.pipeline.size=4", "parallelism.pipeline.schedule=1f1b", "batch.global=640"];
    let inputs = Inputs::load("../../tests/data/jump.json", None, &sets.map(String::from)).expect("inputs");
    let TurnJump { of, micro_batches, .. } = jumped(&inputs, &Options::default()).expect("a jump");
    assert_eq!(of - micro_batches, 8, "of {of}");
}

/// The order of a whole step is the short step's with turns put in.
#[test]
fn orders_that_do_not_go_on_by_turns_are_found_out() {
    let order_of = |kind: &str, micro_batches: u32| {
        let sets = [format!("parallelism.pipeline.schedule={kind}"), "parallelism.pipeline.size=4".into()];
        let inputs = Inputs::load("../../tests/data/jump.json", None, &sets).expect("inputs");
        order(&inputs.workload.value, micro_batches).expect("an order")
    };
    let (short, whole) = (order_of("1f1b", 16), order_of("1f1b", 40));
    assert!(short.goes_on_by_turns(&whole, 24, 1));
    assert!(!short.goes_on_by_turns(&whole, 23, 1) && !short.goes_on_by_turns(&whole, 24, 2));
    assert!(!order_of("gpipe", 16).goes_on_by_turns(&order_of("gpipe", 40), 24, 1));
}

/// Jitter and documents are played whole.
#[test]
fn what_is_drawn_is_not_jumped() {
    let load = |sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|s| (*s).to_string()).collect();
        Inputs::load("../../tests/data/jump.json", None, &sets).expect("inputs")
    };
    let options = Options::default();
    assert!(jumped(&load(&[]), &options).is_some());
    assert!(jumped(&load(&["noise.compute_sigma=0.02"]), &options).is_none());
    assert!(jumped(&load(&["documents={\"lengths\":[512]}"]), &options).is_none());
    assert!(jumped(&load(&[]), &Options { jump: false, ..options }).is_none());
}

/// Steps with changes to their worlds, as what-ifs and comparisons make them: each edit by itself.
#[test]
fn edited_steps_jump_exactly() {
    let inputs = Inputs::load("../../tests/data/jump.json", None, &[]).expect("inputs");
    let options = Options::default();
    let edits = [
        Edit::Free(vec![StreamKind::Tensor, StreamKind::Data]),
        Edit::EndlessMemory,
        Edit::SlowRank(RankId(0), 1.5),
        Edit::Kernels(vec![KernelClass::Gemm], 2.0),
        Edit::Latency(0.5),
        Edit::NoPipeline,
        Edit::Undisturbed,
    ];
    let (mut ends, mut jumped) = (std::collections::BTreeSet::new(), 0);
    for edit in edits {
        let edits = [edit];
        let by_jumping = figures_edited(&inputs, &options, &edits, true).expect("figures");
        let played =
            figures_edited(&inputs, &Options { jump: false, ..options }, &edits, true).expect("figures");
        assert!(played.jumped.is_none());
        // A slow rank has replicas beside it that go at a pace of their own.
        jumped += u32::from(by_jumping.jumped.is_some());
        assert_eq!(Figures { jumped: None, ..by_jumping }, played, "{edits:?}");
        ends.insert(played.step_end);
    }
    assert!(ends.len() >= 5 && jumped >= 4, "{ends:?}, {jumped} jumped");
}
