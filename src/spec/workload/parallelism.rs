//! How the work is spread over devices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Attachment;
use stepsim_core::declare::defaults;
use stepsim_schedule::sharding::ShardingKind;
use stepsim_schedule::{BackwardSplit, ChunkCount, ScheduleChoice, Shape};

defaults! {
    /// Degrees of parallelism and how each is carried out.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct ParallelismSpec {
        /// Tensor-parallel degree.
        pub tensor: u64 = 1,
        /// True if norms, dropout and residuals between tensor-parallel parts are cut along the sequence.
        pub sequence_parallel: bool,
        /// With sequence parallelism: whether products keep their gathered input, and do not gather it again for the
        /// gradient of their weights.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub keep_gathered: bool,
        /// How tensor-parallel collectives overlap with their GEMMs.
        pub tensor_overlap: TensorOverlap = TensorOverlap::None,
        /// Context parallelism.
        pub context: ContextSpec,
        /// Expert-parallel degree: the number of ranks that experts are spread over.
        pub expert: u64 = 1,
        /// Tensor-parallel degree inside an expert; default: `tensor` when `expert` is 1, else 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub expert_tensor: Option<u64>,
        /// Pipeline parallelism.
        pub pipeline: PipelineSpec,
        /// Data-parallel degree (model replicas); default: the devices divided by the other degrees.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub data: Option<u64>,
        /// The state that data-parallel ranks share among them instead of each holding it whole.
        pub sharding: ShardingSpec,
        /// The order of axes, nearest neighbours first: ranks are numbered with the first axis fastest.
        pub order: Vec<GroupAxis> = vec![GroupAxis::Tensor, GroupAxis::Context, GroupAxis::Data, GroupAxis::Pipeline],
        /// The device of each rank: path of a JSON list of device numbers in rank order, relative to the workload;
        /// default: rank i on device i.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub rank_map: Option<Attachment>,
    }
}

impl ParallelismSpec {
    /// Tensor-parallel degree inside an expert.
    pub fn expert_tensor(&self) -> u64 {
        self.expert_tensor.unwrap_or(if self.expert > 1 { 1 } else { self.tensor })
    }
}

/// An axis of the rank grid. Expert-parallel groups run over the data, context and tensor axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GroupAxis {
    /// Tensor-parallel peers.
    Tensor,
    /// Context-parallel peers.
    Context,
    /// Data-parallel replicas.
    Data,
    /// Pipeline stages.
    Pipeline,
}

/// How tensor-parallel collectives overlap with the GEMMs beside them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TensorOverlap {
    /// Not at all: each collective stands between two kernels.
    #[default]
    None,
    /// Cut into one piece per peer, passed around a ring while the GEMM works on the piece at hand.
    Ring,
    /// Cut into pieces, each a collective of its own, pipelined with the GEMM's pieces.
    Pipelined,
}

defaults! {
    /// Context parallelism: each sequence is cut over ranks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct ContextSpec {
        /// Degree.
        pub size: u64 = 1,
        /// How attention reaches the keys and values of other ranks.
        pub kind: ContextKind = ContextKind::Ring,
        /// True if each rank holds one piece from the start and one from the end of the sequence, which balances
        /// causal attention; otherwise pieces lie in order and the last rank has the most work.
        pub zigzag: bool = true,
        /// With `documents`: whether each document is cut (in zigzag) by itself instead of the sequence as a whole,
        /// which balances the ranks whatever the documents are, and lets nearly all keys travel.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub per_document: bool,
        /// With `two-level`: ranks of the inner all-to-all group; the ring runs over `size / ulysses_size`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ulysses_size: Option<u64>,
        /// With `documents`: a degree for each document by its length, in groups of powers of two of the ranks of
        /// data × context.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub dynamic: Option<DynamicContextSpec>,
    }
}

/// Dynamic context parallelism: documents are samples, and each is cut over as many ranks as its length asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DynamicContextSpec {
    /// Most tokens of a pass on one rank (Megatron-LM's `max_seqlen_per_dp_cp_rank`); default: what a rank has of a
    /// micro-batch at the static degree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_rank: Option<u64>,
}

impl ContextSpec {
    /// Ranks of the all-to-all over heads, which together see whole runs of the sequence.
    pub fn inner(&self) -> u64 {
        match self.kind {
            ContextKind::Ulysses => self.size,
            ContextKind::TwoLevel => self.ulysses_size.unwrap_or(1).min(self.size),
            ContextKind::Ring | ContextKind::AllGather => 1,
        }
    }
}

