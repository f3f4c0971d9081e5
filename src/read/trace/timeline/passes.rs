//! Passes of a compute stream: the ops of one micro-batch on its way through the stage, forward or backward.
//!
//! The backward pass holds both gradients where they are not apart, and what is computed again for it. Where a schedule
//! takes the kernels of two micro-batches in turn (DualPipe), both are one slice with both names.

use stepsim_core::ids::OpId;
use stepsim_core::program::{Op, Phase, Program};

use super::names;

/// Parts of a step that make one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PassSide {
    Forward,
    Backward,
    Optimizer,
}

fn side(phase: Phase) -> PassSide {
    match phase {
        Phase::Forward => PassSide::Forward,
        Phase::Optimizer => PassSide::Optimizer,
        Phase::Recompute | Phase::Backward | Phase::InputGrad | Phase::WeightGrad => PassSide::Backward,
    }
}

/// The pass of an op.
type PassKey = (PassSide, u32);

fn phase(program: &Program, op: &Op) -> Phase {
    program.infos[op.info as usize].phase
}

fn key(program: &Program, id: OpId) -> PassKey {
    let op = &program.ops[id.index()];
    (side(phase(program, op)), op.micro_batch)
}

/// True if two ops that follow each other belong to one pass.
pub fn same(program: &Program, a: OpId, b: OpId) -> bool {
    key(program, a) == key(program, b)
}

/// Cuts the ops of a compute stream into passes.
pub fn cut<'o>(program: &Program, ops: &'o [OpId]) -> Vec<&'o [OpId]> {
    let runs: Vec<&[OpId]> = ops.chunk_by(|a, b| same(program, *a, *b)).collect();
    let keys: Vec<PassKey> = runs.iter().map(|run| key(program, run[0])).collect();
    let first_phase = |run: usize| phase(program, &program.ops[runs[run][0].index()]);
    let mut passes = Vec::with_capacity(runs.len());
    let (mut at, mut i) = (0, 0);
    while i < runs.len() {
        // Two micro-batches whose kernels of one phase come again are taken in turn; gradients that are apart are not.
        let two = &keys[i..runs.len().min(i + 2)];
        let turns = keys[i..].iter().take_while(|key| two.contains(key)).count();
        let again =
            |a: usize| (a + 1..i + turns).any(|b| keys[a] == keys[b] && first_phase(a) == first_phase(b));
        let count = if turns > 2 && (i..i + turns).any(again) { turns } else { 1 };
        let length: usize = runs[i..i + count].iter().map(|run| run.len()).sum();
        passes.push(&ops[at..at + length]);
        at += length;
        i += count;
    }
    passes
}

/// The passes that are taken in turn in ops that [`cut`] left together, forward before backward.
pub fn apart(program: &Program, ops: &[OpId]) -> Vec<Vec<OpId>> {
    let of = |wanted: &PassKey| ops.iter().copied().filter(|id| key(program, *id) == *wanted).collect();
    keys(program, ops).iter().map(of).collect()
}

/// The passes of ops, forward before backward and then by micro-batch, whichever begins first.
fn keys(program: &Program, ops: &[OpId]) -> Vec<PassKey> {
    let mut keys: Vec<PassKey> = Vec::with_capacity(2);
    for id in ops {
        let key = key(program, *id);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.sort_unstable();
    keys
}

/// The phases and micro-batches that a pass is named after, in the order of [`apart`].
pub fn parts(program: &Program, ops: &[OpId]) -> Vec<(Phase, u32)> {
    let phases = |wanted: PassKey| {
        let mine = ops.iter().filter(move |id| key(program, **id) == wanted);
        names::merged(mine.map(|id| phase(program, &program.ops[id.index()])))
    };
    let mut parts: Vec<(Phase, u32)> =
        keys(program, ops).into_iter().map(|key| (phases(key), key.1)).collect();
    if let [op] = ops {
        parts.extend(second(program, *op).map(|micro_batch| (Phase::Backward, micro_batch)));
    }
    parts
}

/// The micro-batch of the backward pass that one op of an abstract schedule stands for beside its own, as its name
/// says: `stage 0 & backward m4 stage 3`.
fn second(program: &Program, op: OpId) -> Option<u32> {
    let name = &program.infos[program.ops[op.index()].info as usize].name;
    name.split_once(" & backward m")?.1.split(' ').next()?.parse().ok()
}

/// True if two ops that follow each other in a pass belong to one layer of it.
pub fn same_layer(program: &Program, a: OpId, b: OpId) -> bool {
    let info = |id: OpId| &program.infos[program.ops[id.index()].info as usize];
    let (x, y) = (info(a), info(b));
    let again = |phase| phase == Phase::Recompute;
    x.layer == y.layer && again(x.phase) == again(y.phase) && same(program, a, b)
}
