//! The fields of the three files.

use std::collections::BTreeMap;

use serde::Deserialize;

use stepsim_core::declare::{defaults, named};

/// The model: six integers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// Model width h.
    pub hidden: u64,
    /// MLP inner width f.
    pub feedforward: u64,
    /// Tokens of a sequence s.
    pub seq_size: u64,
    /// Attention heads a.
    pub attn_heads: u64,
    /// Width of one head e; a·e need not equal h.
    pub attn_size: u64,
    /// Transformer blocks N.
    pub num_blocks: u64,
}

named! {
    key:
    /// Number format of weights and activations; behind each the key in a system's `matrix` and `vector` tables.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Datatype {
        /// One byte.
        Float8 = "float8",
        /// Two bytes, IEEE half.
        Float16 = "float16",
        /// Two bytes, brain float.
        Bfloat16 = "bfloat16",
        /// Four bytes.
        Float32 = "float32",
    }
}

impl Datatype {
    /// Bytes of one element, β.
    pub fn bytes(self) -> u64 {
        match self {
            Datatype::Float8 => 1,
            Datatype::Float16 | Datatype::Bfloat16 => 2,
            Datatype::Float32 => 4,
        }
    }
}

/// Shape of the key and value projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttentionProjections {
    /// One key and value head per query head.
    Multihead,
    /// One key and value head in all, replicated over the tensor-parallel group.
    Multiquery,
}

/// The activations that are computed again in the backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recompute {
    /// The whole block.
    Full,
    /// Scores, softmax and their dropout (selective recomputation).
    AttnOnly,
    /// Nothing.
    None,
}

/// How the tensor-parallel group exchanges activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TensorComm {
    /// All-reduce.
    Ar,
    /// All-reduce, but reduce-scatter and all-gather in the last block of a chunk, so that p2p sends 1/t.
    P2pRsAg,
    /// Reduce-scatter and all-gather everywhere: sequence parallelism.
    RsAg,
}

/// Tiled overlap of a GEMM with its collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CalculonOverlap {
    /// The collective runs alone.
    None,
    /// No exposed first tile.
    Ring,
    /// One exposed tile.
    Pipe,
}

/// The strategy: exactly 23 fields.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Execution {
    /// Processors: the product of the three parallelisms.
    pub num_procs: u64,
    /// Tensor parallelism t.
    pub tensor_par: u64,
    /// Pipeline parallelism p.
    pub pipeline_par: u64,
    /// Data parallelism d.
    pub data_par: u64,
    /// Index of the network that carries tensor parallelism.
    pub tensor_par_net: u64,
    /// Index of the network that carries pipeline parallelism.
    pub pipeline_par_net: u64,
    /// Index of the network that carries data parallelism.
    pub data_par_net: u64,
    /// Global batch B in sequences.
    pub batch_size: u64,
    /// Micro-batch b in sequences.
    pub microbatch_size: u64,
    /// Number format.
    pub datatype: Datatype,
    /// The activation function stores nothing.
    pub fused_activation: bool,
    /// Multihead or multiquery.
    pub attention_type: AttentionProjections,
    /// Full, selective or no recomputation.
    pub activation_recompute: Recompute,
    /// Model chunks per processor V.
    pub pipeline_interleaving: u64,
    /// Optimizer state sharded over d (ZeRO-1).
    pub optimizer_sharding: bool,
    /// Collectives of the tensor-parallel group.
    pub tensor_par_comm_type: TensorComm,
    /// Overlap of GEMMs with those collectives.
    pub tensor_par_overlap: CalculonOverlap,
    /// Drop the gathered input and repeat the all-gather in the backward pass.
    pub seq_par_ag_redo: bool,
    /// Overlap data-parallel communication with the backward pass.
    pub data_par_overlap: bool,
    /// Weights live in tier 2.
    pub weight_offload: bool,
    /// Stored activations live in tier 2.
    pub activations_offload: bool,
    /// Optimizer state and gradients live in tier 2.
    pub optimizer_offload: bool,
    /// False: one forward pass.
    pub training: bool,
}

/// Step function: the efficiency of the first row whose threshold is not above the size.
pub type EfficiencyTable = Vec<(f64, f64)>;

/// A compute engine for one number format.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// Peak rate in 10¹² FLOP/s.
    pub tflops: f64,
    /// Efficiency by operation size in 10⁹ FLOP.
    pub gflops_efficiency: EfficiencyTable,
}

/// A memory tier of one processor.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryTier {
    /// Capacity in 2³⁰ bytes.
    #[serde(rename = "GiB")]
    pub capacity_gib: f64,
    /// Peak bandwidth in 10⁹ B/s.
    #[serde(rename = "GBps")]
    pub bandwidth_gbps: f64,
    /// Efficiency by transfer size in 10⁶ bytes.
    #[serde(rename = "MB_efficiency")]
    pub mb_efficiency: EfficiencyTable,
}

/// How compute and memory time of one layer combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessingMode {
    /// The larger of the two.
    Roofline,
    /// Their sum.
    NoOverlap,
}

/// Traffic factors `[scalar, offset]` of the four operations.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkOps {
    /// Point to point; its offset is null.
    pub p2p: (f64, Option<f64>),
    /// Reduce-scatter.
    pub reduce_scatter: (f64, Option<f64>),
    /// All-gather.
    pub all_gather: (f64, Option<f64>),
    /// All-reduce.
    pub all_reduce: (f64, Option<f64>),
}

/// A network tier.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkTier {
    /// Bandwidth of one processor in one direction, in 10⁹ B/s.
    pub bandwidth: f64,
    /// Share of the bandwidth that is reached, in (0, 1].
    pub efficiency: f64,
    /// Largest group in processors.
    pub size: u64,
    /// Seconds added once per operation.
    pub latency: f64,
    /// Traffic factors.
    pub ops: NetworkOps,
    /// The size must be a multiple of the group that uses it.
    pub must_be_filled: bool,
    /// Share of compute lost while communicating, in [0, 1).
    pub processor_usage: f64,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Matrix engine by number format.
    pub matrix: BTreeMap<String, Engine>,
    /// Vector engine by number format.
    pub vector: BTreeMap<String, Engine>,
    /// HBM.
    pub mem1: MemoryTier,
    /// Offload memory; capacity 0 means there is none.
    pub mem2: MemoryTier,
    /// How compute and memory time combine.
    pub processing_mode: ProcessingMode,
    /// Network tiers, the fastest first.
    pub networks: Vec<NetworkTier>,
}

defaults! {
    /// Where the three files came from: the names that errors print.
    #[derive(Clone, Debug, PartialEq)]
    pub struct FileNames {
        /// The application file.
        pub application: String = "application".into(),
        /// The execution file.
        pub execution: String = "execution".into(),
        /// The system file.
        pub system: String = "system".into(),
    }
}
