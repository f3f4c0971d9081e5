//! Passes through chunks: the matrices of their units, multiplied; of two passes at once, that of their ops in turns.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::queues::{Chain, Front, Op, Passage, QUEUES, Queue, Streams, Times, Work};
use super::unit_passes::{UnitPass, UnitPasses};
use stepsim_step::schedule::Pass;

/// Units of a chunk, in the order of the model.
pub(super) type Units = Vec<Arc<UnitPasses>>;

/// The visits of a pass: which unit of the chunk, and its matrix.
type Visits = Rc<[(usize, Passage)]>;

/// The chunks of a pipeline that differ, with the passes through them that were asked for.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    kinds: Vec<Units>,
    singles: RefCell<FxHashMap<(usize, Pass, bool), Passage>>,
    visits: RefCell<FxHashMap<(usize, Pass, bool), Visits>>,
    pairs: RefCell<FxHashMap<[usize; 2], Passage>>,
}

impl Chunks {
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
    /// A pass through a chunk; the `first` of a step casts its weights.
    pub fn single(&self, kind: usize, pass: Pass, first: bool) -> Passage {
        let first = first && pass == Pass::Forward;
        *self
            .singles
            .borrow_mut()
            .entry((kind, pass, first))
            .or_insert_with(|| product(&visits(&self.kinds[kind], pass, first)))
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
    pub fn pair(&self, [forward, backward]: [usize; 2], experts: Option<Gradients>) -> Passage {
        *self.pairs.borrow_mut().entry([forward, backward]).or_insert_with(|| {
            let (f, b) = (&self.kinds[forward], &self.kinds[backward]);
            match experts.filter(|_| exchange(f) && exchange(b) && apart(f) && apart(b)) {
                Some(gradients) => exchanging(f, b, gradients),
                None => in_turns(f, b),
            }
        })
    }
}

/// Where weight gradients of paired passes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gradients {
    /// Behind the input gradients of their part.
    Delayed,
    /// Where they are made.
    Fused,
}

/// The passes through the units of a chunk, one after the other: of which unit, and the pass. What is computed again belongs
/// to the visit that it is first needed for.
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

/// Whether a unit of the chunk exchanges tokens.
fn exchange(units: &Units) -> bool {
    units.iter().any(|unit| unit.forward.ops.iter().any(is_exchange))
}
fn is_exchange(op: &Op) -> bool {
    matches!(op.work, Work::Message { exchange: true, .. })
}
/// Whether no exchange of the chunk is done again.
fn apart(units: &Units) -> bool {
    units.iter().all(|unit| unit.paired.is_some())
}

/// Two passes on the streams of one rank, as forms of what was before.
struct Both {
    streams: Streams<Front>,
    chains: [Chain<Front>; 2],
}

impl Both {
    fn new() -> Both {
        let chains = [Queue::Input, Queue::Other].map(|input| Chain::new(Some(Front::of(input))));
        Both { streams: Passage::nothing().0, chains }
    }
    fn finish(mut self) -> Passage {
        for (queue, chain) in [Queue::Input, Queue::Other].into_iter().zip(&self.chains) {
            self.streams[queue as usize] = chain.output().unwrap_or(Front::of(queue));
        }
        Passage(self.streams)
    }
}

/// In turns, from message to message: while one pass waits for its own, kernels of the other run.
fn in_turns(forward: &Units, backward: &Units) -> Passage {
    let ops = |units, pass| visits(units, pass, false).into_iter().flat_map(|(_, visit)| &visit.ops);
    let mut left = [ops(forward, Pass::Forward), ops(backward, Pass::Backward)];
    let mut both = Both::new();
    let mut done = [false; 2];
    while done != [true; 2] {
        for ((ops, chain), done) in left.iter_mut().zip(&mut both.chains).zip(&mut done) {
            *done = loop {
                let Some(op) = ops.next() else { break true };
                chain.run(op, &mut both.streams);
                if op.work != Work::Kernel {
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
fn exchanging(forward: &Units, backward: &Units, gradients: Gradients) -> Passage {
    let mut both = Both::new();
    let mut f = Part::new(forward.iter().map(|unit| (&unit.forward.ops[..], None)));
    let mut b = Part::new(backward.iter().rev().map(|unit| paired(unit, gradients)));
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

/// Ops of a visit, and the weight gradients that it leaves for later: those of experts first, which are so many.
type Visit<'a> = (&'a [Op], Option<(&'a [Op], usize)>);

/// The backward visit of a unit; an embedding has weight gradients alone.
fn paired(unit: &UnitPasses, gradients: Gradients) -> Visit<'_> {
    let [whole, input] = unit.paired.as_deref().map_or([&unit.backward; 2], |[whole, input]| [whole, input]);
    match gradients {
        Gradients::Fused => (&whole.ops, None),
        Gradients::Delayed if input.ops.is_empty() => (&unit.weight_grad.ops, None),
        Gradients::Delayed => (&input.ops, Some((&unit.weight_grad.ops, unit.expert_weight_grads as usize))),
    }
}

/// One pass of two.
struct Part<'a> {
    visits: std::vec::IntoIter<Visit<'a>>,
    ops: &'a [Op],
    /// Weight gradients of the visit under way: those of experts and the others; and those of visits that are over.
    open: [&'a [Op]; 2],
    over: Vec<&'a [Op]>,
}

impl<'a> Part<'a> {
    fn new(visits: impl Iterator<Item = Visit<'a>>) -> Part<'a> {
        let visits: Vec<Visit<'a>> = visits.filter(|visit| !visit.0.is_empty()).collect();
        Part { visits: visits.into_iter(), ops: &[], open: [&[]; 2], over: Vec::new() }
    }
    /// Runs ops up to the next exchange; false when nothing is left.
    fn reach_exchange(&mut self, chain: usize, both: &mut Both) -> bool {
        loop {
            let Some((op, rest)) = self.ops.split_first() else {
                self.over.extend(std::mem::take(&mut self.open));
                let Some((ops, weights)) = self.visits.next() else { return false };
                self.ops = ops;
                let (weights, of_experts) = weights.unwrap_or_default();
                let (experts, others) = weights.split_at(of_experts.min(weights.len()));
                self.open = [experts, others];
                continue;
            };
            if is_exchange(op) {
                return true;
            }
            self.ops = rest;
            both.chains[chain].run(op, &mut both.streams);
        }
    }
    /// Runs the exchange that it has come to, if it has.
    fn exchange(&mut self, chain: usize, both: &mut Both) {
        if let Some((op, rest)) = self.ops.split_first().filter(|(op, _)| is_exchange(op)) {
            self.ops = rest;
            both.chains[chain].run(op, &mut both.streams);
        }
    }
    /// Runs the weight gradients of visits that are over and, where asked for, of the experts of the one under way.
    fn weights(&mut self, of_experts: bool, both: &mut Both) {
        if of_experts {
            self.over.push(std::mem::take(&mut self.open[0]));
        }
        for ops in self.over.drain(..) {
            let mut chain = Chain::new(None);
            ops.iter().for_each(|op| chain.run(op, &mut both.streams));
        }
    }
}

/// How long each of many such slots in a row takes, whose inputs are there.
pub(super) fn period(slot: &Passage) -> f64 {
    let ready = |mut times: Times| {
        times[Queue::Input as usize] = f64::NEG_INFINITY;
        times[Queue::Other as usize] = f64::NEG_INFINITY;
        slot.after(&times)
    };
    let once = ready([0.0; QUEUES]);
    ready(once)[Queue::Compute as usize] - once[Queue::Compute as usize]
}
