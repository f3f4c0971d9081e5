//! What a stack says of its host and its copies, each in a test that fails when it is not heeded.

use serde_json::{Value, json};
use stepsim::fabric::topology::Machine;
use stepsim::form::compare::workload::closed_form;
use stepsim::price::model::{LayerPlan, Shard};
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::spec::{WorkloadSpec, from_value};

/// A step of a small model of four layers and eight micro-batches with this stack and these cuts.
fn run(stack: Value, parallelism: Value, topology: &str) -> Simulation {
    let workload = json!({
        "model": {
            "name": "small", "layers": 4, "hidden": 1024, "heads": 16, "ffn": 4096, "vocabulary": 32000,
            "sequence": 1024,
        },
        "batch": {"global": 8},
        "stack": stack,
        "parallelism": parallelism,
    });
    let (topology, machine) = Machine::load(topology, &[]).expect("a machine");
    let workload =
        from_value::<WorkloadSpec>(workload, "test".into(), "test".into(), &[]).expect("a workload");
    let inputs = Inputs::new(workload, topology, machine).expect("inputs");
    Simulation::run(&inputs, &Options::default()).expect("a run")
}
fn seconds(stack: Value, parallelism: Value, topology: &str) -> f64 {
    run(stack, parallelism, topology).record.step_end.s()
}
/// Infos of the first rank's ops of one name: how many ops, and the bytes of each.
fn ops(step: &Simulation, name: &str) -> (usize, f64) {
    let program = &step.plan.world.programs()[0];
    let named = |i: u32| program.infos[i as usize].name == name;
    let bytes = program.infos.iter().find(|i| i.name == name).map_or(0.0, |i| i.bytes);
    (program.ops.iter().filter(|op| named(op.info)).count(), bytes)
}

/// Forward passes are launched slower than they run, backward passes faster: a host that runs ahead in the one makes up
/// for the other, unless it waits for every batch.
#[test]
fn a_host_that_reads_every_batch_does_not_run_ahead() {
    let host = |reads: Value| {
        let layer = json!({"forward": 3000.0});
        json!({"host": {"reads": reads, "layer_us": layer, "launch_us": {"gemm": 1.0, "elementwise": 1.0}}})
    };
    let [free, waits] =
        [json!([]), json!(["batch"])].map(|reads| seconds(host(reads), json!({}), "switch:1,100,1"));
    assert!(waits > 1.02 * free, "{waits} {free}");
}

/// Messages between stages that follow one another are one launch: a host that blocks waits for them together, and
/// neighbours in 1F1B that send to each other do not wait for ever.
#[test]
fn a_host_that_blocks_launches_messages_of_a_stage_together() {
    for p2p in ["batched", "blocking", "async"] {
        let of = |blocking: bool| {
            let stack = json!({
                "host": {"launch_us": {"gemm": 5.0, "elementwise": 5.0, "collective": 5.0}, "queue": 1000, "blocking": blocking}
            });
            seconds(stack, json!({"pipeline": {"size": 4, "p2p": p2p}}), "dgx-a100")
        };
        let (free, blocked) = (of(false), of(true));
        assert!(blocked > free, "{p2p}: {free} and {blocked} s");
    }
}

/// The host's work in each pass of a layer bounds the step from below: 4 layers, 8 micro-batches.
#[test]
fn work_of_the_host_in_every_layer_adds_up() {
    let with = |forward: f64, backward: f64| {
        let host = json!({"layer_us": {"forward": forward, "backward": backward}});
        seconds(json!({"host": host}), json!({}), "switch:1,100,1")
    };
    let (none, both) = (with(0.0, 0.0), with(4000.0, 6000.0));
    assert!(both >= 32.0 * 10e-3 && both < 32.0 * 10e-3 + 1.1 * none, "{both} {none}");
    assert!(with(4000.0, 0.0) < both);
}

/// Tensor-parallel collectives are launched slower by every rank of their group where the pipeline leaves the node.
#[test]
fn collectives_cost_the_host_more_where_the_pipeline_leaves_the_node() {
    let with = |us: f64, topology: &str| {
        let cuts = json!({"tensor": 2, "sequence_parallel": true, "pipeline": {"size": 2}});
        seconds(json!({"host": {"crossing_us": us}}), cuts, topology)
    };
    assert_eq!(with(500.0, "switch:4,100,1"), with(0.0, "switch:4,100,1"));
    let (free, slow) = (with(0.0, "nodes:2*2,100,1,50,5"), with(500.0, "nodes:2*2,100,1,50,5"));
    // Two layers of a stage, four collectives forward and four backward at the least, 1 ms each, eight micro-batches.
    assert!(slow >= 8.0 * 2.0 * 8.0 * 1e-3 && slow > free, "{slow} {free}");
}

