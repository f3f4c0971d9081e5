//! One rank after the other, priced: what the terms of a step are made of.

use std::borrow::Cow;
use std::sync::Arc;

use super::known::{Known, Priced};
use super::links::Links;
use super::pass_time::{PassTime, UnitTime};
use crate::step::collective::{CollectiveError, Op};
use crate::step::model::{CommGroup, Item};
use crate::step::plan::step::groups::Group;
use crate::step::plan::step::layout_copies::{copies_shards, with_copies};
use crate::step::plan::step::residency::{Policies, Shares};
use crate::step::plan::step::{self, PlanError, PriceList, Unit};
use crate::step::schedule::{Order, Pass, Seat, Slot};
use crate::step::spec::workload::WorkloadSpec;

/// One pipeline rank: its chunks, each a list of priced units.
pub(super) struct RankTimes {
    /// Stage of each chunk.
    pub stages: Vec<usize>,
    /// Units of each chunk.
    pub chunks: Vec<Vec<UnitTime>>,
    /// Sum of one micro-batch through every chunk.
    pub sum: UnitTime,
}

/// What a step is made of, besides its layers.
pub(super) struct Parts<'a> {
    pub shares: Shares<'a>,
    pub policies: Policies,
    /// The shortest order that shows all that the schedule repeats.
    pub order: Arc<Order>,
    pub links: Links<'a>,
    pub prices: &'a dyn PriceList,
    /// Class of the devices of each pipeline rank, by its first rank.
    pub classes: Vec<u32>,
    pub known: &'a Known,
}

/// Units of every stage, and the layers that they are of.
pub(super) type Stages = (Vec<Vec<Unit>>, Arc<Priced>);

/// A step, layer by layer.
pub(super) struct Form<'a> {
    pub shares: Shares<'a>,
    pub policies: Policies,
    pub order: Arc<Order>,
    /// Micro-batches of the step.
    pub micro_batches: u32,
    /// Whether the order runs the two gradients of every backward pass apart.
    pub splits: bool,
    pub links: Links<'a>,
    pub prices: &'a dyn PriceList,
    pub classes: Vec<u32>,
    known: &'a Known,
    layers: Arc<Priced>,
    pub stages: Vec<Vec<Unit>>,
    /// Whether all stages hold as many layers.
    pub even: bool,
    pub ranks: Vec<RankTimes>,
    /// The rank with most work.
    pub busiest: usize,
    /// Seconds of a message between stages, and of putting its pieces together.
    pub hop: f64,
    /// Seconds once a step: norm and update, and what reads of the host add.
    pub optimizer: f64,
    pub host_reads: f64,
}

