//! Who communicates with whom: the groups of a rank, and their members in the rank grid.

use stepsim_core::ids::RankId;
use stepsim_core::program::StreamKind;
use stepsim_fabric::topology::{Axis, Front, Layout};
use stepsim_price::model::{CommGroup, LayerPlan};
use stepsim_schedule::sharding::{Cuts, Exchange};

/// A group that a rank belongs to. Its place in `Groups::list` is the communicator slot of the rank's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Inside a layer, as the model says.
    Layer(CommGroup),
    /// Of the ranks that hold the same dense weights (data × context), those that exchange their state.
    Dense(Exchange),
    /// Of the ranks that hold the same experts, those that exchange their state.
    Experts(Exchange),
    /// Two stages of one pipeline that hold the embedding table: the stage of the embedding, and the last.
    Embedding,
    /// Stages of one pipeline at the same place, which hold a module each: its gradients.
    Pipeline,
    /// Ranks that together hold one model (tensor × pipeline): the norm of its gradients.
    Model,
    /// A copy from a tier to device memory (one member).
    CopyIn(u8),
    /// A copy from device memory to a tier (one member).
    CopyOut(u8),
    /// A copy from one tier to a nearer one (one member).
    TierIn(u8, u8),
    /// A copy from one tier to a farther one (one member).
    TierOut(u8, u8),
    /// A copy to a tier, from device memory (0) or a nearer tier, whose cache of writes is full (one member).
    PastCache(u8, u8),
    /// The host's update of state on a tier (one member).
    HostUpdate(u8),
}

impl Group {
    /// True for a copy or work of the host, for one rank alone.
    pub fn is_local(self) -> bool {
        use Group::{CopyIn, CopyOut, HostUpdate, PastCache, TierIn, TierOut};
        matches!(self, CopyIn(_) | CopyOut(_) | TierIn(..) | TierOut(..) | PastCache(..) | HostUpdate(_))
    }
    /// The same copy where the tier's cache of writes is full.
    pub fn past_cache(self) -> Option<Group> {
        match self {
            Group::CopyOut(tier) => Some(Group::PastCache(0, tier)),
            Group::TierOut(from, to) => Some(Group::PastCache(from, to)),
            _ => None,
        }
    }
    /// The stream that its ops are queued on.
    pub fn stream(self) -> StreamKind {
        match self {
            Group::Layer(CommGroup::Tensor) => StreamKind::Tensor,
            Group::Layer(
                CommGroup::Context
                | CommGroup::ContextInner
                | CommGroup::ContextOuter
                | CommGroup::ContextOf(_),
            ) => StreamKind::Context,
            Group::Layer(CommGroup::Expert | CommGroup::ExpertTensor) => StreamKind::Expert,
            Group::CopyIn(_) | Group::TierIn(..) => StreamKind::CopyIn,
            Group::CopyOut(_) | Group::TierOut(..) | Group::PastCache(..) => StreamKind::CopyOut,
            Group::HostUpdate(_) => StreamKind::Host,
            _ => StreamKind::Data,
        }
    }
}

/// Sizes of the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Degrees {
    /// Tensor-parallel.
    pub tensor: u32,
    /// Context-parallel.
    pub context: u32,
    /// Inner group of two-level context parallelism.
    pub context_inner: u32,
    /// True if the degree of context parallelism is chosen for each document.
    pub dynamic: bool,
    /// Expert-parallel.
    pub expert: u32,
    /// Tensor-parallel inside an expert.
    pub expert_tensor: u32,
    /// Data-parallel.
    pub data: u32,
    /// Pipeline ranks, the front among them.
    pub pipeline: u32,
    /// Degrees of the first pipeline rank where a module has devices of its own; all else here is of those behind it.
    pub front: Option<Front>,
    /// Copies of every stage in a pipeline: one, or one for each direction.
    pub copies: u32,
    /// Pipeline ranks of the embedding and of the head, where none has both.
    pub ends: Option<[u32; 2]>,
    /// Ranks over which the state of dense weights is cut.
    pub dense: Cuts<u32>,
    /// Ranks over which the state of experts is cut.
    pub experts: Cuts<u32>,
    /// Ranks over which the state of a module on devices of its own is cut.
    pub front_dense: Cuts<u32>,
}

/// Each rank holds everything.
pub(super) const UNCUT: Cuts<u32> = Cuts { weights: 1, secondary: 1, gradients: 1, summed: 1, optimizer: 1 };

impl Degrees {
    /// Of a rank alone.
    pub(super) const ONE_RANK: Degrees = Degrees {
        tensor: 1,
        context: 1,
        context_inner: 1,
        dynamic: false,
        expert: 1,
        expert_tensor: 1,
        data: 1,
        pipeline: 1,
        front: None,
        copies: 1,
        ends: None,
        dense: UNCUT,
        experts: UNCUT,
        front_dense: UNCUT,
    };

