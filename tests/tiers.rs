//! Laws of what lives where: FSDP, offload, prefetch, recomputation and the ledger, on small models.
//!
//! A layer's kernels take no time but one: attention, f forward and b backward. Times of collectives and copies are
//! read from the record (their laws are tested in `collective` and `engine`); what is tested here is who waits for
//! whom, to the picosecond, and how many bytes go where.

use proptest::prelude::*;
use serde_json::json;

use stepsim::core::engine::{self, Record};
use stepsim::core::ids::{DeviceId, OpId, RankId};
use stepsim::core::program::{Phase, Work};
use stepsim::core::units::Time;
use stepsim::fabric::topology::Machine;
use stepsim::plan::step::{Plan, Prices, plan};
use stepsim::price::model::{Direction, Kernel, KernelShape, ParameterCount};
use stepsim::read::analysis::stalls::StallCause;
use stepsim::simulate::{Inputs, Options, Simulation, SimulationError};
use stepsim::spec::workload::WorkloadSpec;
use stepsim::spec::{LoadedSpec, SpecError, Topology, from_value};

/// Attention takes so long forward and backward; nothing else takes any time.
struct Attention(u64, u64);

impl Prices for Attention {
    fn time(&self, kernel: &Kernel) -> Time {
        match kernel.shape {
            KernelShape::Attention { direction: Direction::Forward, .. } => Time(self.0),
            KernelShape::Attention { direction: Direction::Backward, .. } => Time(self.1),
            _ => Time::ZERO,
        }
    }
    fn slowdown(&self, _: &Kernel) -> u16 {
        0
    }
}

/// Settings apart by spaces, as a list.
fn sets(settings: &str) -> Vec<String> {
    settings.split_whitespace().map(String::from).collect()
}

/// A model of `layers` small layers on `data` ranks; `settings` are laid over it.
fn workload(layers: u64, data: u64, settings: &str) -> Result<LoadedSpec<WorkloadSpec>, SpecError> {
    let value = json!({
        "model": {
            "name": "small", "layers": layers, "hidden": 256, "heads": 4, "ffn": 1024,
            "vocabulary": 64, "sequence": 128,
        },
        "batch": { "global": data },
        "parallelism": { "data": data },
        "fidelity": { "collectives": "formula", "interference": false },
    });
    from_value(value, "small".into(), "small.json".into(), &sets(settings))
}

/// A machine of `devices` on a switch, each with a host memory behind a link of its own, an NVMe behind the host, and a
/// memory of its own on the device.
fn machine(devices: u64, settings: &str) -> LoadedSpec<Topology> {
    let link = |gbps: f64| json!({ "bandwidth_GBps_per_direction": gbps });
    let tier = |name: &str, gbps: f64, via: &str| json!({ "name": name, "capacity_GiB": 64, "shared_by": 1, "via": via, "link": link(gbps) });
    let value = json!({
        "device": {
            "name": "device", "peak_dense_TFLOPs": { "bf16": 100, "fp32": 50 }, "hbm": { "GB": 16, "GBps": 1000 },
        },
        "node": {
            "devices": devices,
            "scale_up": { "switch": { "link": link(100.0) } },
            "host": { "shared_by": 1, "link": link(20.0) },
            "memory": [tier("host", 40.0, "host"), tier("nvme", 5.0, "host"), tier("own", 10.0, "device")],
        },
    });
    from_value(value, "machine".into(), "machine.json".into(), &sets(settings))
        .unwrap_or_else(|e| panic!("{e}"))
}

/// Weights, gradients and optimizer state are cut, and weights gathered for each pass.
const ZERO3: &str = "parallelism.sharding.kind=zero3";
const RESHARD: &str = "parallelism.sharding.reshard_after_forward=true";

/// A run of all ranks.
struct Played {
    plan: Plan,
    record: Record,
}

