//! Work beside the passes of a rank: weights are gathered, gradients reduced, bytes copied from and to other tiers.
//! Each kind is a queue of its own.
//!
//! A visit (a pass of one micro-batch through one unit) starts when the bytes that its policies bring in are there; a
//! gather or a copy starts when its queue is free, and not before its gate: the end of a visit a number of visits
//! before. A reduction or a copy out starts behind the visit whose results it takes. With f, b, g, s the forward,
//! backward, gather and reduction of a unit, equal units of FSDP2 then take
//! ```text
//! T_fwd = g + (L − 1)·max(f, g) + f        T_bwd = g + b + (L − 1)·max(b, g, s) + s
//! ```

use rustc_hash::FxHashMap;

use super::asked::{PolicyDemand, Size};
use super::form::StepForm;
use super::queues::{Passage, Queue, QueueTimes};
use super::walk_key::RankEnd;
use stepsim_fabric::collective::{CollectiveError, Op};
use stepsim_plan::step::Unit;
use stepsim_plan::step::groups::Group;
use stepsim_plan::step::residency::{
    Gathers, PolicyInputs, ReductionStreams, Reductions, UnitMessages, UnitTimes, VisitSpan, gate,
};
use stepsim_price::model::LayerKind;
use stepsim_schedule::{Pass, Seat, Slot, SlotPass};

impl StepForm<'_> {
    /// The requests of a rank's policies.
    ///
    /// # Errors
    /// A collective that no algorithm can run.
    pub(super) fn asked(&self, rank: usize) -> Result<PolicyDemand, CollectiveError> {
        let given = self.given(rank);
        let nothing = |(units, _): &(Vec<UnitTimes<'_>>, bool)| vec![UnitMessages::default(); units.len()];
        let mut asked =
            PolicyDemand { around: given.chunks.iter().map(nothing).collect(), ..PolicyDemand::default() };
        for law in self.parts.policies.laws() {
            let form = law.closed_form(&given)?;
            let all = asked.around.iter_mut().flatten().zip(form.around.iter().flatten());
            all.for_each(|(unit, around)| *unit += *around);
            if form.gathers != Gathers::Never {
                asked.gathers = form.gathers;
            }
            asked.reductions = asked.reductions.or(form.reductions);
            asked.behind += form.behind;
            asked.updates = asked.updates.or(form.updates);
        }
        // State that streams through is updated between its copies.
        if let Some(updates) = asked.updates.as_mut().filter(|updates| updates.ahead.is_some()) {
            let kernels = self.unit_updates(&self.ranks[rank], self.parts.classes[rank]);
            updates.stations.iter_mut().zip(kernels).for_each(|(stations, seconds)| stations[1] += seconds);
        }
        self.fill_buckets(rank, &given, &mut asked)?;
        let trains =
            |kind| given.units().any(|u| u.unit.plan.kind == kind && u.unit.plan.trained.total() > 0);
        if trains(LayerKind::Embedding) != trains(LayerKind::Head) {
            asked.tied = self.parts.links.time(Group::Embedding, Op::AllReduce, self.parts.table)?;
        }
        asked.size = self.sizes(rank);
        Ok(asked)
    }

    /// Fills buckets in the order in which gradients are complete: units of a chunk from last to first.
    fn fill_buckets(
        &self,
        rank: usize,
        given: &PolicyInputs<'_>,
        asked: &mut PolicyDemand,
    ) -> Result<(), CollectiveError> {
        asked.reduced = given.chunks.iter().map(|(units, _)| vec![None; units.len()]).collect();
        let Some(reductions) = asked.reductions else { return Ok(()) };
        let (mut bucket, mut bytes) = (Vec::<&Unit>::new(), 0);
        for chunk in self.complete(rank) {
            let units = &given.chunks[chunk].0;
            for (i, unit) in units.iter().enumerate().rev() {
                if unit.unit.plan.has_backward() {
                    bucket.push(unit.unit);
                    bytes += self.parts.shares.gradient_bytes(unit.unit).iter().sum::<u64>();
                }
                if bytes >= reductions.bucket_bytes || (i == 0 && reductions.every) {
                    bytes = 0;
                    let times = self.parts.shares.reduction(self.links_of(rank), bucket.drain(..))?;
                    asked.reduced[chunk][i] = Some(times);
                    asked.left.extend((!reductions.overlap).then_some(times));
                }
            }
        }
        if !bucket.is_empty() {
            asked.left.push(self.parts.shares.reduction(self.links_of(rank), bucket.into_iter())?);
        }
        Ok(())
    }

    /// The chunks of a rank in the order in which their last backward passes come.
    fn complete(&self, rank: usize) -> Vec<usize> {
        let mut order = Vec::new();
        for part in self.parts.order.ranks[rank].iter().rev().flat_map(Slot::parts) {
            let chunk = usize::from(part.chunk);
            if matches!(part.pass, Pass::Backward | Pass::WeightGrad) && !order.contains(&chunk) {
                order.push(chunk);
            }
        }
        order.reverse();
        order
    }

    /// The size of each visit of a rank.
    fn sizes(&self, rank: usize) -> Vec<Vec<[Size; 2]>> {
        let own = &self.ranks[rank];
        let workload = self.workload();
        let cut = if workload.sharding().cuts_weights() { self.parts.shares.weights_cut() } else { 1.0 };
        let of_chunk = |(stage, passes): (&usize, &super::chunks::Units)| {
            let of_unit = |(unit, passes): (&Unit, &std::sync::Arc<super::unit_passes::UnitPasses>)| {
                let weights = self.parts.shares.weight_bytes(unit) as f64;
                let kernels = |ops: &[super::queues::PassOp]| {
                    ops.iter().filter(|op| op.work == super::queues::PassWork::Kernel).count() as f64
                };
                let back = kernels(&passes.recompute.ops)
                    + if self.splits {
                        kernels(&passes.input_grad.ops)
                    } else {
                        kernels(&passes.backward.ops)
                    };
                let (shard, kept) = (weights / cut, unit.kept_bytes as f64);
                let copied = if workload.offload.weights.is_empty() { kept } else { shard };
                [
                    Size { bytes: weights, kernels: kernels(&passes.forward.ops), own: shard },
                    Size { bytes: weights + kept, kernels: back, own: copied },
                ]
            };
            self.stages[*stage].iter().zip(passes).map(of_unit).collect()
        };
        own.stages.iter().zip(&own.chunks).map(of_chunk).collect()
    }
}

