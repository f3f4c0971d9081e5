//! The stack file: how a training software does its work, whatever the model and the machine.
//!
//! A stack has three parts. `defaults` is a piece of a workload that is laid under every workload of this stack: the
//! software's behaviour unless told otherwise. `attention`, `optimizer` and `tensor_overlap` name the kernels that it
//! runs. `host` describes the host's work to launch them; without it kernels start as soon as the device may.
//!
//! A workload's own fields take precedence over its stack's. A workload without a stack has [`StackSpec::default`]
//! (`simple`): full fusion, one update kernel, no launches.

mod host;
mod optimizer;
mod switch;
mod unaligned;

pub use host::{GraphScope, GraphSpec, HostRead, HostSpec, LaunchTimes, LayerHost, LayerHosts, LayerTimes};
pub use optimizer::{HostUpdateSpec, UpdateKernels, UpdatePass, UpdateSpec};
pub use switch::SwitchSpec;
pub use unaligned::{LOAD_BYTES, UnalignedSpec};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::problem::Problem;
use super::workload::Dtype;
use stepsim_schedule::sharding::ShardingKind;

pub use super::kernel::AttentionGeneration;

/// How a training software does its work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StackSpec {
    /// The software and its release, one sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Where what it does is documented.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// On which measured rows its figures were fitted; empty: on none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fitted_on: String,
    /// A piece of a workload: what the software does where the workload does not say otherwise.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub defaults: Map<String, Value>,
    /// The attention kernel; default: the best that the device has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<AttentionGeneration>,
    /// Where its libraries run batched products of attention on vector units because heads are not aligned; what is not
    /// listed keeps its matrix units.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unaligned: Vec<UnalignedSpec>,
    /// Parts for which the software has one kernel each, regardless of the workload's fusion (Liger, Unsloth, apex,
    /// foak, flash-attention).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fused: Vec<FusedPart>,
    /// Parts that run operation by operation, regardless of the workload's fusion.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub eager: Vec<FusedPart>,
    /// The copies from one layout to another that kernels of their own make.
    #[serde(skip_serializing_if = "CopySpec::is_none")]
    pub copies: CopySpec,
    /// True if its mask is a tensor where `torch.compile` traces the model or the layer has a window: attention then
    /// works on the whole square.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub compiled_mask: bool,
    /// True if it trains fp32 weights by `torch.autocast`. Where all are trained with a master copy and no rank has a
    /// share of it, the residual stream is fp32 and products cast their operands.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub autocast: bool,
    /// True if the compute stream waits for the sum of input gradients over tensor-parallel ranks, and for the second
    /// gathering of an input. Otherwise they run beside the gradients of input and weights.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waits_for_tensor: bool,
    /// True if recomputation of a layer or an MLP ends with the last tensor that its backward pass reads, before the
    /// MLP's last product (PyTorch's checkpoints that are not re-entrant). Otherwise all is computed again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stops_early: bool,
    /// How it comes from gradients to new weights.
    pub optimizer: UpdateSpec,
    /// Device memory that it uses beside tensors.
    #[serde(skip_serializing_if = "MemorySpec::is_none")]
    pub memory: MemorySpec,
    /// The host's work to launch kernels; absent: none, and kernels start as soon as the device may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSpec>,
    /// Its switches beyond the fields that every software has: candidates of a step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchSpec>,
    /// The pipeline schedules that it has: candidates of a step; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedules: Option<Vec<String>>,
    /// How it splits a model beside data parallelism: searches of layouts propose no other split; absent: in every way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub splits: Option<Vec<ModelSplit>>,
    /// The shardings that it has: searches of layouts propose no other; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shardings: Option<StackShardings>,
}

/// The shardings of a software.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StackShardings {
    /// Those that it has without a pipeline.
    pub alone: Vec<ShardingKind>,
    /// Those that it has beside a pipeline.
    pub pipelined: Vec<ShardingKind>,
}

/// A way to split a model over devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ModelSplit {
    /// Matrices of a layer.
    Tensor,
    /// Tokens of a sequence.
    Context,
    /// Layers.
    Pipeline,
    /// Experts of a layer.
    Expert,
}

