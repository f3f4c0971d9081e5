//! Units: what a stage holds, layer by layer, with what each pass of a layer asks of the rank.

use std::borrow::Cow;
use std::sync::Arc;

use super::groups::Degrees;
use stepsim_price::model::{Item, LayerPlan};
use stepsim_schedule::Pass;
use stepsim_spec::workload::{BytesPerParameter, Granularity, RecomputeSpec};

/// A layer of a stage: the embedding, a transformer layer, or the head.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Number of the transformer layer in the model; `None` for embedding, head and units of modules.
    pub layer: Option<u32>,
    /// The module it belongs to, where that is not the language model.
    pub module: Option<Arc<str>>,
    /// The policy of its recomputation.
    pub policy: Arc<RecomputeSpec>,
    /// True if it is recomputed in full, and true if it keeps the input that recomputation starts from.
    pub recompute: FullRecompute,
    /// Kernels, communication and bytes.
    pub plan: Arc<LayerPlan>,
    /// Bytes of all that forward makes for backward, where nothing is recomputed.
    pub saved_bytes: u64,
    /// Bytes of it kept from forward to backward.
    pub kept_bytes: u64,
}

/// Full recomputation of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullRecompute {
    /// Its activations are kept (or recomputed in parts, as the policy says).
    No,
    /// It is recomputed from its own input, which is kept.
    FromItself,
    /// It is recomputed from the kept input of a unit before it.
    FromBefore,
}

impl Unit {
    pub(super) fn new(
        layer: Option<u32>,
        recompute: FullRecompute,
        planned: &SizedPlan,
        policy: &Arc<RecomputeSpec>,
    ) -> Unit {
        let SizedPlan { plan, saved_bytes, unless_full } = planned.clone();
        let kept_bytes = match recompute {
            FullRecompute::No => unless_full,
            FullRecompute::FromItself => plan.boundary_bytes,
            FullRecompute::FromBefore => 0,
        };
        Unit { layer, module: None, policy: policy.clone(), recompute, plan, saved_bytes, kept_bytes }
    }
    /// True if it is the same but for its number.
    pub fn equals(&self, other: &Unit) -> bool {
        Arc::ptr_eq(&self.plan, &other.plan) && self.recompute == other.recompute
    }
    /// Where its ops belong.
    pub(super) fn label(&self) -> Label {
        Label { module: self.module.clone(), layer: self.layer }
    }
    /// The items of a pass, without recomputation.
    pub fn items(&self, pass: Pass) -> &[Item] {
        match pass {
            Pass::Forward => &self.plan.forward,
            Pass::Backward => &self.plan.backward,
            Pass::InputGrad => &self.plan.input_grad,
            Pass::WeightGrad => &self.plan.weight_grad,
        }
    }
    /// The items computed again before the backward pass.
    pub fn repeated(&self) -> Vec<Item> {
        match self.recompute {
            FullRecompute::No if self.policy.granularity == Granularity::Full => Vec::new(),
            FullRecompute::No => self.plan.recompute(&self.policy),
            _ => self.plan.forward.clone(),
        }
    }
    /// Bytes of its weights at `bytes` each: (dense, expert).
    pub fn weight_bytes(&self, bytes: f64) -> (u64, u64) {
        self.plan.weight_bytes(bytes)
    }
    /// Bytes of those that are trained: what gradients, optimizer state and renewed weights go by.
    pub fn trained_bytes(&self, bytes: f64) -> (u64, u64) {
        self.plan.trained.bytes(bytes)
    }
}

/// Where an op belongs: a module, or a layer of the language model.
#[derive(Clone, Debug, Default)]
pub(super) struct Label {
    pub module: Option<Arc<str>>,
    pub layer: Option<u32>,
}

impl Label {
    /// An op's name: names of a module's ops begin with the module's.
    pub fn name(&self, op: &'static str) -> Cow<'static, str> {
        match &self.module {
            Some(module) => format!("{module} {op}").into(),
            None => op.into(),
        }
    }
}

/// True if an op's name is one of a module's.
pub(super) fn names(module: &str, op: &str) -> bool {
    op.strip_prefix(module).is_some_and(|rest| rest.starts_with(' '))
}

/// A layer's plan, the bytes that it makes for backward, and those kept where it is not recomputed in full.
#[derive(Clone, Debug)]
pub(super) struct SizedPlan {
    pub plan: Arc<LayerPlan>,
    saved_bytes: u64,
    unless_full: u64,
}

impl SizedPlan {
    pub fn new(plan: LayerPlan, policy: &RecomputeSpec) -> SizedPlan {
        let saved_bytes = plan.all_saved_bytes();
        let full = policy.granularity == Granularity::Full;
        let unless_full = if full { saved_bytes } else { plan.saved_bytes(policy) };
        SizedPlan { plan: Arc::new(plan), saved_bytes, unless_full }
    }
}

/// The recomputation of the `i`-th transformer layer of a stage under a policy.
pub(super) fn full_recompute(policy: &RecomputeSpec, i: u64) -> FullRecompute {
    let covered = policy.layers.is_none_or(|n| i < n);
    if policy.granularity != Granularity::Full || !covered {
        return FullRecompute::No;
    }
    if i.is_multiple_of(policy.every_layers.unwrap_or(1).max(1)) {
        FullRecompute::FromItself
    } else {
        FullRecompute::FromBefore
    }
}

/// Bytes that the units of one rank have resident, by what the data-parallel ranks share among them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResidentState {
    /// Weights as forward reads them.
    pub weights: f64,
    /// Accumulated gradients.
    pub gradients: f64,
    /// Master weights and moments.
    pub optimizer: f64,
}

impl ResidentState {
    /// The state of `units`, cut as the degrees of the ranks that hold them say.
    pub fn of<'a>(
        units: impl Iterator<Item = &'a Unit>,
        bytes: &BytesPerParameter,
        degrees: &Degrees,
    ) -> ResidentState {
        let mut state = ResidentState::default();
        for unit in units {
            if unit.plan.held_elsewhere {
                continue;
            }
            let (dense_bytes, expert_bytes) = unit.weight_bytes(bytes.weights);
            let trained = unit.plan.trained;
            let (dense, experts) = (degrees.dense_of(&unit.plan), &degrees.experts);
            for (held, trained, cuts) in
                [(dense_bytes, trained.dense, dense), (expert_bytes, trained.expert, experts)]
            {
                let share = |of: u64, ranks: u32| of as f64 / f64::from(ranks);
                state.weights += share(held, cuts.weights);
                if cuts.secondary > 1 {
                    state.weights += share(held, cuts.secondary);
                }
                state.gradients += share(trained, cuts.gradients) * bytes.gradients;
                state.optimizer += share(trained, cuts.optimizer) * bytes.optimizer();
            }
        }
        state
    }
}