/// The kinds of work that are switched on beside the passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SideWork {
    pub transfers: bool,
    pub collectives: bool,
    pub copies: bool,
}

/// A visit that has begun.
#[derive(Clone, Copy, Debug, Default)]
struct Begun {
    start: f64,
    end: f64,
    reduced: Option<f64>,
    backward: bool,
    micro_batch: u32,
    size: Size,
}

/// The facts of one unit of a rank.
#[derive(Clone, Copy, Debug, Default)]
struct UnitState {
    /// When gathered weights are there.
    there: Option<f64>,
    /// When its gradient has been reduced last, and is where it lives.
    reduced: f64,
    /// When what gathers of its gradient was last written to another tier in this step.
    written: Option<f64>,
    /// Its latest visits, forward and backward.
    visits: [usize; 2],
}

/// The queues beside the passes of one rank.
pub(super) struct SideQueues<'f, 'a> {
    form: &'f StepForm<'a>,
    asked: &'f PolicyDemand,
    on: SideWork,
    rank: usize,
    gather: f64,
    reduce: ReductionStreams,
    /// Towards the device, and away from it.
    copy: [f64; 2],
    begun: Vec<Begun>,
    /// The first visit of the pass under way.
    run: usize,
    /// By chunk and unit.
    units: Vec<Vec<UnitState>>,
    /// Chunks and units whose gradients wait for their bucket to fill.
    bucket: Vec<(usize, usize)>,
    /// Backward passes to come, by chunk.
    left: Vec<u32>,
    /// Gradients that are complete, where their reductions are left for later.
    complete: Option<Vec<(usize, usize, f64)>>,
    /// The ends of copies out, by chunk, unit and micro-batch.
    out: FxHashMap<(u16, usize, u32), f64>,
    /// The host that launches all this, and how long it is busy with what has been launched since it was told.
    host: Option<SideLaunches>,
    busy: f64,
}

