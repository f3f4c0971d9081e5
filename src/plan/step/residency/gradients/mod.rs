//! Gradients: where they gather, and their reduction over ranks that hold the same weights.
//!
//! The gradient of a unit is complete when the last micro-batch has added its part. It is reduced then, or after
//! every micro-batch: `reduce_every_micro_batch`, by default where gradients are cut, since a shard cannot hold what
//! is not reduced. Units to reduce gather in a bucket; a full bucket is reduced by an all-reduce where every rank
//! keeps everything, by a reduce-scatter where optimizer state is cut, and on in hops between groups where there are
//! groups ([`stepsim_schedule::sharding`]), in every reduction or by complete gradients alone. With overlap the
//! reduction runs beside the backward passes still to come, else behind the last of them.
//!
//! The gradient's home decides what is on the device beyond the resident part: [`Whole`] or [`ShardedGradients`].

mod cut;
mod whole;

pub(super) use cut::ShardedGradients;
pub(super) use whole::Whole;

use super::copies::Cargo;
use super::shares::{ReductionHop, tensors_of};
use super::{ClassBytes, Law, LinkDemand, PolicyInputs, Reductions, Residency, UnitMessages, UnitTimes};
use crate::step::chain::{Chain, Visit};
use crate::step::groups::Group;
use crate::step::residency::away::{fraction_away, spread};
use crate::step::unit::Unit;
use crate::step::writer::Writer;
use stepsim_core::ids::OpId;
use stepsim_core::program::{MemoryClass, NO_MICRO_BATCH, Phase, ProgramBuilder};
use stepsim_fabric::collective::{CollectiveError, Op};
use stepsim_price::model::{CommGroup, LayerKind};
use stepsim_schedule::sharding::Exchange;

/// Where the gradient of a unit gathers, until and after it is reduced.
pub(super) trait Home {
    /// Nothing is held of any unit.
    fn begin_step(&mut self, units: usize);
    /// A pass comes that adds to the gradient of a unit.
    fn wanted(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit);
    /// A pass has added to it, more will, and nothing is reduced meanwhile.
    fn put_back(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, added: UnitGradient<'_>);
    /// The reductions of these units have been pushed; `last` is the last of them.
    fn sent(&mut self, b: &mut ProgramBuilder, units: &[u32], last: OpId);
    /// Closed form: bytes on the device during each visit of a chunk, beyond those that stay.
    fn during(&self, given: &PolicyInputs<'_>, units: &[UnitTimes<'_>]) -> Vec<[f64; 2]>;
    /// One of them has been reduced; `complete` if no micro-batch will add to it.
    fn reduced(
        &mut self,
        w: &mut Writer<'_, '_>,
        b: &mut ProgramBuilder,
        added: UnitGradient<'_>,
        complete: bool,
    );
}

/// The gradient of a unit to which a micro-batch has added: it is as it should be behind these ops.
#[derive(Clone, Copy)]
pub(super) struct UnitGradient<'a> {
    unit: u32,
    behind: &'a [OpId],
    micro_batch: u32,
}

