//! Calculon's three files as our own: a workload (with its model in it) and a topology.
//!
//! The descriptions name what has no counterpart: Calculon's model ends at the last block, so the vocabulary comes
//! from its parameter calculator; a processor of each network has one port; efficiencies stay beside the bandwidths.

use std::collections::BTreeMap;

use super::{
    AttentionProjections, Calculon, CalculonOverlap, Datatype, NetworkTier, ProcessingMode, Recompute,
    TensorComm,
};
use stepsim_schedule::sharding::{NONE, ZERO1};
use stepsim_schedule::{InterleavedOneFOneB, ScheduleChoice};
use stepsim_spec::cost::{CostSpec, Processing};
use stepsim_spec::device::{Device, Hbm, Peaks};
use stepsim_spec::model::{AttentionKernel, AttentionSpec, ModelSpec, Norm, Positions};
use stepsim_spec::topology::{
    Clos, Fabric, Host, Link, Memory, Nics, Node, ScaleUp, Switch, SwitchTier, Topology, Via, core_gbps,
};
use stepsim_spec::workload as w;
use stepsim_spec::{Spec, SpecError, WorkloadSpec};

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
        let (tensor, compute) = (exe.tensor_par, dtype(exe.datatype));
        let sequence_parallel = exe.tensor_par_comm_type == TensorComm::RsAg && tensor > 1;
        let interleaved = exe.pipeline_interleaving > 1;
        let pipeline = w::PipelineSpec {
            size: exe.pipeline_par,
            schedule: if interleaved {
                ScheduleChoice::Named(&InterleavedOneFOneB)
            } else {
                ScheduleChoice::default()
            },
            chunks: interleaved.then_some(exe.pipeline_interleaving),
            // The edge block's reduce-scatter leaves each rank its part of the message.
            scatter_gather: exe.tensor_par_comm_type == TensorComm::P2pRsAg
                && tensor > 1
                && exe.pipeline_par > 1,
            ..Default::default()
        };
        let sharding = w::ShardingSpec {
            kind: w::ShardingKind::of(if exe.optimizer_sharding { &ZERO1 } else { &NONE }),
            ..Default::default()
        };
        let parallelism = w::ParallelismSpec {
            tensor,
            sequence_parallel,
            tensor_overlap: match exe.tensor_par_overlap {
                CalculonOverlap::None => w::TensorOverlap::None,
                CalculonOverlap::Ring => w::TensorOverlap::Ring,
                CalculonOverlap::Pipe => w::TensorOverlap::Pipelined,
            },
            pipeline,
            data: Some(exe.data_par),
            sharding,
            ..Default::default()
        };
        let granularity = match exe.activation_recompute {
            Recompute::Full => w::Granularity::Full,
            Recompute::AttnOnly => w::Granularity::Selective,
            Recompute::None => w::Granularity::None,
        };
        let host = |on: bool| -> Vec<w::Placement> {
            let all = w::Placement { fraction: 1.0, tier: "host".into(), via: Vec::new() };
            on.then_some(all).into_iter().collect()
        };
        let workload = WorkloadSpec {
            name: None,
            description: format!(
                "Imported from Calculon's {}, {}: its blocks with an embedding and an LM head of {VOCABULARY} rows, \
                 which Calculon leaves out (model.vocabulary=1 nearly does); AG redo is not carried over",
                stem(&self.names.application),
                stem(&self.names.execution)
            ),
            topology: Some(topology.into()),
            model: w::ModelRef::Inline(Box::new(self.model())),
            sequence: None,
            documents: None,
            modules: std::collections::BTreeMap::new(),
            batch: w::BatchSpec { global: exe.batch_size, micro_batch: exe.microbatch_size },
            parallelism,
            precision: w::PrecisionSpec {
                compute,
                weights: compute,
                gradients: compute,
                ..Default::default()
            },
            optimizer: w::OptimizerSpec { clip_gradients: false, ..Default::default() },
            training: w::TrainingSpec::default(),
            gradient_buckets: w::GradientBucketSpec {
                overlap: exe.data_par_overlap,
                overlap_weight_gather: false,
                ..Default::default()
            },
            recompute: w::RecomputeSpec { granularity, ..Default::default() },
            offload: w::OffloadSpec {
                weights: host(exe.weight_offload),
                gradients: host(exe.optimizer_offload),
                optimizer: host(exe.optimizer_offload),
                activations: host(exe.activations_offload),
                ..Default::default()
            },
            fusion: Default::default(),
            loss: Default::default(),
            reading: Default::default(),
            stack: None,
            expert: Default::default(),
            expert_load: Default::default(),
            fidelity: w::FidelitySpec { compute: w::ComputeFidelity::Calculon, ..Default::default() },
            noise: Default::default(),
        };
        Spec::validate(&workload).map_err(|e| e.in_file(&self.names.execution))?;
        Ok(workload)
    }

    fn model(&self) -> ModelSpec {
        let app = &self.app;
        ModelSpec {
            name: stem(&self.names.application),
            source: "imported from a Calculon application file".into(),
            layers: app.num_blocks,
            hidden: app.hidden,
            heads: app.attn_heads,
            kv_heads: (self.exe.attention_type == AttentionProjections::Multiquery).then_some(1),
            head_size: Some(app.attn_size),
            ffn: app.feedforward,
            gated_mlp: false,
            vocabulary: VOCABULARY,
            tied_embeddings: true,
            sequence: app.seq_size,
            positions: Positions::Learned,
            biases: true,
            norm: Norm::Layer,
            dropout: true,
            attention: AttentionSpec {
                kernel: AttentionKernel::Standard,
                causal: false,
                ..AttentionSpec::default()
            },
            ..ModelSpec::default()
        }
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

fn dtype(datatype: Datatype) -> w::Dtype {
    match datatype {
        Datatype::Float8 => w::Dtype::Fp8,
        Datatype::Float16 => w::Dtype::Fp16,
        Datatype::Bfloat16 => w::Dtype::Bf16,
        Datatype::Float32 => w::Dtype::Fp32,
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