/// Seconds in which the host launches a message or a copy, and until that may start.
#[derive(Clone, Copy, Debug)]
pub(super) struct SideLaunches {
    pub message: f64,
    pub copy: f64,
    pub latency: f64,
    /// The host waits for each, and so does all behind it.
    pub blocks: bool,
}

impl<'f, 'a> SideQueues<'f, 'a> {
    pub fn new(
        form: &'f StepForm<'a>,
        rank: usize,
        asked: &'f PolicyDemand,
        on: SideWork,
        passes: u32,
    ) -> SideQueues<'f, 'a> {
        SideQueues {
            form,
            asked,
            on: SideWork { copies: on.copies && asked.copies(), ..on },
            rank,
            gather: 0.0,
            reduce: ReductionStreams::default(),
            copy: [0.0; 2],
            begun: Vec::new(),
            run: 0,
            units: asked.around.iter().map(|chunk| vec![UnitState::default(); chunk.len()]).collect(),
            bucket: Vec::new(),
            complete: None,
            left: (0..asked.around.len()).map(|chunk| form.backward_passes(rank, chunk, passes)).collect(),
            out: FxHashMap::default(),
            host: form.side_launches(),
            busy: 0.0,
        }
    }

    /// The host has launched this: a message, or else a copy. Where it blocks, nothing has run beside it.
    fn launched(&mut self, is_message: bool, now: f64) {
        let Some(host) = self.host else { return };
        self.busy += if is_message { host.message } else { host.copy };
        if host.blocks {
            let begins = now + self.busy + host.latency;
            let queues = self.reduce.iter_mut().flatten().chain(&mut self.copy).chain([&mut self.gather]);
            queues.for_each(|queue| *queue = queue.max(begins));
        }
    }

    /// The times of a rank whose host launches what has been put beside its passes.
    fn told(&mut self, mut times: QueueTimes) -> QueueTimes {
        let (host, compute) = (Queue::Host as usize, Queue::Compute as usize);
        let busy = std::mem::take(&mut self.busy);
        times[host] += busy;
        if busy > 0.0 && self.host.is_some_and(|host| host.blocks) {
            times[compute] =
                self.copy.iter().fold(times[compute], |a, b| a.max(*b)).max(self.gather).max(self.reduced());
        }
        times
    }

    /// When the last reduction is done.
    fn reduced(&self) -> f64 {
        self.reduce.iter().flatten().fold(0.0, |latest, stream| latest.max(*stream))
    }

    /// Notes what is to be reduced instead of reducing it.
    pub fn leave_reductions(&mut self) {
        self.complete = Some(Vec::new());
    }
    /// Where the walk ended, of a rank whose passes are done at a time.
    pub fn rank_end(self, passes: f64) -> RankEnd {
        RankEnd { passes, gathers: self.gather, complete: self.complete.unwrap_or_default() }
    }
    /// All passes are over, as a walk has found; its reductions are to come.
    pub fn go_on(&mut self, end: &RankEnd) {
        self.gather = end.gathers;
        self.left.fill(1);
    }

    /// True if anything runs beside a pass, which is then walked visit by visit; `first` of its chunk in the step.
    pub fn minds(&self, part: SlotPass, first: bool) -> bool {
        if !self.on.collectives || self.on.copies {
            return self.on.copies;
        }
        let last = self.left[usize::from(part.chunk)] == 1;
        let completes = matches!(part.pass, Pass::Backward | Pass::WeightGrad);
        let gathers = match self.asked.gathers {
            Gathers::Never => false,
            Gathers::Once => first && part.pass == Pass::Forward,
            Gathers::Each { .. } => part.pass != Pass::WeightGrad,
        };
        let beside = |r: Reductions| if last { r.overlap } else { r.every };
        let reduces = completes && self.asked.reductions.is_some_and(beside);
        gathers || reduces
    }

    /// The times behind a pass that visits units by these matrices.
    pub fn pass(&mut self, part: SlotPass, visits: &[(usize, Passage)], mut times: QueueTimes) -> QueueTimes {
        for (unit, passage) in visits {
            let wait = self.arrive(part, *unit, times[Queue::Compute as usize]);
            times = self.told(times);
            let input = &mut times[Queue::Input as usize];
            *input = input.max(wait);
            let start = input.max(times[Queue::Compute as usize]);
            times = passage.after(&times);
            self.leave(part, *unit, start, times[Queue::Input as usize]);
            times = self.told(times);
        }
        self.over(part);
        times
    }

