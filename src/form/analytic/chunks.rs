//! Passes through chunks: the matrices of their units, multiplied; for two passes at once, the product of their ops in
//! turns.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::queues::{
    PassOp, PassProgress, PassWork, Passage, QUEUES, Queue, QueueStreams, QueueTimes, TimeValue,
};
use super::unit_passes::{UnitPass, UnitPasses};
use stepsim_schedule::Pass;

/// Units of a chunk, in the order of the model.
pub(super) type Units = Vec<Arc<UnitPasses>>;

/// The visits of a pass: which unit of the chunk, and its matrix.
type PassVisits = Rc<[(usize, Passage)]>;

/// The kind of a chunk, a pass through it, and where weight gradients run if it exchanges tokens beside another.
type StepsKey = (usize, Pass, Option<Gradients>);

/// The chunks of a pipeline that differ, with the passes through them that were asked for.
#[derive(Debug, Default)]
pub(super) struct ChunkPasses {
    kinds: Vec<Units>,
    /// By kind, then by pass and whether it is the first.
    singles: RefCell<Vec<[Option<Rc<Passage>>; 2 * Pass::COUNT]>>,
    visits: RefCell<FxHashMap<(usize, Pass, bool), PassVisits>>,
    pairs: RefCell<FxHashMap<[usize; 2], Rc<Passage>>>,
    steps: RefCell<FxHashMap<StepsKey, Rc<PassSteps>>>,
}

impl ChunkPasses {
    /// How many kinds there are.
    pub fn kinds(&self) -> usize {
        self.kinds.len()
    }
    /// The number of chunks like this one.
    pub fn kind(&mut self, units: &Units) -> usize {
        let same = |known: &Units| {
            known.len() == units.len() && known.iter().zip(units).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        self.kinds.iter().position(same).unwrap_or_else(|| {
            self.kinds.push(units.clone());
            self.kinds.len() - 1
        })
    }
    /// The units of chunks of a kind.
    pub fn units(&self, kind: usize) -> &Units {
        &self.kinds[kind]
    }
    /// A pass through a chunk; the `first` of a step casts its weights.
    pub fn single(&self, kind: usize, pass: Pass, first: bool) -> Rc<Passage> {
        let first = first && pass == Pass::Forward;
        let mut known = self.singles.borrow_mut();
        if known.len() <= kind {
            known.resize_with(self.kinds.len(), Default::default);
        }
        let found = || Rc::new(product(&visits(&self.kinds[kind], pass, first)));
        Rc::clone(known[kind][2 * pass as usize + usize::from(first)].get_or_insert_with(found))
    }
    /// The same, unit by unit: which, and its matrix.
    pub fn visits(&self, kind: usize, pass: Pass, first: bool) -> Rc<[(usize, Passage)]> {
        let first = first && pass == Pass::Forward;
        let mut known = self.visits.borrow_mut();
        let visits = known.entry((kind, pass, first)).or_insert_with(|| {
            let mut of_units: Vec<(usize, Passage)> = Vec::new();
            for (unit, visit) in visits(&self.kinds[kind], pass, first) {
                match of_units.last_mut().filter(|last| last.0 == unit) {
                    Some((_, passage)) => *passage = passage.then(&visit.passage),
                    None => of_units.push((unit, visit.passage)),
                }
            }
            of_units.into()
        });
        Rc::clone(visits)
    }
    /// A forward and a backward pass through two chunks at once; `experts`: where both exchange tokens, with weight
    /// gradients delayed, or where they are made.
    pub fn pair(&self, kinds: [usize; 2], experts: Option<Gradients>) -> Rc<Passage> {
        let found = || Rc::new(Passage::of(&self.at_once(kinds, experts, Passage::begin(), &mut Nothing)));
        Rc::clone(self.pairs.borrow_mut().entry(kinds).or_insert_with(found))
    }
    /// The same from these times on; what lies `around` the visits is told of them.
    pub fn at_once<T: TimeValue>(
        &self,
        [forward, backward]: [usize; 2],
        experts: Option<Gradients>,
        streams: QueueStreams<T>,
        around: &mut dyn VisitHooks<T>,
    ) -> QueueStreams<T> {
        let (f, b) = (&self.kinds[forward], &self.kinds[backward]);
        let both = Both::new(streams, around);
        let cells = experts.filter(|_| exchange(f) && exchange(b) && apart(f) && apart(b));
        let [f, b] = [(forward, Pass::Forward), (backward, Pass::Backward)]
            .map(|(kind, pass)| self.steps(kind, pass, cells));
        if cells.is_some() { exchanging(&f, &b, both) } else { in_turns(&f, &b, both) }
    }
    /// The steps of a pass through a chunk beside another.
    fn steps(&self, kind: usize, pass: Pass, cells: Option<Gradients>) -> Rc<PassSteps> {
        let units = &self.kinds[kind];
        let found = || {
            Rc::new(match cells {
                None => PassSteps::in_turns(units, pass),
                Some(gradients) => PassSteps::by_cell(units, pass, gradients),
            })
        };
        Rc::clone(self.steps.borrow_mut().entry((kind, pass, cells)).or_insert_with(found))
    }
}

/// The work around the visits of two passes at once: 0 the forward one, 1 the backward one.
pub(super) trait VisitHooks<T> {
    /// A pass comes to a unit; returns what the visit waits for.
    fn opens(&mut self, which: usize, visit: (Pass, usize), streams: &QueueStreams<T>) -> Option<T>;
    /// A pass leaves a unit, all of whose results are there at a time.
    fn closes(&mut self, which: usize, visit: (Pass, usize), end: T);
}

/// Nothing lies around them.
struct Nothing;

impl<T> VisitHooks<T> for Nothing {
    fn opens(&mut self, _: usize, _: (Pass, usize), _: &QueueStreams<T>) -> Option<T> {
        None
    }
    fn closes(&mut self, _: usize, _: (Pass, usize), _: T) {}
}

/// Where weight gradients of paired passes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Gradients {
    /// Behind the input gradients of their part.
    Delayed,
    /// Where they are made.
    Fused,
}

