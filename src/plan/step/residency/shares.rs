//! How state is shared among ranks and tiers: what every policy starts from.

use super::idle_links::IdleLinks;
use super::placed::{TierShares, placed};
use crate::step::asked::groups_of;
use crate::step::groups::{Degrees, Group};
use crate::step::unit::{FullRecompute, ResidentState, Unit};
use stepsim_core::ids::DeviceId;
use stepsim_fabric::collective::{CollectiveError, Op};
use stepsim_fabric::topology::Machine;
use stepsim_price::model::CommGroup;
use stepsim_price::model::muon::{MatrixBatch, owned};
use stepsim_price::model::optimizer;
use stepsim_schedule::sharding::{Cuts, Exchange, ShardingFacts};
use stepsim_spec::SpecError;
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::{BytesPerParameter, OptimizerKind, OptimizerPlace, WorkloadSpec};

/// How the state of a step is shared among ranks and tiers.
pub struct StateShares<'a> {
    pub(in crate::step) workload: &'a WorkloadSpec,
    pub(in crate::step) degrees: Degrees,
    /// The communicator slots of every program: groups of more than one member that the step uses, and its copies.
    pub(in crate::step) groups: Vec<Group>,
    pub(in crate::step) placed: TierShares,
    /// Bytes of a parameter, by class.
    pub(in crate::step) bytes: BytesPerParameter,
    /// Bytes of a parameter's gradient as it is sent.
    pub(in crate::step) gradient_message_bytes: f64,
    /// Bytes of a parameter as its weight is sent.
    pub(in crate::step) weight_message_bytes: f64,
    /// By tier: bytes a second that a rank's update there reads, and writes beside it, where all that share it update.
    update_rates: Vec<f64>,
    /// Bytes a second that a core of the host streams.
    core_rate: f64,
    /// By tier: bytes of a step that a rank writes to it before its cache of writes is full; 0 without one.
    pub(in crate::step) write_caches: Vec<u64>,
}

/// The device that stands for all of its kind.
const FIRST: DeviceId = DeviceId(0);

/// Bytes a second that an update on a tier reads for one of the devices that share it.
fn update_rate(machine: &Machine, tier: usize) -> f64 {
    let alone = machine.update_rate(FIRST, tier).unwrap_or(f64::INFINITY);
    if tier == 0 { alone } else { alone / machine.tier_sharers(FIRST, tier) as f64 }
}

