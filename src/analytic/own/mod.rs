//! The closed form of a step of our own files: what Calculon's lacks (embedding and LM head, grouped queries, gated MLP,
//! experts, FSDP, collectives by algorithm, uneven stages, any schedule) with the same layer costs as the simulation
//! and none of its events.
//!
//! step = kernels of the busiest pipeline rank (forward, recompute, backward) + optimizer + exposed tensor, context
//! and expert communication + bubble + exposed p2p + exposed data-parallel communication + exposed offload
//!
//! * Busiest rank: the one with most work over the step; the bubble is what the others' passes add while the pipeline
//!   fills and drains, for even stages the schedule's own closed form ([`crate::plan::schedule`]).
//! * A layer's communication is exposed by what it takes longer than the kernels that may run beside it (`passes`).
//! * Sharding and gradient reduction: exact laws of neighbouring units (`sharding`).
//! * p2p: the latency laws of each schedule with asynchronous sends; each transfer in full with blocking ones.
//!
//! Hazards: no contention (data-parallel beside pipeline messages, copies beside collectives), no launch overhead, no
//! interference of collectives with kernels, no stragglers; buckets of gradients are taken unit by unit; all groups are
//! taken to be like rank 0's; DualPipe's overlap of one micro-batch's all-to-alls with another's kernels is not taken off. The simulation has all of these: the difference is what `compare` explains.

mod links;
mod memory;
mod passes;
mod rules;
mod sharding;

#[cfg(test)]
mod tests;

pub use links::{Links, Pipe};
pub use memory::OwnMemory;
pub use passes::{PassTime, UnitTime};
pub use rules::Rules;

use crate::collective::{Chooser, Op};
use crate::ids::DeviceId;
use crate::model::{CommGroup, Shard, flops::StepFlops, optimizer};
use crate::plan::schedule::{self, Order, PassTimes, Seat, Shape};
use crate::plan::step::groups::{Degrees, Group};
use crate::plan::step::{self, PlanError, Prices, State, Unit, units_of_stages};
use crate::spec::model::ModelSpec;
use crate::spec::workload::{
    BytesPerParameter, OptimizerPlace, Placement, PointToPoint, PrefetchUnit, ScheduleKind, ShardingKind,
    WorkloadSpec,
};
use crate::topology::Machine;
use crate::units::Time;
use sharding::UnitCosts;

/// Seconds of a step by term.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OwnTerms {
    /// Forward kernels of the busiest rank.
    pub forward: f64,
    /// Recomputed kernels.
    pub recompute: f64,
    /// Backward kernels.
    pub backward: f64,
    /// Gradient norm and update.
    pub optimizer: f64,
    /// Exposed tensor-parallel communication.
    pub tensor: f64,
    /// Exposed context-parallel communication.
    pub context: f64,
    /// Exposed expert-parallel communication.
    pub expert: f64,
    /// Pipeline bubble.
    pub bubble: f64,
    /// Exposed transfers between stages.
    pub p2p: f64,
    /// Exposed gathers of weights and reductions of gradients.
    pub data: f64,
    /// Exposed copies to and from other tiers.
    pub offload: f64,
}

impl OwnTerms {
    /// Every term with its name.
    pub fn named(&self) -> [(&'static str, f64); 11] {
        [
            ("forward", self.forward),
            ("recompute", self.recompute),
            ("backward", self.backward),
            ("optimizer", self.optimizer),
            ("tensor parallel, exposed", self.tensor),
            ("context parallel, exposed", self.context),
            ("expert parallel, exposed", self.expert),
            ("pipeline bubble", self.bubble),
            ("pipeline transfers, exposed", self.p2p),
            ("data parallel, exposed", self.data),
            ("offload, exposed", self.offload),
        ]
    }
    /// The step.
    pub fn total(&self) -> f64 {
        self.named().iter().map(|term| term.1).sum()
    }
}

/// The closed form of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnEstimate {
    /// Seconds by term.
    pub terms: OwnTerms,
    /// Device memory of each pipeline rank.
    pub memory: Vec<OwnMemory>,
    /// Capacity of a device's memory in bytes.
    pub capacity: f64,
    /// Rules of thumb.
    pub rules: Rules,
    /// Tokens of the step.
    pub tokens: f64,
    /// Model FLOP, attention in full.
    pub model_flops: f64,
    /// Model FLOP over the peak of all devices during the step.
    pub mfu: f64,
    /// The busiest pipeline rank.
    pub busiest: usize,
}