/// The passes through the units of a chunk, one after the other: the unit, and the pass. A recomputation belongs to
/// the visit that it is first needed for.
fn visits(units: &Units, pass: Pass, first: bool) -> Vec<(usize, &UnitPass)> {
    let mut visits = Vec::with_capacity(2 * units.len());
    match pass {
        Pass::Forward => {
            for (at, unit) in units.iter().enumerate() {
                visits.extend(first.then_some((at, &unit.casts)));
                visits.push((at, &unit.forward));
            }
        }
        Pass::WeightGrad => {
            visits.extend(units.iter().enumerate().rev().map(|(at, unit)| (at, &unit.weight_grad)));
        }
        Pass::Backward | Pass::InputGrad => {
            let mut repeated_from = units.len();
            for at in (0..units.len()).rev() {
                if at < repeated_from {
                    // All units since the last kept input are computed again together, first to last.
                    repeated_from = (0..=at).rev().find(|i| !units[*i].from_before).unwrap_or(0);
                    visits.extend(units[repeated_from..=at].iter().map(|unit| (at, &unit.recompute)));
                }
                let whole = pass == Pass::Backward;
                visits.push((at, if whole { &units[at].backward } else { &units[at].input_grad }));
            }
        }
    }
    visits.retain(|(_, visit)| !visit.ops.is_empty());
    visits
}

/// The product of the matrices of visits; equal neighbours by powers.
fn product(visits: &[(usize, &UnitPass)]) -> Passage {
    let runs = visits.chunk_by(|a, b| std::ptr::eq(a.1, b.1));
    runs.fold(Passage::nothing(), |sum, run| sum.then(&run[0].1.passage.times(run.len())))
}

/// True if a unit of the chunk exchanges tokens.
fn exchange(units: &Units) -> bool {
    units.iter().any(|unit| unit.forward.ops.iter().any(is_exchange))
}
fn is_exchange(op: &PassOp) -> bool {
    matches!(op.work, PassWork::Message { exchange: true, .. })
}
/// True if no exchange of the chunk is done again.
fn apart(units: &Units) -> bool {
    units.iter().all(|unit| unit.paired.is_some())
}

/// A step of one pass of two.
#[derive(Debug)]
enum PassStep {
    /// The pass comes to a unit.
    Opens((Pass, usize)),
    Runs(PassOp),
    /// It leaves the unit.
    Closes((Pass, usize)),
}

/// The steps of one pass of two, and of a backward pass the weight gradients that its visits leave for later, the
/// experts' first, with the number of these.
#[derive(Debug)]
struct PassSteps {
    steps: Vec<PassStep>,
    later: Vec<Option<(Vec<PassOp>, usize)>>,
}

