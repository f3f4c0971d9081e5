//! Tensors that are kept, tensors that are computed again, and state outside device memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use stepsim_core::declare::defaults;

/// The tensors that are computed again in the backward pass instead of being kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecomputeSpec {
    /// How much.
    pub granularity: Granularity,
    /// With `full`: layers between two kept inputs; default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_layers: Option<u64>,
    /// With `full`: layers of each stage that are recomputed, the rest keeps everything; default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<u64>,
    /// With `modules`: which parts of a layer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<RecomputeModule>,
}

/// How much is recomputed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Granularity {
    /// Nothing.
    #[default]
    None,
    /// The attention core: scores, softmax, dropout, values (Korthikanti et al. 2022).
    Selective,
    /// Whole layers: only the input of every `every_layers`-th is kept.
    Full,
    /// The parts listed in `modules`.
    Modules,
}

/// A part of a layer that can be recomputed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecomputeModule {
    /// Normalisations: the GEMM inputs that they make are not kept.
    Norm,
    /// The QKV projections (with latent attention, the up-projections).
    Qkv,
    /// The attention core.
    AttentionCore,
    /// The projection behind attention: neither its input nor the residual behind it is kept. Named beside
    /// `attention-core`, which makes its input.
    Projection,
    /// The MLP's activation function (the experts' too).
    Activation,
    /// The whole MLP.
    Mlp,
    /// Router, dispatch, experts and combine.
    Moe,
    /// Every second matrix in the order in which the layer multiplies by them (key, output, up), as torchtitan's
    /// checkpointing by operation does; what is cheap is named beside it (`norm`, `activation`).
    EverySecondMatrix,
}

impl RecomputeSpec {
    /// True if whole layers are computed again.
    pub fn repeats_layer(&self) -> bool {
        self.granularity == Granularity::Full
    }
    /// True if routers are computed again.
    pub fn repeats_router(&self) -> bool {
        self.repeats_layer() || self.listed().contains(&RecomputeModule::Moe)
    }
    /// Parts of a layer that have a checkpoint of their own, of a layer with experts or without.
    pub fn parts(&self, experts: bool) -> u32 {
        let of_module = |module: &RecomputeModule| match module {
            // In front of attention and of the MLP.
            RecomputeModule::Norm => 2,
            RecomputeModule::Mlp => u32::from(!experts),
            RecomputeModule::Moe => u32::from(experts),
            RecomputeModule::Qkv
            | RecomputeModule::AttentionCore
            | RecomputeModule::Projection
            | RecomputeModule::Activation
            | RecomputeModule::EverySecondMatrix => 1,
        };
        match self.granularity {
            Granularity::None => 0,
            Granularity::Selective | Granularity::Full => 1,
            Granularity::Modules => self.modules.iter().map(of_module).sum(),
        }
    }
    fn listed(&self) -> &[RecomputeModule] {
        if self.granularity == Granularity::Modules { &self.modules } else { &[] }
    }
}

/// The state that lives outside device memory, and how it is brought in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OffloadSpec {
    /// Where the weights are; fractions must sum to one. Default: all in device memory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<Placement>,
    /// Where the accumulated gradients are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gradients: Vec<Placement>,
    /// Where master weights and moments are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub optimizer: Vec<Placement>,
    /// Where activations saved for backward (checkpoints, with full recomputation) are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub activations: Vec<Placement>,
    /// Only activations of layers 0, n, 2n ... go where `activations` says, all others stay; default: 1, all go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activations_every_layers: Option<u64>,
    /// Only activations of layers that keep at least this many bytes go out, all others stay (Megatron-Core's
    /// `min_offloaded_tensor_size`); default: 0, all go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activations_at_least_bytes: Option<u64>,
    /// Activations stay whose backward pass is among this many next visits of layers, and only older ones go out (the
    /// longest lived first: PipeOffload, Wan et al., ICML 2025); default: the depth of the prefetch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activations_stay_visits: Option<u64>,
    /// How far ahead of its use something is brought in.
    pub prefetch: PrefetchSpec,
    /// True if consecutive micro-batches of one chunk share weights that were brought in once, and add to one gradient
    /// before it is reduced or leaves the device.
    pub reuse_across_micro_batches: bool,
    /// Who runs the optimizer step.
    pub optimizer_on: OptimizerPlace,
    /// With `optimizer_on` host: layers 0, n, 2n ... are updated on the device, through which their state streams,
    /// beside the host's updates of the others (Deep Optimizer States, Maurya et al., Middleware 2024); default:
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer_on_device_every: Option<u64>,
}

/// A share of a memory class on one tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// Share of the class, 0 to 1.
    pub fraction: f64,
    /// The tier: `hbm`, `host`, `cxl`, `nvme`, `remote`, as the topology names it.
    pub tier: String,
    /// Tiers that it passes on its way to the device, the farthest first (HBM ← host ← NVMe: `["host"]`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<String>,
}

impl Placement {
    /// The name of device memory.
    pub const HBM: &'static str = "hbm";
    /// True if this share stays in device memory.
    pub fn on_device(&self) -> bool {
        self.tier == Self::HBM
    }
}

defaults! {
    /// How far ahead of its use something is brought in.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct PrefetchSpec {
        /// How many units ahead; 0: when it is needed.
        pub depth: u64 = 1,
        /// The unit that is counted.
        pub unit: PrefetchUnit = PrefetchUnit::Layers,
    }
}

impl PrefetchSpec {
    /// Layers so near ahead that what they need is not sent away: at least the next one.
    pub fn layers_near(&self) -> usize {
        match self.unit {
            PrefetchUnit::Layers => usize::try_from(self.depth).unwrap_or(usize::MAX).max(1),
            PrefetchUnit::Ops | PrefetchUnit::Bytes => 1,
        }
    }
}

/// The unit of a prefetch distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PrefetchUnit {
    /// Kernels.
    Ops,
    /// Layers.
    #[default]
    Layers,
    /// Bytes in flight or waiting for use.
    Bytes,
}

/// Who runs the optimizer step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OptimizerPlace {
    /// The device; state that lives elsewhere is streamed through.
    #[default]
    Device,
    /// The host: gradients go out, new weights come back (ZeRO-Offload).
    Host,
}

impl OffloadSpec {
    /// Visits of layers so near ahead that activations which they need are not sent away: at least the next one.
    pub fn visits_near(&self) -> usize {
        let stay = self.activations_stay_visits.map(|visits| usize::try_from(visits).unwrap_or(usize::MAX));
        stay.unwrap_or_default().max(self.prefetch.layers_near())
    }
    /// The four classes with their names in the file.
    pub fn classes(&self) -> [(&'static str, &[Placement]); 4] {
        [
            ("weights", &self.weights),
            ("gradients", &self.gradients),
            ("optimizer", &self.optimizer),
            ("activations", &self.activations),
        ]
    }
}
