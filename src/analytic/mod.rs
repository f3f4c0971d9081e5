//! The closed form of a step of our own files: what Calculon's lacks (embedding and LM head, grouped queries, gated MLP,
//! experts, FSDP, collectives by algorithm, uneven stages, any schedule) with the same layer costs as the simulation
//! and none of its events.
//!
//! step = kernels of the busiest pipeline rank (forward, recompute, backward) + optimizer + exposed tensor, context
//! and expert communication + bubble + exposed p2p + exposed data-parallel communication + exposed offload
//!
//! * Busiest rank: the one with most work over the step; the bubble is what the others' passes add while the pipeline
//!   fills and drains, for even stages the schedule's own closed form ([`crate::schedule`]); where theory has none, the
//!   order is walked with the times of its passes.
//! * A layer's communication is exposed by what it takes longer than the kernels that may run beside it (`passes`).
//! * Sharding, gradient reduction, copies and memory: the laws of the residency policies ([`crate::plan::step::residency`]),
//!   beside one another (`residency`).
//! * p2p: the latency laws of each schedule with asynchronous sends; each transfer in full with blocking ones.
//!
//! Hazards: no contention (data-parallel beside pipeline messages, copies beside collectives), no launch overhead, no
//! interference of collectives with kernels, no stragglers; buckets of gradients are taken unit by unit; all groups are
//! taken to be like rank 0's. The simulation has all of these: the difference is what `compare` explains.

pub mod bounds;
mod floor;
mod links;
pub mod local_sgd;
mod memory;
mod passes;
mod pipeline;
mod residency;
pub mod roofline;
mod rules;

#[cfg(test)]
mod tests;
pub mod training;
mod update;

pub use floor::Least;
pub use links::{Links, Pipe};
pub use memory::Memory;
pub use passes::{PassTime, UnitTime};
pub use rules::Rules;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::collective::Chooser;
use crate::documents::{Dealt, expected};
use crate::ids::DeviceId;
use crate::model::{CommGroup, Shard};
use crate::plan::step::groups::Group;
use crate::plan::step::residency::{Policies, Shares};
use crate::plan::step::{self, PlanError, PriceList, Unit, units_of_stages};
use crate::schedule::{Order, Seat, Slot};
use crate::spec::model::ModelSpec;
use crate::spec::workload::{SequenceOrder, WorkloadSpec};
use crate::topology::{Axis, Machine};

/// Seconds of a step by term.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
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
    /// What the host takes longer to launch kernels than the device to run them, and its reads.
    pub host: f64,
}

impl Terms {
    /// Every term with its name.
    pub fn named(&self) -> [(&'static str, f64); 12] {
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
            ("host, exposed", self.host),
        ]
    }
    /// The step.
    pub fn total(&self) -> f64 {
        self.named().iter().map(|term| term.1).sum()
    }
}

/// The closed form of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Seconds by term.
    pub terms: Terms,
    /// Seconds that the simulated step takes at least; 0 where nothing is certain.
    pub floor: f64,
    /// Device memory of each pipeline rank.
    pub memory: Vec<Memory>,
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

impl Estimate {
    /// The fullest device memory.
    pub fn fullest(&self) -> Memory {
        let larger = |a: Memory, b: &Memory| if b.total() > a.total() { *b } else { a };
        self.memory.iter().fold(Memory::default(), larger)
    }
    /// Seconds, bytes and counts, with units in the names.
    pub fn report(&self) -> Value {
        let keyed = |pairs: &[(&str, f64)], unit: &str| -> Map<String, Value> {
            let key = |name: &str| format!("{}_{unit}", name.replace(", ", "_").replace(' ', "_"));
            pairs.iter().map(|(name, value)| (key(name), json!(value))).collect()
        };
        let r = &self.rules;
        json!({
            "total_s": self.terms.total(),
            "terms": keyed(&self.terms.named(), "s"),
            "model_flop_utilisation": self.mfu,
            "model_flops": self.model_flops,
            "tokens": self.tokens,
            "device_memory": keyed(&self.fullest().named(), "bytes"),
            "device_memory_bytes": self.fullest().total(),
            "device_capacity_bytes": self.capacity,
            "rules": {
                "parameters": r.parameters,
                "active_parameters": r.active_parameters,
                "twelve_l_h2": r.twelve_l_h2,
                "bytes_per_parameter": r.bytes_per_parameter,
                "bytes_per_parameter_sharded": r.bytes_per_parameter_sharded,
                "six_p_d_flops": r.six_p_d,
                "six_p_d_at_peak_s": r.six_p_d_time,
                "ideal_bubble_share": r.ideal_bubble,
                "tokens_per_micro_batch": r.tokens_per_micro_batch,
                "tokens_per_replica": r.tokens_per_replica,
                "data_parallel_tokens": r.data_parallel_tokens,
                "fsdp_tokens": r.fsdp_tokens,
                "tensor_degree": r.tensor_degree,
            },
        })
    }
}

