//! Measured steps played again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::profile::programs::{RankProgram, StepPrograms};
use stepsim_core::engine::{self, EngineError};
use stepsim_core::ids::{OpId, ProgramId, RankId, TransferId};
use stepsim_core::program::{Action, NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, StreamKind, Work, World};
use stepsim_core::units::Time;
use stepsim_spec::SpecError;

/// The longest step that may be asked for: 27 hours.
const LONGEST_NS: u64 = 100_000_000_000_000;
/// Launches that are on their way to the device at once.
const UNDER_WAY: u16 = 64;

/// Refuses a step that the engine's clock or its streams cannot hold.
///
/// # Errors
/// Its ops take more than 27 hours in all, or a rank has more than 4,096 streams.
pub fn check(step: &StepPrograms) -> Result<(), SpecError> {
    let ops = step.ranks.iter().flat_map(|r| &r.ops);
    let whole: u64 = ops.fold(0, |sum, op| {
        sum.saturating_add(op.ns).saturating_add(op.lead_ns).saturating_add(op.launched_ns)
    });
    if whole > LONGEST_NS {
        return Err(SpecError::at("ranks", format!("their ops take {whole} ns in all"))
            .allowed(format!("up to {LONGEST_NS} ns")));
    }
    match step.ranks.iter().find(|rank| rank.streams > 4096) {
        Some(rank) => {
            let problem = format!("{} streams of rank {} are too many", rank.streams, rank.rank);
            Err(SpecError::at("ranks", problem).allowed("up to 4096"))
        }
        None => Ok(()),
    }
}

/// The length of a step that has passed [`check`].
///
/// # Errors
/// The programs wait for each other in a circle.
pub fn replay(step: &StepPrograms) -> Result<Time, EngineError> {
    let mut world =
        World { actions: vec![Action::Fixed(Time::ZERO)], profiles: vec![vec![0]], ..World::default() };
    let mut meets: BTreeMap<u32, Vec<(RankId, u16)>> = BTreeMap::new();
    for (number, rank) in (0u32..).zip(&step.ranks) {
        let mut slots = Vec::new();
        world.programs.push(Arc::new(program(rank, &mut slots)));
        let id = world.add_rank(ProgramId(number), slots.len() as u32);
        for (slot, meet) in (0u16..).zip(slots) {
            meets.entry(meet).or_default().push((id, slot));
        }
    }
    for members in meets.values() {
        let ranks: Vec<RankId> = members.iter().map(|m| m.0).collect();
        let comm = world.add_comm(0, &ranks, &[]);
        for (rank, slot) in members {
            world.bind(*rank, *slot, comm);
        }
    }
    Ok(engine::run(&world)?.step_end)
}

/// A rank's program; `slots` become the numbers of what it begins together with others.
fn program(rank: &RankProgram, slots: &mut Vec<u32>) -> stepsim_core::program::Program {
    let mut b = ProgramBuilder::new();
    for number in 0..rank.streams {
        b.stream(if number == 0 { StreamKind::Host } else { StreamKind::Compute });
    }
    // Launches on their way to the device, which do not wait for one another.
    let first = rank.streams as u16;
    if rank.ops.iter().any(|op| op.launched_ns > 0) {
        for _ in 0..UNDER_WAY {
            b.stream(StreamKind::Host);
        }
    }
    let mut ways = (first..first + UNDER_WAY).cycle();
    let mut infos: BTreeMap<&str, u32> = BTreeMap::new();
    let mut ends: Vec<OpId> = Vec::new();
    for op in &rank.ops {
        let info = *infos
            .entry(&op.class)
            .or_insert_with(|| b.info(OpInfo::of(op.class.clone(), Phase::Forward, 0.0)));
        let stream = op.stream as u16;
        let mut waits: Vec<OpId> = op.after.iter().map(|a| ends[*a as usize]).collect();
        let launch = op.after.iter().position(|a| rank.ops[*a as usize].family.is_none());
        if let (true, Some(launch), Some(way)) = (op.launched_ns > 0, launch, ways.next()) {
            let work = Work::Compute { time: Time::from_ns(op.launched_ns) };
            waits[launch] = b.op(way, work, &waits[launch..=launch], info, NO_MICRO_BATCH);
        }
        let mut push = |work: Work, waits: &mut Vec<OpId>| {
            let id = b.op(stream, work, waits, info, NO_MICRO_BATCH);
            waits.clear();
            id
        };
        if op.lead_ns > 0 {
            push(Work::Compute { time: Time::from_ns(op.lead_ns) }, &mut waits);
        }
        let meets =
            op.collective.as_ref().and_then(|c| c.meets).filter(|_| slots.len() < usize::from(u16::MAX));
        if let Some(meet) = meets.filter(|meet| !slots.contains(meet)) {
            slots.push(meet);
            push(Work::Comm { slot: slots.len() as u16 - 1, transfer: TransferId(0) }, &mut waits);
        }
        ends.push(push(Work::Compute { time: Time::from_ns(op.ns) }, &mut waits));
    }
    b.finish()
}