impl<'a> Form<'a> {
    /// A step of these parts, of as many micro-batches as the order has; `messages` between stages have so many bytes, and
    /// where they are pieces so many are put together behind each.
    ///
    /// # Errors
    /// A group cannot communicate.
    pub fn new(parts: Parts<'a>, stages: Stages, messages: [f64; 2]) -> Result<Form<'a>, PlanError> {
        let Parts { shares, policies, order, links, prices, classes, known } = parts;
        let (stages, layers_of_rank) = stages;
        let layers = |units: &Vec<Unit>| units.iter().filter(|unit| unit.plan.is_transformer()).count();
        let gathered = links.time(Group::Layer(CommGroup::Tensor), Op::AllGather, messages[1])?;
        let mut form = Form {
            even: stages.iter().all(|units| layers(units) == layers(&stages[0])),
            hop: links.border.time(messages[0]) + gathered,
            micro_batches: order.micro_batches,
            splits: order.splits(),
            shares,
            policies,
            order,
            links,
            prices,
            classes,
            known,
            layers: Arc::clone(&layers_of_rank),
            stages: Vec::new(),
            ranks: Vec::new(),
            busiest: 0,
            optimizer: 0.0,
            host_reads: 0.0,
        };
        form.with_stages((stages, layers_of_rank))?;
        Ok(form)
    }

    /// The same with other units.
    ///
    /// # Errors
    /// As [`Form::new`].
    pub fn with_stages(&mut self, (stages, layers): Stages) -> Result<(), PlanError> {
        (self.stages, self.layers) = (stages, layers);
        self.price()?;
        let work: Vec<f64> = self.ranks.iter().map(|rank| self.work(rank)).collect();
        self.busiest = (0..work.len()).fold(0, |best, r| if work[r] > work[best] { r } else { best });
        self.optimizer = self.optimizer();
        self.host_reads = self.host_reads();
        Ok(())
    }

    /// The same step with so many micro-batches.
    ///
    /// # Errors
    /// The schedule has no order for them.
    pub fn with_micro_batches(&mut self, micro_batches: u32) -> Result<(), PlanError> {
        if micro_batches != self.micro_batches {
            let fewest = step::fewest_micro_batches(self.workload(), micro_batches);
            if fewest != self.order.micro_batches {
                self.order = shortest_order(self.workload(), micro_batches, self.known)?;
            }
            self.micro_batches = micro_batches;
        }
        Ok(())
    }
    /// The order of all micro-batches.
    pub fn whole_order(&self) -> Result<Cow<'_, Order>, PlanError> {
        if self.order.micro_batches == self.micro_batches {
            return Ok(Cow::Borrowed(&self.order));
        }
        Ok(Cow::Owned(step::order(self.workload(), self.micro_batches)?))
    }
    pub fn workload(&self) -> &'a WorkloadSpec {
        self.shares.workload()
    }
    /// Passes of each direction through a chunk.
    pub fn passes(&self) -> u32 {
        self.micro_batches / u32::from(self.order.placement.directions())
    }

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
                    let time = match known.iter().find(|k| k.0 == class && k.1.equals(unit)) {
                        Some(k) => k.2,
                        None => {
                            let time = self.time_of(unit, class)?;
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

    /// A unit's passes on a class of devices.
    fn time_of(&self, unit: &Unit, class: u32) -> Result<UnitTime, CollectiveError> {
        let (workload, prices) = (self.workload(), self.prices.on(class));
        let p = &workload.parallelism;
        let cut = |pass: (Pass, bool), items: &[Item]| {
            let items = with_copies(&self.shares, unit, pass, items.to_vec());
            step::overlap::decompose(&items, p.tensor_overlap, p.tensor)
        };
        let around = self.links.surroundings(copies_shards(&self.shares));
        self.layers.time(unit, class, p.tensor_overlap, around, || {
            UnitTime::of(unit, &workload.recompute, prices, &self.links, workload.host(), &cut)
        })
    }

    /// Both gradients of a rank or unit.
    pub fn gradients(&self, time: &UnitTime) -> PassTime {
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

    /// Exposed exchanges of a rank, `alone` where no passes are paired: paired ones expose what is longer than the
    /// kernels of both.
    pub fn expert(&self, rank: &RankTimes, alone: f64) -> Result<f64, PlanError> {
        let at = self.ranks.iter().position(|r| std::ptr::eq(r, rank)).unwrap_or(0);
        let slots = &self.order.ranks[at];
        if rank.sum.cells == 0 || !slots.iter().any(|s| matches!(s, Slot::Overlapped { .. })) {
            return Ok(alone);
        }
        self.exposed_of(at)
    }
}

/// The shortest order that goes on by turns to that of so many micro-batches.
///
/// # Errors
/// There is none of so many.
pub(super) fn shortest_order(
    workload: &WorkloadSpec,
    micro_batches: u32,
    known: &Known,
) -> Result<Arc<Order>, PlanError> {
    let fewest = step::fewest_micro_batches(workload, micro_batches);
    // The message names the numbers of the step.
    known.order(workload, fewest, || {
        step::order(workload, fewest).or_else(|_| step::order(workload, micro_batches))
    })
}