fn inputs(workload: LoadedSpec<WorkloadSpec>, topology: LoadedSpec<Topology>) -> Inputs {
    let machine = Machine::build(&topology.value).unwrap_or_else(|e| panic!("{e}"));
    Inputs::new(workload, topology, machine).unwrap_or_else(|e| panic!("{e}"))
}

fn planned(inputs: &Inputs, prices: &Attention, steps: u32) -> Plan {
    let workload = &inputs.workload.value;
    plan(workload, &inputs.model, &inputs.machine, &mut inputs.lowering(), prices, steps)
        .unwrap_or_else(|e| panic!("{e}"))
}

fn play(workload: LoadedSpec<WorkloadSpec>, topology: LoadedSpec<Topology>, prices: &Attention) -> Played {
    let plan = planned(&inputs(workload, topology), prices, 1);
    let record = engine::run(&plan.world).unwrap_or_else(|e| panic!("{e}"));
    Played { plan, record }
}

impl Played {
    /// The ops of rank 0 with this name in this phase: span and bytes.
    fn ops(&self, name: &str, phase: Option<Phase>) -> Vec<(Time, Time, f64)> {
        let program = self.plan.world.program_of(RankId(0));
        let wanted = |op: &stepsim::core::program::Op| {
            let info = &program.infos[op.info as usize];
            info.name == name && phase.is_none_or(|p| p == info.phase)
        };
        let spans = program.ops.iter().enumerate().filter(|(_, op)| wanted(op)).map(|(i, op)| {
            let (start, end) = self.record.span(RankId(0), OpId(i as u32));
            (start, end, program.infos[op.info as usize].bytes)
        });
        spans.collect()
    }
    fn lengths(&self, name: &str, phase: Option<Phase>) -> Vec<u64> {
        self.ops(name, phase).iter().map(|(start, end, _)| end.0 - start.0).collect()
    }
    fn bytes(&self, name: &str) -> f64 {
        self.ops(name, None).iter().map(|op| op.2).sum()
    }
    /// When the last backward kernel of rank 0 ends.
    fn backward_end(&self) -> u64 {
        let program = self.plan.world.program_of(RankId(0));
        let ends = program.ops.iter().enumerate().filter(|(_, op)| {
            program.infos[op.info as usize].phase == Phase::Backward
                && matches!(op.work, Work::Compute { .. })
        });
        ends.map(|(i, _)| self.record.span(RankId(0), OpId(i as u32)).1.0).max().unwrap_or(0)
    }
}

/// Times of one unit: forward, backward, gather, reduction.
#[derive(Clone, Copy, Debug)]
struct Unit {
    f: u64,
    b: u64,
    g: u64,
    s: u64,
}