    /// Sizes of the groups of a pipeline rank.
    pub fn on(&self, pipeline_rank: u32) -> Degrees {
        let Some(Front { tensor, data }) = self.front.filter(|_| pipeline_rank == 0) else { return *self };
        Degrees { tensor, data, dense: self.front_dense, ..Degrees::ONE_RANK }
    }
    /// Sizes of the groups of the ranks that hold a unit.
    pub fn of(&self, unit: &LayerPlan) -> Degrees {
        if unit.is_apart { self.on(0) } else { *self }
    }
    /// Ranks over which the state of a unit's dense weights is cut.
    pub fn dense_of(&self, unit: &LayerPlan) -> &Cuts<u32> {
        if unit.is_apart { &self.front_dense } else { &self.dense }
    }
    /// Sizes of the groups of each grid of ranks that there is.
    pub fn grids(&self) -> impl Iterator<Item = Degrees> {
        let front = self.front.map(|_| self.on(0));
        front.into_iter().chain([*self])
    }
    /// The pipeline ranks of the same grid as this one.
    fn stages(&self, pipeline_rank: u32) -> std::ops::Range<u32> {
        match self.front {
            Some(_) if pipeline_rank == 0 => 0..1,
            Some(_) => 1..self.pipeline,
            None => 0..self.pipeline,
        }
    }
    /// Ranks of the step.
    pub fn ranks(&self) -> u32 {
        let stages = self.pipeline - u32::from(self.front.is_some());
        self.tensor * self.context * self.data * stages + self.front.map_or(0, Front::ranks)
    }
    /// Ranks of a stage that hold the same dense weights.
    fn on_a_stage(&self) -> u32 {
        self.data * self.context
    }
    /// Ranks that hold the same dense weights.
    pub fn replicas(&self) -> u32 {
        self.on_a_stage() * self.copies
    }
    /// Ranks that hold the same experts.
    pub fn expert_replicas(&self) -> u32 {
        (self.replicas() * self.tensor / (self.expert * self.expert_tensor)).max(1)
    }
    /// In a run of `run` ranks that hold the same dense weights, with their tensor-parallel peers: how many hold the
    /// same experts.
    pub(super) fn expert_part(&self, run: u32) -> u32 {
        let (ranks, block) = (run * self.tensor, self.expert * self.expert_tensor);
        if ranks.is_multiple_of(block) { ranks / block } else { 1 }
    }
    /// The ranks that hold the same dense weights as a rank, in order.
    pub(super) fn holders(&self, layout: &Layout, rank: RankId) -> impl Iterator<Item = RankId> {
        let [tp, _, ep, _, pp] = layout.coords(rank);
        let (context, data) = (self.context, self.data);
        (0..self.replicas()).map(move |i| {
            layout.rank([tp, i % context, ep, i / context % data, self.stage_of_copy(pp, i / context / data)])
        })
    }
    /// The pipeline rank with a copy of the stages of another, by number: two directions meet ranks from both ends.
    fn stage_of_copy(&self, pipeline_rank: u32, copy: u32) -> u32 {
        let other = (self.pipeline - 1).saturating_sub(pipeline_rank);
        match (self.copies, copy) {
            (1, _) => pipeline_rank,
            (_, 0) => pipeline_rank.min(other),
            _ => pipeline_rank.max(other),
        }
    }
    /// The groups of dynamic context parallelism: all powers of two up to the ranks of data × context (Megatron-LM
    /// makes them at the start of the run).
    pub fn dynamic_groups(&self) -> impl Iterator<Item = Group> + use<> {
        let most = if self.dynamic { self.on_a_stage().ilog2() } else { 0 };
        (1..=most).map(|power| Group::Layer(CommGroup::ContextOf(power as u8)))
    }
    /// Members of a group.
    pub fn size(&self, group: Group) -> u32 {
        match group {
            Group::Layer(CommGroup::Tensor) => self.tensor,
            Group::Layer(CommGroup::Context) => self.context,
            Group::Layer(CommGroup::ContextInner) => self.context_inner,
            Group::Layer(CommGroup::ContextOuter) => self.context / self.context_inner.max(1),
            Group::Layer(CommGroup::ContextOf(power)) => 1 << power,
            Group::Layer(CommGroup::Expert) => self.expert,
            Group::Layer(CommGroup::ExpertTensor) => self.expert_tensor,
            Group::Layer(CommGroup::Data) => self.data,
            Group::Dense(exchange) => {
                let (run, step) = exchange.span(&self.dense, self.replicas());
                run / step
            }
            Group::Experts(exchange) => {
                let (run, step) = exchange.span(&self.experts, self.expert_replicas());
                run / step
            }
            Group::Embedding => 2,
            Group::Pipeline => self.stages(1).len() as u32,
            Group::Model => self.tensor * self.stages(1).len() as u32,
            Group::CopyIn(_)
            | Group::CopyOut(_)
            | Group::TierIn(..)
            | Group::TierOut(..)
            | Group::PastCache(..)
            | Group::HostUpdate(_) => 1,
        }
    }

