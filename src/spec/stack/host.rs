//! The host's work to launch kernels.
//!
//! Measured on PyTorch profiles (nanoGPT and Qwen 0.5B on H100, a mixture of experts on B200): a launch holds the host
//! 9 us for an element-wise operation, 50 us for a linear layer, 54 to 106 us for a collective; a kernel on an idle
//! stream starts 2 us behind the return of its launch; about 1,041 launches may be pending; a read-back costs 6 us
//! beyond the wait. Recorded under the profiler, so upper bounds: the defaults are 0.7 of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::{Problem, Problems};
use crate::workload::RecomputeSpec;
use stepsim_core::declare::defaults;
use stepsim_core::kernel_class::{KernelClass, KernelKind};
use stepsim_core::program::Phase;

defaults! {
    /// The host's work to launch kernels. Times hold for a host of slowness 1.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct HostSpec {
        /// How long a launch holds the host, by what is launched: framework, dispatcher and driver.
        pub launch_us: LaunchTimes,
        /// Work of the framework in each pass of a layer beyond its launches: modules, views, autograd, hooks.
        pub layer_us: LayerTimes,
        /// More in layers with experts, before their first kernel: the router's losses and counts, the dispatcher's
        /// bookkeeping.
        pub router_us: LayerTimes,
        /// The same before the first product of experts: the module of grouped products, hooks of its weights. No
        /// graph of a layer holds it where the host reads counts.
        pub expert_us: LayerTimes,
        /// More before what is computed again of a layer, for each part of it that has a checkpoint of its own:
        /// states of random numbers kept and set, a graph of autograd of its own.
        pub checkpoint_us: f64,
        /// The time that each rank of a tensor-parallel group adds to the launch of its collectives where messages of
        /// the pipeline leave the node.
        pub crossing_us: f64,
        /// From the return of a launch to the start of the kernel on an idle stream.
        pub latency_us: f64 = 2.0,
        /// Launches that may be pending before the host has to wait.
        pub queue: u32 = 1041,
        /// A launch returns only after its kernel has ended (`CUDA_LAUNCH_BLOCKING=1`): no two kernels overlap.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub blocking: bool,
        /// The host's cost of a wait for the device, beyond the wait.
        pub synchronise_us: f64 = 6.0,
        /// Values that the host reads back from the device, and so waits for, in every step.
        pub reads: Vec<HostRead>,
        /// Host work of each step that launches nothing: the batch, the scheduler, logging.
        pub step_us: f64,
        /// Host work behind a read of expert counts: the sizes of the next messages and products.
        pub expert_counts_us: f64 = 85.0,
        /// The kernels that are launched together as CUDA graphs.
        pub graphs: GraphSpec,
        /// All host times are multiplied by it: 1 for the hosts of today's H100 machines.
        pub slowness: f64 = 1.0,
    }
}

/// Microseconds before the first kernel of each pass of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerHost {
    /// Of its forward pass.
    pub forward: f64,
    /// Of what is computed again.
    pub again: f64,
    /// Of its backward pass.
    pub backward: f64,
}

impl LayerHost {
    /// Of the pass of a phase.
    pub fn of(&self, phase: Phase) -> f64 {
        match phase {
            Phase::Forward => self.forward,
            Phase::Recompute => self.again,
            Phase::Backward | Phase::InputGrad => self.backward,
            Phase::WeightGrad | Phase::Optimizer => 0.0,
        }
    }
}

/// The same of layers without experts and with them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerHosts {
    /// Without.
    pub dense: LayerHost,
    /// With.
    pub experts: LayerHost,
}

impl LayerHosts {
    /// Of a layer that has experts or not.
    pub fn of(&self, experts: bool) -> &LayerHost {
        if experts { &self.experts } else { &self.dense }
    }
}

defaults! {
    /// How long one launch holds the host, in microseconds.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct LaunchTimes {
        /// A matrix product.
        pub gemm: f64 = 35.0,
        /// An attention kernel.
        pub attention: f64 = 35.0,
        /// Every other kernel.
        pub elementwise: f64 = 12.0,
        /// A collective or a pipeline message.
        pub collective: f64 = 50.0,
        /// A copy to or from another memory tier.
        pub copy: f64 = 10.0,
        /// The same operation again, from the loop of one call (pieces of a product or a message, lists of tensors):
        /// the driver's call alone, 3 to 7 us in the profiles.
        pub again: f64 = 4.0,
        /// Each further expert of a grouped product, whose products are launched one by one in a loop
        /// (Transformer Engine's GroupedLinear over cuBLAS).
        pub group: f64 = 8.0,
    }
}

impl LaunchTimes {
    /// The launch time of a kernel of a class over `groups` groups.
    pub fn of_groups(&self, class: Option<KernelClass>, groups: u64) -> f64 {
        let more = if class.is_some_and(KernelClass::is_grouped) { groups.saturating_sub(1) } else { 0 };
        self.of(class) + more as f64 * self.group
    }
    /// That of a kernel of a class.
    pub fn of(&self, class: Option<KernelClass>) -> f64 {
        match class.map(KernelClass::kind) {
            Some(KernelKind::Gemm(_) | KernelKind::GroupedGemm(_) | KernelKind::Batched) => self.gemm,
            Some(KernelKind::Attention) => self.attention,
            Some(KernelKind::Scan | KernelKind::MemoryBound(_)) | None => self.elementwise,
        }
    }
}

