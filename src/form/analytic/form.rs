//! One rank after the other, priced: what the terms of a step are made of.

use std::sync::Arc;

use super::chunks::{ChunkPasses, Units};
use super::crossings::Crossings;
use super::known::{ClosedFormCache, PricedLayers};
use super::links::RankLinks;
use super::pass_time::{PassTime, UnitTime};
use super::passes::Pricing;
use super::unit_passes::UnitPasses;
use stepsim_fabric::collective::{CollectiveError, Op};
use stepsim_plan::step::groups::Group;
use stepsim_plan::step::layout_copies::{copies_shards, with_copies};
use stepsim_plan::step::residency::{Policies, StateShares};
use stepsim_plan::step::{self, Border, PlanError, PriceList, Unit};
use stepsim_price::model::{CommGroup, Item};
use stepsim_schedule::{Order, Pass, Seat};
use stepsim_spec::stack::LayerHosts;
use stepsim_spec::workload::WorkloadSpec;

/// One pipeline rank: its chunks, each a list of priced units.
pub(super) struct RankTimes {
    /// Stage of each chunk.
    pub stages: Vec<usize>,
    /// Units of each chunk.
    pub chunks: Vec<Units>,
    /// The number of each chunk's kind.
    pub kinds: Vec<usize>,
    /// Sum of one micro-batch through every chunk.
    pub sum: UnitTime,
}

/// The parts of a step, besides its layers.
pub(super) struct StepParts<'a> {
    pub shares: StateShares<'a>,
    pub policies: Policies,
    /// The shortest order that shows all that the schedule repeats.
    pub order: Arc<Order>,
    pub links: RankLinks<'a>,
    /// The groups of the first pipeline rank, where it has other degrees.
    pub front: Option<RankLinks<'a>>,
    pub prices: &'a dyn PriceList,
    /// Class of the slowest device of each pipeline rank.
    pub classes: Vec<u32>,
    /// True if all groups of a kind, and all devices, are alike.
    pub alike: bool,
    /// True if no collective is faster than its closed form.
    pub least: bool,
    /// Bytes of the gradients of a table that first and last stage share.
    pub table: f64,
    pub known: &'a ClosedFormCache,
}

impl<'a> StepParts<'a> {
    /// The links of a pipeline rank, or of the border behind it.
    fn links_of(&self, rank: usize) -> &RankLinks<'a> {
        self.front.as_ref().filter(|_| rank == 0).unwrap_or(&self.links)
    }
}

/// Units of every stage, and the layers that they are of.
pub(super) type StageUnits = (Vec<Vec<Unit>>, Arc<PricedLayers>);

/// A step, layer by layer.
pub(super) struct StepForm<'a> {
    pub parts: StepParts<'a>,
    /// Micro-batches of the step.
    pub micro_batches: u32,
    /// True if the order runs the two gradients of every backward pass apart.
    pub splits: bool,
    layers: Arc<PricedLayers>,
    pub stages: Vec<Vec<Unit>>,
    pub ranks: Vec<RankTimes>,
    pub chunks: ChunkPasses,
    /// The rank with most work.
    pub busiest: usize,
    /// The messages over the borders between stages.
    pub crossings: Crossings,
    /// Seconds once a step: norm and update of the ranks with least and with most of it, and what reads of the host
    /// add.
    pub optimizer: [f64; 2],
    pub host_reads: f64,
}

