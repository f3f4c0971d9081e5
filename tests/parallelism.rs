//! Mechanisms of parallelism, each in a test that fails when the mechanism is switched off.

use serde_json::{Value, json};
use stepsim::core::ids::RankId;
use stepsim::fabric::topology::Machine;
use stepsim::plan::step::overlap::{decompose, is_cut};
use stepsim::price::model::{CommGroup, CommOp, Item, LayerPlan, Shard};
use stepsim::price::moe::MoeExchange;
use stepsim::schedule::ScheduleChoice;
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::spec::workload::{ContextKind, ContextSpec, ExchangeFormats, Fp8Spec, RowFormat, TensorOverlap};
use stepsim::spec::{ModelSpec, WorkloadSpec, from_value, load};

/// Lays `over` over `base`, key by key.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            over.into_iter().for_each(|(key, value)| merge(base.entry(key).or_insert(Value::Null), value));
        }
        (base, over) => *base = over,
    }
}

fn try_run(workload: Value, topology: &str) -> Result<Simulation, String> {
    let (topology, machine) = Machine::load(topology, &[]).map_err(|e| e.to_string())?;
    let workload = from_value::<WorkloadSpec>(workload, "test".into(), "test".into(), &[]);
    let inputs = Inputs::new(workload.map_err(|e| e.to_string())?, topology, machine);
    let inputs = inputs.map_err(|e| e.to_string())?;
    Simulation::run(&inputs, &Options::default()).map_err(|e| e.to_string())
}
fn run(workload: Value, topology: &str) -> Simulation {
    try_run(workload, topology).unwrap_or_else(|e| panic!("{e}"))
}
fn seconds(workload: Value, topology: &str) -> f64 {
    run(workload, topology).record.step_end.s()
}

/// A dense model of four layers; every field may be replaced.
fn dense(over: Value) -> Value {
    let mut workload = json!({
        "model": {
            "name": "small", "layers": 4, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "gated_mlp": true,
            "vocabulary": 32000, "sequence": 4096,
        },
        "batch": {"global": 4},
    });
    workload["parallelism"] = json!({});
    merge(&mut workload, over);
    workload
}
/// The same with experts.
fn sparse(over: Value) -> Value {
    let mut workload = dense(json!({
        "model": {"ffn": 4096, "moe": {"experts": 16, "top_k": 4, "ffn": 2048}},
        "batch": {"global": 64},
        "parallelism": {"expert": 8},
    }));
    merge(&mut workload, over);
    workload
}

/// The tensor-parallel pairs of two nodes of two, laid across the nodes by a rank map beside the workload file.
#[test]
fn a_rank_map_places_ranks() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = dense(json!({"parallelism": {"tensor": 2, "rank_map": "map.json"}})).to_string();
    std::fs::write(folder.path().join("w.json"), text).expect("a file");
    let step = |map: &str| {
        std::fs::write(folder.path().join("map.json"), map).expect("a file");
        let file = folder.path().join("w.json");
        let inputs = Inputs::load(file.to_str().expect("UTF-8"), Some("nodes:2*2,400,1,20,5"), &[]);
        let run = Simulation::run(&inputs.expect("inputs"), &Options::default()).expect("a run");
        run.record.step_end
    };
    let plain = run(dense(json!({"parallelism": {"tensor": 2}})), "nodes:2*2,400,1,20,5").record.step_end;
    assert_eq!(step("[0, 1, 2, 3]"), plain);
    assert_eq!(step("[2, 3, 0, 1]"), plain);
    // Tensor pairs across nodes and data pairs inside them: what the rank grid with data fastest does.
    let order = json!({"parallelism": {"tensor": 2, "order": ["data", "tensor", "context", "pipeline"]}});
    let turned = run(dense(order), "nodes:2*2,400,1,20,5").record.step_end;
    assert_eq!(step("[0, 2, 1, 3]"), turned);
    assert_ne!(turned, plain);
}

