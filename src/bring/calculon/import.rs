//! Calculon's three files as our own: a workload (with its model in it) and a topology.
//!
//! The descriptions name what has no counterpart: Calculon's model ends at the last block, so the vocabulary comes
//! from its parameter calculator; a processor of each network has one port; efficiencies stay beside the bandwidths.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    AttentionProjections, Calculon, CalculonOverlap, Datatype, NetworkTier, ProcessingMode, Recompute,
    TensorComm,
};
use stepsim_spec::cost::{CostSpec, Processing};
use stepsim_spec::device::{Device, Hbm, Peaks};
use stepsim_spec::topology::{
    Clos, Fabric, Host, Link, Memory, Nics, Node, ScaleUp, Switch, SwitchTier, Topology, Via, core_gbps,
};
use stepsim_spec::{Spec, SpecError, WorkloadSpec, json};

/// Rows of the embedding table that Calculon's parameter calculator counts.
const VOCABULARY: u64 = 51_200;
/// Bytes of 2³⁰ in units of 10⁹.
const GIB: f64 = 1.073_741_824;
/// The largest device memory that a topology may have; Calculon's memory studies have more.
const ENDLESS_GB: f64 = 1_073_741_824.0;

impl Calculon {
    /// The step as our workload; `topology` is what it is to call its machine.
    ///
    /// # Errors
    /// The step has no counterpart: an inference pass, or sizes that our files do not allow.
    pub fn to_workload(&self, topology: &str) -> Result<WorkloadSpec, SpecError> {
        let exe = &self.exe;
        if !exe.training {
            return Err(SpecError::at("training", "false: an inference pass cannot be imported")
                .allowed("true: a workload is a training step")
                .in_file(&self.names.execution));
        }
        let (tensor, format) = (exe.tensor_par, dtype(exe.datatype));
        let interleaved = exe.pipeline_interleaving > 1;
        // The edge block's reduce-scatter leaves each rank its part of the message.
        let scatters = exe.tensor_par_comm_type == TensorComm::P2pRsAg && tensor > 1 && exe.pipeline_par > 1;
        let host = |on: bool| if on { json!([{"fraction": 1.0, "tier": "host"}]) } else { json!([]) };
        let (application, execution) = (stem(&self.names.application), stem(&self.names.execution));
        let mut workload = json!({
            "description": format!(
                "Imported from Calculon's {application}, {execution}: its blocks with an embedding and an LM head of \
                 {VOCABULARY} rows, which Calculon leaves out (model.vocabulary=1 nearly does); AG redo is not \
                 carried over"
            ),
            "topology": topology,
            "model": self.model(),
            "batch": {"global": exe.batch_size, "micro_batch": exe.microbatch_size},
            "parallelism": {
                "tensor": tensor,
                "sequence_parallel": exe.tensor_par_comm_type == TensorComm::RsAg && tensor > 1,
                "tensor_overlap": match exe.tensor_par_overlap {
                    CalculonOverlap::None => "none",
                    CalculonOverlap::Ring => "ring",
                    CalculonOverlap::Pipe => "pipelined",
                },
                "pipeline": {
                    "size": exe.pipeline_par,
                    "schedule": interleaved.then_some("interleaved-1f1b"),
                    "chunks": interleaved.then_some(exe.pipeline_interleaving),
                    "scatter_gather": scatters,
                },
                "data": exe.data_par,
                "sharding": {"kind": if exe.optimizer_sharding { "zero1" } else { "none" }},
            },
            "precision": {"compute": format, "weights": format, "gradients": format},
            "optimizer": {"clip_gradients": false},
            "gradient_buckets": {"overlap": exe.data_par_overlap, "overlap_weight_gather": false},
            "recompute": {"granularity": match exe.activation_recompute {
                Recompute::Full => "full",
                Recompute::AttnOnly => "selective",
                Recompute::None => "none",
            }},
            "offload": {
                "weights": host(exe.weight_offload),
                "gradients": host(exe.optimizer_offload),
                "optimizer": host(exe.optimizer_offload),
                "activations": host(exe.activations_offload),
            },
            "fidelity": {"compute": "calculon"},
        });
        json::remove_nulls(&mut workload);
        let workload: WorkloadSpec = json::typed(&workload).map_err(|e| e.in_file(&self.names.execution))?;
        Spec::validate(&workload).map_err(|e| e.in_file(&self.names.execution))?;
        Ok(workload)
    }

    fn model(&self) -> Value {
        let app = &self.app;
        let kv_heads = (self.exe.attention_type == AttentionProjections::Multiquery).then_some(1);
        json!({
            "name": stem(&self.names.application), "source": "imported from a Calculon application file",
            "layers": app.num_blocks, "hidden": app.hidden,
            "heads": app.attn_heads, "kv_heads": kv_heads, "head_size": app.attn_size,
            "ffn": app.feedforward, "mlp": "dense", "vocabulary": VOCABULARY, "tied_embeddings": true,
            "sequence": app.seq_size,
            "positions": "learned", "biases": true, "norm": "layer", "dropout": true,
            "attention": {"kernel": "standard", "causal": false},
        })
    }