/// FSDP's dependency graph with depth 1, unit by unit: end of forward, end of the last reduction.
fn fsdp(units: &[Unit], reshards: bool) -> (u64, u64) {
    let at = |list: &[u64], i: usize, back: usize| i.checked_sub(back).map_or(0, |i| list[i]);
    let (mut gathered, mut done) = (Vec::new(), Vec::new());
    for (i, u) in units.iter().enumerate() {
        let gather = at(&gathered, i, 1).max(at(&done, i, 3)) + u.g;
        done.push(gather.max(at(&done, i, 1)) + u.f);
        gathered.push(gather);
    }
    let forward = *done.last().unwrap_or(&0);
    let (mut gathered, mut done, mut reduced): (Vec<u64>, Vec<u64>, Vec<u64>) = Default::default();
    for (j, u) in units.iter().rev().enumerate() {
        let issued = at(&gathered, j, 1).max(at(&done, j, 2)).max(forward);
        let gather = if reshards { issued + u.g } else { forward };
        let compute = gather.max(at(&done, j, 1)).max(at(&reduced, j, 2)) + u.b;
        reduced.push(compute.max(at(&reduced, j, 1)) + u.s);
        done.push(compute);
        gathered.push(gather);
    }
    (forward, *reduced.last().unwrap_or(&0))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::draws::draws(24)))]
    /// A planned and played step is that graph, to the picosecond, with embedding and head as they are.
    #[test]
    fn fsdp_steps_follow_the_graph(
        layers in 1u64..7, f in 0u64..60_000_000, b in 0u64..60_000_000, reshards: bool, gbps in 30u64..400,
        gradients in prop_oneof![Just("bf16"), Just("fp32")], ranks in prop_oneof![Just(2u64), Just(4)],
    ) {
        let sharding = format!("{ZERO3} parallelism.sharding.reshard_after_forward={reshards}");
        let w = workload(layers, ranks, &format!("{sharding} precision.gradients={gradients}")).unwrap();
        let link = format!("node.scale_up.switch.link.bandwidth_GBps_per_direction={gbps}");
        let run = play(w, machine(ranks, &link), &Attention(f, b));
        let gathers = run.lengths("all-gather weights", Some(Phase::Forward));
        let mut reductions = run.lengths("reduce-scatter gradients", None);
        reductions.reverse();
        prop_assert_eq!(gathers.len() as u64, layers + 2);
        let unit = |(i, (g, s)): (usize, (&u64, &u64))| {
            let layer = i > 0 && i as u64 <= layers;
            let [f, b] = [f, b].map(|t| if layer { t } else { 0 });
            Unit { f, b, g: *g, s: *s }
        };
        let units: Vec<Unit> = gathers.iter().zip(&reductions).enumerate().map(unit).collect();
        prop_assert_eq!(run.record.step_end.0, fsdp(&units, reshards).1);
        let again = run.lengths("all-gather weights", Some(Phase::Backward)).len() as u64;
        prop_assert_eq!(again, if reshards { layers + 2 } else { 0 });
    }
}

/// By default the last unit, with which backward begins, is not gathered twice.
#[test]
fn the_last_unit_is_not_resharded_by_default() {
    let w = workload(3, 2, ZERO3).unwrap();
    let run = play(w, machine(2, ""), &Attention(1000, 1000));
    assert_eq!(run.lengths("all-gather weights", Some(Phase::Backward)).len(), 4);
}

/// DeepSpeed's budgets: no room means nothing ahead, a long reuse distance means nothing twice, and a part of a layer
/// may be gathered ahead of the rest.
#[test]
fn element_budgets_limit_what_is_gathered_ahead() {
    let bucket = "parallelism.sharding.prefetch.bucket_elements";
    let live = "parallelism.sharding.prefetch.max_live_elements";
    let reuse = "parallelism.sharding.prefetch.max_reuse_elements";
    let run = |settings: &str| {
        let w = workload(4, 2, &format!("{ZERO3} {settings}")).unwrap();
        play(w, machine(2, ""), &Attention(9_000_000, 20_000_000))
    };
    let needed = run(&format!("{RESHARD} parallelism.sharding.prefetch.depth=0"));
    let none = run(&format!("{live}=0 {reuse}=0"));
    assert_eq!(none.record.step_end, needed.record.step_end);
    assert_eq!(none.bytes("all-gather weights"), needed.bytes("all-gather weights"));
    let kept = run(&format!("{reuse}={}", u64::MAX >> 1));
    assert_eq!(2.0 * kept.bytes("all-gather weights"), needed.bytes("all-gather weights"));
    // A layer has 4h² + 2hf + 2h elements; half of each is gathered ahead, the other half when it is needed.
    let layer = 4 * 256 * 256 + 2 * 256 * 1024 + 2 * 256;
    let half = run(&format!("{bucket}={} {reuse}=0", layer / 2));
    let parts = half.ops("all-gather weights", Some(Phase::Forward));
    assert!(parts.iter().filter(|p| p.2 == layer as f64).count() >= 4, "halves of 16-bit layers: {parts:?}");
    assert!((half.bytes("all-gather weights") - needed.bytes("all-gather weights")).abs() < 100.0);
    assert!(half.record.step_end < needed.record.step_end);
}