/// Estimates the step of `workload` on `machine`, kernels priced by `prices`, collectives chosen by `chooser`, with a
/// device's peak of `peak` FLOP/s.
///
/// # Errors
/// The workload does not fit the machine, or a group cannot communicate.
pub fn estimate(
    workload: &WorkloadSpec,
    model: &ModelSpec,
    machine: &Machine,
    prices: &dyn PriceList,
    chooser: &Chooser,
    peak: f64,
) -> Result<Estimate, PlanError> {
    let devices = u64::from(machine.devices());
    let degrees = step::degrees(workload, devices);
    let order = step::order(workload, workload.micro_batches(devices) as u32)?;
    let layout = step::layout(workload, &degrees, machine)?;
    let tiers = tiers(workload, machine);
    let links = Links::new(machine, &layout, &degrees, &GROUPS, &tiers, chooser)?;
    let split = step::layer_split(workload, model, &order)?;
    let domains = step::expert_domains(workload, &degrees, &layout, machine)?;
    let packs = step::Packs::new(workload, model, devices)?;
    let usual = packs.usual();
    let shard = Shard { documents: usual.clone(), ..Shard::over_domains(workload, model, domains) };
    let loads = step::expert_load::of_layers(workload, model)?;
    let units = |shard: &Shard| units_of_stages(model, shard, workload, &split, &loads);
    let stages = units(&shard);
    let splits = order.splits();
    let class = |pipeline_rank| {
        let mut coordinates = [0; 5];
        coordinates[Axis::Pp as usize] = pipeline_rank;
        machine.device_class(layout.device(layout.rank(coordinates)))
    };
    let classes = (0..order.placement.ranks()).map(class).collect();
    let ranks = Vec::new();
    let shares = Shares::of(workload, model, degrees, machine)?;
    let policies = Policies::of(&shares);
    let mut form = Form { workload, shares, policies, order, splits, links, prices, classes, stages, ranks };
    form.price()?;
    let border = shard.boundary_bytes(model);
    let cuts_border = workload.parallelism.pipeline.scatter_gather && !shard.sequence_parallel;
    let gathered = if cuts_border { border } else { 0.0 };
    let border = if cuts_border { border / shard.tensor as f64 } else { border };
    let mut terms = form.terms(border, gathered)?;
    if let (Some(usual), Some(dealt)) = (usual, packs.dealt()) {
        // Everybody waits for the rank whose documents ask most of attention.
        let slowest = Arc::new(usual.times(slowest_of(dealt, workload)));
        form.stages = units(&Shard { documents: Some(slowest), ..shard.clone() });
        form.price()?;
        terms.bubble += form.terms(border, gathered)?.total() - terms.total();
        form.stages = units(&shard);
        form.price()?;
    }
    let given = rules::Given {
        workload,
        model,
        degrees,
        micro_batches: form.order.micro_batches,
        chunks: form.order.placement.parts(),
        peak,
    };
    let flops = packs.flops(workload, model).model;
    let ranks = f64::from(layout.ranks());
    Ok(Estimate {
        terms,
        floor: form.floor(),
        memory: form.memory(),
        capacity: machine.device_classes().iter().map(|d| d.memory().f()).fold(f64::INFINITY, f64::min),
        rules: Rules::new(&given, &form.links)?,
        tokens: workload.batch.global as f64 * workload.sequence(model) as f64,
        model_flops: flops,
        mfu: flops / (ranks * peak * terms.total()),
        busiest: form.busiest(),
    })
}

