//! The workload file: one training step of one model, and how it is spread over devices.
//!
//! Every part has defaults, so a model, a batch and the degrees of parallelism are enough. Validation comes in two
//! steps: [`WorkloadSpec::validate`] needs the model alone; [`WorkloadSpec::validate_on`] also needs the number of
//! devices and the names of their memory tiers. Both return every problem found, not just the first.

mod check;
mod check_dynamic;
mod check_expert;
mod check_memory;
mod check_modules;
mod check_pipeline;
mod check_precision;
mod check_training;
mod documents;
mod expert;
mod inert;
mod loss;
mod memory;
mod modules;
mod noise;
mod parallelism;
mod precision;
mod reading;
mod run;
mod training;
mod used_modules;

pub use super::dtype::Dtype;
pub use super::reference::Reference;
pub use documents::{CutDocument, DocumentsSpec, DrawnLengths, SequenceOrder};
pub use expert::{DispatcherKind, ExchangeFormats, ExpertOverlap, ExpertSpec, RowFormat};
pub use inert::NoEffect;
pub use loss::LossSpec;
pub use memory::{
    Granularity, OffloadSpec, OptimizerPlace, Placement, PrefetchSpec, PrefetchUnit, RecomputeModule,
    RecomputeSpec,
};
pub use modules::{DrawnItems, ModuleDevices, ModuleParallelism, ModuleUseSpec, TrainedPart};
pub use noise::{NoiseSpec, SlowLinkSpec, StragglerSpec};
pub use parallelism::{
    ContextKind, ContextSpec, DynamicContextSpec, ElementBudgets, GradientBucketSpec, GroupAxis,
    ParallelismSpec, PipelineSpec, PointToPoint, ShardingPrefetch, ShardingSpec, TensorOverlap,
};
pub use precision::{BytesPerParameter, Fp8Gemm, Fp8Spec, OptimizerKind, OptimizerSpec, PrecisionSpec};
pub use reading::{OpenField, ReadingSpec};
pub use run::{
    CollectiveFidelity, ComputeFidelity, ExpertBalance, ExpertLoadSpec, FidelitySpec, KernelFusion,
};
pub use stepsim_schedule::sharding::ShardingKind;
pub use training::{AdaptedMatrix, AdapterSpec, FrozenFormat, TrainedWeights, TrainingSpec};
pub use used_modules::UsedModule;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::ModelSpec;
use super::stack::{HostSpec, StackSpec};
use stepsim_core::declare::one_long;
use stepsim_schedule::sharding::ShardingFacts;

/// One training step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// Name in reports; default: the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its description, with the source of its figures.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The topology that it is meant for, by name or path, where none is given on the command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
    /// The model: a name, a path relative to this file, or the model itself.
    pub model: ModelRef,
    /// Tokens of one sequence; default: the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// How many sequences.
    pub batch: BatchSpec,
    /// Documents packed into the sequences; default: every sequence is one document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<DocumentsSpec>,
    /// The modules of the model that the step runs, by name; default: none, the step is of text alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub modules: BTreeMap<String, ModuleUseSpec>,
    /// The training software: a name, a path relative to this file, or the stack itself; default: `simple`, whose
    /// kernels are all fused and launched at no cost. This file takes precedence over its stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<StackRef>,
    /// How the work is spread over devices.
    #[serde(default)]
    pub parallelism: ParallelismSpec,
    /// Number formats and bytes of state.
    #[serde(default)]
    pub precision: PrecisionSpec,
    /// The optimizer.
    #[serde(default)]
    pub optimizer: OptimizerSpec,
    /// The weights that are trained; default: all.
    #[serde(default, skip_serializing_if = "TrainingSpec::is_default")]
    pub training: TrainingSpec,
    /// How gradients are reduced over data-parallel ranks.
    #[serde(default)]
    pub gradient_buckets: GradientBucketSpec,
    /// The tensors that are computed again in the backward pass instead of being kept.
    #[serde(default)]
    pub recompute: RecomputeSpec,
    /// The state that lives outside device memory.
    #[serde(default)]
    pub offload: OffloadSpec,
    /// The element-wise work that the software runs in kernels of its own.
    #[serde(default)]
    pub fusion: KernelFusion,
    /// How the loss is computed.
    #[serde(default, skip_serializing_if = "LossSpec::is_default")]
    pub loss: LossSpec,
    /// How tokens travel to experts.
    #[serde(default)]
    pub expert: ExpertSpec,
    /// How evenly tokens spread over experts.
    #[serde(default)]
    pub expert_load: ExpertLoadSpec,
    /// How closely each subject is simulated.
    #[serde(default)]
    pub fidelity: FidelitySpec,
    /// Jitter, stragglers and slow links.
    #[serde(default)]
    pub noise: NoiseSpec,
    /// The doubts of reading files of other software into this one.
    #[serde(default, skip_serializing_if = "ReadingSpec::is_default")]
    pub reading: ReadingSpec,
}

/// How many sequences one step has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchSpec {
    /// Sequences of one step over all ranks.
    pub global: u64,
    /// Sequences of one micro-batch on one data-parallel rank.
    #[serde(default = "one_long")]
    pub micro_batch: u64,
}

/// A model by name or path, or written out.
pub type ModelRef = Reference<ModelSpec>;

/// A stack by name or path, or written out.
pub type StackRef = Reference<StackSpec>;