/// FSDP's explicit lists: what layer 0 names is gathered from its start on, in the order of the list.
#[test]
fn explicit_lists_gather_what_they_name() {
    let w = workload(4, 2, &format!("{ZERO3} parallelism.sharding.prefetch.forward=[[1,3,2]]"));
    let run = play(w.unwrap(), machine(2, ""), &Attention(90_000_000, 0));
    let program = run.plan.world.program_of(RankId(0));
    let gather = |layer: u32| {
        let found = program.ops.iter().position(|op| {
            let info = &program.infos[op.info as usize];
            info.name == "all-gather weights" && info.layer == Some(layer) && info.phase == Phase::Forward
        });
        run.record.span(RankId(0), OpId(found.unwrap() as u32))
    };
    let first = program.ops.iter().position(|op| {
        matches!(op.work, Work::Compute { .. }) && program.infos[op.info as usize].layer == Some(0)
    });
    let begins = run.record.span(RankId(0), OpId(first.unwrap() as u32)).0;
    assert_eq!(gather(1).0, begins);
    assert_eq!(gather(3).0, gather(1).1);
    assert_eq!(gather(2).0, gather(3).1);
    assert!(gather(2).1 < begins + Time(90_000_000), "all within the first layer");
}

/// Visits with a copy each, which may start when visit j−d starts: end of the last.
fn streamed(visits: &[(u64, u64)], depth: usize) -> u64 {
    let at = |list: &[u64], i: usize, back: usize| i.checked_sub(back).map_or(0, |i| list[i]);
    let (mut copied, mut done) = (Vec::new(), Vec::new());
    for (j, (compute, copy)) in visits.iter().enumerate() {
        copied.push(at(&copied, j, 1).max(at(&done, j, depth + 1)) + copy);
        done.push(copied[j].max(at(&done, j, 1)) + compute);
    }
    *done.last().unwrap_or(&0)
}

/// All of a class of tensors on the host.
const ON_HOST: &str = r#"[{"fraction":1,"tier":"host"}]"#;

