//! How state is shared among ranks and tiers: what every policy starts from.

use super::idle_links::IdleLinks;
use super::placed::{Placed, placed};
use crate::step::collective::{CollectiveError, Op};
use crate::step::model::CommGroup;
use crate::step::model::muon::{Held, owned};
use crate::step::plan::step::asked::groups_of;
use crate::step::plan::step::groups::{Degrees, Group};
use crate::step::plan::step::unit::{State, Unit};
use crate::step::spec::SpecError;
use crate::step::spec::model::ModelSpec;
use crate::step::spec::workload::{BytesPerParameter, OptimizerKind, ShardingKind, WorkloadSpec};
use crate::step::topology::Machine;

/// How the state of a step is shared among ranks and tiers.
pub struct Shares<'a> {
    pub(in crate::step::plan::step) workload: &'a WorkloadSpec,
    pub(in crate::step::plan::step) degrees: Degrees,
    /// The communicator slots of every program: groups of more than one member that the step uses, and its copies.
    pub(in crate::step::plan::step) groups: Vec<Group>,
    pub(in crate::step::plan::step) placed: Placed,
    /// Bytes of a parameter, by class.
    pub(in crate::step::plan::step) bytes: BytesPerParameter,
    /// Bytes of a parameter's gradient as it is sent.
    pub(in crate::step::plan::step) gradient_message_bytes: f64,
    /// Bytes of a parameter as its weight is sent.
    pub(in crate::step::plan::step) weight_message_bytes: f64,
}