/// Closed form: bytes of gradients that wait for their reduction or for their copy during each visit of a backward
/// pass, where a unit's take `of` bytes from its visit until `seconds` of the link behind it. Where a rank has
/// several chunks, another's backward pass has just ended.
fn waiting<'u>(
    given: &PolicyInputs<'_>,
    units: &[UnitTimes<'u>],
    of: impl Fn(&'u Unit) -> f64,
    seconds: impl Fn(&'u Unit) -> f64,
) -> Vec<[f64; 2]> {
    let mut during = vec![[0.0; 2]; units.len()];
    let (mut pass, mut link) = (0.0_f64, 0.0_f64);
    let mut waiting: Vec<(f64, f64)> = Vec::new();
    let passes = if given.chunks.len() > 1 { 2 } else { 1 };
    for (i, unit) in (0..passes).flat_map(|_| units.iter().enumerate().rev()) {
        waiting.retain(|(until, _)| *until > pass);
        let bytes = of(unit.unit);
        during[i][1] = bytes + waiting.iter().map(|w| w.1).sum::<f64>();
        pass += unit.backward;
        link = link.max(pass) + seconds(unit.unit);
        waiting.push((link, bytes));
    }
    during
}

/// Gradients that are summed over ranks.
pub(super) struct ReducedGradients<H> {
    home: H,
    /// By unit: how many micro-batches have yet to add their gradient.
    to_come: Vec<u32>,
    /// Units whose gradients are complete and wait for their bucket to fill.
    bucket: Vec<u32>,
    /// By unit: whether its gradient is there, where they come and go.
    there: Vec<bool>,
}

impl<H: Home> ReducedGradients<H> {
    pub fn new(home: H) -> ReducedGradients<H> {
        ReducedGradients { home, to_come: Vec::new(), bucket: Vec::new(), there: Vec::new() }
    }
}

impl<H: Home> Residency for ReducedGradients<H> {
    fn begin(&mut self, units: usize) {
        self.to_come = vec![0; units];
    }
    fn resident(&self, w: &Writer<'_, '_>) -> Vec<(u8, f64)> {
        let shares = &w.setup.shares;
        let buckets = shares.bucket_bytes(w.units.iter());
        let mut resident = if buckets > 0.0 { vec![(0, buckets)] } else { Vec::new() };
        if !shares.gradients_come_and_go(w.order.per_direction()) {
            resident.extend(spread(shares.state(w.units.iter()).gradients, &shares.placed.gradients));
        }
        resident
    }
    fn begin_step(&mut self, w: &Writer<'_, '_>) {
        let passes = |(i, u): (u32, &Unit)| if u.plan.has_backward() { w.backward_passes(i) } else { 0 };
        self.to_come = (0..).zip(&w.units).map(passes).collect();
        self.bucket.clear();
        let there = !w.setup.shares.gradients_come_and_go(w.order.per_direction());
        self.there = vec![there; w.units.len()];
        self.home.begin_step(w.units.len());
    }

    fn arrive(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        let unit = visit.unit as usize;
        if !std::mem::replace(&mut self.there[unit], true) {
            chain.take(MemoryClass::Gradients, w.setup.shares.gradients_kept_bytes(&w.units[unit]));
        }
        self.home.wanted(w, b, chain, visit);
    }

    /// A micro-batch has added to the gradient of a unit.
    fn leave(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, visit: Visit, end: OpId) {
        let unit = visit.unit as usize;
        self.to_come[unit] -= 1;
        let complete = self.to_come[unit] == 0;
        let workload = w.setup.shares.workload;
        let again = w.visits.last_of(visit.unit).is_some_and(|v| v.again);
        if again && workload.offload.reuse_across_micro_batches && !complete {
            return;
        }
        let each = workload.reduces_every_micro_batch();
        if !complete && !each {
            let added = UnitGradient { unit: visit.unit, behind: &[end], micro_batch: visit.micro_batch };
            self.home.put_back(w, b, added);
            return;
        }
        if visit.unit >= w.first_beside() {
            // Ranks encode unequal numbers of micro-batches: they sum behind the last.
            return;
        }
        if !self.bucket.contains(&visit.unit) {
            self.bucket.push(visit.unit);
        }
        let buckets = &workload.gradient_buckets;
        if !buckets.overlap && complete {
            return;
        }
        let filled: u64 = self.bucket.iter().map(|u| message_bytes(w, *u)).sum();
        // After every micro-batch nothing stays behind: the pass ends with the first unit of its chunk.
        let chunk_done = w.first_unit.contains(&visit.unit) && each;
        if filled >= buckets.bucket_bytes
            || chunk_done
            || self.to_come[..w.first_beside() as usize].iter().all(|n| *n == 0)
        {
            self.reduce_bucket(w, b, &[end], visit.micro_batch);
        }
    }

    /// Reduces what waits in the bucket, in messages of the size asked for, all behind the last pass.
    fn close(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder) {
        let last = b.recent(w.compute, 1);
        self.empty_bucket(w, b, last);
        let beside = w.first_beside()..w.units.len() as u32;
        self.bucket = beside.filter(|unit| w.units[*unit as usize].plan.has_backward()).collect();
        self.empty_bucket(w, b, last);
        sum_tied_embedding(w, b, last);
    }
}

impl<H: Home> ReducedGradients<H> {
    /// Reduces all that waits, in messages of the size asked for, behind the `last` pass.
    fn empty_bucket(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, last: Option<OpId>) {
        while !self.bucket.is_empty() {
            let rest = self.split_bucket(w);
            self.reduce_bucket(w, b, last.as_slice(), NO_MICRO_BATCH);
            self.bucket = rest;
        }
    }
    /// Reduces the units of the bucket in one message for each group.
    fn reduce_bucket(
        &mut self,
        w: &mut Writer<'_, '_>,
        b: &mut ProgramBuilder,
        waits: &[OpId],
        micro_batch: u32,
    ) {
        let units = std::mem::take(&mut self.bucket);
        if units.is_empty() {
            return;
        }
        let complete: Vec<u32> = units.iter().copied().filter(|u| self.to_come[*u as usize] == 0).collect();
        let ops = reduce(w, b, (&units, &complete), waits, micro_batch);
        let behind = if ops.is_empty() { waits.to_vec() } else { ops.clone() };
        if let Some(last) = behind.last() {
            self.home.sent(b, &units, *last);
        }
        for unit in units {
            w.visits.reduced(unit, &ops);
            w.reduced[unit as usize].extend(&ops);
            let complete = self.to_come[unit as usize] == 0;
            self.home.reduced(w, b, UnitGradient { unit, behind: &behind, micro_batch }, complete);
        }
    }

    /// Takes all but the first bucketful out of the bucket.
    fn split_bucket(&mut self, w: &Writer<'_, '_>) -> Vec<u32> {
        let limit = w.setup.shares.workload.gradient_buckets.bucket_bytes;
        let mut filled = 0;
        let mut keep = 0;
        for unit in &self.bucket {
            filled += message_bytes(w, *unit);
            keep += 1;
            if filled >= limit {
                break;
            }
        }
        self.bucket.split_off(keep)
    }
}

/// The messages of some units, some of them complete, hop after hop.
fn reduce(
    w: &mut Writer<'_, '_>,
    b: &mut ProgramBuilder,
    (units, complete): (&[u32], &[u32]),
    waits: &[OpId],
    micro_batch: u32,
) -> Vec<OpId> {
    let shares = &w.setup.shares;
    let first = units.first().map(|u| &w.units[*u as usize]);
    let layer = first.and_then(|unit| unit.layer);
    let degrees = first.map_or(shares.degrees, |unit| shares.degrees.of(&unit.plan));
    let of_images = units.iter().map(|u| shares.tensor_sum_bytes(&w.units[*u as usize])).sum();
    let what = ("all-reduce module gradients", Phase::Backward, layer);
    let images = Group::Layer(CommGroup::Tensor);
    let summed = w.communicate(b, images, Op::AllReduce, of_images, what, waits, micro_batch);
    let beside = units.iter().map(|u| shares.pipeline_sum_bytes(&w.units[*u as usize])).sum();
    let behind = summed.as_ref().map_or(waits, std::slice::from_ref);
    let over_stages = w.communicate(b, Group::Pipeline, Op::AllReduce, beside, what, behind, micro_batch);
    let summed = over_stages.or(summed);
    let mut ops: Vec<OpId> = summed.into_iter().collect();
    let waits = summed.as_ref().map_or(waits, std::slice::from_ref);
    for (expert, of) in [(false, Group::Dense as fn(Exchange) -> Group), (true, Group::Experts)] {
        let mut last = None;
        for hop in shares.hops(&degrees, of) {
            let sent = if hop.once { complete } else { units };
            let sizes =
                sent.iter().map(|u| shares.gradient_bytes(&w.units[*u as usize])[usize::from(expert)]);
            let bytes = sizes.sum::<u64>() / u64::from(hop.parts);
            let tensors = sent.iter().map(|u| tensors_of(&w.units[*u as usize], expert)).sum();
            let pieces = if hop.in_buckets { shares.messages(bytes, tensors) } else { 1 };
            let what = (name(&hop), Phase::Backward, layer);
            let waits = last.as_ref().map_or(waits, std::slice::from_ref);
            let summed = (0..pieces)
                .filter_map(|_| w.communicate(b, hop.group, hop.op, bytes / pieces, what, waits, micro_batch))
                .last();
            last = summed.or(last);
        }
        ops.extend(last);
    }
    ops
}

/// The name of a hop for readers.
fn name(hop: &ReductionHop) -> &'static str {
    use Exchange::{Sum, SumReplicas};
    match (hop.group, hop.op) {
        (Group::Dense(SumReplicas), _) => "all-reduce gradient shards",
        (Group::Experts(SumReplicas), _) => "all-reduce expert gradient shards",
        (Group::Dense(Sum), Op::ReduceScatter) => "reduce-scatter gradients",
        (Group::Experts(Sum), Op::ReduceScatter) => "reduce-scatter expert gradients",
        (Group::Dense(Sum), Op::AllToAll) => "all-to-all gradients",
        (Group::Experts(Sum), Op::AllToAll) => "all-to-all expert gradients",
        (Group::Dense(Sum), _) => "all-reduce gradients",
        (Group::Experts(Sum), _) => "all-reduce expert gradients",
        (Group::Dense(_), Op::AllToAll) => "all-to-all gradient shards",
        (Group::Experts(_), Op::AllToAll) => "all-to-all expert gradient shards",
        (Group::Dense(_), _) => "reduce-scatter gradient shards",
        (_, _) => "reduce-scatter expert gradient shards",
    }
}

/// First and last stage add up the gradients of the table they share.
fn sum_tied_embedding(w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, last: Option<OpId>) {
    let holds = |kind| w.units.iter().position(|u| u.plan.kind == kind);
    let tied = w.setup.tied_embeddings;
    let at_the_end = holds(if tied { LayerKind::Head } else { LayerKind::Prediction });
    let ((Some(holder), None) | (None, Some(holder))) = (holds(LayerKind::Embedding), at_the_end) else {
        return;
    };
    if w.units[holder].plan.trained.total() == 0 {
        return;
    }
    let mut waits = w.reduced[holder].clone();
    waits.extend(last);
    let bytes = (w.setup.table_parameters as f64 * w.setup.shares.gradient_message_bytes).round() as u64;
    let name = if tied { "all-reduce tied embedding" } else { "all-reduce embedding table" };
    let what = (name, Phase::Optimizer, None);
    let op = w.communicate(b, Group::Embedding, Op::AllReduce, bytes, what, &waits, NO_MICRO_BATCH);
    w.reduced[holder].extend(op);
}

/// Bytes of a unit's gradient at `per_parameter` each.
fn unit_bytes(w: &Writer<'_, '_>, unit: u32, per_parameter: f64) -> u64 {
    let (dense, expert) = w.units[unit as usize].trained_bytes(per_parameter);
    dense + expert
}

/// Bytes of a unit's gradient as it is sent.
fn message_bytes(w: &Writer<'_, '_>, unit: u32) -> u64 {
    unit_bytes(w, unit, w.setup.shares.gradient_message_bytes)
}

/// Bytes of a unit's gradient, as it is sent, that wait on the device at once.
fn live_bytes(w: &Writer<'_, '_>, unit: u32) -> u64 {
    (message_bytes(w, unit) as f64 * w.setup.shares.live_share(&w.units[unit as usize])).round() as u64
}

/// Bytes of a unit's gradient as it is kept.
fn kept_bytes(w: &Writer<'_, '_>, unit: u32) -> u64 {
    unit_bytes(w, unit, w.setup.shares.bytes.gradients)
}

/// Bytes of a unit's gradient that this rank updates with.
fn share_bytes(w: &Writer<'_, '_>, unit: u32) -> u64 {
    let share = w.updated_parameters(unit as usize..unit as usize + 1);
    (share as f64 * w.setup.shares.bytes.gradients).round() as u64
}

/// Bytes of the part of a unit's gradient whose sums this rank keeps.
fn part_bytes(w: &Writer<'_, '_>, unit: u32) -> u64 {
    let kept = w.setup.shares.gradients_kept(std::iter::once(&w.units[unit as usize]));
    (kept as f64 * w.setup.shares.bytes.gradients).round() as u64
}

fn cargo(w: &Writer<'_, '_>, unit: u32, name: &'static str, bytes: u64, micro_batch: u32) -> Cargo {
    let layer = w.units[unit as usize].layer;
    Cargo { class: MemoryClass::Gradients, bytes, name, phase: Phase::Backward, layer, micro_batch }
}

impl<H: Home> Law for ReducedGradients<H> {
    /// Reductions of buckets. Whole gradients that live on a tier are copied in before a backward visit and out
    /// behind it, but for the first and the last of a step; what is reduced goes home.
    fn closed_form(&self, given: &PolicyInputs<'_>) -> Result<LinkDemand, CollectiveError> {
        let shares = given.shares;
        let (workload, placed) = (shares.workload, &shares.placed.gradients);
        let buckets = &workload.gradient_buckets;
        // Micro-batches that follow one another in one chunk add to one gradient.
        let adds_up = workload.offload.reuse_across_micro_batches && given.chunks.len() == 1;
        let reductions = Reductions {
            every: workload.reduces_every_micro_batch() && !adds_up,
            overlap: buckets.overlap,
            bucket_bytes: buckets.bucket_bytes,
            held: shares.facts().cuts_weights() && shares.gathers(),
        };
        let cut = shares.gradients_are_cut();
        let whole =
            if cut || workload.offload.reuse_across_micro_batches { 0.0 } else { shares.bytes.gradients };
        let around = given.around(|unit| {
            let [carried_in, carried_out, _] = given.copies(placed, unit.plan.trained.total() as f64 * whole);
            let one = std::iter::once(unit);
            let share = if cut { shares.gradients_kept(one) } else { shares.updated(one) };
            let share = share as f64 * shares.bytes.gradients;
            let [home_in, home_out, _] = given.copies(placed, share);
            let home = [if cut { home_in } else { 0.0 }, home_out];
            Ok(UnitMessages { carried: [carried_in, carried_out], home, ..UnitMessages::default() })
        })?;
        let around = if placed.is_empty() { Vec::new() } else { around };
        Ok(LinkDemand { around, reductions: Some(reductions), ..LinkDemand::default() })
    }
    fn held(&self, given: &PolicyInputs<'_>) -> ClassBytes {
        let shares = given.shares;
        let here = 1.0 - fraction_away(&shares.placed.gradients);
        let buckets = shares.bucket_bytes(given.units().map(|u| u.unit));
        let stays = given.state().gradients * here + buckets;
        let during = given.chunks.iter().map(|(units, _)| self.home.during(given, units));
        let mut held = ClassBytes { stays, during: during.collect(), ..ClassBytes::default() };
        if given.passes == 1.0 && shares.gradients_come_and_go(1) {
            // All units behind have theirs when a backward pass comes to one.
            let mut there = 0.0;
            for (units, during) in given.chunks.iter().zip(&mut held.during).rev() {
                for (unit, during) in units.0.iter().zip(during).rev() {
                    there += shares.gradients_kept_bytes(unit.unit) as f64;
                    during[1] += there;
                }
            }
            (held.stays, held.update) = (buckets, there);
        }
        held
    }
}

/// Closed form: seconds to reduce a unit's gradient, before it is complete.
fn reduction_time(given: &PolicyInputs<'_>, unit: &Unit) -> Result<f64, CollectiveError> {
    Ok(given.shares.reduction(given.links, std::iter::once(unit))?.alone(false))
}