    /// The times behind two passes at once.
    pub fn both(&mut self, parts: [SlotPass; 2], times: QueueTimes) -> QueueTimes {
        let form = self.form;
        let kinds = parts.map(|part| form.kind(self.rank as u32, part));
        let mut turns = PassPair { beside: &mut *self, parts, starts: [0.0; 2] };
        let after = form.chunks.at_once(kinds, form.expert_gradients(), times, &mut turns);
        parts.iter().for_each(|part| self.over(*part));
        self.told(after)
    }

    /// A pass is over.
    pub fn over(&mut self, part: SlotPass) {
        if matches!(part.pass, Pass::Backward | Pass::WeightGrad) {
            self.left[usize::from(part.chunk)] -= 1;
        }
    }

    /// When a visit may begin, of a rank whose kernels are done at a time.
    pub fn arrive(&mut self, part: SlotPass, unit: usize, kernels: f64) -> f64 {
        if part.pass == Pass::WeightGrad {
            return 0.0;
        }
        let backward = part.pass != Pass::Forward;
        let same = |last: &Begun| last.backward == backward && last.micro_batch == part.micro_batch;
        if !self.begun.last().is_some_and(same) {
            self.run = self.begun.len();
        }
        // Gathered weights have been copied in.
        let mut wait = if self.on.copies { self.copied_in(part, unit, kernels) } else { 0.0 };
        if self.on.collectives {
            wait = wait.max(self.gathered(part, unit, wait, kernels));
        }
        let size = self.asked.size[usize::from(part.chunk)][unit][usize::from(backward)];
        let micro_batch = part.micro_batch;
        self.units[usize::from(part.chunk)][unit].visits[usize::from(backward)] = self.begun.len();
        self.begun.push(Begun { backward, micro_batch, size, ..Begun::default() });
        wait
    }

    /// When the weights of a visit, whose shards are copied at a time, are gathered, and the reductions that it waits
    /// for done.
    fn gathered(&mut self, part: SlotPass, unit: usize, copied: f64, kernels: f64) -> f64 {
        let (chunk, backward) = (usize::from(part.chunk), part.pass != Pass::Forward);
        let seconds = self.asked.around[chunk][unit].gather[usize::from(backward)];
        let mut wait = 0.0_f64;
        let held = self.asked.reductions.is_some_and(|reductions| reductions.held);
        let begins = self.run == self.begun.len();
        if held && begins && !backward {
            let last = self.begun.iter().rev().take_while(|v| v.backward).find_map(|v| v.reduced);
            wait = last.unwrap_or(0.0);
        }
        if self.units[chunk][unit].there.is_none() {
            let gate = match self.asked.gathers {
                Gathers::Never => None,
                Gathers::Once => Some(0.0),
                Gathers::Each { ahead, across, .. } => {
                    Some(self.gate(ahead[usize::from(backward)], across).max(wait))
                }
            };
            if let Some(gate) = gate {
                if seconds > 0.0 {
                    self.launched(true, kernels);
                }
                self.gather = self.gather.max(gate).max(copied) + seconds;
                self.units[chunk][unit].there = Some(self.gather);
            }
        }
        if held && backward && self.begun.len() >= self.run + 2 {
            wait = wait.max(self.begun[self.begun.len() - 2].reduced.unwrap_or(0.0));
        }
        wait.max(self.units[chunk][unit].there.unwrap_or(0.0))
    }

    /// The end of the visit that is `ahead` visits before the next, or of the last one before its pass.
    fn gate(&self, ahead: usize, across: bool) -> f64 {
        let start = if across { 0 } else { self.run };
        let own = self.begun.len().checked_sub(ahead).filter(|at| *at >= start);
        own.or(start.checked_sub(1)).map_or(0.0, |at| self.begun[at].end)
    }

