//! The closed form of a step for any number of sequences.
//!
//! Layers, links, prices, the shares of the state: all that a micro-batch costs and all that is held beside it is the
//! same however many micro-batches there are. It is worked out once, from the shortest order that shows all that the
//! schedule repeats ([`Turns`](stepsim_schedule::Turns)); a batch then asks for sums of a few terms.

use std::sync::Arc;

use super::estimate::{Estimate, StepBound, fullest};
use super::form::{StepForm, StepParts, shortest_order};
use super::known::ClosedFormCache;
use super::links::RankLinks;
use super::own_passes::OwnPasses;
use super::residency::ResidencyDemand;
use super::rules::{RuleInputs, RulesOfLayout};
use super::terms::Terms;
use super::unlike::{regular, slowest_classes};
use stepsim_core::ids::DeviceId;
use stepsim_fabric::collective::Chooser;
use stepsim_fabric::topology::Machine;
use stepsim_plan::step::groups::Degrees;
use stepsim_plan::step::residency::{Policies, StateShares};
use stepsim_plan::step::{self, PlanError, PriceList};
use stepsim_price::documents::{Dealt, PackedPass, expected};
use stepsim_price::model::Shard;
use stepsim_spec::SpecError;
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::{CollectiveFidelity, SequenceOrder, WorkloadSpec};

/// The closed form of a step for any number of sequences.
pub struct ClosedForm<'a> {
    pub(super) form: StepForm<'a>,
    pub(super) model: &'a ModelSpec,
    pub(super) peak: f64,
    capacity: f64,
    rules: RulesOfLayout,
    /// Model FLOP of one sequence, or of the whole step where documents are dealt to ranks.
    flops: f64,
    /// The time that the rank with most attention or images adds to the bubble, where they are dealt for this one
    /// batch.
    documents: Option<f64>,
    /// The times of ranks that make passes of their own, for this one batch.
    own: Option<OwnPasses>,
    /// The results that do not change from batch to batch, and the batches for which they hold.
    held: Option<(BatchShape, ResidencyDemand)>,
}

/// Batches between which this does not differ ask the same of links and memory in each pass.
#[derive(Clone, Copy, PartialEq, Eq)]
struct BatchShape {
    shortest: u32,
    /// Passes of a step: one, or several; where passes share what was copied, how many.
    passes: u32,
}