    /// The machine as our topology: the first network joins the devices of a node, the one that data parallelism uses
    /// joins the nodes.
    ///
    /// # Errors
    /// The devices do not fill whole nodes.
    pub fn to_topology(&self) -> Result<Topology, SpecError> {
        let (exe, sys) = (&self.exe, &self.sys);
        let inner = &sys.networks[0];
        let one_network = sys.networks.len() == 1 || inner.size >= exe.num_procs;
        let per_node = if one_network { exe.num_procs } else { inner.size.max(1) };
        let whole = exe.num_procs.is_multiple_of(per_node);
        let (Some(nodes), Ok(devices)) =
            (u32::try_from(exe.num_procs / per_node).ok().filter(|_| whole), u32::try_from(per_node))
        else {
            return Err(SpecError::at("num_procs", format!("{} processors", exe.num_procs))
                .allowed(format!(
                    "a multiple of {per_node}, the size of the first network of {}",
                    self.names.system
                ))
                .hint("nodes of our topologies are full; change networks[0].size or num_procs")
                .in_file(&self.names.execution));
        };
        let has_host = sys.mem2.capacity_gib > 0.0;
        let host_link =
            Link { efficiency: best(&sys.mem2.mb_efficiency), ..Link::of(sys.mem2.bandwidth_gbps, 0.0) };
        let memory = Memory {
            name: "host".into(),
            capacity_gib: sys.mem2.capacity_gib,
            shared_by: Some(1),
            via: Via::Host,
            link: host_link.clone(),
            write_gbps: None,
            write_cache_gb: None,
            port: None,
        };
        let outer = &sys.networks[if one_network { 0 } else { exe.data_par_net.max(1) as usize }];
        let tier =
            SwitchTier { name: "network".into(), serves: None, oversubscription: 1.0, latency_us: 0.0 };
        let topology = Topology {
            description: format!(
                "Imported from Calculon's {}: the latency of an operation stands on the first link that it crosses",
                stem(&self.names.system)
            ),
            device: self.device(),
            nodes,
            node: Some(Node {
                devices: Some(devices),
                scale_up: (devices > 1).then(|| {
                    ScaleUp::Switch(Switch {
                        link: link(inner),
                        latency_us: 0.0,
                        // A traffic factor below the ring's 2: the network adds up by itself.
                        in_switch_reduction: inner.ops.all_reduce.0 < 2.0,
                    })
                }),
                host: has_host.then_some(Host {
                    shared_by: None,
                    link: host_link,
                    link_shared_by: 1,
                    core_gbps: core_gbps(),
                }),
                nics: (nodes > 1).then(|| Nics { shared_by: 1, bundle: 1, link: link(outer) }),
                memory: if has_host { vec![memory] } else { Vec::new() },
            }),
            fabric: (nodes > 1).then(|| {
                Fabric::Clos(Clos { rails: false, pxn: false, tiers: vec![tier], in_switch_reduction: false })
            }),
            sources: BTreeMap::from([("".to_string(), self.names.system.clone())]),
            ..Topology::default()
        };
        topology.validate().map_err(|e| e.in_file(&self.names.system))?;
        Ok(topology)
    }

    fn device(&self) -> Device {
        let sys = &self.sys;
        let mut peaks = Peaks::default();
        for (key, engine) in &sys.matrix {
            match key.as_str() {
                "float8" => peaks.fp8 = Some(engine.tflops),
                "float16" => peaks.fp16 = Some(engine.tflops),
                "bfloat16" => peaks.bf16 = Some(engine.tflops),
                "float32" => peaks.fp32 = Some(engine.tflops),
                _ => {}
            }
        }
        Device {
            name: stem(&self.names.system),
            peak_dense_tflops: peaks,
            hbm: Some(Hbm {
                gb: (sys.mem1.capacity_gib * GIB).min(ENDLESS_GB),
                gbps: sys.mem1.bandwidth_gbps,
                kind: None,
            }),
            cost: Some(CostSpec {
                source: "the efficiency tables of the Calculon system file".into(),
                matrix_by_gflop: self.sys.matrix[self.exe.datatype.key()].gflops_efficiency.clone(),
                memory_by_mb: sys.mem1.mb_efficiency.clone(),
                processing: match sys.processing_mode {
                    ProcessingMode::Roofline => Processing::Roofline,
                    ProcessingMode::NoOverlap => Processing::NoOverlap,
                },
                ..CostSpec::default()
            }),
            ..Device::default()
        }
    }
}

fn dtype(datatype: Datatype) -> &'static str {
    match datatype {
        Datatype::Float8 => "fp8",
        Datatype::Float16 => "fp16",
        Datatype::Bfloat16 => "bf16",
        Datatype::Float32 => "fp32",
    }
}

fn link(net: &NetworkTier) -> Link {
    Link { efficiency: net.efficiency, ..Link::of(net.bandwidth, net.latency * 1e6) }
}

/// The efficiency of the largest sizes.
fn best(table: &[(f64, f64)]) -> f64 {
    table.first().map_or(1.0, |row| row.1)
}

/// A path's file name without its endings.
fn stem(path: &str) -> String {
    let name = std::path::Path::new(path).file_name().map(|n| n.to_string_lossy().into_owned());
    let name = name.unwrap_or_else(|| path.to_string());
    name.trim_end_matches(".gz").trim_end_matches(".json").to_string()
}