impl PassSteps {
    /// Of visits with their ops; neighbours in one unit are one visit.
    fn of(visits: &[VisitOps<'_>]) -> PassSteps {
        let mut steps = Vec::new();
        for visit in visits.chunk_by(|a, b| a.0 == b.0) {
            steps.push(PassStep::Opens(visit[0].0));
            steps.extend(visit.iter().flat_map(|(_, ops)| ops.iter().copied().map(PassStep::Runs)));
            steps.push(PassStep::Closes(visit[0].0));
        }
        PassSteps { steps, later: Vec::new() }
    }
    fn in_turns(units: &Units, pass: Pass) -> PassSteps {
        let ops = visits(units, pass, false).into_iter().map(|(unit, visit)| ((pass, unit), &visit.ops[..]));
        PassSteps::of(&ops.collect::<Vec<_>>())
    }
    fn by_cell(units: &Units, pass: Pass, gradients: Gradients) -> PassSteps {
        if pass == Pass::Forward {
            let visits = units.iter().enumerate().map(|(at, unit)| ((pass, at), &unit.forward.ops[..]));
            return PassSteps::of(&visits.filter(|visit| !visit.1.is_empty()).collect::<Vec<_>>());
        }
        let all = units.iter().enumerate().rev().map(|(at, unit)| paired((at, unit), gradients));
        let (visits, later): (Vec<_>, Vec<_>) = all.filter(|(visit, _)| !visit.1.is_empty()).unzip();
        let later = later.into_iter().map(|later| later.map(|(ops, experts)| (ops.to_vec(), experts)));
        PassSteps { later: later.collect(), ..PassSteps::of(&visits) }
    }
}

/// Two passes on the streams of one rank.
struct Both<'v, T> {
    streams: QueueStreams<T>,
    chains: [PassProgress<T>; 2],
    around: &'v mut dyn VisitHooks<T>,
}

impl<'v, T: TimeValue> Both<'v, T> {
    fn new(streams: QueueStreams<T>, around: &'v mut dyn VisitHooks<T>) -> Both<'v, T> {
        let chains = INPUTS.map(|input| PassProgress::new(Some(streams[input as usize])));
        Both { streams, chains, around }
    }
    fn take(&mut self, which: usize, step: &PassStep) {
        let chain = &mut self.chains[which];
        match *step {
            PassStep::Runs(ref op) => chain.run(op, &mut self.streams),
            PassStep::Opens(visit) => {
                self.around.opens(which, visit, &self.streams).into_iter().for_each(|time| chain.wait(time));
            }
            PassStep::Closes(visit) => {
                let end = chain.output().unwrap_or(self.streams[Queue::Compute as usize]);
                self.around.closes(which, visit, end);
            }
        }
    }
    fn finish(mut self) -> QueueStreams<T> {
        for (queue, chain) in INPUTS.into_iter().zip(&self.chains) {
            let stream = &mut self.streams[queue as usize];
            *stream = chain.output().unwrap_or(*stream);
        }
        self.streams
    }
}

/// Where the inputs of two passes at once come.
const INPUTS: [Queue; 2] = [Queue::Input, Queue::Other];

/// In turns, from message to message: while one pass waits for its own, kernels of the other run.
fn in_turns<T: TimeValue>(
    forward: &PassSteps,
    backward: &PassSteps,
    mut both: Both<'_, T>,
) -> QueueStreams<T> {
    let mut left = [forward.steps.iter(), backward.steps.iter()];
    let mut done = [false; 2];
    while done != [true; 2] {
        for (which, (steps, done)) in left.iter_mut().zip(&mut done).enumerate() {
            *done = loop {
                let Some(step) = steps.next() else { break true };
                both.take(which, step);
                if matches!(step, PassStep::Runs(op) if op.work != PassWork::Kernel) {
                    break false;
                }
            };
        }
    }
    both.finish()
}

/// Cell by cell, so that the exchanges of the one pass lie under the kernels of the other:
///
/// | compute | attn(F) | mlp(B) | mlp(W) | mlp(F) | attn(B) | attn(W) |
/// |--|--|--|--|--|--|--|
/// | exchange | combine(B) | dispatch(F) | dispatch(B) | | combine(F) | |
fn exchanging<T: TimeValue>(
    forward: &PassSteps,
    backward: &PassSteps,
    mut both: Both<'_, T>,
) -> QueueStreams<T> {
    let [mut f, mut b] = [forward, backward].map(PassPart::new);
    let mut left = [true, b.reach_exchange(1, &mut both)];
    while left != [false; 2] {
        b.exchange(1, &mut both); // combine(B)
        left[0] = left[0] && f.reach_exchange(0, &mut both); // attn(F)
        left[1] = left[1] && b.reach_exchange(1, &mut both); // mlp(B)
        f.exchange(0, &mut both); // dispatch(F)
        b.weights(true, &mut both); // mlp(W)
        b.exchange(1, &mut both); // dispatch(B)
        left[0] = left[0] && f.reach_exchange(0, &mut both); // mlp(F)
        f.exchange(0, &mut both); // combine(F)
        left[1] = left[1] && b.reach_exchange(1, &mut both); // attn(B)
        b.weights(false, &mut both); // attn(W)
    }
    both.finish()
}

/// A visit, and its ops.
type VisitOps<'a> = ((Pass, usize), &'a [PassOp]);
/// The weight gradients that a visit leaves for later, the experts' first, with the number of these.
type Later<'a> = Option<(&'a [PassOp], usize)>;

