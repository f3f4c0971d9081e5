//! The laws of the queue, case by case.

use serde_json::{Value, json};
use stepsim_core::engine::run;
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::kernel_class::KernelClass;
use stepsim_core::program::{OpInfo, Phase, ProgramBuilder, StreamKind, Work, World};
use stepsim_core::units::Time;
use stepsim_plan::launch::*;
use stepsim_spec::stack::{GraphScope, GraphSpec, HostRead, HostSpec, LaunchTimes, LayerHosts, LayerTimes};
use stepsim_spec::workload::RecomputeSpec;

fn us(v: &Value) -> f64 {
    v.as_f64().expect("a number")
}

/// Kernels of one stream with reads between, launched; the ends of device and host in us.
fn play(case: &Value) -> (f64, f64) {
    play_on(case, 1.0, HostRead::GradientNorm, 0.0)
}

/// The same on a host that is slower, with reads of another kind and work of the step.
fn play_on(case: &Value, slowness: f64, read: HostRead, step_us: f64) -> (f64, f64) {
    let mut b = ProgramBuilder::new();
    let compute = b.stream(StreamKind::Compute);
    let class = Some(KernelClass::Gemm);
    let info = b.info(OpInfo { class, ..OpInfo::of("kernel", Phase::Forward, 0.0) });
    let mut reads = Vec::new();
    for run in case["ops"].as_array().expect("runs") {
        for _ in 0..run[0].as_u64().expect("a count") {
            if run[1] == "sync" {
                reads.push(HostWait::at_once(read, OpId(b.len() as u32 - 1)));
            } else {
                b.op(compute, Work::Compute { time: Time::from_us(us(&run[1])) }, &[], info, 0);
            }
        }
    }
    let mut host = HostSpec {
        latency_us: us(&case["l"]),
        queue: case["queue"].as_u64().expect("a depth") as u32,
        blocking: case["blocking"].as_bool().unwrap_or(false),
        synchronise_us: us(&case["s"]),
        step_us,
        slowness,
        ..HostSpec::default()
    };
    host.launch_us.gemm = us(&case["h"]);
    host.launch_us.again = case["again"].as_f64().unwrap_or(host.launch_us.gemm);
    let gap = Time::from_us(us(&case["g"]));
    let setting =
        Setting { gap, slowness: 1.0, groups: vec![1], tensor_us: 0.0, layers: LayerHosts::default() };
    let program = launch(&b.finish(), &host, &setting, &reads);
    let [device, host_stream] = [0, 1].map(|s| program.streams[s].ops.clone());
    // The last launch returns no sooner than there is room for it.
    let full = device.len().checked_sub(host.queue as usize + 1).map(|i| device[i]);
    let mut world = World::default();
    let program = world.add_program(program);
    world.add_rank(program, 0);
    let record = run(&world).expect("runs");
    let span = |op: OpId| record.span(RankId(0), op);
    let host_ends =
        span(*host_stream.last().expect("launches")).1.max(full.map_or(Time::ZERO, |op| span(op).0));
    ((span(*device.last().expect("kernels")).1 - gap).us(), host_ends.us())
}

/// Short kernels, and beside them long ones on a stream of their own: the host waits for each op once at most, and no
/// launch begins before the op that leaves it room has.
#[test]
fn a_host_waits_once_for_what_lies_before() {
    let mut b = ProgramBuilder::new();
    let streams = [StreamKind::Compute, StreamKind::Tensor].map(|kind| b.stream(kind));
    let info = b.info(OpInfo { class: Some(KernelClass::Gemm), ..OpInfo::of("kernel", Phase::Forward, 0.0) });
    for i in 0..90 {
        let (stream, us) = if i % 3 == 2 { (streams[1], 400.0) } else { (streams[0], 60.0) };
        b.op(stream, Work::Compute { time: Time::from_us(us) }, &[], info, i);
    }
    let host = HostSpec { queue: 4, ..HostSpec::default() };
    let layers = LayerHosts::default();
    let setting = Setting { gap: Time::ZERO, slowness: 1.0, groups: vec![1], tensor_us: 0.0, layers };
    let program = launch(&b.finish(), &host, &setting, &[]);
    let waits_of = |op: OpId| &program.waits[program.ops[op.index()].waits.range()];
    let mut last = [None; 2];
    for wait in program.streams[2].ops.iter().flat_map(|op| waits_of(*op)) {
        let before = last[usize::from(program.ops[wait.index()].stream)].replace(*wait);
        assert!(before < Some(*wait), "{wait:?} behind {before:?}");
    }
    let (mut world, of) = (World::default(), program.clone());
    let of = world.add_program(of);
    world.add_rank(of, 0);
    let record = run(&world).expect("runs");
    let begin = |op: OpId| record.span(RankId(0), op).0;
    for queue in streams.iter().flat_map(|s| program.streams[usize::from(*s)].ops.windows(6)) {
        let launch = waits_of(queue[5])[0];
        assert!(begin(launch) >= begin(queue[0]), "{launch:?} before {:?}", queue[0]);
    }
    let held = program.streams[2].ops.windows(2).any(|w| begin(w[1]) > record.span(RankId(0), w[0]).1);
    assert!(held, "a full queue holds the host");
}