/// How long the passes of one layer hold the host beyond their launches, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LayerTimes {
    /// The forward pass, and forward computed again where the whole of what it stands for is.
    pub forward: f64,
    /// The backward pass; where it is split, the gradient of the inputs.
    pub backward: f64,
}

impl LayerTimes {
    /// Of the pass of a phase.
    pub fn of(&self, phase: Phase) -> f64 {
        let again = self.forward;
        LayerHost { forward: self.forward, again, backward: self.backward }.of(phase)
    }
}

/// A value that the host reads back from the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostRead {
    /// The loss, behind the last pass of the step.
    Loss,
    /// The norm of the gradients, before the update.
    GradientNorm,
    /// How many tokens each expert gets, in every layer that has experts, before its tokens are sent.
    ExpertCounts,
    /// The sizes of the batch, before every forward pass: Megatron's `broadcast_data` copies them back from the device,
    /// and so waits for all kernels before (megatron/mpu/data.py, `sizes_cuda.cpu()`).
    Batch,
    /// Nothing, but all kernels of a pass must be over before the host begins another: Megatron-LM's timers did so
    /// until their levels came in the autumn of 2022 (megatron/timers.py, `torch.cuda.synchronize()` where one starts
    /// or stops; `forward-compute` and `backward-compute` in megatron/schedules.py).
    Passes,
    /// The data from another pipeline stage, before the pass that needs them, where sends and receives do not run
    /// beside passes: Megatron calls `torch.cuda.synchronize()` behind `batch_isend_irecv` (`batch_p2p_sync`),
    /// nanotron reads the shape of every message on the host.
    Transfers,
}

defaults! {
    /// The kernels that are launched together.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct GraphSpec {
        /// The extent of one graph.
        pub scope: GraphScope = GraphScope::None,
        /// How long the launch of a graph holds the host.
        pub launch_us: f64 = 5.0,
        /// From the end of a kernel to the start of the next one in a graph, at most.
        pub kernel_gap_us: f64 = 0.7,
    }
}

/// The extent of one graph; a host read inside ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GraphScope {
    /// There are none: every kernel is launched by itself.
    #[default]
    None,
    /// One pass of one layer.
    Layer,
    /// One pass of one micro-batch.
    Pass,
    /// All passes of a step; the update is launched by itself.
    Passes,
    /// The whole step (as XLA does with its executable).
    Step,
}

impl HostSpec {
    /// The framework's work before the first kernel of a layer's pass under this recomputation.
    pub fn layers(&self, recompute: &RecomputeSpec) -> LayerHosts {
        let layer = |experts: bool| {
            let router = if experts { self.router_us } else { LayerTimes::default() };
            let of_layer = if recompute.repeats_layer() { self.layer_us.forward } else { 0.0 };
            let of_router = if recompute.repeats_router() { router.forward } else { 0.0 };
            LayerHost {
                forward: self.layer_us.forward + router.forward,
                again: f64::from(recompute.parts(experts)) * self.checkpoint_us + of_layer + of_router,
                backward: self.layer_us.backward + router.backward,
            }
        };
        LayerHosts { dense: layer(false), experts: layer(true) }
    }
    /// Everything wrong with it; `at` is its JSON path.
    pub(super) fn problems(&self, at: &str) -> Vec<Problem> {
        let mut p = Problems::new(at);
        let l = &self.launch_us;
        for (name, value) in [
            ("launch_us.gemm", l.gemm),
            ("launch_us.attention", l.attention),
            ("launch_us.elementwise", l.elementwise),
            ("launch_us.collective", l.collective),
            ("launch_us.copy", l.copy),
            ("launch_us.again", l.again),
            ("launch_us.group", l.group),
            ("layer_us.forward", self.layer_us.forward),
            ("layer_us.backward", self.layer_us.backward),
            ("router_us.forward", self.router_us.forward),
            ("router_us.backward", self.router_us.backward),
            ("expert_us.forward", self.expert_us.forward),
            ("expert_us.backward", self.expert_us.backward),
            ("checkpoint_us", self.checkpoint_us),
            ("crossing_us", self.crossing_us),
            ("latency_us", self.latency_us),
            ("synchronise_us", self.synchronise_us),
            ("step_us", self.step_us),
            ("expert_counts_us", self.expert_counts_us),
            ("graphs.kernel_gap_us", self.graphs.kernel_gap_us),
            ("graphs.launch_us", self.graphs.launch_us),
        ] {
            p.range(name, value, 0.0, 1e9);
        }
        p.range("slowness", self.slowness, 1e-3, 1e3);
        p.size("queue", u64::from(self.queue), 1 << 30);
        p.into_list()
    }
}