impl<'a> ClosedForm<'a> {
    /// The closed form of `workload` with any batch; `known` is what those before it on this machine, with these
    /// prices and the same host, have found out. Other arguments as of [`estimate`](super::estimate()).
    ///
    /// # Errors
    /// The workload does not fit the machine, or a group cannot communicate.
    pub fn new(
        workload: &'a WorkloadSpec,
        model: &'a ModelSpec,
        machine: &Machine,
        prices: &'a dyn PriceList,
        chooser: &'a Chooser,
        peak: f64,
        known: &'a ClosedFormCache,
    ) -> Result<ClosedForm<'a>, PlanError> {
        let devices = u64::from(machine.devices());
        let packs = step::Packs::new(workload, model, devices)?;
        let micro_batches = packs.most_passes().unwrap_or(workload.micro_batches(devices) as u32);
        let order = shortest_order(workload, micro_batches, known)?;
        let (degrees, layout) = step::laid_out(workload, (devices, &order.placement), machine)?;
        let tiers = tiers(workload, machine);
        let links_of = |pipeline_rank| {
            let place = (&layout, &degrees, pipeline_rank);
            RankLinks::new(machine, workload, place, &tiers, chooser, known)
        };
        let (front, links) = match degrees.front {
            Some(_) => (Some(links_of(0)?), links_of(1)?),
            None => (None, links_of(0)?),
        };
        let split = step::layer_split(workload, model, &order)?;
        let domains = step::expert_domains(workload, &degrees, &layout, machine)?;
        let usual = packs.usual();
        let images = packs.images().map(|images| images.usual().into());
        let shard = Shard { images, ..packs.onto(Shard::over_domains(workload, model, domains)) };
        let loads = step::expert_load::of_layers(workload, model)?;
        let units = |shard: &Shard| {
            let layers = known.layers(model, shard, workload, &loads, degrees.ends.is_some());
            (layers.layers.stages(workload, &split), layers)
        };
        let shares = StateShares::of(workload, model, degrees, machine)?;
        let policies = Policies::of(&shares);
        let stages = units(&shard);
        let classes = slowest_classes(machine, workload.host(), &layout, prices, &order, &stages.0);
        let alike = regular(machine, (&layout, &degrees), workload);
        let room = packs.onto(shard.clone());
        let mut borders = step::borders(workload, model, &room, &stages.0);
        borders.extend(step::side_border(workload, model));
        let layers = Arc::clone(&stages.1);
        let tied = model.table_at_both_ends() && degrees.ends.is_some();
        let table = model.vocabulary.div_ceil(u64::from(degrees.tensor)) * model.hidden;
        let table = if tied { table as f64 * workload.gradient_message_bytes() } else { 0.0 };
        let steps = workload.fidelity.collectives == CollectiveFidelity::Steps;
        let least = !steps && !machine.limits_both_ways();
        let parts =
            StepParts { shares, policies, order, links, front, prices, classes, alike, least, table, known };
        let mut form = StepForm::new(parts, stages, &borders)?;
        let mut documents = (packs.dealt().is_some() || packs.images().is_some()).then_some(0.0);
        // Everybody waits for the rank whose documents ask most of attention, or which has most images.
        let of_documents = usual.zip(packs.dealt()).map(|(usual, dealt)| {
            let slowest = Arc::new(usual.times(slowest_of(dealt, workload)));
            Shard { documents: Some(slowest), ..shard.clone() }
        });
        let of_images =
            packs.images().map(|images| Shard { images: Some(images.slowest().into()), ..shard.clone() });
        if let Some(slowest) = of_documents.or(of_images) {
            form.with_micro_batches(micro_batches)?;
            let total = |form: &StepForm<'_>| Ok::<f64, PlanError>(form.terms(&form.held()?)?.total());
            let before = total(&form)?;
            form.with_stages(units(&slowest))?;
            documents = Some(total(&form)? - before);
            form.with_stages(units(&shard))?;
        }
        let share = |pass: &PackedPass| step::share_of_pass(pass, model, &shard);
        let own =
            packs.dynamic().map(|dynamic| OwnPasses::new(&mut form, dynamic, share, units)).transpose()?;
        let chunks = form.parts.order.placement.parts();
        let of_layout = RuleInputs { workload, model, degrees, chunks, peak, count: layers.parameters };
        let flops = match documents {
            Some(_) => packs.flops(workload, model, workload.batch.global),
            None => layers.flops,
        };
        Ok(ClosedForm {
            model,
            peak,
            capacity: machine.device_classes().iter().map(|d| d.memory().f()).fold(f64::INFINITY, f64::min),
            rules: RulesOfLayout::new(&of_layout, &form.parts.links)?,
            flops: flops.model,
            documents,
            own,
            held: None,
            form,
        })
    }

    /// Sizes of the layout's groups.
    pub(super) fn degrees(&self) -> &Degrees {
        self.rules.degrees()
    }
    /// Devices of the layout.
    pub(super) fn devices(&self) -> f64 {
        self.rules.ranks()
    }

    /// The least time of the step with `global` sequences, by sums alone, and its memory: no order is walked.
    ///
    /// # Errors
    /// As [`ClosedForm::with_batch`].
    pub fn bound(&mut self, global: u64) -> Result<StepBound, PlanError> {
        self.for_batch(global)?;
        let Some((_, held)) = &self.held else { unreachable!("it was made just now") };
        let memory = held.memory.clone();
        let seconds = held.floor.seconds(f64::from(self.form.passes()), 0.0, self.form.optimizer[0]);
        let update = if held.updates_between_copies() { 0.0 } else { self.form.optimizer[1] };
        let is_full = memory.iter().any(|rank| rank.certain > self.capacity);
        let form_seconds = match self.own {
            None if !is_full => seconds.max(self.form.least(held) + update + self.form.host_reads),
            _ => seconds,
        };
        Ok(StepBound {
            seconds,
            form_seconds,
            memory: self.own.as_ref().map_or(memory, |own| own.memory.clone()),
            capacity: self.capacity,
            tokens: global as f64 * self.form.workload().sequence(self.model) as f64,
        })
    }

    /// Bytes that the fullest device needs and those that it has, where `global` sequences are too many for it: no order
    /// is walked.
    ///
    /// # Errors
    /// As [`ClosedForm::with_batch`].
    pub fn over_memory(&mut self, global: u64) -> Result<Option<[f64; 2]>, PlanError> {
        self.for_batch(global)?;
        let Some((_, held)) = &self.held else { unreachable!("it was made just now") };
        let ranks = self.own.as_ref().map_or(&held.memory, |own| &own.memory);
        let needed = fullest(ranks).total();
        Ok((needed > self.capacity).then_some([needed, self.capacity]))
    }

    /// Seconds of one micro-batch on a pipeline rank in one direction of its order: forward, gradients of inputs, of
    /// weights.
    pub fn passes(&self, rank: usize) -> [f64; 3] {
        let sum = &self.form.ranks[rank].sum;
        let directions = f64::from(self.form.parts.order.placement.directions());
        [sum.forward, sum.input_grad, sum.weight_grad].map(|pass| pass.total() / directions)
    }

    /// Seconds of the step with `global` sequences: the last walk alone, where the terms take one each.
    ///
    /// # Errors
    /// As [`ClosedForm::with_batch`].
    pub fn seconds(&mut self, global: u64) -> Result<f64, PlanError> {
        if self.own.is_some() {
            return Ok(self.with_batch(global)?.terms.total());
        }
        self.for_batch(global)?;
        let Some((_, held)) = &self.held else { unreachable!("it was made just now") };
        let update = if held.updates_between_copies() { 0.0 } else { self.form.optimizer[1] };
        let once = update + self.form.host_reads;
        Ok(self.form.end(held)? + once + self.documents.unwrap_or(0.0))
    }

    /// Seconds that the step takes at least, its passes walked where that is certain.
    ///
    /// # Errors
    /// As [`ClosedForm::with_batch`].
    pub fn floor(&mut self, global: u64) -> Result<f64, PlanError> {
        self.for_batch(global)?;
        let Some((_, held)) = &self.held else { unreachable!("it was made just now") };
        let walk = if held.floor.walks() { self.form.passes_alone(held)? } else { 0.0 };
        Ok(held.floor.seconds(f64::from(self.form.passes()), walk, self.form.optimizer[0]))
    }

    /// The requests of the policies with `global` sequences.
    fn for_batch(&mut self, global: u64) -> Result<(), PlanError> {
        let workload = self.form.workload();
        if self.documents.is_some() && global != workload.batch.global {
            return Err(SpecError::at("batch.global", format!("{global} is not allowed"))
                .allowed(format!(
                    "{}, for which documents or images were dealt to ranks",
                    workload.batch.global
                ))
                .into());
        }
        let slice = u64::from(self.rules.degrees().data) * workload.batch.micro_batch;
        let own = self.own.as_ref().map(|own| own.passes);
        self.form.with_micro_batches(own.unwrap_or((global / slice.max(1)) as u32))?;
        let passes = self.form.passes();
        let shared = workload.offload.reuse_across_micro_batches;
        let alike = BatchShape {
            shortest: self.form.parts.order.micro_batches,
            passes: if shared { passes } else { passes.min(2) },
        };
        if self.held.as_ref().is_none_or(|held| held.0 != alike) {
            self.held = Some((alike, self.form.held()?));
        }
        Ok(())
    }

    /// The step with `global` sequences, which must make whole micro-batches.
    ///
    /// # Errors
    /// The schedule has no order for its micro-batches; documents were dealt for another number of sequences; a group
    /// cannot communicate.
    pub fn with_batch(&mut self, global: u64) -> Result<Estimate, PlanError> {
        self.for_batch(global)?;
        let (workload, passes) = (self.form.workload(), self.form.passes());
        let Some((_, held)) = &self.held else { unreachable!("it was made just now") };
        let mut terms: Terms = self.form.terms(held)?;
        terms.bubble += self.documents.unwrap_or(0.0);
        if let Some(own) = &self.own {
            own.replace(&mut terms, &self.form);
        }
        let flops = if self.documents.is_some() { self.flops } else { self.flops * global as f64 };
        let tokens = global as f64 * workload.sequence(self.model) as f64;
        let rules = self.rules.with_batch(tokens, self.form.micro_batches, self.peak);
        Ok(Estimate {
            terms,
            floor: held.floor.seconds(f64::from(passes), terms.passes(), self.form.optimizer[0]),
            memory: self.own.as_ref().map_or(&held.memory, |own| &own.memory).clone(),
            capacity: self.capacity,
            rules,
            tokens,
            model_flops: flops,
            mfu: flops / (self.rules.ranks() * self.peak * terms.total()),
            busiest: self.form.busiest,
        })
    }
}

/// Attention of the data-parallel rank that has most to do over a step, over the mean: expected of sequences that
/// come as they are packed, summed of those that are dealt by what they cost.
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