impl<'a> StepForm<'a> {
    /// A step of these parts, of as many micro-batches as the order has; stages have these borders.
    ///
    /// # Errors
    /// A group cannot communicate.
    pub fn new(
        parts: StepParts<'a>,
        stages: StageUnits,
        borders: &[Border],
    ) -> Result<StepForm<'a>, PlanError> {
        let gather = |border, bytes| {
            parts.links_of(border).time(Group::Layer(CommGroup::Tensor), Op::AllGather, bytes)
        };
        let crossings = Crossings::new(borders, gather)?;
        let mut form = StepForm {
            crossings,
            micro_batches: parts.order.micro_batches,
            splits: parts.order.splits(),
            parts,
            layers: Arc::clone(&stages.1),
            stages: Vec::new(),
            ranks: Vec::new(),
            chunks: ChunkPasses::default(),
            busiest: 0,
            optimizer: [0.0; 2],
            host_reads: 0.0,
        };
        form.with_stages(stages)?;
        Ok(form)
    }

    /// The same with other units.
    ///
    /// # Errors
    /// As [`StepForm::new`].
    pub fn with_stages(&mut self, (stages, layers): StageUnits) -> Result<(), PlanError> {
        (self.stages, self.layers) = (stages, layers);
        self.price()?;
        let work: Vec<f64> = self.ranks.iter().map(|rank| self.work(rank)).collect();
        self.busiest = (0..work.len()).fold(0, |best, r| if work[r] > work[best] { r } else { best });
        self.optimizer = self.optimizer();
        self.host_reads = self.host_reads();
        Ok(())
    }

    /// The same step with `micro_batches`.
    ///
    /// # Errors
    /// The schedule has no order for them.
    pub fn with_micro_batches(&mut self, micro_batches: u32) -> Result<(), PlanError> {
        if micro_batches != self.micro_batches {
            let fewest = step::fewest_micro_batches(self.workload(), micro_batches);
            if fewest != self.parts.order.micro_batches {
                self.parts.order = shortest_order(self.workload(), micro_batches, self.parts.known)?;
            }
            self.micro_batches = micro_batches;
        }
        Ok(())
    }
    /// The order of `micro_batches`.
    ///
    /// # Errors
    /// The schedule has none.
    pub fn order_of(&self, micro_batches: u32) -> Result<Arc<Order>, PlanError> {
        if self.parts.order.micro_batches == micro_batches {
            return Ok(Arc::clone(&self.parts.order));
        }
        let workload = self.workload();
        self.parts.known.order(workload, micro_batches, || step::order(workload, micro_batches))
    }
    pub fn workload(&self) -> &'a WorkloadSpec {
        self.parts.shares.workload()
    }
    /// The links of a pipeline rank.
    pub fn links_of(&self, rank: usize) -> &RankLinks<'a> {
        self.parts.links_of(rank)
    }
    /// Passes of each direction through a chunk.
    pub fn passes(&self) -> u32 {
        self.micro_batches / u32::from(self.parts.order.placement.directions())
    }

    /// Backward passes through a chunk of a rank, `passes` unless it is the rank's side.
    pub fn backward_passes(&self, rank: usize, chunk: usize, passes: u32) -> u32 {
        let placement = &self.parts.order.placement;
        let is_side = self.ranks[rank].stages[chunk] >= placement.stages() as usize;
        if is_side { placement.owned(rank as u32).count() as u32 } else { passes }
    }

    /// Prices the units of every rank; equal units once.
    fn price(&mut self) -> Result<(), PlanError> {
        self.ranks.clear();
        self.chunks = ChunkPasses::default();
        let mut known: Vec<(u32, &Unit, Arc<UnitPasses>)> = Vec::new();
        let placement = &self.parts.order.placement;
        for rank in 0..placement.ranks() {
            let class = self.parts.classes[rank as usize];
            let seats = (0..placement.chunks(rank)).map(|chunk| placement.stage(Seat { rank, chunk }));
            let stages: Vec<usize> = seats.map(|at| at.stage as usize).collect();
            let (mut chunks, mut kinds, mut sum) = (Vec::new(), Vec::new(), UnitTime::default());
            // A side has some of the micro-batches alone.
            let share = |stage: usize| match stage >= placement.stages() as usize {
                true => placement.owned(rank).count() as f64 / f64::from(self.parts.order.micro_batches),
                false => 1.0,
            };
            for &stage in &stages {
                let mut units = Units::new();
                for unit in &self.stages[stage] {
                    let passes = match known.iter().find(|k| k.0 == class && k.1.equals(unit)) {
                        Some(k) => Arc::clone(&k.2),
                        None => {
                            let passes = self.passes_of(unit, rank as usize)?;
                            known.push((class, unit, Arc::clone(&passes)));
                            passes
                        }
                    };
                    sum += passes.time.times(share(stage));
                    units.push(passes);
                }
                kinds.push(self.chunks.kind(&units));
                chunks.push(units);
            }
            self.ranks.push(RankTimes { stages, chunks, kinds, sum });
        }
        Ok(())
    }

    /// A unit's passes on a pipeline rank.
    fn passes_of(&self, unit: &Unit, rank: usize) -> Result<Arc<UnitPasses>, CollectiveError> {
        let (class, links) = (self.parts.classes[rank], self.links_of(rank));
        let workload = self.workload();
        let p = &workload.parallelism;
        let cut = |pass: (Pass, bool), items: &[Item]| {
            let items = with_copies(&self.parts.shares, unit, pass, items.to_vec());
            step::overlap::decompose(&items, p.tensor_overlap, p.tensor)
        };
        let (prices, host) = (self.parts.prices.on(class), workload.host());
        let layers = host.map_or(LayerHosts::default(), |host| host.layers(&workload.recompute));
        let pricing = Pricing { prices, links, host, layers, cut: &cut };
        let around = links.surroundings(copies_shards(&self.parts.shares));
        self.layers.passes(unit, class, p.tensor_overlap, around, || pricing.unit(unit))
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
}

/// The shortest order that goes on by turns to the order of `micro_batches`.
///
/// # Errors
/// There is no order for this number.
pub(super) fn shortest_order(
    workload: &WorkloadSpec,
    micro_batches: u32,
    known: &ClosedFormCache,
) -> Result<Arc<Order>, PlanError> {
    let fewest = step::fewest_micro_batches(workload, micro_batches);
    // The message names the numbers of the step.
    known.order(workload, fewest, || {
        step::order(workload, fewest).or_else(|_| step::order(workload, micro_batches))
    })
}