/// The workload of one device whose weights are on `tier`, prefetched `depth` layers ahead.
fn offloaded(layers: u64, data: u64, tier: &str, depth: u64) -> LoadedSpec<WorkloadSpec> {
    let weights = format!(r#"offload.weights=[{{"fraction":1,"tier":"{tier}"}}]"#);
    let settings = format!("{weights} offload.prefetch.depth={depth} fidelity.collectives=fluid");
    workload(layers, data, &settings).unwrap()
}

/// How far ahead optimizer state is fetched is counted in the unit that the workload names: less than a layer's bytes
/// are no prefetch at all, and very many are all of it.
#[test]
fn optimizer_state_is_fetched_ahead_in_the_unit_asked_for() {
    let waits = |unit: &str, depth: u64| {
        let prefetch = format!("offload.prefetch.unit={unit} offload.prefetch.depth={depth}");
        let w = workload(6, 1, &format!("offload.optimizer={ON_HOST} {prefetch}"));
        let inputs = inputs(w.unwrap(), machine(1, ""));
        planned(&inputs, &Attention(1, 2), 1).world.programs()[0].waits.clone()
    };
    assert_eq!(waits("bytes", 2), waits("layers", 0));
    assert_eq!(waits("bytes", 1 << 40), waits("layers", 100));
    assert_ne!(waits("layers", 2), waits("layers", 0));
}

/// First and last stage add up the gradients of the whole table.
#[test]
fn a_tied_embedding_is_summed_in_full() {
    let w = workload(4, 1, "model.tied_embeddings=true parallelism.pipeline.size=2");
    let inputs = inputs(w.unwrap(), machine(2, ""));
    let each = inputs.workload.value.precision.gradient_communication().bytes();
    let plan = planned(&inputs, &Attention(1, 2), 1);
    let record = engine::run(&plan.world).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(Played { plan, record }.bytes("all-reduce tied embedding"), 64.0 * 256.0 * each);
}

/// Eight layers whose activations go to the host: all but the last, or every second or third (0, 2, 4, 6; 0, 3, 6).
#[test]
fn activations_of_every_nth_layer_go_out() {
    let nth = |n: u64| format!("offload.activations_every_layers={n}");
    let sent = |every: Option<u64>| {
        let every = every.map(nth).unwrap_or_default();
        let w = workload(8, 1, &format!("offload.activations={ON_HOST} {every}"));
        let run = play(w.unwrap(), machine(1, ""), &Attention(100_000, 200_000));
        let (out, back) = (run.bytes("offload activations"), run.bytes("prefetch activations"));
        assert_eq!(out, back);
        run.ops("offload activations", None).len()
    };
    // By size: a layer keeps more than the embedding, and never a gigabyte.
    let by = |setting: &str| {
        let w = workload(8, 1, &format!("offload.activations={ON_HOST} offload.{setting}"));
        play(w.unwrap(), machine(1, ""), &Attention(100_000, 200_000)).ops("offload activations", None).len()
    };
    assert_eq!((by("activations_at_least_bytes=1000"), by("activations_at_least_bytes=1000000000")), (8, 0));
    // By age: behind layer i come the passes of 7 − i layers and of the head, forward and backward, then its own.
    let older = |visits: usize| (0..8).filter(|i| 2 * (7 - i) + 3 > visits).count() + 1;
    for visits in [2, 7, 12, 17] {
        assert_eq!(by(&format!("activations_stay_visits={visits}")), older(visits), "{visits}");
    }
    let embedding_and_head = sent(None) - 8;
    assert!(embedding_and_head <= 2);
    assert_eq!((sent(Some(2)), sent(Some(3)), sent(Some(100))), (4, 3, 1));
    assert!(workload(8, 1, &nth(0)).is_err());
}

/// A machine whose devices share one host, its link and its memories.
fn on_one_host(devices: u64) -> LoadedSpec<Topology> {
    let shared = [
        "node.host.link_shared_by",
        "node.host.shared_by",
        "node.memory[0].shared_by",
        "node.memory[1].shared_by",
    ];
    machine(devices, &shared.map(|path| format!("{path}={devices}")).join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::draws::draws(16)))]
    /// Forward and backward in one sequence of visits, to the picosecond, at every depth; and where k devices share the
    /// link, every copy takes k times as long, which the closed form of one device does not see.
    #[test]
    fn weights_stream_in_as_the_law_says(
        layers in 1u64..7, f in 0u64..400_000_000, b in 0u64..400_000_000, depth in 0u64..4, sharers in 1u64..4,
    ) {
        let run = play(offloaded(layers, sharers, "host", depth), on_one_host(sharers), &Attention(f, b));
        let layer = (4 * 256 * 256 + 2 * 256 * 1024 + 2 * 256) * 2;
        let ends = [64 * 256 * 2, 65 * 256 * 2];
        // 20 GB/s on the link, shared: picoseconds a byte.
        let copy = |bytes: u64| bytes * 50 * sharers;
        let mut visits = vec![(0, copy(ends[0]))];
        visits.extend((0..layers).map(|_| (f, copy(layer))));
        // The head stays where the pass turns round, and the embedding's backward pass reads no table.
        visits.extend([(0, copy(ends[1])), (0, 0)]);
        visits.extend((0..layers).map(|_| (b, copy(layer))));
        visits.push((0, 0));
        prop_assert_eq!(run.backward_end(), streamed(&visits, depth as usize));
    }
}