impl<'a> Shares<'a> {
    /// The shares of a step.
    ///
    /// # Errors
    /// Something is placed on a tier that the machine has not.
    pub(crate) fn of(
        workload: &'a WorkloadSpec,
        model: &ModelSpec,
        degrees: Degrees,
        machine: &Machine,
    ) -> Result<Shares<'a>, SpecError> {
        let placed = placed(workload, machine)?;
        Ok(Shares {
            groups: groups_of(workload, model, &degrees, &placed),
            workload,
            degrees,
            placed,
            bytes: workload.bytes_per_parameter(),
            gradient_message_bytes: workload.precision.gradient_communication().bytes(),
            weight_message_bytes: workload.precision.weight_gather_bytes(),
        })
    }

    /// What the step is of.
    pub(crate) fn workload(&self) -> &'a WorkloadSpec {
        self.workload
    }
    /// Whether a group has more than one member and the step uses it.
    pub(super) fn has(&self, group: Group) -> bool {
        self.groups.contains(&group)
    }
    pub(super) fn kind(&self) -> ShardingKind {
        self.workload.parallelism.sharding.kind
    }
    /// Whether weights are cut among more than one rank, or their updates are.
    pub(super) fn gathers(&self) -> bool {
        self.has(Group::Weights) || self.has(Group::ExpertWeights)
    }
    /// Whether each rank keeps a part of the reduced gradients only.
    pub(super) fn gradients_are_cut(&self) -> bool {
        self.kind() >= ShardingKind::Zero2 && (self.has(Group::Gradients) || self.has(Group::ExpertGradients))
    }

    /// Bytes of a unit's gradients as they are sent: of dense weights, and of experts.
    pub(crate) fn gradient_bytes(&self, unit: &Unit) -> [u64; 2] {
        unit.trained_bytes(self.gradient_message_bytes).into()
    }
    /// Bytes of a unit's gradients that tensor-parallel ranks sum, each of its own images.
    pub(crate) fn tensor_sum_bytes(&self, unit: &Unit) -> u64 {
        if unit.plan.sums_over_tensor { self.gradient_bytes(unit)[0] } else { 0 }
    }
    /// Seconds to reduce the gradients of some units together.
    ///
    /// # Errors
    /// A collective that no algorithm can run.
    pub(crate) fn reduction<'u>(
        &self,
        links: &dyn IdleLinks,
        units: impl Iterator<Item = &'u Unit>,
    ) -> Result<f64, CollectiveError> {
        let (mut sizes, mut tensors, mut of_images) = ([0; 2], [0; 2], 0);
        for unit in units {
            of_images += self.tensor_sum_bytes(unit);
            for (i, bytes) in self.gradient_bytes(unit).into_iter().enumerate() {
                sizes[i] += bytes;
                tensors[i] += tensors_of(unit, i == 1);
            }
        }
        let [dense, expert] = sizes;
        let op = if self.scatters() { Op::ReduceScatter } else { Op::AllReduce };
        let shard = dense as f64 / f64::from(self.degrees.shard);
        let reduced = |group, bytes: u64, tensors| {
            let pieces = self.messages(bytes, tensors) as f64;
            Ok::<_, CollectiveError>(pieces * links.collective(group, op, bytes as f64 / pieces)?)
        };
        let images = Group::Layer(CommGroup::Tensor);
        Ok(links.collective(images, Op::AllReduce, of_images as f64)?
            + reduced(Group::Gradients, dense, tensors[0])?
            + links.collective(Group::Replicas, Op::AllReduce, shard)?
            + reduced(Group::ExpertGradients, expert, tensors[1])?)
    }
    /// Whether a rank gets the sums of its share alone.
    pub(super) fn scatters(&self) -> bool {
        let whole = self.kind() == ShardingKind::Zero1 && self.workload.gradient_buckets.all_reduce;
        self.kind() != ShardingKind::None && !whole
    }
    /// In how many messages so many bytes of gradients are sent: a bucket is full when it holds its size or more, and holds
    /// whole tensors.
    pub(super) fn messages(&self, bytes: u64, tensors: u64) -> u64 {
        bytes.checked_div(self.workload.gradient_buckets.bucket_bytes).unwrap_or(1).clamp(1, tensors.max(1))
    }

    /// In how many messages so many bytes of a unit's weights, or of its experts', are gathered: whole matrices, put
    /// together until they have the bytes asked for.
    pub(super) fn gathered_in(&self, unit: &Unit, expert: bool, bytes: u64) -> u64 {
        let Some(bucket) = self.workload.parallelism.sharding.gather_bucket_bytes else { return 1 };
        bytes.div_ceil(bucket.max(1)).clamp(1, tensors_of(unit, expert).max(1))
    }

    /// What optimizer, gradients and weights of some units hold in all on one rank.
    pub(crate) fn state<'u>(&self, units: impl Iterator<Item = &'u Unit>) -> State {
        let d = &self.degrees;
        let ranks = (f64::from(d.shard), f64::from(d.expert_replicas()));
        State::of(units, &self.bytes, ranks.0, ranks.1, self.kind().cuts())
    }
    /// Parameters of some units that one rank updates.
    pub(crate) fn updated<'u>(&self, units: impl Iterator<Item = &'u Unit>) -> u64 {
        let cut = self.kind() >= ShardingKind::Zero1;
        let d = &self.degrees;
        let of = |parameters: u64, ranks: u32| {
            if cut { parameters.div_ceil(u64::from(ranks)) } else { parameters }
        };
        let shares = units.map(|u| {
            let p = u.plan.trained;
            of(p.dense, self.holders(u)) + of(p.expert, d.expert_replicas())
        });
        shares.sum()
    }
    /// The matrices of some units that one rank updates, where the optimizer works on whole ones.
    pub(crate) fn matrices<'u>(&self, units: impl Iterator<Item = &'u Unit>) -> Vec<Held> {
        if self.workload.optimizer.kind != OptimizerKind::Muon {
            return Vec::new();
        }
        let held: Vec<Held> = units.flat_map(|u| u.plan.matrices.iter().copied()).collect();
        let shared = self.kind() >= ShardingKind::Zero1;
        let owners = if shared { (self.degrees.shard, self.degrees.expert_replicas()) } else { (1, 1) };
        owned(&held, owners)
    }
    /// Ranks that share the state of a unit's dense weights.
    pub(super) fn holders(&self, unit: &Unit) -> u32 {
        unit.plan.holders.unwrap_or(self.degrees.shard)
    }
    /// Bytes of a unit's weights as passes read them.
    pub(crate) fn weight_bytes(&self, unit: &Unit) -> u64 {
        let (dense, expert) = unit.weight_bytes(self.bytes.weights);
        dense + expert
    }
    /// Of so many bytes of a unit's dense weights and of its experts', those that this rank holds where weights are cut among ranks: those that others gather from
    /// it, and those that no other rank holds.
    pub(super) fn shard_parts(&self, unit: &Unit, (dense, expert): (u64, u64)) -> [u64; 2] {
        let d = &self.degrees;
        let parts = [
            (dense / u64::from(self.holders(unit)), Group::Weights),
            (expert / u64::from(d.expert_replicas()), Group::ExpertWeights),
        ];
        let sum = |cut: bool| parts.iter().filter(|p| self.has(p.1) == cut).map(|p| p.0).sum();
        [sum(true), sum(false)]
    }
}

/// Weight tensors of a unit, or of its experts: a layer's matrices; experts' matrices of one kind are one tensor.
pub(super) fn tensors_of(unit: &Unit, expert: bool) -> u64 {
    let held = unit.plan.matrices.iter().filter(|held| held.expert == expert);
    held.map(|held| if expert { 1 } else { held.count }).sum()
}