/// FSDP2 copies what it gathers and what it scatters; sequences that are gathered along their second dimension too.
#[test]
fn copies_between_layouts_move_what_is_sent() {
    let copies =
        |shards: bool, sequences: bool| json!({"copies": {"shards": shards, "sequences": sequences}});
    let cuts = json!({"data": 2, "tensor": 2, "sequence_parallel": true, "sharding": {"kind": "zero3"}});
    let step = |stack| run(stack, cuts.clone(), "switch:4,100,1");
    let (plain, both) = (step(copies(false, false)), step(copies(true, true)));
    for name in ["copy gathered weights", "copy gradients to send", "copy gathered sequences"] {
        assert_eq!(ops(&plain, name).0, 0, "{name}");
    }
    let (gathers, bytes) = ops(&both, "all-gather weights");
    let (count, moved) = ops(&both, "copy gathered weights");
    assert!(count > 0 && gathers > 0 && moved >= bytes, "{count} {gathers} {moved} {bytes}");
    // Gradients are copied behind backward passes alone, once for each time that they are sent.
    let (sent, bytes) = ops(&both, "reduce-scatter gradients");
    let (count, moved) = ops(&both, "copy gradients to send");
    assert!(count == sent && moved > bytes, "{count} {sent} {moved} {bytes}");
    let (sequences, moved) = ops(&both, "copy gathered sequences");
    // Twice a micro-batch of 1,024 tokens of 1,024 elements in 16 bits.
    assert!(sequences > 0 && moved == 2.0 * 1024.0 * 1024.0 * 2.0, "{sequences} {moved}");
    assert!(both.record.step_end > plain.record.step_end);
}

/// What the host does before the first launch of a step comes before all else, in the closed form too.
#[test]
fn work_of_the_host_before_a_step_is_added_to_it() {
    let with = |us: f64| {
        let step = run(json!({"host": {"step_us": us}}), json!({"pipeline": {"size": 2}}), "switch:2,100,1");
        [closed_form(&step.inputs).expect("a form").terms.total(), step.record.step_end.s()]
    };
    let (free, late) = (with(0.0), with(100_000.0));
    let more = [late[0] - free[0], late[1] - free[1]];
    assert!(more.iter().all(|s| (s - 0.1).abs() < 1e-6), "{more:?}");
}

/// What runs beside kernels piece by piece is laid out by nobody; what the embedding scatters, and gathers of its
/// gradient, is in one piece.
#[test]
fn sequences_that_move_beside_kernels_are_not_copied() {
    let copies = |overlap: &str| {
        let cuts = json!({"tensor": 2, "sequence_parallel": true, "tensor_overlap": overlap});
        let step = run(json!({"copies": {"sequences": true}}), cuts, "switch:2,100,1");
        ["copy gathered sequences", "copy sequences to scatter"].map(|name| ops(&step, name).0)
    };
    let embedding = ops(&run(json!({}), json!({}), "switch:1,100,1"), "embedding").0;
    assert_eq!([copies("ring"), copies("pipelined")], [[embedding; 2]; 2]);
    assert!(copies("none").iter().all(|copies| *copies > 2 * embedding));
}

/// nanotron copies heads on their way to attention and back: forward all three once, keys and values twice more;
/// backward keys and values once, all three twice; of several sequences what attention writes, each way.
#[test]
fn heads_are_copied_where_the_stack_says() {
    let step = |copies: bool| run(json!({"copies": {"heads": copies}}), json!({}), "switch:1,100,1");
    let (plain, copied) = (step(false), step(true));
    assert_eq!(ops(&plain, "lay out heads").0, 0);
    let heads = ["lay out heads", "stack gradients of heads", "order gradients of heads"];
    let pairs = ["join keys and values", "order keys and values", "join key and value gradients"];
    let (layers, all) = ops(&copied, heads[0]);
    // 1,024 tokens of 1,024 elements each of queries, keys and values, in 16 bits, read and written.
    assert!(layers > 0 && all == 2.0 * 3.0 * 1024.0 * 1024.0 * 2.0, "{layers} {all}");
    assert!(heads.iter().all(|name| ops(&copied, name) == (layers, all)));
    assert!(pairs.iter().all(|name| ops(&copied, name) == (layers, all * 2.0 / 3.0)));
    assert_eq!(ops(&copied, "order attended rows").0, 0);
    assert!(copied.record.step_end > plain.record.step_end);
}