impl OwnEstimate {
    /// The fullest device memory.
    pub fn fullest(&self) -> OwnMemory {
        let larger = |a: OwnMemory, b: &OwnMemory| if b.total() > a.total() { *b } else { a };
        self.memory.iter().fold(OwnMemory::default(), larger)
    }
}

/// Estimates the step of `workload` on `machine`, kernels priced by `prices`, collectives chosen by `chooser`, with a
/// device's peak of `peak` FLOP/s.
///
/// # Errors
/// The workload does not fit the machine, or a group cannot communicate.
pub fn estimate_own(
    workload: &WorkloadSpec,
    model: &ModelSpec,
    machine: &Machine,
    prices: &dyn Prices,
    chooser: &Chooser,
    peak: f64,
) -> Result<OwnEstimate, PlanError> {
    let devices = u64::from(machine.devices());
    let degrees = step::degrees(workload, devices);
    let order = step::order(workload, workload.micro_batches(devices) as u32)?;
    let layout = step::layout(workload, &degrees, machine)?;
    let tiers = tiers(workload, machine);
    let links = Links::new(machine, &layout, &degrees, &GROUPS, &tiers, chooser)?;
    let split = step::layer_split(workload, model, &order)?;
    let shard = Shard::new(workload, model);
    let stages = units_of_stages(
        model,
        &shard,
        &workload.recompute,
        &split,
        &step::expert_load::of_layers(workload, model)?,
    );
    let mut form = Form { workload, machine, degrees, order, links, prices, stages, ranks: Vec::new() };
    form.price()?;
    let border = shard.boundary_bytes(model);
    let cuts_border = workload.parallelism.pipeline.scatter_gather && !shard.sequence_parallel;
    let gathered = if cuts_border { border } else { 0.0 };
    let terms = form.terms(if cuts_border { border / shard.tensor as f64 } else { border }, gathered)?;
    let given = rules::Given {
        workload,
        model,
        degrees,
        micro_batches: form.order.micro_batches,
        chunks: form.order.placement.parts(),
        peak,
    };
    let flops = StepFlops::of(model, workload.batch.global, workload.sequence(model)).model;
    let ranks = f64::from(layout.ranks());
    Ok(OwnEstimate {
        terms,
        memory: form.memory(),
        capacity: machine.device(DeviceId(0)).memory().f(),
        rules: Rules::new(&given, &form.links),
        tokens: workload.batch.global as f64 * workload.sequence(model) as f64,
        model_flops: flops,
        mfu: flops / (ranks * peak * terms.total()),
        busiest: form.busiest(),
    })
}

/// All groups that a step may use.
const GROUPS: [Group; 11] = [
    Group::Layer(CommGroup::Tensor),
    Group::Layer(CommGroup::Context),
    Group::Layer(CommGroup::ContextInner),
    Group::Layer(CommGroup::ContextOuter),
    Group::Layer(CommGroup::Expert),
    Group::Layer(CommGroup::ExpertTensor),
    Group::Gradients,
    Group::Weights,
    Group::Replicas,
    Group::ExpertGradients,
    Group::ExpertWeights,
];

/// Numbers of the tiers that the workload places something on, as far as the machine has them.
fn tiers(workload: &WorkloadSpec, machine: &Machine) -> Vec<u8> {
    let classes = workload.offload.classes();
    let away = classes.iter().flat_map(|class| class.1).filter(|p| !p.on_device() && p.fraction > 0.0);
    let names = away.flat_map(|p| p.via.iter().chain(std::iter::once(&p.tier)));
    let mut tiers: Vec<u8> =
        names.filter_map(|name| machine.tier_named(DeviceId(0), name)).map(|tier| tier as u8).collect();
    tiers.sort_unstable();
    tiers.dedup();
    tiers
}

/// One pipeline rank: its chunks, each a list of priced units.
struct RankTimes {
    /// Stage of each chunk.
    stages: Vec<usize>,
    /// Units of each chunk.
    chunks: Vec<Vec<UnitTime>>,
    /// Sum of one micro-batch through every chunk.
    sum: UnitTime,
}