impl<'a> StateShares<'a> {
    /// The shares of a step.
    ///
    /// # Errors
    /// Something is placed on a tier that the machine has not.
    pub fn of(
        workload: &'a WorkloadSpec,
        model: &ModelSpec,
        degrees: Degrees,
        machine: &Machine,
    ) -> Result<StateShares<'a>, SpecError> {
        let placed = placed(workload, machine)?;
        let tiers = 0..machine.tier_count(FIRST);
        let write_caches: Vec<u64> = tiers.map(|tier| machine.write_cache(FIRST, tier)).collect();
        let mut groups = groups_of(workload, model, &degrees, &placed);
        let past = groups.iter().filter_map(|group| group.past_cache());
        let past: Vec<Group> = past
            .filter(|group| matches!(group, Group::PastCache(_, to) if write_caches[usize::from(*to)] > 0))
            .collect();
        groups.extend(past);
        Ok(StateShares {
            groups,
            write_caches,
            workload,
            degrees,
            placed,
            bytes: workload.bytes_per_parameter(),
            gradient_message_bytes: workload.gradient_message_bytes(),
            weight_message_bytes: workload.weight_message_bytes(),
            update_rates: match workload.offload.optimizer_on {
                OptimizerPlace::Device => Vec::new(),
                OptimizerPlace::Host => {
                    (0..machine.tier_count(FIRST)).map(|tier| update_rate(machine, tier)).collect()
                }
            },
            core_rate: machine.fabric().core_rate,
        })
    }

    /// The update of `parameters` of a rank where a tier holds their state: the bytes that it reads, and writes beside
    /// them, and its seconds beyond this traffic.
    pub(super) fn host_update(&self, parameters: f64, tier: u8) -> (f64, f64) {
        let host = &self.workload.stack().optimizer.host;
        let pass = optimizer::bytes_moved(1, &self.bytes);
        let bytes = parameters * host.bytes_per_parameter.unwrap_or(pass) / 2.0;
        let rate = self.update_rates.get(usize::from(tier)).copied().unwrap_or(f64::INFINITY);
        (bytes, host.beyond(2.0 * bytes, bytes / rate, self.core_rate))
    }

    /// The workload of the step.
    pub fn workload(&self) -> &'a WorkloadSpec {
        self.workload
    }
    /// True if a group has more than one member and the step uses it.
    pub(super) fn has(&self, group: Group) -> bool {
        self.groups.contains(&group)
    }
    fn has_either(&self, exchange: Exchange) -> bool {
        self.has(Group::Dense(exchange)) || self.has(Group::Experts(exchange))
    }
    /// The facts of the kind of sharding.
    pub(super) fn facts(&self) -> &'static ShardingFacts {
        self.workload.sharding()
    }
    /// True if weights are cut among more than one rank, or their updates are.
    pub(super) fn gathers(&self) -> bool {
        self.has_either(Exchange::Gather)
    }
    /// The groups that gather dense weights and experts for a pass.
    pub(super) fn gather_groups(&self, backward: bool) -> [Group; 2] {
        [Group::Dense as fn(Exchange) -> Group, Group::Experts].map(|of| {
            let near = backward && self.has(of(Exchange::GatherSecondary));
            of(if near { Exchange::GatherSecondary } else { Exchange::Gather })
        })
    }
    /// True if each rank keeps a part of the reduced gradients only.
    pub(super) fn gradients_are_cut(&self) -> bool {
        self.facts().cuts_gradients() && self.has_either(Exchange::Sum)
    }

    /// True if weights are copies that autocast makes in each pass: the master weights alone are there in between.
    pub fn copies_weights(&self) -> bool {
        let workload = self.workload;
        let whole = self.placed.weights.is_empty() && workload.parallelism.pipeline.size == 1;
        whole && workload.autocasts() && workload.training.adapters.is_none()
    }
    /// Gradients live from the backward pass that makes them until the update, if a step has one backward pass
    /// through each unit; with more passes they wait for the last one.
    pub(crate) fn gradients_come_and_go(&self, passes: u32) -> bool {
        passes == 1 && self.workload.stack().memory.gradients_come_and_go && self.placed.gradients.is_empty()
    }
    /// Bytes of a unit's checkpointed input, and of its gradient, that stay until a backward pass has ended.
    pub fn staying_bytes(&self, unit: &Unit) -> u64 {
        let stays = self.workload.stack().memory.frozen_inputs_stay
            && self.workload.training.adapters.is_some()
            && self.facts().cuts_weights()
            && unit.recompute == FullRecompute::FromItself
            && self.placed.activations.is_empty();
        if stays { unit.kept_bytes } else { 0 }
    }
    /// Bytes of the buckets in which gradients of some units are summed, where these are copies.
    pub(super) fn bucket_bytes<'u>(&self, units: impl Iterator<Item = &'u Unit>) -> f64 {
        let copies = self.workload.stack().memory.bucket_copies;
        let there = copies && !self.gradients_are_cut() && self.has_either(Exchange::Sum);
        let parameters = |u: &'u Unit| u.plan.trained.total() as f64;
        if there { units.map(parameters).sum::<f64>() * self.workload.precision.compute.bytes() } else { 0.0 }
    }
    /// Bytes of a unit's gradients that this rank keeps until the update.
    pub(crate) fn gradients_kept_bytes(&self, unit: &Unit) -> u64 {
        (self.gradients_kept(std::iter::once(unit)) as f64 * self.bytes.gradients).round() as u64
    }
    /// Bytes of a unit's gradients as they are sent: of dense weights, and of experts.
    pub fn gradient_bytes(&self, unit: &Unit) -> [u64; 2] {
        unit.trained_bytes(self.gradient_message_bytes).into()
    }
    /// Bytes of a unit's gradients that tensor-parallel ranks sum, each of its own images.
    pub(crate) fn tensor_sum_bytes(&self, unit: &Unit) -> u64 {
        if unit.plan.sums_over_tensor { self.gradient_bytes(unit)[0] } else { 0 }
    }
    /// Bytes of a unit's gradients that pipeline ranks sum, each of its own images.
    pub(crate) fn pipeline_sum_bytes(&self, unit: &Unit) -> u64 {
        if unit.plan.sums_over_pipeline { self.gradient_bytes(unit)[0] } else { 0 }
    }
    /// Seconds to reduce the gradients of some units together.
    ///
    /// # Errors
    /// A collective that no algorithm can run.
    pub fn reduction<'u>(
        &self,
        links: &dyn IdleLinks,
        units: impl Iterator<Item = &'u Unit>,
    ) -> Result<ReductionTimes, CollectiveError> {
        let (mut sizes, mut tensors, mut of_images, mut beside) = ([0; 2], [0; 2], 0, 0);
        let mut degrees = self.degrees;
        for unit in units {
            degrees = self.degrees.of(&unit.plan);
            of_images += self.tensor_sum_bytes(unit);
            beside += self.pipeline_sum_bytes(unit);
            for (i, bytes) in self.gradient_bytes(unit).into_iter().enumerate() {
                sizes[i] += bytes;
                tensors[i] += tensors_of(unit, i == 1);
            }
        }
        let images = Group::Layer(CommGroup::Tensor);
        let mut times = ReductionTimes::default();
        times.hops[0][0] = links.collective(images, Op::AllReduce, of_images as f64)?;
        times.hops[0][0] += links.collective(Group::Pipeline, Op::AllReduce, beside as f64)?;
        for (i, of) in [Group::Dense as fn(Exchange) -> Group, Group::Experts].into_iter().enumerate() {
            for (h, hop) in self.hops(&degrees, of).into_iter().enumerate() {
                let pieces = if hop.in_buckets { self.messages(sizes[i], tensors[i]) } else { 1 } as f64;
                let bytes = sizes[i] as f64 / f64::from(hop.parts) / pieces;
                times.hops[i][h] += pieces * links.collective(hop.group, hop.op, bytes)?;
                times.once[h] = hop.once;
            }
        }
        Ok(times)
    }
    /// The hops in which gradients are summed, of dense weights or of experts, by ranks of these degrees.
    pub(super) fn hops(&self, degrees: &Degrees, of: fn(Exchange) -> Group) -> [ReductionHop; HOPS] {
        let facts = self.facts();
        let whole = self.workload.gradient_buckets.all_reduce && !facts.cuts_gradients();
        let op = match facts.cuts_optimizer() && !whole {
            true if facts.sums_by_all_to_all => Op::AllToAll,
            true => Op::ReduceScatter,
            false => Op::AllReduce,
        };
        let size = |exchange| degrees.size(of(exchange));
        let (near, across) = (size(Exchange::Sum), size(Exchange::SumAcross));
        let once = facts.across_once;
        let between =
            |exchange, op, parts| ReductionHop { group: of(exchange), op, parts, in_buckets: false, once };
        [
            ReductionHop { in_buckets: true, once: false, ..between(Exchange::Sum, op, 1) },
            between(Exchange::SumAcross, op, near),
            between(Exchange::SumReplicas, Op::AllReduce, near * across),
        ]
    }
    /// The number of messages in which `bytes` of gradients are sent: a bucket is full when it holds its size or more,
    /// and holds whole tensors.
    pub(super) fn messages(&self, bytes: u64, tensors: u64) -> u64 {
        bytes.checked_div(self.workload.gradient_buckets.bucket_bytes).unwrap_or(1).clamp(1, tensors.max(1))
    }

    /// The number of messages in which `bytes` of a unit's weights, or of its experts', are gathered: whole matrices,
    /// put together until they have the bytes asked for.
    pub(super) fn gathered_in(&self, unit: &Unit, expert: bool, bytes: u64) -> u64 {
        let Some(bucket) = self.workload.parallelism.sharding.gather_bucket_bytes else { return 1 };
        bytes.div_ceil(bucket.max(1)).clamp(1, tensors_of(unit, expert).max(1))
    }

    /// Of a unit's gathered weights, or of gradients that are reduced as they are made, the share that is on the
    /// device at once: all, or the widest matrix.
    pub(super) fn live_share(&self, unit: &Unit) -> f64 {
        let sharding = &self.workload.parallelism.sharding;
        let whole = unit.plan.parameters.total() as f64;
        let cut = self.workload.sharding().cuts_weights();
        if !(sharding.by_matrix && cut) || sharding.reshard_after_forward == Some(false) || whole == 0.0 {
            return 1.0;
        }
        unit.plan.matrices.iter().map(tensor).max().map_or(1.0, |widest| (widest as f64 / whole).min(1.0))
    }

    /// The bytes of optimizer, gradients and weights of some units together on one rank.
    pub(crate) fn state<'u>(&self, units: impl Iterator<Item = &'u Unit>) -> ResidentState {
        ResidentState::of(units, &self.bytes, &self.degrees)
    }
    /// Parameters of some units that one rank updates.
    pub fn updated<'u>(&self, units: impl Iterator<Item = &'u Unit>) -> u64 {
        self.trained_part(units, |cuts| cuts.optimizer)
    }
    /// Parameters of some units of whose gradients one rank keeps the sums.
    pub fn gradients_kept<'u>(&self, units: impl Iterator<Item = &'u Unit>) -> u64 {
        self.trained_part(units, |cuts| cuts.gradients)
    }
    fn trained_part<'u>(&self, units: impl Iterator<Item = &'u Unit>, over: fn(&Cuts<u32>) -> u32) -> u64 {
        let experts = u64::from(over(&self.degrees.experts));
        let part = |u: &Unit| {
            let dense = u64::from(over(self.degrees.dense_of(&u.plan)));
            u.plan.trained.dense.div_ceil(dense) + u.plan.trained.expert.div_ceil(experts)
        };
        units.map(part).sum()
    }
    /// The matrices of some units that one rank updates, where the optimizer works on whole ones.
    pub fn matrices<'u>(&self, units: impl Iterator<Item = &'u Unit>) -> Vec<MatrixBatch> {
        if self.workload.optimizer.kind != OptimizerKind::Muon {
            return Vec::new();
        }
        let mut degrees = self.degrees;
        let mut held: Vec<MatrixBatch> = Vec::new();
        for unit in units {
            degrees = self.degrees.of(&unit.plan);
            held.extend(&unit.plan.matrices);
        }
        owned(&held, (degrees.dense.optimizer, degrees.experts.optimizer))
    }
    /// Bytes of a unit's weights as passes read them.
    pub fn weight_bytes(&self, unit: &Unit) -> u64 {
        let (dense, expert) = unit.weight_bytes(self.bytes.weights);
        dense + expert
    }
    /// Ranks over which dense weights are cut.
    pub fn weights_cut(&self) -> f64 {
        f64::from(self.degrees.dense.weights)
    }
    /// The part of a unit's dense and expert bytes that this rank holds where weights are cut among ranks: bytes that
    /// others gather from it, and bytes that no other rank holds.
    pub(super) fn shard_parts(&self, unit: &Unit, (dense, expert): (u64, u64)) -> [u64; 2] {
        let degrees = self.degrees.of(&unit.plan);
        let parts = [(dense, Group::Dense(Exchange::Gather)), (expert, Group::Experts(Exchange::Gather))];
        let part = |(bytes, group): &(u64, Group)| bytes / u64::from(degrees.size(*group));
        let sum = |cut: bool| parts.iter().filter(|p| (degrees.size(p.1) > 1) == cut).map(part).sum();
        [sum(true), sum(false)]
    }
}