fn model(name: &str) -> ModelSpec {
    load::<ModelSpec>(name, &[]).expect("a shipped model").value
}
fn comms(items: &[Item]) -> Vec<(CommGroup, CommOp, u64)> {
    items.iter().filter_map(Item::comm).map(|c| (c.group, c.op, c.bytes)).collect()
}

#[test]
fn pieces_do_the_work_and_move_the_bytes_of_the_whole() {
    let m = model("llama3-70b");
    let t = 8;
    let shard = Shard { tensor: t, sequence_parallel: true, ..Shard::whole(&m) };
    let plan = LayerPlan::transformer(&m, &shard);
    for items in [&plan.forward, &plan.backward, &plan.input_grad, &plan.weight_grad] {
        let whole: Vec<_> = comms(items);
        for kind in [TensorOverlap::Ring, TensorOverlap::Pipelined] {
            let cut = decompose(items, kind, t);
            assert!((LayerPlan::flops(&cut) / LayerPlan::flops(items) - 1.0).abs() < 1e-12);
            // A gather or scatter of S moves S(t-1)/t through each rank; so do t-1 shifts of S/t.
            let moved = |list: &[(CommGroup, CommOp, u64)]| -> u64 {
                let each = list.iter().map(|&(_, op, bytes)| match op {
                    CommOp::SendRecv => bytes,
                    _ => bytes / t * (t - 1),
                });
                each.sum()
            };
            assert_eq!(moved(&comms(&cut)), moved(&whole), "{kind:?}");
            // Pieces are priced as parts of the whole product.
            let products =
                |list: &[Item]| list.iter().filter_map(Item::kernel).map(|k| 1.0 / k.pieces()).sum::<f64>();
            assert!((products(&cut) - products(items)).abs() < 1e-9, "{kind:?}");
            // What is said to be cut is gone, and all other messages are there as they were.
            for (at, item) in items.iter().enumerate().filter(|(_, item)| item.comm().is_some()) {
                assert_eq!(is_cut(items, at, kind, t), !cut.contains(item), "{kind:?}: {item:?}");
            }
        }
    }
    // Two gathers and two scatters of the forward pass are cut: 4·8 GEMM pieces, 4·7 shifts.
    let cut = decompose(&plan.forward, TensorOverlap::Ring, t);
    assert_eq!(comms(&cut).iter().filter(|c| c.1 == CommOp::SendRecv).count(), 28);
    assert_eq!(cut.len(), plan.forward.len() - 8 + 32 + 28);
    assert_eq!(decompose(&plan.forward, TensorOverlap::None, t), plan.forward);
}

#[test]
fn cut_collectives_hide_behind_their_gemms() {
    let with = |overlap: &str| {
        let parallelism = json!({"tensor": 4, "sequence_parallel": true, "tensor_overlap": overlap});
        run(dense(json!({"parallelism": parallelism})), "switch:4,100,1")
    };
    let exposed = |s: &Simulation| s.report(false).communication.values().map(|c| c.exposed_s).sum::<f64>();
    let (none, ring, pipelined) = (with("none"), with("ring"), with("pipelined"));
    assert!(exposed(&ring) < 0.75 * exposed(&none), "{} of {}", exposed(&ring), exposed(&none));
    assert!(exposed(&pipelined) < 0.75 * exposed(&none), "{} of {}", exposed(&pipelined), exposed(&none));
    assert!(ring.record.step_end < none.record.step_end && pipelined.record.step_end < none.record.step_end);
    assert!((ring.plan.hardware_flops as f64 / none.plan.hardware_flops as f64 - 1.0).abs() < 1e-12);
}