/// The update on a host by hand: bytes of a parameter over what the cores of a rank stream, or over its share of the
/// memory that its threads reach; two sockets of two devices each are two hosts.
#[test]
fn the_host_updates_as_fast_as_its_cores_and_its_memory() {
    // Gradients are there when they are wanted, and layers apart enough that no copy crosses an update.
    let away = format!("offload.optimizer={ON_HOST} offload.gradients={ON_HOST} offload.optimizer_on=host");
    let seconds = |host: &str, sockets: &str| {
        let fluid = "fidelity.collectives=fluid";
        let w = workload(3, 4, &format!("{ZERO3} {away} {fluid} stack.optimizer.host={host}"));
        let i = inputs(w.unwrap(), machine(4, sockets));
        let parameters = ParameterCount::of(&i.model).total() as f64 / 4.0;
        let run = play(i.workload, (*i.topology).clone(), &Attention(1_000_000_000, 1_000_000_000));
        let time: u64 = run.lengths("optimizer step (host)", None).iter().sum();
        1e-12 * time as f64 / parameters
    };
    let shared = |devices: u32| {
        format!(
            "node.host.shared_by={devices} node.memory[0].shared_by={devices} node.memory[1].shared_by={devices}"
        )
    };
    // Gradients in fp32: 4 + 2·12 + 2 bytes, half of them each way at 40 GB/s.
    let cases = [
        ("{}", shared(1), 15.0 / 40e9),
        ("{}", shared(2), 2.0 * 15.0 / 40e9),
        ("{}", shared(4), 4.0 * 15.0 / 40e9),
        (r#"{"bytes_per_parameter":80}"#, shared(1), 40.0 / 40e9),
        (r#"{"efficiency":0.25}"#, shared(2), 4.0 * 2.0 * 15.0 / 40e9),
        (r#"{"cores_per_rank":1}"#, shared(1), 30.0 / 16e9),
        (r#"{"cores_per_rank":1}"#, shared(4), 30.0 / 16e9),
        (r#"{"cores_per_rank":0.25,"bytes_per_parameter":28}"#, shared(1), 28.0 / 4e9),
        (r#"{"cores_per_rank":8}"#, shared(4), 4.0 * 15.0 / 40e9),
    ];
    for (host, sockets, by_hand) in cases {
        let found = seconds(host, &sockets);
        assert!((found / by_hand - 1.0).abs() < 0.02, "{host} {sockets}: {found} and by hand {by_hand}");
    }
}

/// Without a norm the host updates a layer while those before it are in their backward pass; where the stack clips by
/// the norm, it begins behind the last reduction.
#[test]
fn the_norm_holds_back_the_update_on_the_host() {
    let begins = |settings: &str| {
        let optimizer = format!("{ZERO3} offload.optimizer={ON_HOST} offload.optimizer_on=host");
        let w = workload(6, 2, &format!("{optimizer} {settings}"));
        let run = play(w.unwrap(), machine(2, ""), &Attention(1_000_000_000, 1_000_000_000));
        let first = run.ops("optimizer step (host)", None).iter().map(|op| op.0.0).min().unwrap();
        (first, run.backward_end())
    };
    let passes = r#"stack.optimizer.passes=["norm","update"]"#;
    let (first, end) = begins(&format!("{passes} optimizer.clip_gradients=false"));
    assert!(first < end / 2 + end / 4, "{first} {end}");
    let (first, end) = begins(passes);
    assert!(first >= end, "{first} {end}");
}

/// Every second layer streams through the device, the host updates the others beside it.
#[test]
fn host_and_device_update_in_turn() {
    let played = |every: &str| {
        let optimizer = format!("offload.optimizer={ON_HOST} offload.optimizer_on=host {every}");
        let one_core = r#"stack.optimizer.host={"cores_per_rank":1}"#;
        play(workload(4, 1, &format!("{optimizer} {one_core}")).unwrap(), machine(1, ""), &Attention(1, 2))
    };
    let (host, turns) = (played(""), played("offload.optimizer_on_device_every=2"));
    // Master weight and two moments of layers 0 and 2, once each way.
    let layer = (4 * 256 * 256 + 2 * 256 * 1024 + 2 * 256) as f64;
    assert_eq!(turns.bytes("prefetch optimizer state"), 2.0 * 12.0 * layer);
    assert_eq!(turns.bytes("write back optimizer state"), 2.0 * 12.0 * layer);
    let updates = |run: &Played| run.bytes("optimizer step (host)");
    assert!((updates(&host) - updates(&turns) - 2.0 * 15.0 * layer).abs() < 4.0, "{}", updates(&turns));
    assert!(turns.record.step_end < host.record.step_end);
    assert!(workload(4, 1, "offload.optimizer_on_device_every=0").is_err());
}

/// What a step writes goes at the link's rate until the cache of writes is full, then at the rate of what is kept; what
/// is read does not slow down. Devices that share the drive share its cache.
#[test]
fn a_cache_of_writes_fills() {
    let away = r#"offload.activations=[{"fraction":1,"tier":"nvme"}] fidelity.collectives=fluid"#;
    let times = |cache: &str| {
        let run = play(workload(6, 1, away).unwrap(), machine(1, cache), &Attention(1000, 1000));
        let sum = |name: &str| run.lengths(name, None).iter().sum::<u64>();
        (run.bytes("offload activations") as u64, sum("offload activations"), sum("prefetch activations"))
    };
    // 5 GB/s and 1 GB/s: 200 and 1,000 ps a byte.
    let (bytes, plain, read) = times("");
    assert_eq!((plain, read), (200 * bytes, 200 * bytes));
    let cache = |gb: f64| times(&format!("node.memory[1].write_GBps=1 node.memory[1].write_cache_GB={gb}"));
    assert!(bytes > 4_000_000, "{bytes}");
    assert_eq!(cache(0.003), (bytes, 3_000_000 * 200 + (bytes - 3_000_000) * 1000, 200 * bytes));
    assert_eq!(cache(1.0), (bytes, 200 * bytes, 200 * bytes));
    assert_eq!(times("node.memory[1].write_GBps=1"), (bytes, 1000 * bytes, 200 * bytes));
    let shared = "node.host.shared_by=2 node.memory[0].shared_by=2 node.memory[1].shared_by=2 \
                  node.memory[1].write_GBps=1 node.memory[1].write_cache_GB=0.002";
    let topology = machine(2, shared);
    assert_eq!(Machine::build(&topology.value).unwrap().write_cache(DeviceId(0), 2), 1_000_000);
    let mut fast = topology.value.clone();
    fast.node.as_mut().unwrap().memory[1].write_gbps = None;
    assert!(Machine::build(&fast).unwrap_err().to_string().contains("write_cache_GB"));
}

/// Rates by hand of the tiers that docs/how-to/memory-tiers.md lists: picoseconds a byte of the first layer's weights.
#[test]
fn tiers_have_the_rates_of_their_links() {
    let rate = |devices: u64, tier: &str, name: &str, settings: &str| {
        let weights = format!("offload.weights={tier} fidelity.collectives=fluid");
        let run = play(workload(2, devices, &weights).unwrap(), machine(devices, settings), &Attention(1, 1));
        let op = run.ops(name, Some(Phase::Forward))[1];
        (op.1.0 - op.0.0) as f64 / op.2
    };
    let near = |found: f64, by_hand: f64, what: &str| {
        assert!((found / by_hand - 1.0).abs() < 0.01, "{what}: {found} and by hand {by_hand}");
    };
    // An NVMe behind the host crosses its link, one past it (GPUDirect Storage) does not.
    let nvme = r#"[{"fraction":1,"tier":"nvme"}]"#;
    let slow = "node.host.link.bandwidth_GBps_per_direction=2";
    near(rate(1, nvme, "prefetch weights", slow), 500.0, "NVMe behind a host link of 2 GB/s");
    let direct = format!("{slow} node.memory[1].via=device");
    near(rate(1, nvme, "prefetch weights", &direct), 200.0, "GPUDirect Storage");
    // Four devices on one socket of 30 GB/s, or two on each of two.
    let sockets = |each: u64| {
        format!(
            "node.host.shared_by={each} node.memory[0].shared_by={each} node.memory[1].shared_by={each} node.memory[0].link.bandwidth_GBps_per_direction=30"
        )
    };
    near(rate(4, ON_HOST, "prefetch weights", &sockets(4)), 1000.0 / 7.5, "one socket");
    near(rate(4, ON_HOST, "prefetch weights", &sockets(2)), 1000.0 / 15.0, "two sockets");
    // A pool of four hosts: a port of 10 GB/s each, and what its own ports take together.
    let pool = |gbps: u64| {
        format!(
            "node.memory[0].shared_by=4 node.memory[0].link.bandwidth_GBps_per_direction={gbps} \
             node.memory[0].port={{\"bandwidth_GBps_per_direction\":10}}"
        )
    };
    near(rate(4, ON_HOST, "prefetch weights", &pool(80)), 100.0, "a pool with ports enough");
    near(rate(4, ON_HOST, "prefetch weights", &pool(24)), 1000.0 / 6.0, "a pool with two ports of 12 GB/s");
}

/// HBM ← host ← NVMe: two copies, and the host holds what is on its way.
#[test]
fn a_chain_passes_the_host() {
    let weights = r#"offload.weights=[{"fraction":1,"tier":"nvme","via":["host"]}]"#;
    let w = workload(2, 1, &format!("{weights} fidelity.collectives=fluid"));
    let run = play(w.unwrap(), machine(1, ""), &Attention(1000, 1000));
    let copies = run.ops("prefetch weights", Some(Phase::Forward));
    // Each unit crosses the NVMe's link at 5 GB/s, then the host link at 20.
    let layer = ((4 * 256 * 256 + 2 * 256 * 1024 + 2 * 256) * 2) as u64;
    assert_eq!(copies.len(), 8);
    assert_eq!(copies[2].1.0 - copies[2].0.0, layer * 200);
    assert_eq!(copies[3].1.0 - copies[3].0.0, layer * 50);
    assert_eq!(copies[3].0, copies[2].1);
}

/// The small step with all weights on the host, prefetched far ahead, on a device of so many MB.
fn crowded(megabytes: f64) -> Result<Simulation, Box<SimulationError>> {
    let away = ["weights", "optimizer", "gradients"].map(|class| format!("offload.{class}={ON_HOST}"));
    let rest = "offload.prefetch.depth=100 recompute.granularity=full fidelity.collectives=fluid";
    let w = workload(6, 1, &format!("{} {rest}", away.join(" ")));
    let i = inputs(w.unwrap(), machine(1, &format!("device.hbm.GB={}", megabytes / 1e3)));
    Simulation::run(&i, &Options::default()).map_err(Box::new)
}

/// A prefetch that finds no room waits, and the report says so; one that can never fit is an error that lists what
/// holds the tier.
#[test]
fn a_prefetch_without_room_waits() {
    let roomy = crowded(1000.0).unwrap();
    assert!(!roomy.report(false).mean.stalls_s.contains_key(&StallCause::PrefetchBlocked));
    let tight = crowded(16.0).unwrap();
    let report = tight.report(false);
    assert!(report.mean.stalls_s[&StallCause::PrefetchBlocked] > 0.0, "{:?}", report.mean);
    assert!(report.memory["hbm"].peak_bytes <= 16_000_000);
    assert!(tight.record.step_end > roomy.record.step_end);
    let error = crowded(2.0).unwrap_err().to_string();
    assert!(
        error.starts_with("out of memory at ") && error.contains("on tier `hbm`, which holds"),
        "{error}"
    );
}