    /// The members of `rank`'s group in order; every member gives the same list.
    ///
    /// Inside a pipeline stage, ranks are numbered with tensor fastest, then context, then data. Expert-tensor groups
    /// are runs of that number, expert groups step over them, and the rest are expert replicas (Megatron's order).
    pub fn members(&self, layout: &Layout, rank: RankId, group: Group, members: &mut Vec<RankId>) {
        let pipeline_rank = layout.coordinate(rank, Axis::Pp);
        self.on(pipeline_rank).members_of(layout, rank, group, (self.stages(pipeline_rank), members));
    }
    /// The same for these pipeline ranks, in their degrees.
    fn members_of(
        &self,
        layout: &Layout,
        rank: RankId,
        group: Group,
        (stages, members): (std::ops::Range<u32>, &mut Vec<RankId>),
    ) {
        members.clear();
        let [tp, cp, ep, dp, pp] = layout.coords(rank);
        let at = |tp, cp, dp, pp| layout.rank([tp, cp, ep, dp, pp]);
        let q = tp + self.tensor * (cp + self.context * dp);
        let holders = self.on_a_stage();
        let in_stage =
            |q: u32| at(q % self.tensor, q / self.tensor % self.context, q / self.tensor / self.context, pp);
        // Positions among all ranks of both copies of the stages.
        let copy = u32::from(pp != self.stage_of_copy(pp, 0));
        let in_copies = |q: u32| {
            let (of_copy, place) = (self.tensor * holders, q % (self.tensor * holders));
            let pp = self.stage_of_copy(pp, q / of_copy);
            at(
                place % self.tensor,
                place / self.tensor % self.context,
                place / self.tensor / self.context,
                pp,
            )
        };
        // Position among the ranks of the stage that hold the same dense weights.
        let replica = cp + self.context * dp;
        let block = self.expert * self.expert_tensor;
        match group {
            Group::Layer(CommGroup::Tensor) => members.extend((0..self.tensor).map(|t| at(t, cp, dp, pp))),
            Group::Layer(CommGroup::Context) => members.extend((0..self.context).map(|c| at(tp, c, dp, pp))),
            Group::Layer(CommGroup::Data) => members.extend((0..self.data).map(|d| at(tp, cp, d, pp))),
            Group::Layer(CommGroup::ContextInner) => {
                let first = cp / self.context_inner * self.context_inner;
                members.extend((first..first + self.context_inner).map(|c| at(tp, c, dp, pp)));
            }
            Group::Layer(CommGroup::ContextOuter) => {
                let step = self.context_inner as usize;
                members
                    .extend((cp % self.context_inner..self.context).step_by(step).map(|c| at(tp, c, dp, pp)));
            }
            Group::Layer(CommGroup::ContextOf(power)) => {
                let first = replica >> power << power;
                members.extend((first..first + (1 << power)).map(|i| in_stage(tp + self.tensor * i)));
            }
            Group::Layer(CommGroup::ExpertTensor) => {
                let first = q / self.expert_tensor * self.expert_tensor;
                members.extend((first..first + self.expert_tensor).map(in_stage));
            }
            Group::Layer(CommGroup::Expert) => {
                let first = q / block * block + q % self.expert_tensor;
                members.extend((0..self.expert).map(|e| in_stage(first + e * self.expert_tensor)));
            }
            Group::Dense(exchange) => {
                let span = exchange.span(&self.dense, self.replicas());
                let all = together(copy * holders + replica, span);
                members.extend(all.map(|i| in_copies(tp + self.tensor * i)));
            }
            Group::Experts(exchange) => {
                let span = exchange.span(&self.experts, self.expert_replicas());
                let all = together((copy * holders * self.tensor + q) / block, span);
                members.extend(all.map(|i| in_copies(q % block + i * block)));
            }
            Group::Embedding => {
                let ends = self.ends.filter(|ends| ends.iter().all(|end| stages.contains(end)));
                match ends {
                    Some(ends) => members.extend(ends.map(|pp| at(tp, cp, dp, pp))),
                    None => members.push(rank),
                }
            }
            Group::Pipeline => members.extend(stages.map(|pp| at(tp, cp, dp, pp))),
            Group::Model => {
                let of_stage = |pp| (0..self.tensor).map(move |t| at(t, cp, dp, pp));
                members.extend(stages.flat_map(of_stage));
            }
            _ => members.push(rank),
        }
        assert!(members.contains(&rank) || group == Group::Embedding, "{rank:?} in its own {group:?}");
    }
}

/// Of numbers from 0 in runs of `run`, those in the run of `at` that differ from it by multiples of `step`.
fn together(at: u32, (run, step): (u32, u32)) -> impl Iterator<Item = u32> {
    let first = at / run * run;
    (first + at % step..first + run).step_by(step as usize)
}

/// The axes of the rank grid by the spec's names.
pub fn axis(axis: stepsim_spec::workload::GroupAxis) -> Axis {
    use stepsim_spec::workload::GroupAxis;
    match axis {
        GroupAxis::Tensor => Axis::Tp,
        GroupAxis::Context => Axis::Cp,
        GroupAxis::Data => Axis::Dp,
        GroupAxis::Pipeline => Axis::Pp,
    }
}
