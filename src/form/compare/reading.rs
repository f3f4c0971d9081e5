//! One rank's step in the terms of a closed form: its kernels by phase, its stalls by cause.

use super::Term;
use stepsim_core::engine::Record;
use stepsim_core::ids::RankId;
use stepsim_core::program::{Phase, StreamKind, Work, World};
use stepsim_core::units::Time;
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::idle::IdleTimes;
pub use stepsim_read::analysis::stall_cause::TimeTerm;
use stepsim_read::analysis::stalls::{StallCause, stalls_of};

/// The term that a kernel of a phase belongs to.
fn of_kernel(phase: Phase) -> TimeTerm {
    match phase {
        Phase::Forward => TimeTerm::Forward,
        Phase::Recompute => TimeTerm::Recompute,
        Phase::Backward | Phase::InputGrad | Phase::WeightGrad => TimeTerm::Backward,
        Phase::Optimizer => TimeTerm::Optimizer,
    }
}

/// The terms of a closed form, row by row, beside the times of a rank.
pub fn beside(closed: &[(TimeTerm, f64)], rows: [Time; TimeTerm::COUNT]) -> Vec<Term> {
    let term = |(name, time): (_, Time)| Term { name, closed_form_s: 0.0, simulated_s: time.s() };
    let mut terms: Vec<Term> = TimeTerm::ALL.map(TimeTerm::name).into_iter().zip(rows).map(term).collect();
    closed.iter().for_each(|(row, seconds)| terms[*row as usize].closed_form_s = *seconds);
    terms
}

/// Where the step of one simulated rank went; the rows sum to the step time.
pub fn read_rank(
    world: &World,
    record: &Record,
    idle: &mut IdleTimes,
    rank: RankId,
) -> [Time; TimeTerm::COUNT] {
    let mut rows = [Time::ZERO; TimeTerm::COUNT];
    let mut causes = Causes::new(world, record);
    let time = stalls_of(&mut causes, idle, rank, &mut Vec::new());
    for cause in StallCause::ALL {
        rows[cause.row() as usize] += time.stall(cause);
    }
    let program = world.program_of(rank);
    let mut kernels: Vec<(Time, Time, Phase)> = Vec::new();
    for stream in program.streams.iter().filter(|s| s.kind == StreamKind::Compute) {
        for &op in &stream.ops {
            let is = &program.ops[op.index()];
            if matches!(is.work, Work::Compute { .. }) {
                let (start, end) = record.span(rank, op);
                kernels.push((start, end, program.infos[is.info as usize].phase));
            }
        }
    }
    kernels.sort_unstable_by_key(|k| (k.0, k.1));
    let mut covered = Time::ZERO;
    for (start, end, phase) in kernels {
        if end > covered {
            rows[of_kernel(phase) as usize] += end - start.max(covered);
            covered = end;
        }
    }
    rows
}