/// Device memory that a framework uses beside tensors, and the lifetime of gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemorySpec {
    /// The device's context with its loaded kernels, and workspaces of libraries.
    #[serde(rename = "context_GB")]
    pub context_gb: f64,
    /// Buffers and kernels of collectives, where a step has more than one rank.
    #[serde(rename = "collectives_GB")]
    pub collectives_gb: f64,
    /// Buckets of data-parallel sums are copies beside the gradients (PyTorch's DistributedDataParallel).
    pub bucket_copies: bool,
    /// The allocator caches freed blocks (PyTorch's caching allocator): the driver reports more memory than tensors
    /// use, until the device is full.
    pub caches: bool,
    /// Blocks of tensors that tensor-parallel ranks sum stay cached until the sum has run (`recordStream` of PyTorch's
    /// ProcessGroupNCCL): a host that is ahead keeps blocks of whole passes.
    pub collective_inputs_wait: bool,
    /// Gradients exist only from the backward pass that makes them until the update.
    pub gradients_come_and_go: bool,
    /// Checkpointed inputs of layers whose own weights are frozen and gathered stay, and their gradients with them,
    /// until a backward pass has ended (FSDP1: hooks of `register_multi_grad_hook` hold on to them).
    pub frozen_inputs_stay: bool,
}

impl MemorySpec {
    fn is_none(&self) -> bool {
        *self == MemorySpec::default()
    }
}

/// Parts of a step that libraries have one kernel for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FusedPart {
    /// Norms of the residual stream, either way.
    Norm,
    /// The rotation of queries and keys.
    Rotary,
    /// The activation of an MLP and the product with its gate.
    Activation,
    /// Cross-entropy on the logits as the product leaves them; the gradient is written over them.
    Loss,
    /// Adapters: what is scaled, cast and added around their products.
    Adapters,
    /// The softmax of an attention that is not fused, with the scale and the mask of its scores.
    Softmax,
}

/// The copies from one layout to another: messages between ranks and whole tensors, heads between their projection and
/// attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CopySpec {
    /// Weights that are gathered and gradients that are scattered (ZeRO-3).
    pub shards: bool,
    /// Sequences that are gathered and scattered over tensor-parallel ranks.
    pub sequences: bool,
    /// Queries, keys and values of a layer, and their gradients.
    pub heads: bool,
    /// Logits, cast to fp32 and shifted by one token before the loss (Hugging Face's models), and their gradients.
    pub logits: bool,
    /// The logits that were cast stay beside the copies until the loss is known (transformers since 4.46).
    pub logits_stay: bool,
    /// Rows of experts, masked before and behind each of their products and weighed (transformers 5).
    pub expert_rows: bool,
}

impl CopySpec {
    fn is_none(&self) -> bool {
        *self == CopySpec::default()
    }
}

impl StackSpec {
    /// True if the software can split a model so.
    pub fn has(&self, split: ModelSplit) -> bool {
        self.splits.as_ref().is_none_or(|splits| splits.contains(&split))
    }
    /// True if the software can shard so, beside a pipeline or without.
    pub fn shards(&self, kind: ShardingKind, pipelined: bool) -> bool {
        let of = |all: &StackShardings| if pipelined { &all.pipelined } else { &all.alone }.contains(&kind);
        self.shardings.as_ref().is_none_or(of)
    }
    /// Formats whose batched products of attention leave a device's matrix units where heads are not aligned.
    pub fn unaligned_on(&self, device: &str) -> Vec<Dtype> {
        let on_device = self.unaligned.iter().filter(|unaligned| unaligned.holds_on(device));
        on_device.flat_map(|unaligned| unaligned.formats.iter().copied()).collect()
    }
    /// Everything wrong with it but its defaults; `at` is its JSON path.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        let prefix = |name: &str| if at.is_empty() { name.to_string() } else { format!("{at}.{name}") };
        let mut problems = self.optimizer.problems(&prefix("optimizer"));
        let beside = [("context_GB", self.memory.context_gb), ("collectives_GB", self.memory.collectives_gb)];
        for (name, gb) in beside.into_iter().filter(|(_, gb)| !(gb.is_finite() && *gb >= 0.0)) {
            problems.push(Problem {
                path: prefix(&format!("memory.{name}")),
                value: gb.to_string(),
                allowed: "0 or more".into(),
                hint: "0.5 is usual of one process of PyTorch, 1 of NCCL".into(),
            });
        }
        problems.extend(self.host.iter().flat_map(|host| host.problems(&prefix("host"))));
        problems
    }
}