/// The backward visit of a unit; an embedding has weight gradients alone.
fn paired((at, unit): (usize, &Arc<UnitPasses>), gradients: Gradients) -> (VisitOps<'_>, Later<'_>) {
    let [whole, input] = unit.paired.as_deref().map_or([&unit.backward; 2], |[whole, input]| [whole, input]);
    match gradients {
        Gradients::Fused => (((Pass::Backward, at), &whole.ops), None),
        Gradients::Delayed if input.ops.is_empty() => (((Pass::WeightGrad, at), &unit.weight_grad.ops), None),
        Gradients::Delayed => {
            let later = (&unit.weight_grad.ops[..], unit.expert_weight_grads as usize);
            (((Pass::InputGrad, at), &input.ops), Some(later))
        }
    }
}

/// Weight gradients that wait for their turn; the last of a unit close its visit.
type DeferredGradients<'a> = (&'a [PassOp], Option<usize>);

/// One pass of two.
struct PassPart<'a> {
    steps: std::iter::Peekable<std::slice::Iter<'a, PassStep>>,
    /// By visit: the weight gradients that it leaves for later.
    later: std::slice::Iter<'a, Option<(Vec<PassOp>, usize)>>,
    /// Weight gradients of the visit under way, the experts' and the others; and the ones of visits that are over.
    open: Vec<DeferredGradients<'a>>,
    over: Vec<DeferredGradients<'a>>,
}

impl<'a> PassPart<'a> {
    fn new(pass: &'a PassSteps) -> PassPart<'a> {
        let (steps, later) = (pass.steps.iter().peekable(), pass.later.iter());
        PassPart { steps, later, open: Vec::new(), over: Vec::new() }
    }
    /// Runs ops up to the next exchange; false when nothing is left.
    fn reach_exchange<T: TimeValue>(&mut self, which: usize, both: &mut Both<'_, T>) -> bool {
        while let Some(step) =
            self.steps.next_if(|step| !matches!(step, PassStep::Runs(op) if is_exchange(op)))
        {
            both.take(which, step);
            match *step {
                PassStep::Opens((_, unit)) => {
                    self.open.clear();
                    if let Some((ops, of_experts)) = self.later.next().and_then(Option::as_ref) {
                        let (experts, others) = ops.split_at((*of_experts).min(ops.len()));
                        self.open.extend([(experts, None), (others, Some(unit))]);
                    }
                }
                PassStep::Closes(_) => self.over.append(&mut self.open),
                PassStep::Runs(_) => {}
            }
        }
        self.steps.peek().is_some()
    }
    /// Runs the exchange that it has come to, if it has.
    fn exchange<T: TimeValue>(&mut self, which: usize, both: &mut Both<'_, T>) {
        let is_there = |step: &&PassStep| matches!(step, PassStep::Runs(op) if is_exchange(op));
        if let Some(step) = self.steps.next_if(is_there) {
            both.take(which, step);
        }
    }
    /// Runs the weight gradients of visits that are over and, where asked for, of the experts of the one under way.
    fn weights<T: TimeValue>(&mut self, of_experts: bool, both: &mut Both<'_, T>) {
        if of_experts && !self.open.is_empty() {
            self.over.push(self.open[0]);
            self.open[0].0 = &[];
        }
        for (ops, closes) in self.over.drain(..) {
            let mut chain = PassProgress::new(None);
            ops.iter().for_each(|op| chain.run(op, &mut both.streams));
            if let Some(unit) = closes {
                let end = chain.output().unwrap_or(both.streams[Queue::Compute as usize]);
                both.around.closes(1, (Pass::WeightGrad, unit), end);
            }
        }
    }
}

/// How long each of many such slots in a row takes, whose inputs are there.
pub(super) fn period(slot: &Passage) -> f64 {
    let ready = |mut times: QueueTimes| {
        times[Queue::Input as usize] = f64::NEG_INFINITY;
        times[Queue::Other as usize] = f64::NEG_INFINITY;
        slot.after(&times)
    };
    let once = ready([0.0; QUEUES]);
    ready(once)[Queue::Compute as usize] - once[Queue::Compute as usize]
}