struct Form<'a> {
    workload: &'a WorkloadSpec,
    machine: &'a Machine,
    degrees: Degrees,
    order: Order,
    links: Links<'a>,
    prices: &'a dyn Prices,
    stages: Vec<Vec<Unit>>,
    ranks: Vec<RankTimes>,
}

impl Form<'_> {
    /// Prices the units of every rank; equal units once.
    fn price(&mut self) -> Result<(), PlanError> {
        let mut known: Vec<(&Unit, UnitTime)> = Vec::new();
        let placement = &self.order.placement;
        for rank in 0..placement.ranks() {
            let seats = (0..placement.chunks(rank)).map(|chunk| placement.stage(Seat { rank, chunk }));
            let stages: Vec<usize> = seats.map(|at| at.stage as usize).collect();
            let (mut chunks, mut sum) = (Vec::new(), UnitTime::default());
            for &stage in &stages {
                let mut units = Vec::new();
                for unit in &self.stages[stage] {
                    let same =
                        |u: &Unit| std::rc::Rc::ptr_eq(&u.plan, &unit.plan) && u.recompute == unit.recompute;
                    let time = match known.iter().find(|k| same(k.0)) {
                        Some(k) => k.1,
                        None => {
                            let time = UnitTime::of(
                                unit,
                                &self.workload.recompute,
                                self.prices,
                                &self.links,
                                &|items| {
                                    let p = &self.workload.parallelism;
                                    step::overlap::decompose(items, p.tensor_overlap, p.tensor)
                                },
                            )?;
                            known.push((unit, time));
                            time
                        }
                    };
                    sum += time;
                    units.push(time);
                }
                chunks.push(units);
            }
            self.ranks.push(RankTimes { stages, chunks, sum });
        }
        Ok(())
    }

    /// Whether the schedule runs the two gradients apart.
    fn splits(&self) -> bool {
        use ScheduleKind::{ZbAuto, ZbH1, ZbH2, ZbV};
        matches!(self.workload.parallelism.pipeline.schedule, ZbAuto | ZbH1 | ZbH2 | ZbV)
            && self.workload.parallelism.pipeline.size > 1
    }
    /// Both gradients of a rank or unit.
    fn gradients(&self, time: &UnitTime) -> PassTime {
        if !self.splits() {
            return time.backward;
        }
        let mut both = time.input_grad;
        both += time.weight_grad;
        both
    }
    /// Seconds of one micro-batch through every chunk of a rank.
    fn work(&self, rank: &RankTimes) -> f64 {
        rank.sum.forward.total() + rank.sum.recompute.total() + self.gradients(&rank.sum).total()
    }
    fn busiest(&self) -> usize {
        let work: Vec<f64> = self.ranks.iter().map(|rank| self.work(rank)).collect();
        (0..work.len()).fold(0, |best, r| if work[r] > work[best] { r } else { best })
    }

    /// Messages of `border_bytes` between stages; where they are pieces, `gathered` bytes are put together behind each.
    fn terms(&self, border_bytes: f64, gathered: f64) -> Result<OwnTerms, PlanError> {
        // Each chunk sees the micro-batches of its direction.
        let passes = f64::from(self.order.per_direction());
        let rank = &self.ranks[self.busiest()];
        let forward = rank.sum.forward.times(passes);
        let recompute = rank.sum.recompute.times(passes);
        let backward = self.gradients(&rank.sum).times(passes);
        let over = |part: fn(&PassTime) -> f64| part(&forward) + part(&recompute) + part(&backward);
        Ok(OwnTerms {
            forward: forward.compute,
            recompute: recompute.compute,
            backward: backward.compute,
            optimizer: self.optimizer(),
            tensor: over(|pass| pass.tensor),
            context: over(|pass| pass.context),
            expert: over(|pass| pass.expert),
            bubble: self.bubble(),
            p2p: self.p2p(border_bytes, gathered)?,
            data: self.data()?,
            offload: self.offload(),
        })
    }

    /// The schedule's bubble for the mean of the ranks other than the busiest; for fill-and-drain schedules that is
    /// what those ranks' passes add, for uneven stages too.
    fn bubble(&self) -> f64 {
        let others = self.ranks.len() - 1;
        if others == 0 {
            return 0.0;
        }
        let busiest = self.busiest();
        let directions = f64::from(self.order.placement.directions());
        let mean = |part: &dyn Fn(&RankTimes) -> f64| {
            let rest = self.ranks.iter().enumerate().filter(|(r, _)| *r != busiest);
            rest.map(|(_, rank)| part(rank)).sum::<f64>() / others as f64 / directions
        };
        let forward = mean(&|rank| rank.sum.forward.total());
        let split = self.splits() || self.order.placement.directions() > 1;
        let (input_grad, weight_grad) = if split {
            (
                mean(&|r| r.sum.input_grad.total() + r.sum.recompute.total()),
                mean(&|r| r.sum.weight_grad.total()),
            )
        } else {
            (mean(&|r| r.sum.whole_backward()), 0.0)
        };
        let drain = (forward + input_grad + weight_grad) * others as f64;
        let times =
            PassTimes::new(Time::from_s(forward), Time::from_s(input_grad), Time::from_s(weight_grad), 1.0);
        let pipeline = &self.workload.parallelism.pipeline;
        let shape = Shape {
            ranks: pipeline.size as u32,
            micro_batches: self.order.micro_batches,
            chunks: pipeline.chunks.map(|v| v as u16),
            group: pipeline.group_size.map(|g| g as u32),
        };
        // A searched order has no closed form; it does at least as well as the hand-made one of the same memory.
        let kind = match pipeline.schedule {
            ScheduleKind::ZbAuto => ScheduleKind::ZbH2,
            other => other,
        };
        let theory = schedule::find(step::schedule_name(kind))
            .ok()
            .and_then(|schedule| schedule.bubble(&shape, &times))
            .and_then(|bubble| bubble.idle.or(bubble.own));
        theory.map_or(drain / f64::from(self.order.placement.parts()), Time::s)
    }

    /// Transfers of c seconds between stages. Blocking sends stall their rank by each of them. Asynchronous ones follow
    /// the latency laws: 2(p − 1)c for a fill and a drain; 1F1B pays c·(2(p − 1)m/p + 2(p − 2)), as each of its
    /// steady-state transfers is on the critical path; v chunks make 2(pv − 1)c. Batched ones wait for each other in
    /// pairs: 1F1B with them pays what 1F1B pays anyway, v chunks pay each transfer like blocking ones.
    fn p2p(&self, bytes: f64, gathered: f64) -> Result<f64, PlanError> {
        let pipeline = &self.workload.parallelism.pipeline;
        let (p, m) = (pipeline.size as f64, f64::from(self.order.micro_batches));
        let v = f64::from(self.order.placement.parts());
        if p == 1.0 {
            return Ok(0.0);
        }
        let gather = self.links.time(Group::Layer(CommGroup::Tensor), Op::AllGather, gathered)?;
        let c = self.links.border.time(bytes) + gather;
        Ok(match (pipeline.p2p, pipeline.schedule) {
            (PointToPoint::Blocking, _) => 2.0 * c * (m * v + p - 1.0),
            (_, ScheduleKind::OneFOneB) if m >= p => c * (2.0 * (p - 1.0) * m / p + 2.0 * (p - 2.0)),
            (PointToPoint::Batched, _) if v > 1.0 => 2.0 * c * (m * v + p - 1.0),
            _ => 2.0 * (p * v - 1.0) * c,
        })
    }

    /// Costs of the units of one chunk of a rank.
    fn unit_costs(&self, rank: &RankTimes, chunk: usize) -> Result<Vec<UnitCosts>, PlanError> {
        let precision = &self.workload.precision;
        let cut = self.workload.parallelism.sharding.kind != ShardingKind::None;
        let reduction = if cut { Op::ReduceScatter } else { Op::AllReduce };
        let (gradient, weight) =
            (precision.gradient_communication().bytes(), precision.weight_communication().bytes());
        let units = self.stages[rank.stages[chunk]].iter().zip(&rank.chunks[chunk]);
        units
            .map(|(unit, time)| {
                let (dense, expert) = unit.weight_bytes(1.0);
                let (dense, expert) = (dense as f64, expert as f64);
                let shard = dense * gradient / f64::from(self.degrees.shard);
                let reduce = self.links.time(Group::Gradients, reduction, dense * gradient)?
                    + self.links.time(Group::Replicas, Op::AllReduce, shard)?
                    + self.links.time(Group::ExpertGradients, reduction, expert * gradient)?;
                let gather = if cut {
                    self.links.time(Group::Weights, Op::AllGather, dense * weight)?
                        + self.links.time(Group::ExpertWeights, Op::AllGather, expert * weight)?
                } else {
                    0.0
                };
                let backward = time.recompute.total() + self.gradients(time).total();
                Ok(UnitCosts { forward: time.forward.total(), backward, gather, reduce })
            })
            .collect()
    }

    /// Exposed gathers and reductions of the first pipeline rank, which starts first and ends last.
    fn data(&self) -> Result<f64, PlanError> {
        let rank = &self.ranks[0];
        let chunks: Vec<Vec<UnitCosts>> =
            (0..rank.chunks.len()).map(|chunk| self.unit_costs(rank, chunk)).collect::<Result<_, _>>()?;
        if self.workload.parallelism.sharding.kind == ShardingKind::Zero3 {
            return Ok(chunks.iter().map(|units| self.gathered(units)).sum());
        }
        let units: Vec<UnitCosts> = chunks.concat();
        let buckets = &self.workload.gradient_buckets;
        let all = |part: fn(&UnitCosts) -> f64| units.iter().map(part).sum::<f64>();
        let reduce = if buckets.overlap { sharding::reduction_tail(&units) } else { all(|u| u.reduce) };
        let gather =
            if buckets.overlap_weight_gather { sharding::gather_lead(&units) } else { all(|u| u.gather) };
        Ok(reduce + gather)
    }

    /// What gathered weights and reduced gradients add to all passes of one chunk.
    fn gathered(&self, units: &[UnitCosts]) -> f64 {
        let passes = f64::from(self.order.per_direction());
        let busy = |part: fn(&UnitCosts) -> f64| units.iter().map(part).sum::<f64>();
        let forward = sharding::gathered_forward(units) - busy(|u| u.forward);
        let backward =
            |gathers, reduces| sharding::gathered_backward(units, gathers, reduces) - busy(|u| u.backward);
        let reshards = self.workload.parallelism.sharding.reshard_after_forward.unwrap_or(true);
        let every = self.workload.reduces_every_micro_batch();
        let gathers = if reshards { passes } else { 1.0 };
        let reduces = if every { passes } else { 1.0 };
        gathers * forward
            + reduces * backward(reshards, true)
            + (passes - reduces) * backward(reshards, false)
    }

    /// Norm and update of the share of weights that one rank updates.
    fn optimizer(&self) -> f64 {
        let w = self.workload;
        let bytes = w.bytes_per_parameter();
        let largest = (0..self.ranks.len()).map(|rank| self.state(rank).updated).fold(0.0, f64::max);
        let parameters = (largest * (1.0 - self.updated_on_host())).round() as u64;
        let norm = if w.optimizer.clip_gradients {
            self.prices.time(&optimizer::gradient_norm(largest.round() as u64, &bytes)).s()
        } else {
            0.0
        };
        norm + self.prices.time(&optimizer::step(parameters, &bytes)).s()
    }

    /// Share of the weights that the host updates.
    fn updated_on_host(&self) -> f64 {
        let o = &self.workload.offload;
        match o.optimizer_on {
            OptimizerPlace::Device => 0.0,
            OptimizerPlace::Host => o.optimizer.iter().filter(|p| !p.on_device()).map(|p| p.fraction).sum(),
        }
    }

    fn state(&self, rank: usize) -> State {
        let units = self.ranks[rank].stages.iter().flat_map(|stage| &self.stages[*stage]);
        let cut = memory::cut(self.workload.parallelism.sharding.kind);
        let (dense, expert) = (f64::from(self.degrees.shard), f64::from(self.degrees.expert_replicas()));
        State::of(units, &self.workload.bytes_per_parameter(), dense, expert, cut)
    }

    /// Seconds to copy `bytes` in, out and in place, by where they are placed.
    fn copies(&self, placed: &[Placement], bytes: f64) -> [f64; 3] {
        let mut time = [0.0; 3];
        for place in placed.iter().filter(|p| !p.on_device()) {
            let pipes = |name: &str| {
                let tier = self.machine.tier_named(DeviceId(0), name).map(|tier| tier as u8);
                tier.and_then(|tier| self.links.copies.get(&tier))
            };
            let bytes = bytes * place.fraction;
            if let Some([inward, outward, _]) = pipes(&place.tier) {
                time[0] += inward.time(bytes);
                time[1] += outward.time(bytes);
            }
            // Updates happen at the device's end of the way, where there are stops on it.
            if let Some([.., update]) = pipes(place.via.last().unwrap_or(&place.tier)) {
                time[2] += update.time(bytes);
            }
        }
        time
    }

    /// Bytes of a unit's weights that one rank copies: its shard where weights are sharded.
    fn copied_weights(&self, unit: &Unit) -> f64 {
        let (dense, expert) = unit.weight_bytes(self.workload.bytes_per_parameter().weights);
        match self.workload.parallelism.sharding.kind {
            ShardingKind::Zero3 => {
                dense as f64 / f64::from(self.degrees.shard)
                    + expert as f64 / f64::from(self.degrees.expert_replicas())
            }
            _ => (dense + expert) as f64,
        }
    }

    /// Weights come in for every pass and kept activations go out and come back, beside the unit's own passes; behind
    /// the last pass the optimizer's state and the gradients come in and the new state goes out, or the host updates
    /// them where they are. The two directions do not disturb each other, nor does any other device. What the last
    /// stage makes last is wanted at once and stays.
    fn offload(&self) -> f64 {
        let (w, o) = (self.workload, &self.workload.offload);
        let rank = &self.ranks[self.busiest()];
        let passes = f64::from(self.order.per_direction());
        let bytes = w.bytes_per_parameter();
        let stays = match o.prefetch.unit {
            PrefetchUnit::Layers => o.prefetch.depth.max(1) as usize,
            PrefetchUnit::Ops | PrefetchUnit::Bytes => 1,
        };
        let mut exposed = 0.0;
        for (stage, times) in rank.stages.iter().zip(&rank.chunks) {
            let last = *stage + 1 == self.stages.len();
            let leave = self.stages[*stage].len().saturating_sub(if last { stays } else { 0 });
            for (i, (unit, time)) in self.stages[*stage].iter().zip(times).enumerate() {
                let reused = if o.reuse_across_micro_batches { 1.0 / passes } else { 1.0 };
                let [weights_in, ..] = self.copies(&o.weights, self.copied_weights(unit) * reused);
                let kept = if i < leave { unit.kept_bytes(&w.recompute) } else { 0 };
                let [kept_in, kept_out, _] = self.copies(&o.activations, kept as f64);
                let backward = time.recompute.total() + self.gradients(time).total();
                exposed += (weights_in.max(kept_out) - time.forward.total()).max(0.0);
                exposed += (weights_in + kept_in - backward).max(0.0);
            }
        }
        exposed * passes + self.update_copies(&bytes)
    }

    /// What the update of weights whose state, gradients or copies live elsewhere moves over the links.
    fn update_copies(&self, bytes: &BytesPerParameter) -> f64 {
        let o = &self.workload.offload;
        let state = self.state(self.busiest());
        let on_host = self.updated_on_host();
        let [gradients_in, gradients_out, _] = self.copies(&o.gradients, state.gradients);
        if on_host > 0.0 {
            // Half of what the update moves is read, half written, at the same time.
            let moved = optimizer::bytes_moved(state.updated.round() as u64, bytes) / 2.0;
            let [.., update] = self.copies(&o.optimizer, moved);
            let away: f64 = o.weights.iter().filter(|p| !p.on_device()).map(|p| p.fraction).sum();
            let [back, ..] = self.copies(&o.optimizer, state.updated * bytes.weights * (1.0 - away).max(0.0));
            return gradients_out + update + back;
        }
        let [state_in, state_out, _] = self.copies(&o.optimizer, state.optimizer);
        let [_, weights_out, _] = self.copies(&o.weights, state.updated * bytes.weights);
        (state_in + gradients_in).max(state_out + weights_out + gradients_out)
    }

    fn memory(&self) -> Vec<OwnMemory> {
        let live = self.order.peak();
        let ranks = self.ranks.iter().zip(live);
        ranks
            .map(|(rank, live)| {
                let chunks: Vec<&[Unit]> = rank.stages.iter().map(|s| self.stages[*s].as_slice()).collect();
                memory::memory(self.workload, &self.degrees, &chunks, live)
            })
            .collect()
    }
}