impl WorkloadSpec {
    /// The software: from the file, resolved, or the simple one.
    pub fn stack(&self) -> &StackSpec {
        static SIMPLE: LazyLock<StackSpec> = LazyLock::new(StackSpec::default);
        match &self.stack {
            Some(Reference::Inline(stack)) => stack,
            _ => &SIMPLE,
        }
    }
    /// The host's work, where its launches are simulated.
    pub fn host(&self) -> Option<&HostSpec> {
        self.stack().host.as_ref().filter(|_| self.fidelity.launch_overhead)
    }
    /// Tokens of one sequence.
    pub fn sequence(&self, model: &ModelSpec) -> u64 {
        self.sequence.unwrap_or(model.sequence)
    }
    /// With dynamic context parallelism: most tokens of a pass on one rank.
    pub fn tokens_per_rank(&self, model: &ModelSpec) -> u64 {
        let context = &self.parallelism.context;
        let stated = context.dynamic.and_then(|dynamic| dynamic.tokens_per_rank);
        let micro_batch = self.batch.micro_batch.saturating_mul(self.sequence(model));
        stated.unwrap_or(micro_batch.div_ceil(context.size))
    }
    /// Ranks of one replica of the language model: tensor × context × pipeline.
    pub fn ranks_per_replica(&self) -> u64 {
        let p = &self.parallelism;
        p.tensor.saturating_mul(p.context.size).saturating_mul(self.grid_stages())
    }
    /// Ranks of a module on devices of its own.
    pub fn module_ranks(&self) -> u64 {
        self.module_devices().map_or(0, ModuleDevices::ranks)
    }
    /// Data-parallel degree on `devices`: as written, or the quotient that the other degrees leave.
    pub fn data_parallel(&self, devices: u64) -> u64 {
        let left = devices.saturating_sub(self.module_ranks());
        self.parallelism.data.unwrap_or(left / self.ranks_per_replica().max(1))
    }
    /// Ranks that the degrees ask for; `None` where `data` is left to the machine.
    pub fn ranks(&self) -> Option<u64> {
        let replicas = self.parallelism.data.map(|d| d.saturating_mul(self.ranks_per_replica()));
        replicas.map(|ranks| ranks.saturating_add(self.module_ranks()))
    }
    /// Bytes of a rank's device memory that are no tensors: its context, and buffers of collectives.
    pub fn context_bytes(&self) -> u64 {
        let memory = &self.stack().memory;
        let collectives = if self.ranks() == Some(1) { 0.0 } else { memory.collectives_gb };
        (1e9 * (memory.context_gb + collectives)).round() as u64
    }
    /// Micro-batches of one step on one data-parallel rank (gradient-accumulation steps where there is no pipeline).
    pub fn micro_batches(&self, devices: u64) -> u64 {
        self.batch.global / self.data_parallel(devices).saturating_mul(self.batch.micro_batch).max(1)
    }
    /// Share of a step's micro-batches whose gradients are added to what is there: not the first one's where gradients
    /// come and go (PyTorch takes them as they are; torch/csrc/autograd/functions/accumulate_grad.h).
    pub fn accumulated_share(&self) -> f64 {
        match self.parallelism.data {
            Some(data) if self.stack().memory.gradients_come_and_go => {
                let one = data.saturating_mul(self.batch.micro_batch) as f64;
                (1.0 - one / self.batch.global.max(1) as f64).max(0.0)
            }
            _ => 1.0,
        }
    }
    /// True if `torch.autocast` works beside fp32 weights on each rank.
    pub fn autocasts(&self) -> bool {
        let narrow = self.precision.compute.bytes() < self.precision.master_bytes_per_parameter;
        narrow && self.stack().autocast && !self.sharding().cuts_optimizer()
    }
    /// The facts of the kind of sharding.
    pub fn sharding(&self) -> &'static ShardingFacts {
        self.parallelism.sharding.kind.facts()
    }
    /// True if gradients are reduced after every micro-batch, not once a step.
    pub fn reduces_every_micro_batch(&self) -> bool {
        self.gradient_buckets.reduce_every_micro_batch.unwrap_or(self.sharding().cuts_gradients())
    }
    /// Bytes of a gradient as it is sent between data-parallel ranks: in the stated format, or in the format of the
    /// kind of sharding.
    pub fn gradient_message_bytes(&self) -> f64 {
        let of_kind =
            self.sharding().gradient_bytes.filter(|_| self.precision.gradient_communication.is_none());
        of_kind.unwrap_or(self.precision.gradient_communication().bytes())
    }
    /// Bytes of a weight as data-parallel ranks gather it: in the stated format, or in the format of the kind of
    /// sharding.
    pub fn weight_message_bytes(&self) -> f64 {
        let of_kind = self.sharding().weight_bytes.filter(|_| self.precision.weight_communication.is_none());
        of_kind.unwrap_or(self.precision.weight_gather_bytes())
    }
    /// Bytes that one parameter costs, class by class, before sharding and offload.
    pub fn bytes_per_parameter(&self) -> BytesPerParameter {
        let mut bytes = self.precision.bytes_per_parameter(self.optimizer.kind);
        if let (None, Reference::Inline(model)) = (self.precision.moments_bytes_per_parameter, &self.model) {
            bytes.moments = self.optimizer.kind.mean_moments_bytes(model);
        }
        bytes
    }
}