/// The number of hops on which gradients are summed.
const HOPS: usize = 3;

/// When streams are free, in seconds: of dense weights and of experts, a stream for each hop.
pub type ReductionStreams = [[f64; HOPS]; 2];

/// Seconds to reduce the gradients of some units together, hop after hop. While one bucket is on its second hop, the
/// next is on its first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReductionTimes {
    /// Of dense weights and of experts, by hop.
    hops: [[f64; HOPS]; 2],
    /// Hops that are taken once a step.
    once: [bool; HOPS],
}

impl ReductionTimes {
    /// Seconds of a reduction by itself; the hops that are taken once a step are part of the `last`.
    pub fn alone(&self, last: bool) -> f64 {
        self.runs(0.0, last, &mut ReductionStreams::default())
    }
    /// True if a reduction takes any time by itself.
    pub fn is_any(&self, last: bool) -> bool {
        let runs =
            |hops: &[f64; HOPS]| hops.iter().zip(self.once).any(|(s, once)| *s > 0.0 && (last || !once));
        self.hops.iter().any(runs)
    }
    /// Adds the seconds of several runs to each stream: those before the last, and last ones.
    pub fn add(&self, runs: [f64; 2], streams: &mut ReductionStreams) {
        for (hops, streams) in self.hops.iter().zip(streams) {
            for ((seconds, once), stream) in hops.iter().zip(self.once).zip(streams) {
                *stream += seconds * (runs[1] + if once { 0.0 } else { runs[0] });
            }
        }
    }
    /// When a reduction that may begin at a time is done, on these streams.
    pub fn runs(&self, begin: f64, last: bool, streams: &mut ReductionStreams) -> f64 {
        let mut end = begin;
        for (hops, streams) in self.hops.iter().zip(streams) {
            let mut at = begin;
            for ((seconds, once), stream) in hops.iter().zip(self.once).zip(streams) {
                if *seconds > 0.0 && (last || !once) {
                    *stream = stream.max(at) + seconds;
                    at = *stream;
                }
            }
            end = end.max(at);
        }
        end
    }
}

/// A hop on which gradients are summed.
pub(super) struct ReductionHop {
    pub group: Group,
    pub op: Op,
    /// The number of parts of a unit's gradients; a rank sends one.
    pub parts: u32,
    /// True if it is sent in messages of the size of a bucket.
    pub in_buckets: bool,
    /// True if it is taken once a step, by complete gradients alone.
    pub once: bool,
}

/// Elements of the tensor that a matrix is: itself, or the matrices of one kind of all experts.
fn tensor(held: &MatrixBatch) -> u64 {
    if held.expert { held.elements() } else { held.short * held.long }
}

/// Weight tensors of a unit, or of its experts: a layer's matrices; experts' matrices of one kind are one tensor.
pub(super) fn tensors_of(unit: &Unit, expert: bool) -> u64 {
    let held = unit.plan.matrices.iter().filter(|held| held.expert == expert);
    held.map(|held| if expert { 1 } else { held.count }).sum()
}