    /// When what is copied in for a visit is there.
    fn copied_in(&mut self, part: SlotPass, unit: usize, kernels: f64) -> f64 {
        let (chunk, backward) = (usize::from(part.chunk), part.pass != Pass::Forward);
        let around = self.asked.around[chunk][unit];
        let size = self.asked.size[chunk][unit][usize::from(backward)];
        let out = self.out.remove(&(part.chunk, unit, part.micro_batch)).filter(|_| backward);
        let written = self.units[chunk][unit].written.filter(|_| backward);
        // Tensors kept between passes come back when they have gone out, and so do sums that gather over
        // micro-batches.
        let copies = [
            (around.copy_in[usize::from(backward)], out.unwrap_or(0.0)),
            (written.map_or(0.0, |_| around.carried[0]), written.unwrap_or(0.0)),
        ];
        let mut there = 0.0;
        for (seconds, gone) in copies.into_iter().filter(|(seconds, _)| *seconds > 0.0) {
            let gate = self.prefetch_gate(size, kernels).max(gone);
            self.launched(false, kernels);
            self.copy[0] = self.copy[0].max(gate) + seconds;
            there = self.copy[0];
        }
        there
    }

    /// The earliest start of a copy for the next visit, a number of layers, kernels or bytes ahead.
    fn prefetch_gate(&self, size: Size, kernels: f64) -> f64 {
        let prefetch = self.form.workload().offload.prefetch;
        let span = |v: &Begun| VisitSpan {
            start: v.start,
            end: v.end,
            bytes: v.size.bytes,
            kernels: v.size.kernels,
        };
        gate(&prefetch, size.own, kernels, self.begun.iter().rev().map(span))
    }

    /// A visit is over: what follows from it is started.
    pub fn leave(&mut self, part: SlotPass, unit: usize, start: f64, end: f64) {
        let (chunk, backward) = (usize::from(part.chunk), part.pass != Pass::Forward);
        let visit = self.units[chunk][unit].visits[usize::from(backward)];
        if part.pass != Pass::WeightGrad
            && let Some(visit) = self.begun.get_mut(visit)
        {
            (visit.start, visit.end) = (start, end);
        }
        self.give_up(part, unit);
        let around = self.asked.around[chunk][unit];
        let completes = matches!(part.pass, Pass::Backward | Pass::WeightGrad);
        let goes_on = completes && self.left[chunk] > 1;
        let kept = if part.pass == Pass::WeightGrad { 0.0 } else { around.copy_out[usize::from(backward)] };
        if self.on.copies && kept > 0.0 {
            self.launched(false, end);
            self.copy[1] = self.copy[1].max(end) + kept;
            if !backward {
                self.out.insert((part.chunk, unit, part.micro_batch), self.copy[1]);
            }
        }
        if self.on.copies && goes_on && around.carried[1] > 0.0 {
            self.launched(false, end);
            self.copy[1] = self.copy[1].max(end) + around.carried[1];
            self.units[chunk][unit].written = Some(self.copy[1]);
        }
        if completes {
            self.reduce(part, unit, end);
        }
    }

    /// Gathered weights are given up, unless the next visit reads them again.
    fn give_up(&mut self, part: SlotPass, unit: usize) {
        let Gathers::Each { keeps, .. } = self.asked.gathers else { return };
        let units = &mut self.units[usize::from(part.chunk)];
        let seat = Seat { rank: self.rank as u32, chunk: part.chunk };
        let placement = &self.form.parts.order.placement;
        let last = placement.stage(seat).stage + 1 == placement.stages() && unit + 1 == units.len();
        let unasked = self.form.workload().parallelism.sharding.reshard_after_forward.is_none();
        if part.pass != Pass::Forward || !(keeps || last && unasked) {
            units[unit].there = None;
        }
    }

    /// The gradient of a unit joins its bucket, which is reduced when it is full.
    pub fn reduce(&mut self, part: SlotPass, unit: usize, end: f64) {
        let chunk = usize::from(part.chunk);
        let last = self.left[chunk] == 1;
        if let Some(complete) = self.complete.as_mut().filter(|_| last) {
            complete.push((chunk, unit, end));
            return;
        }
        let Some(reductions) = self.asked.reductions else { return };
        self.units[chunk][unit].reduced = end;
        if !(reductions.every || last) {
            return;
        }
        self.bucket.push((chunk, unit));
        let Some(times) = self.asked.reduced[chunk][unit] else { return };
        if last && !reductions.overlap {
            return;
        }
        let reduced = if self.on.collectives && times.is_any(last) {
            self.launched(true, end);
            times.runs(end, last, &mut self.reduce)
        } else {
            end
        };
        self.bring_home(reduced);
    }