/// How attention reaches the keys and values of other ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ContextKind {
    /// Key–value blocks travel around a ring while attention works on the block at hand.
    #[default]
    Ring,
    /// Keys and values are gathered before attention (Llama 3).
    AllGather,
    /// All-to-alls turn a cut of the sequence into a cut of the heads and back (DeepSpeed Ulysses).
    Ulysses,
    /// All-to-all inside, ring outside.
    TwoLevel,
}

defaults! {
    /// Pipeline parallelism.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct PipelineSpec {
        /// Ranks of a pipeline.
        pub size: u64 = 1,
        /// In which order each rank works.
        pub schedule: ScheduleChoice,
        /// Model chunks of one rank (virtual stages); default: what the schedule asks for.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub chunks: Option<u64>,
        /// Interleaved: micro-batches that a rank takes through one chunk before the next; default: `size`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub group_size: Option<u64>,
        /// Layers of each stage in the order of the model (size × chunks entries, 0 for the stages of an encoder);
        /// default: as even as can be.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub layer_split: Option<Vec<u64>>,
        /// The behaviour of sends and receives beside the compute stream.
        pub p2p: PointToPoint = PointToPoint::Async,
        /// True if messages that all tensor-parallel ranks hold alike (no sequence parallelism) are cut among them on
        /// their way to the next stage, and gathered there (Narayanan et al. 2021, section 4.1).
        pub scatter_gather: bool,
        /// With a searched schedule (`zb-auto`): most activations that a rank may hold, in micro-batches; default:
        /// twice `size`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub activation_limit: Option<u64>,
        /// With schedule `file`: the order of every rank, a path relative to the workload.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub order_file: Option<Attachment>,
    }
}

impl PipelineSpec {
    /// True if the schedule cuts each backward pass; `None` where a file has the order.
    pub fn cuts_backward(&self) -> Option<bool> {
        match self.schedule {
            ScheduleChoice::Named(schedule) => Some(schedule.facts().backward == BackwardSplit::Split),
            ScheduleChoice::File => None,
        }
    }
    /// True if the schedule, or the order of a file, pairs a forward with a backward pass.
    pub fn pairs(&self) -> bool {
        match self.choice() {
            ScheduleChoice::Named(schedule) => schedule.facts().pairs,
            ScheduleChoice::File => {
                let content = self.order_file.as_ref().and_then(|file| file.content().ok());
                content.is_some_and(|order| order.to_string().contains('&'))
            }
        }
    }
    /// Model chunks of one rank: as written, or what the schedule asks for.
    pub fn chunks(&self) -> u64 {
        self.chunks.unwrap_or(match self.schedule {
            ScheduleChoice::Named(schedule) if self.size > 1 => schedule.facts().chunks.usual().into(),
            ScheduleChoice::Named(_) | ScheduleChoice::File => 1,
        })
    }
    /// Stages of the model: ranks times chunks. Where passes go two ways every stage is held twice, once for each.
    pub fn stages(&self) -> u64 {
        let directions = match self.schedule {
            ScheduleChoice::Named(schedule) => schedule.facts().directions.into(),
            ScheduleChoice::File => 1,
        };
        self.size.saturating_mul((self.chunks() / directions).max(1))
    }
    /// Copies of every stage in a pipeline: one for each direction; two where a file may say so.
    pub fn copies(&self) -> u64 {
        match self.choice() {
            ScheduleChoice::Named(schedule) => schedule.facts().directions.into(),
            ScheduleChoice::File => 2,
        }
    }
    /// True if stages may go back from the last rank to the first, or two ways: head and embedding are not at the two
    /// ends.
    pub fn turns(&self) -> bool {
        match self.choice() {
            ScheduleChoice::Named(schedule) => matches!(schedule.facts().chunks, ChunkCount::Exactly(2..)),
            ScheduleChoice::File => true,
        }
    }
    /// The schedule that orders the passes; a single stage leaves nothing to order and runs as 1F1B does.
    pub fn choice(&self) -> ScheduleChoice {
        match self.schedule {
            ScheduleChoice::Named(_) if self.size == 1 && self.chunks() == 1 => ScheduleChoice::default(),
            as_written => as_written,
        }
    }
    /// The schedule's numbers.
    pub fn shape(&self, micro_batches: u32) -> Shape {
        Shape {
            ranks: self.size as u32,
            micro_batches,
            chunks: self.chunks.map(|v| v as u16),
            group: self.group_size.filter(|_| self.size > 1).map(|g| g as u32),
        }
    }
}