/// Attention of the data-parallel rank that has most to do over a step, over the mean: expected of sequences that come as
/// they are packed, summed of those that are dealt by what they cost.
fn slowest_of(dealt: &Dealt, workload: &WorkloadSpec) -> f64 {
    let (costs, ranks, each) = (dealt.costs(), dealt.ranks() as u64, dealt.micro_batches());
    let as_packed = workload.documents.as_ref().is_some_and(|d| d.order == SequenceOrder::Packed);
    match each {
        1 if as_packed => expected::of_values(&costs, ranks),
        _ if as_packed => expected::of_sums(&costs, ranks, each as u64),
        _ => {
            let sums: Vec<f64> = costs.chunks(each).map(|rank| rank.iter().sum()).collect();
            let mean = sums.iter().sum::<f64>() / ranks as f64;
            sums.iter().copied().fold(0.0, f64::max) / mean.max(1.0)
        }
    }
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
    shares: Shares<'a>,
    policies: Policies,
    order: Order,
    /// Whether the order runs the two gradients of every backward pass apart.
    splits: bool,
    links: Links<'a>,
    prices: &'a dyn PriceList,
    /// Class of the devices of each pipeline rank, by its first rank.
    classes: Vec<u32>,
    stages: Vec<Vec<Unit>>,
    ranks: Vec<RankTimes>,
}

impl Form<'_> {
    /// Prices the units of every rank; equal units once.
    fn price(&mut self) -> Result<(), PlanError> {
        self.ranks.clear();
        let mut known: Vec<(u32, &Unit, UnitTime)> = Vec::new();
        let placement = &self.order.placement;
        for rank in 0..placement.ranks() {
            let class = self.classes[rank as usize];
            let seats = (0..placement.chunks(rank)).map(|chunk| placement.stage(Seat { rank, chunk }));
            let stages: Vec<usize> = seats.map(|at| at.stage as usize).collect();
            let (mut chunks, mut sum) = (Vec::new(), UnitTime::default());
            for &stage in &stages {
                let mut units = Vec::new();
                for unit in &self.stages[stage] {
                    let same =
                        |u: &Unit| std::rc::Rc::ptr_eq(&u.plan, &unit.plan) && u.recompute == unit.recompute;
                    let time = match known.iter().find(|k| k.0 == class && same(k.1)) {
                        Some(k) => k.2,
                        None => {
                            let time = UnitTime::of(
                                unit,
                                &self.workload.recompute,
                                self.prices.on(class),
                                &self.links,
                                self.workload.host(),
                                &|items| {
                                    let p = &self.workload.parallelism;
                                    step::overlap::decompose(items, p.tensor_overlap, p.tensor)
                                },
                            )?;
                            known.push((class, unit, time));
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

    /// Both gradients of a rank or unit.
    fn gradients(&self, time: &UnitTime) -> PassTime {
        if !self.splits {
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
    fn terms(&self, border_bytes: f64, gathered: f64) -> Result<Terms, PlanError> {
        // Each chunk sees the micro-batches of its direction.
        let passes = f64::from(self.order.per_direction());
        let rank = &self.ranks[self.busiest()];
        let forward = rank.sum.forward.times(passes);
        let recompute = rank.sum.recompute.times(passes);
        let backward = self.gradients(&rank.sum).times(passes);
        let over = |part: fn(&PassTime) -> f64| part(&forward) + part(&recompute) + part(&backward);
        Ok(Terms {
            forward: forward.compute + rank.sum.weight_casts,
            recompute: recompute.compute,
            backward: backward.compute,
            optimizer: self.optimizer(),
            tensor: over(|pass| pass.tensor),
            context: over(|pass| pass.context),
            expert: self.expert(rank, over(|pass| pass.expert)),
            bubble: self.bubble(),
            p2p: self.p2p(border_bytes, gathered)?,
            data: self.data()?,
            offload: self.offload()?,
            host: over(|pass| pass.host) + self.host_reads(),
        })
    }

    /// Exposed exchanges of a rank, `alone` where no passes are paired: paired ones expose what is longer than the
    /// kernels of both.
    fn expert(&self, rank: &RankTimes, alone: f64) -> f64 {
        let at = self.ranks.iter().position(|r| std::ptr::eq(r, rank)).unwrap_or(0);
        let slots = &self.order.ranks[at];
        if rank.sum.cells == 0 || !slots.iter().any(|s| matches!(s, Slot::Overlapped { .. })) {
            return alone;
        }
        self.exposed_of(at)
    }
}