/// Gradients of a layer are sent in messages of the bucket's size, tensors whole; nanotron sums them on every rank
/// also with ZeRO-1.
#[test]
fn gradients_are_sent_in_buckets_and_summed_as_the_stack_says() {
    let with = |buckets: Value| {
        let stack = json!({"defaults": {"gradient_buckets": buckets}});
        run(stack, json!({"data": 2, "sharding": {"kind": "zero1"}}), "switch:2,100,1")
    };
    let whole = with(json!({}));
    let (scattered, bytes) = ops(&whole, "reduce-scatter gradients");
    assert!(scattered > 0 && ops(&whole, "all-reduce gradients").0 == 0);
    let summed = with(json!({"all_reduce": true, "bucket_bytes": 1}));
    let (count, each) = ops(&summed, "all-reduce gradients");
    assert!(
        count > scattered && each == bytes,
        "{count} {scattered}; the largest, a table, {each} of {bytes}"
    );
    assert_eq!(ops(&summed, "reduce-scatter gradients").0, 0);
}

/// A bucket is full at its size, not beyond: one of the gradients of one, two or four layers is sent as often as any
/// smaller one down to the next of these.
#[test]
fn a_bucket_is_full_at_its_size() {
    let waits = |bytes: u64| {
        let buckets = json!({"overlap": true, "all_reduce": true, "bucket_bytes": bytes});
        let stack = json!({"defaults": {"gradient_buckets": buckets}});
        let step = run(stack, json!({"data": 2, "sharding": {"kind": "zero1"}}), "switch:2,100,1");
        ops(&step, "all-reduce gradients").0
    };
    // The largest size up to which a bucket is sent as often as one of this size is.
    let until = |from: u64| {
        let (mut same, mut fewer) = (from, 1 << 40);
        while fewer - same > 1 {
            let middle = (same + fewer) / 2;
            *(if waits(middle) == waits(from) { &mut same } else { &mut fewer }) = middle;
        }
        same
    };
    let model = run(json!({}), json!({}), "switch:1,100,1").inputs.model.clone();
    let layer = LayerPlan::transformer(&model, &Shard::whole(&model)).parameters.total();
    let mut sizes = vec![until(1 << 24)];
    while sizes.len() < 4 {
        sizes.push(until(sizes[sizes.len() - 1] + 1));
    }
    // Below, pieces of the table; then one layer, two and all four, in 16 bits.
    assert_eq!(sizes[1..], [1, 2, 4].map(|layers| 2 * layers * layer));
}

/// Weights are gathered in messages of whole matrices from a size on: as many bytes in more messages, which take
/// longer, and the closed form says so.
#[test]
fn weights_are_gathered_matrix_by_matrix() {
    for kind in ["zero1", "zero3"] {
        let with = |sharding: Value| {
            let mut cut = json!({"kind": kind});
            cut.as_object_mut().unwrap().extend(sharding.as_object().unwrap().clone());
            run(json!({}), json!({"data": 4, "sharding": cut}), "switch:4,4000,5")
        };
        let [layer, matrix] = [json!({}), json!({"gather_bucket_bytes": 1})].map(with);
        // By name, an op's bytes are those of its info.
        let sent = |run: &Simulation| {
            let program = &run.plan.world.programs()[0];
            let infos = program.ops.iter().map(|op| &program.infos[op.info as usize]);
            let bytes = infos.filter(|info| info.name == "all-gather weights").map(|info| info.bytes);
            bytes.fold((0, 0.0), |(count, sum), bytes| (count + 1, sum + bytes))
        };
        let ((few, all), (many, same)) = (sent(&layer), sent(&matrix));
        assert!(many > 2 * few && all == same, "{kind}: {few} {many} {all} {same}");
        assert!(matrix.record.step_end > layer.record.step_end, "{kind}");
        for run in [&layer, &matrix] {
            let form = closed_form(&run.inputs).expect("a form").terms.total();
            let step = run.record.step_end.s();
            assert!((form / step - 1.0).abs() < 0.02, "{kind}: {form} {step}");
        }
    }
}
