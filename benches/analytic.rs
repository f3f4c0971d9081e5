//! Closed-form evaluations per second on one thread. The case is written here, so that it runs anywhere: 175 billion
//! parameters, tiled tensor-parallel overlap, interleaving, sharded and offloaded optimizer.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use stepsim::form::calculon::closed_form::{Quirks, estimate};
use stepsim::form::calculon::files::{Calculon, FileNames};

const APPLICATION: &str = r#"{"hidden": 12288, "feedforward": 49152, "seq_size": 2048, "attn_heads": 96,
    "attn_size": 128, "num_blocks": 96}"#;

const EXECUTION: &str = r#"{"num_procs": 512, "tensor_par": 8, "pipeline_par": 8, "data_par": 8,
    "tensor_par_net": 0, "pipeline_par_net": 1, "data_par_net": 1, "batch_size": 512, "microbatch_size": 1,
    "datatype": "float16", "fused_activation": true, "attention_type": "multihead",
    "activation_recompute": "attn_only", "pipeline_interleaving": 3, "optimizer_sharding": true,
    "tensor_par_comm_type": "rs_ag", "tensor_par_overlap": "OVERLAP", "seq_par_ag_redo": false,
    "data_par_overlap": true, "weight_offload": false, "activations_offload": true, "optimizer_offload": true,
    "training": true}"#;

const SYSTEM: &str = r#"{
    "matrix": {"float16": {"tflops": 1000, "gflops_efficiency": [[128, 0.9], [16, 0.8], [1, 0.5], [0, 0.1]]}},
    "vector": {"float16": {"tflops": 120, "gflops_efficiency": [[16, 0.9], [1, 0.5], [0, 0.1]]}},
    "mem1": {"GiB": 80, "GBps": 3350, "MB_efficiency": [[100, 0.9], [10, 0.75], [1, 0.6], [0, 0.3]]},
    "mem2": {"GiB": 512, "GBps": 100, "MB_efficiency": [[100, 0.9], [10, 0.8], [0, 0.3]]},
    "processing_mode": "no_overlap",
    "networks": [
        {"bandwidth": 450, "efficiency": 0.65, "size": 8, "latency": 1e-5, "must_be_filled": true,
         "processor_usage": 0.15, "ops": {"p2p": [1, null], "reduce_scatter": [1, -1], "all_gather": [1, -1],
         "all_reduce": [2, -1]}},
        {"bandwidth": 50, "efficiency": 0.9, "size": 65536, "latency": 2e-5, "must_be_filled": false,
         "processor_usage": 0.02, "ops": {"p2p": [1, null], "reduce_scatter": [1, 0], "all_gather": [1, 0],
         "all_reduce": [2, 0]}}
    ]}"#;

fn evaluations(c: &mut Criterion) {
    let mut group = c.benchmark_group("analytic");
    group.throughput(Throughput::Elements(1));
    for overlap in ["none", "ring"] {
        let execution = EXECUTION.replace("OVERLAP", overlap);
        let case =
            Calculon::parse(FileNames::default(), APPLICATION, &execution, SYSTEM).expect("a valid case");
        group.bench_function(format!("estimate, tensor overlap {overlap}"), |b| {
            b.iter(|| estimate(black_box(&case), Quirks::AS_PUBLISHED).outputs());
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    evaluations(&mut criterion);
    criterion.final_summary();
}