    /// The bucket has been reduced: sums that live on other tiers are brought there, together with their earlier
    /// contents.
    fn bring_home(&mut self, reduced: f64) {
        for (chunk, unit) in std::mem::take(&mut self.bucket) {
            let [home_in, home_out] = self.asked.around[chunk][unit].home;
            let written = self.units[chunk][unit].written;
            let mut end = reduced;
            if self.on.copies && home_out > 0.0 {
                if let Some(written) = written.filter(|_| home_in > 0.0) {
                    let size = self.asked.size[chunk][unit][1];
                    let now = self.begun.last().map_or(0.0, |visit| visit.end);
                    let gate = self.prefetch_gate(size, now).max(written);
                    self.copy[0] = self.copy[0].max(gate) + home_in;
                    end = end.max(self.copy[0]);
                }
                self.copy[1] = self.copy[1].max(end) + home_out;
                end = self.copy[1];
                self.units[chunk][unit].written = Some(end);
            }
            let state = &mut self.units[chunk][unit];
            state.reduced = end;
            if let Some(visit) = self.begun.get_mut(state.visits[1]).filter(|_| self.on.collectives) {
                visit.reduced = Some(reduced);
            }
        }
    }

    /// When all is done that the step waits for, where its passes are done at a time.
    pub fn close(mut self, passes: f64) -> f64 {
        let mut end = passes;
        if self.on.collectives {
            for times in &self.asked.left {
                times.runs(passes, true, &mut self.reduce);
            }
            end = end.max(self.reduced()).max(self.gather) + self.asked.tied;
        }
        if self.on.copies {
            self.bring_home(passes.max(self.reduced()));
            end = self.update(end).max(self.copy[0]).max(self.copy[1]);
        }
        end + if self.on.collectives { self.asked.behind } else { 0.0 }
    }

    /// The updates of units whose state lives elsewhere: three stations in turn.
    fn update(&mut self, passes: f64) -> f64 {
        let Some(updates) = &self.asked.updates else { return passes };
        let [first, last] = updates.queues;
        let (mut middle, mut end) = (if updates.ahead.is_some() { passes } else { 0.0 }, passes);
        let mut ends = Vec::with_capacity(updates.stations.len());
        let left = if self.asked.left.is_empty() { 0.0 } else { self.reduced() };
        let mut units: Vec<_> = updates.stations.iter().zip(self.units.iter().flatten()).collect();
        if updates.ahead.is_none() {
            units.reverse();
        }
        let all = units.iter().fold(0.0_f64, |all, (_, unit)| all.max(unit.reduced));
        let norm = if updates.together { all } else { 0.0 };
        for (i, (stations, unit)) in units.into_iter().enumerate() {
            // State is fetched `ahead` updates before its own, behind the last pass; gradients leave as they are
            // reduced.
            let gate = match updates.ahead {
                Some(ahead) => i.checked_sub(ahead.saturating_add(1)).map_or(passes, |at: usize| ends[at]),
                None => unit.reduced.max(left),
            };
            self.copy[first] = self.copy[first].max(gate) + stations[0];
            middle = self.copy[first].max(middle).max(unit.reduced.max(left)).max(norm) + stations[1];
            ends.push(middle);
            self.copy[last] = self.copy[last].max(middle) + stations[2];
            end = end.max(self.copy[last]).max(middle);
        }
        end
    }
}

/// Two passes of a rank at once, and what lies beside them.
struct PassPair<'b, 'f, 'a> {
    beside: &'b mut SideQueues<'f, 'a>,
    parts: [SlotPass; 2],
    /// When the visits under way began.
    starts: [f64; 2],
}

impl super::chunks::VisitHooks<f64> for PassPair<'_, '_, '_> {
    fn opens(&mut self, which: usize, (pass, unit): (Pass, usize), streams: &QueueTimes) -> Option<f64> {
        let kernels = streams[Queue::Compute as usize];
        let wait = self.beside.arrive(SlotPass { pass, ..self.parts[which] }, unit, kernels);
        self.starts[which] = kernels.max(wait);
        Some(wait)
    }
    fn closes(&mut self, which: usize, (pass, unit): (Pass, usize), end: f64) {
        self.beside.leave(SlotPass { pass, ..self.parts[which] }, unit, self.starts[which], end);
    }
}