/// A layer with experts holds the host once before its first kernel and once before its first product of experts, in
/// every pass, also where passes of two micro-batches take turns; a graph of the layer holds the first and, where
/// counts are read, not the second.
#[test]
fn experts_hold_the_host_once_a_pass() {
    let total = |scope: GraphScope, reads: Vec<HostRead>| -> f64 {
        let mut b = ProgramBuilder::new();
        let compute = b.stream(StreamKind::Compute);
        let mut info = |phase, layer, class| {
            let (name, layer, class) = ("kernel".into(), Some(layer), Some(class));
            b.info(OpInfo { name, phase, layer, class, flops: 0.0, bytes: 0.0 })
        };
        let (norm, experts) = (KernelClass::Norm, KernelClass::GroupedGemm);
        let forward = [info(Phase::Forward, 1, norm), info(Phase::Forward, 1, experts)];
        let backward = [info(Phase::Backward, 1, norm), info(Phase::Backward, 1, experts)];
        let dense = info(Phase::Forward, 0, norm);
        // Forward of micro-batch 1 and backward of micro-batch 0, kernel by kernel.
        let order = [
            (dense, 1),
            (forward[0], 1),
            (backward[0], 0),
            (forward[1], 1),
            (backward[1], 0),
            (forward[1], 1),
        ];
        for (info, micro_batch) in order {
            b.op(compute, Work::Compute { time: Time::from_us(1.0) }, &[], info, micro_batch);
        }
        let mut host = HostSpec { reads, ..HostSpec::default() };
        host.launch_us =
            LaunchTimes { gemm: 0.0, elementwise: 0.0, group: 0.0, again: 1e6, ..host.launch_us };
        host.router_us = LayerTimes { forward: 100.0, backward: 200.0 };
        host.expert_us = LayerTimes { forward: 10.0, backward: 20.0 };
        host.graphs = GraphSpec { scope, launch_us: 0.0, kernel_gap_us: 0.0 };
        let layers = host.layers(&RecomputeSpec::default());
        let setting = Setting { gap: Time::ZERO, slowness: 1.0, groups: vec![8], tensor_us: 0.0, layers };
        let program = launch(&b.finish(), &host, &setting, &[]);
        let held = |op: &OpId| match program.ops[op.index()].work {
            Work::Compute { time } => time.us(),
            _ => 0.0,
        };
        program.streams.iter().filter(|s| s.kind == StreamKind::Host).flat_map(|s| &s.ops).map(held).sum()
    };
    assert_eq!(total(GraphScope::None, Vec::new()), 330.0);
    assert_eq!(total(GraphScope::Layer, vec![HostRead::ExpertCounts]), 30.0);
    assert_eq!(total(GraphScope::Layer, Vec::new()), 0.0);
}

/// A host half as fast takes twice as long for launches and reads; a read of the loss is followed by the work of the
/// step.
#[test]
fn slow_hosts_and_the_loss_take_longer() {
    let case = |launch: f64, read: f64| {
        serde_json::json!({
            "case": "one read", "ops": [[3, 1.0], [1, "sync"], [1, 1.0]],
            "l": 2.0, "queue": 1024, "s": read, "h": launch, "g": 0.0,
        })
    };
    assert_eq!(play_on(&case(4.0, 5.0), 2.0, HostRead::GradientNorm, 0.0), play(&case(8.0, 10.0)));
    // The work of the step comes first, or behind the loss where that is read.
    for read in [HostRead::GradientNorm, HostRead::Loss] {
        let (device, host) = play_on(&case(4.0, 5.0), 1.0, read, 3.0);
        let without = play(&case(4.0, 5.0));
        assert!(
            (device - without.0 - 3.0).abs() < 1e-6 && (host - without.1 - 3.0).abs() < 1e-6,
            "{read:?}: {host}"
        );
    }
}

#[test]
fn the_golden_cases_hold() {
    let file: Value = serde_json::from_str(include_str!("../../../tests/data/host.json")).expect("JSON");
    let cases = file["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 15);
    for case in cases {
        let (device, host) = play(case);
        let close = |a: f64, b: &Value| (a - us(b)).abs() < 1e-6;
        assert!(close(device, &case["device_ends"]), "{}: the device ends at {device}", case["case"]);
        assert!(close(host, &case["host_ends"]), "{}: the host ends at {host}", case["case"]);
    }
}

#[test]
fn the_same_operation_again_costs_the_driver_s_call() {
    let mut case =
        serde_json::json!({"case": "pieces", "h": 50, "l": 2, "g": 1, "queue": 9, "s": 5, "ops": [[4, 3]]});
    let (_, slow) = play(&case);
    case["again"] = 4.into();
    let (_, fast) = play(&case);
    assert!((slow - 200.0).abs() < 1e-6 && (fast - 62.0).abs() < 1e-6, "{slow} {fast}");
}

/// Ten kernels of 20 us: a host that blocks launches each behind the end of the one before.
#[test]
fn a_host_that_blocks_leaves_the_device_idle_at_every_launch() {
    let end = |blocking: bool| {
        let case = json!({
            "case": "blocking", "ops": [[10, 20.0]], "h": 5.0, "l": 2.0, "s": 0.0, "g": 0.0, "queue": 1041,
            "blocking": blocking
        });
        play(&case).0
    };
    assert_eq!((end(false), end(true)), (5.0 + 2.0 + 200.0, 10.0 * (5.0 + 2.0 + 20.0)));
}