/// The behaviour of pipeline sends and receives beside the compute stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PointToPoint {
    /// Sends and receives run beside compute; only what needs the data waits.
    #[default]
    Async,
    /// The compute stream waits for every send; receives are posted ahead.
    Blocking,
    /// As `blocking`, and a receive is posted only behind the pass before its consumer (Megatron's batched
    /// send-and-receive without overlap). Interleaved, a forward and a backward pass in a row share one exchange in
    /// both directions, and the next passes wait for all of it.
    Batched,
}

/// The state that data-parallel ranks share among them (ZeRO, FSDP).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShardingSpec {
    /// The kind of sharding.
    pub kind: ShardingKind,
    /// Where weights are cut: whether gathered weights are given up after forward and gathered again for backward;
    /// default: yes (the last layer of a rank keeps its weights, since backward starts with it).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reshard_after_forward: Option<bool>,
    /// Ranks of a group, over which state is cut; it is replicated across such groups (hybrid sharding). Default:
    /// all, or those on one node, as the kind has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
    /// Where weights are cut: which of them are gathered ahead.
    pub prefetch: ShardingPrefetch,
    /// Bytes from which on a gathered message is sent: matrices of a layer are put together until they have so many; 1:
    /// each by itself. Default: a layer in one message (flat parameters).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gather_bucket_bytes: Option<u64>,
    /// Where weights are cut: whether each product gathers its own matrix and gives it up behind itself, and
    /// gradients are reduced matrix by matrix, so that a layer is never whole on the device.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_matrix: bool,
}

defaults! {
    /// The weights that a ZeRO-3 rank gathers ahead.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct ShardingPrefetch {
        /// Layers gathered ahead (FSDP2 does one of itself); 0: when they are needed.
        pub depth: u64 = 1,
        /// FSDP2's explicit lists: entry i names layers (counted from 0 in their stage) that are gathered when layer i
        /// starts its forward pass; what no list names follows `depth`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub forward: Option<Vec<Vec<u64>>>,
        /// The same for the backward pass.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub backward: Option<Vec<Vec<u64>>>,
        /// DeepSpeed's `stage3_prefetch_bucket_size`: elements gathered ahead. Any of these three overrides `depth`;
        /// those left out are DeepSpeed's: 5e7, 1e9, 1e9.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub bucket_elements: Option<u64>,
        /// DeepSpeed's `stage3_max_live_parameters`: gathered elements held at once.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub max_live_elements: Option<u64>,
        /// DeepSpeed's `stage3_max_reuse_distance`: weights used again within this many elements are kept.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub max_reuse_elements: Option<u64>,
    }
}

/// DeepSpeed's limits of what is gathered, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementBudgets {
    /// Gathered ahead of a visit at most.
    pub bucket_elements: u64,
    /// Gathered and not given up at most (what a visit needs itself is gathered all the same).
    pub max_live_elements: u64,
    /// Weights used again within this many elements are kept.
    pub max_reuse_elements: u64,
}

impl ShardingPrefetch {
    /// DeepSpeed's budgets, where one of them is set.
    pub fn budgets(&self) -> Option<ElementBudgets> {
        let given = [self.bucket_elements, self.max_live_elements, self.max_reuse_elements];
        given.iter().any(Option::is_some).then(|| ElementBudgets {
            bucket_elements: self.bucket_elements.unwrap_or(50_000_000),
            max_live_elements: self.max_live_elements.unwrap_or(1_000_000_000),
            max_reuse_elements: self.max_reuse_elements.unwrap_or(1_000_000_000),
        })
    }
}

defaults! {
    /// How gradients are reduced over data-parallel ranks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct GradientBucketSpec {
        /// Bytes of one bucket as it is sent; 0: one bucket per layer. Megatron's is 40 M parameters or more.
        pub bucket_bytes: u64,
        /// True if every rank gets the whole sums also where the optimizer's state is cut among ranks (zero1), by an
        /// all-reduce in place of a reduce-scatter.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub all_reduce: bool,
        /// True if a bucket is reduced as soon as the last micro-batch's backward has filled it, beside compute.
        pub overlap: bool = true,
        /// True if the weights that follow a sharded optimizer step are gathered beside the next forward.
        pub overlap_weight_gather: bool = true,
        /// True if gradients are reduced after every micro-batch instead of once a step; default: true where gradients
        /// are cut (zero2, zero3), since a shard cannot hold unreduced ones.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub reduce_every_micro_batch: Option<bool>,
    }
}