#[test]
fn the_fullest_rank_sets_the_pace_of_experts() {
    let machine = "switch:8,100,1";
    let with = |load: Value| seconds(sparse(json!({"expert_load": load})), machine);
    let even = with(json!({}));
    let uneven = with(json!({"balance": "factor", "max_over_mean": 2.0}));
    assert!(uneven > 1.1 * even, "{uneven} against {even}");
    // A capacity factor of 1.5 cuts the load of 2 to that of 1.5.
    let capped = json!({
        "model": {"moe": {"capacity_factor": 1.5}}, "expert_load": {"balance": "factor", "max_over_mean": 2.0},
    });
    let capped = seconds(sparse(capped), machine);
    assert_eq!(capped, with(json!({"balance": "factor", "max_over_mean": 1.5})));
    // Draws: the same seed the same step, another seed another one, never below an even load.
    let drawn = |seed: u64| with(json!({"balance": "seeded", "max_over_mean": 1.5, "seed": seed}));
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
    assert!(drawn(1) > even && drawn(2) > even);
}

#[test]
fn a_file_of_token_counts_is_the_load_that_it_counts() {
    let path = std::env::temp_dir().join(format!("stepsim-counts-{}.json", std::process::id()));
    // Two experts a rank: 20 + 20 of 160 tokens on 8 ranks is twice the mean of 20.
    let mut counts = vec![120.0 / 14.0; 16];
    counts[0] = 20.0;
    counts[1] = 20.0;
    std::fs::write(&path, serde_json::to_string(&counts).unwrap()).unwrap();
    let load = |load: Value| seconds(sparse(json!({"expert_load": load})), "switch:8,100,1");
    let file = load(json!({"balance": "file", "counts_file": path.to_str().unwrap()}));
    assert_eq!(file, load(json!({"balance": "factor", "max_over_mean": 2.0})));
    std::fs::write(&path, "[1, 2]").unwrap();
    let wrong = json!({"expert_load": {"balance": "file", "counts_file": path.to_str().unwrap()}});
    let error = try_run(sparse(wrong), "switch:8,100,1").unwrap_err();
    assert!(error.contains("2 counts for 16 experts"), "{error}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn context_parallel_messages_are_the_formulas() {
    let m = model("llama3-70b");
    let (s, b, x) = (8192_u64, 1, 4_u64);
    let kv_width = 8 * 128;
    let plan = |kind, zigzag, ulysses_size| {
        let context = ContextSpec { size: x, kind, zigzag, ulysses_size, ..ContextSpec::default() };
        LayerPlan::transformer(&m, &Shard { context, sequence: s, micro_batch: b, ..Shard::whole(&m) })
    };
    // All-gather of K and V: 2·s·b·k·(h/a) elements of 2 bytes in all, their gradients scattered after; the gather is
    // repeated for backward.
    let gathered = 2 * s * b * kv_width * 2;
    let p = plan(ContextKind::AllGather, true, None);
    assert_eq!(comms(&p.forward), [(CommGroup::Context, CommOp::AllGather, gathered)]);
    let back = [CommOp::AllGather, CommOp::ReduceScatter].map(|op| (CommGroup::Context, op, gathered));
    assert_eq!(comms(&p.backward), back);
    // Ulysses: Q, K, V and the output, s/x tokens each.
    let p = plan(ContextKind::Ulysses, true, None);
    let part = |width: u64| (CommGroup::Context, CommOp::AllToAll, s / x * b * width * 2);
    assert_eq!(comms(&p.forward), [part(8192), part(kv_width), part(kv_width), part(8192)]);
    assert_eq!(comms(&p.backward).len(), 4);
    // Ring: x-1 blocks of 2·(s/x)·b·k·(h/a) elements.
    let p = plan(ContextKind::Ring, true, None);
    assert_eq!(comms(&p.forward), [(CommGroup::Context, CommOp::SendRecv, gathered / x); 3]);
    // Two levels of 2: all-to-alls inside; outside one step of a ring with half of the heads and twice the tokens.
    let p = plan(ContextKind::TwoLevel, true, Some(2));
    let count = |group| comms(&p.forward).iter().filter(|c| c.0 == group).count();
    assert_eq!((count(CommGroup::ContextInner), count(CommGroup::ContextOuter)), (4, 1));
    let outer = comms(&p.forward).into_iter().find(|c| c.0 == CommGroup::ContextOuter);
    assert_eq!(outer, Some((CommGroup::ContextOuter, CommOp::SendRecv, gathered / x)));
}

#[test]
fn a_plain_ring_leaves_the_last_rank_with_most_of_the_work() {
    let m = model("llama3-70b");
    let flops = |zigzag, context_rank| {
        let context = ContextSpec { size: 4, kind: ContextKind::Ring, zigzag, ..ContextSpec::default() };
        let plan = LayerPlan::transformer(&m, &Shard { context, context_rank, ..Shard::whole(&m) });
        let attention = plan.forward.iter().filter_map(Item::kernel).filter(|k| k.name == "attention");
        attention.map(|k| k.flops).sum::<f64>()
    };
    // In units of a block squared: rank r has r whole blocks and half of its own; balanced, all have x/2.
    let unit = flops(false, 0) * 2.0;
    for (rank, want) in [(0, 0.5), (1, 1.5), (2, 2.5), (3, 3.5)] {
        assert!((flops(false, rank) / unit - want).abs() < 1e-12, "rank {rank}");
        assert!((flops(true, rank) / unit - 2.0).abs() < 1e-12);
    }
}

#[test]
fn borders_are_cut_among_tensor_parallel_ranks() {
    let with = |over: Value| {
        let mut parallelism = json!({"tensor": 4, "pipeline": {"size": 2}, "data": 1});
        merge(&mut parallelism, over);
        run(dense(json!({"parallelism": parallelism})), "nodes:2*4,300,1,10,2")
    };
    let sent = |s: &Simulation| {
        let program = &s.plan.world.programs()[0];
        program.infos.iter().find(|i| i.name == "send activations").map(|i| i.bytes)
    };
    let gathers = |s: &Simulation| {
        s.plan.world.programs()[1].infos.iter().filter(|i| i.name == "all-gather received").count()
    };
    let whole = with(json!({}));
    let cut = with(json!({"pipeline": {"scatter_gather": true}}));
    let along = with(json!({"sequence_parallel": true}));
    let border = 4096.0 * 4096.0 * 2.0;
    assert_eq!((sent(&whole), gathers(&whole)), (Some(border), 0));
    assert_eq!((sent(&cut), gathers(&cut)), (Some(border / 4.0), 1));
    assert_eq!((sent(&along), gathers(&along)), (Some(border / 4.0), 0));
    assert!(cut.record.step_end < whole.record.step_end, "a slow network carries a quarter");
}

#[test]
fn eight_bits_halve_what_they_name() {
    let m = model("deepseek-v3");
    let fp8 = |saved_activations| Fp8Spec {
        gemms: serde_json::from_value(json!(["qkv", "projection", "mlp", "experts"])).unwrap(),
        saved_activations,
    };
    let plan = |fp8| LayerPlan::transformer(&m, &Shard { expert: 64, fp8, ..Shard::whole(&m) });
    let (wide, narrow, narrower) = (plan(None), plan(Some(fp8(false))), plan(Some(fp8(true))));
    // Tokens on their way to experts: an element and 4 bytes for 128 instead of two bytes; nothing else that travels.
    let moe = m.moe.as_ref().unwrap();
    let travel = |dispatch: Option<RowFormat>| {
        let mut workload = load::<WorkloadSpec>("deepseek-v3", &[]).expect("a shipped workload").value;
        workload.expert.formats = ExchangeFormats { dispatch, ..Default::default() };
        stepsim::price::moe::Travel::new(&workload, &m, moe, 4096, 1)
    };
    let [all, some] = [None, Some(RowFormat::Fp8Block)].map(travel);
    let sent = |t: &stepsim::price::moe::Travel| MoeExchange::ALL.map(|e| t.bytes(e, 1.0).scale_up);
    let share = sent(&some)[0] / sent(&all)[0];
    assert!((share / ((1.0 + 4.0 / 128.0) / 2.0) - 1.0).abs() < 1e-9, "{share}");
    assert_eq!(sent(&some)[1..], sent(&all)[1..]);
    let saved = |p: &LayerPlan, name| p.saved.iter().find(|s| s.name == name).map(|s| s.bytes).unwrap();
    assert_eq!(saved(&narrow, "expert input") * 2.0, saved(&wide, "expert input"));
    assert_eq!(saved(&narrow, "expert activation input"), saved(&wide, "expert activation input"));
    assert_eq!(saved(&narrower, "expert activation input") * 2.0, saved(&wide, "expert activation input"));
    // The attention core stays as it was; experts run on the 8-bit peak.
    let dtype = |p: &LayerPlan, name| {
        p.forward.iter().filter_map(Item::kernel).find(|k| k.name == name).unwrap().dtype
    };
    assert_eq!(dtype(&narrow, "attention"), dtype(&wide, "attention"));
    assert_ne!(dtype(&narrow, "expert up"), dtype(&wide, "expert up"));
    let step = |over: Value| seconds(dense(over), "h100-superpod-8");
    let wide = step(json!({"batch": {"global": 8}}));
    let narrow = step(json!({"batch": {"global": 8}, "precision": {"fp8": {}}}));
    assert!(narrow < 0.9 * wide, "{narrow} against {wide}");
}

/// A schedule of the registry is known to the workload and to its schema under all of its names.
#[test]
fn every_schedule_is_known_by_all_of_its_names() {
    let schema = stepsim::spec::schema(stepsim::spec::Kind::Workload).to_string();
    for facts in stepsim::schedule::ALL.iter().map(|schedule| schedule.facts()) {
        for name in facts.aliases.iter().chain([&facts.name]) {
            assert!(schema.contains(&format!("\"const\":\"{name}\"")), "{name}");
            let step = dense(json!({"parallelism": {"pipeline": {"size": 2, "schedule": name}}}));
            let step =
                from_value::<WorkloadSpec>(step, "test".into(), "test".into(), &[]).expect("a workload");
            let ScheduleChoice::Named(schedule) = step.value.parallelism.pipeline.schedule else {
                panic!("{name}")
            };
            assert_eq!(schedule.name(), facts.name);
        }
    }
}

/// Two pipeline stages on an H100 and an A100, drawn as one machine, against two machines of one kind.
#[test]
fn each_device_is_priced_as_itself() {
    let machine = |first: &str, second: &str| {
        let graph = json!({
            "vertices": [
                {"name": "a", "kind": "device", "device": first},
                {"name": "b", "kind": "device", "device": second, "node": 1},
            ],
            "links": [{"from": "a", "to": "b", "link": {"bandwidth_GBps_per_direction": 50}}],
        });
        let machine = json!({"device": first, "graph": graph});
        let path = format!("{}/{first}-{second}.json", env!("CARGO_TARGET_TMPDIR"));
        std::fs::write(&path, machine.to_string()).unwrap();
        Machine::load(&path, &[]).unwrap_or_else(|e| panic!("{e}"))
    };
    let run = |first: &str, second: &str, schedule: &str| {
        let (topology, machine) = machine(first, second);
        let workload = dense(json!({"parallelism": {"pipeline": {"size": 2, "schedule": schedule}}}));
        let workload = from_value::<WorkloadSpec>(workload, "test".into(), "test".into(), &[]).unwrap();
        let inputs = Inputs::new(workload, topology, machine).unwrap();
        Simulation::run(&inputs, &Options::default()).unwrap()
    };
    let (new, old) = ("h100-sxm", "a100-sxm-80");
    for schedule in ["1f1b", "zb-auto"] {
        let busy = |s: &Simulation| {
            let report = s.report(false);
            report.stages.iter().map(|stage| stage.time.busy_s).collect::<Vec<f64>>()
        };
        let (fast, slow) = (run(new, new, schedule), run(old, old, schedule));
        let (mixed, turned) = (run(new, old, schedule), run(old, new, schedule));
        assert_eq!(busy(&mixed), [busy(&fast)[0], busy(&slow)[1]], "{schedule}");
        assert_eq!(busy(&turned), [busy(&slow)[0], busy(&fast)[1]], "{schedule}");
        assert!(fast.record.step_end < mixed.record.step_end);
        assert!(mixed.record.step_end < slow.record.step_end);
        assert_eq!(mixed.plan.world.programs().len(), 2);
    }
}

/// Where passes wait for what other stages send, the host of a Megatron step waits for it too, and launches nothing
/// ahead; where sends and receives run beside passes, it does not. Before each pass but the first it waits for all
/// kernels, and before each forward pass but the first it reads the sizes of the batch that this pass takes, whatever
/// waits for what.
#[test]
fn the_host_waits_for_batched_exchanges() {
    let step = |p2p: &str, schedule: &str| {
        let p2p = format!("parallelism.pipeline.p2p={p2p}");
        let schedule = format!("parallelism.pipeline.schedule={schedule}");
        let stack = ["stack=megatron-2021", "model.sequence=128", "model.layers=8"];
        let batch = ["parallelism.data=2", "batch.global=16"];
        let sets = [&stack[..], &batch, &[&p2p, &schedule]].concat();
        let sets: Vec<String> = sets.into_iter().map(String::from).collect();
        let inputs = Inputs::load("tiny-4", Some("dgx-a100"), &sets).expect("inputs");
        let run = Simulation::run(&inputs, &Options::default()).expect("a run");
        let world = &run.folded.world;
        // The first stage receives gradients only.
        let program = world.program_of(run.folded.source(RankId(0)));
        let named = |name: &str| {
            program.ops.iter().filter(|op| program.infos[op.info as usize].name.starts_with(name)).count()
        };
        (named("recv "), named("read back"), run.record.step_end)
    };
    // Of eight micro-batches, and the norm of the gradients and the loss.
    let (batches, ends) = (8, 2);
    let (received, read, waiting) = step("batched", "1f1b");
    assert_eq!(received, batches);
    let passes = 2 * batches;
    assert_eq!(read, received + (passes - 1) + (batches - 1) + ends);
    // With two chunks activations come for the second, and gradients for both; before one pass there is nothing to
    // receive, and it waits for a send.
    let (received, read, _) = step("batched", "interleaved");
    assert_eq!((received, read), (24, received + 1 + (2 * passes - 1) + (2 * batches - 1) + ends));
    let (_, read, ahead) = step("async", "1f1b");
    assert_eq!(read, (passes - 1) + (batches - 1) + ends);
    assert!(ahead < waiting, "{ahead} {waiting}");
}

/// A bucket without end is sent once for each pass of a chunk where every micro-batch reduces, else once a step.
#[test]
fn a_bucket_without_end_goes_with_a_pass_or_with_the_step() {
    let sent = |kind: &str| {
        let step = run(
            dense(json!({
                "batch": {"global": 8},
                "gradient_buckets": {"bucket_bytes": 1_000_000_000_000_u64},
                "parallelism": {
                    "pipeline": {"size": 2, "schedule": "interleaved", "chunks": 2},
                    "sharding": {"kind": kind},
                },
            })),
            "switch:4,100,1",
        );
        let program = &step.plan.world.programs()[0];
        let is = |info: u32| program.infos[info as usize].name == "reduce-scatter gradients";
        program.ops.iter().filter(|op| is(op.info)).count()
    };
    // Four micro-batches of each replica through two chunks.
    assert_eq!((sent("zero1"), sent("zero2")), (1, 4 * 2));
}
