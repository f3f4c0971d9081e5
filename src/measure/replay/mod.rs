//! Measured steps played again, unchanged or with classes of work faster or slower.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::profile::classes::Family;
use crate::profile::programs::{ProgramOp, RankProgram, StepPrograms};
use stepsim_core::engine::{self, EngineError};
use stepsim_core::ids::{OpId, ProgramId, RankId, TransferId};
use stepsim_core::program::{Action, NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, StreamKind, Work, World};
use stepsim_core::units::Time;
use stepsim_spec::SpecError;

/// The longest step that may be asked for: 27 hours.
const LONGEST_NS: u64 = 100_000_000_000_000;
/// Launches that are on their way to the device at once.
const UNDER_WAY: u16 = 64;

/// A factor on the time of some ops.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeScale {
    /// A class (`cuBLAS`, `host`), a family (`compute`, `communication`, `memory`), a kind of communication
    /// (`all-gather`), or `leads`: what lies between an op and all that it waits for.
    pub what: String,
    /// On its time.
    pub factor: f64,
}

impl TimeScale {
    fn takes(&self, op: &ProgramOp) -> bool {
        let family = match op.family {
            Some(Family::Compute) => "compute",
            Some(Family::Communication) => "communication",
            Some(Family::Memory) => "memory",
            None => "host",
        };
        self.what == op.class
            || self.what == family
            || op.collective.as_ref().is_some_and(|c| c.kind == self.what)
    }
}

/// Checks what is scaled against what there is.
///
/// # Errors
/// Nothing is of that name, or the factor is no number from 0 to 1000.
pub fn check(step: &StepPrograms, scales: &[TimeScale]) -> Result<(), SpecError> {
    let ops = || step.ranks.iter().flat_map(|r| &r.ops);
    for scale in scales {
        let argument = format!("--scale {}={}", scale.what, scale.factor);
        if !(0.0..=1000.0).contains(&scale.factor) {
            return Err(SpecError::file(argument, "the factor is not allowed").allowed("0 to 1000"));
        }
        if scale.what != "leads" && !ops().any(|op| scale.takes(op)) {
            let mut known: Vec<&str> = ops().map(|op| op.class.as_str()).collect();
            known.extend(ops().filter_map(|op| op.collective.as_ref()).map(|c| c.kind.as_str()));
            known.extend(["compute", "communication", "memory", "leads"]);
            known.sort_unstable();
            known.dedup();
            return Err(
                SpecError::file(argument, "nothing of this name is in the step").allowed(known.join(", "))
            );
        }
    }
    let whole: u64 = ops().fold(0, |sum, op| {
        sum.saturating_add(op.ns).saturating_add(op.lead_ns).saturating_add(op.launched_ns)
    });
    if whole > LONGEST_NS {
        return Err(SpecError::at("ranks", format!("their ops take {whole} ns in all"))
            .allowed(format!("up to {LONGEST_NS} ns")));
    }
    if step.ranks.is_empty() {
        return Err(SpecError::at("ranks", "there is no rank"));
    }
    for (r, rank) in step.ranks.iter().enumerate() {
        if rank.streams.len() > 4096 {
            return Err(SpecError::at(
                format!("ranks[{r}].streams"),
                format!("{} are too many", rank.streams.len()),
            )
            .allowed("up to 4096"));
        }
        for (i, op) in rank.ops.iter().enumerate() {
            let at = || format!("ranks[{r}].ops[{i}]");
            if op.stream as usize >= rank.streams.len() {
                return Err(SpecError::at(at() + ".stream", format!("{} is not allowed", op.stream))
                    .allowed(format!("the index of a stream, below {}", rank.streams.len())));
            }
            if let Some(wrong) = op.after.iter().find(|a| **a as usize >= i) {
                return Err(SpecError::at(at() + ".after", format!("{wrong} is not allowed"))
                    .allowed("ops that stand before it in the list"));
            }
        }
    }
    Ok(())
}

/// The length of a step that has passed [`check`] with the given factors.
///
/// # Errors
/// The programs wait for each other in a circle.
pub fn replay(step: &StepPrograms, scales: &[TimeScale]) -> Result<Time, EngineError> {
    let mut world =
        World { actions: vec![Action::Fixed(Time::ZERO)], profiles: vec![vec![0]], ..World::default() };
    let mut meets: BTreeMap<u32, Vec<(RankId, u16)>> = BTreeMap::new();
    for (number, rank) in (0u32..).zip(&step.ranks) {
        let mut slots = Vec::new();
        world.programs.push(Arc::new(program(rank, scales, &mut slots)));
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
fn program(rank: &RankProgram, scales: &[TimeScale], slots: &mut Vec<u32>) -> stepsim_core::program::Program {
    let mut b = ProgramBuilder::new();
    for (number, _) in rank.streams.iter().enumerate() {
        b.stream(if number == 0 { StreamKind::Host } else { StreamKind::Compute });
    }
    // Launches on their way to the device, which do not wait for one another.
    let first = rank.streams.len() as u16;
    if rank.ops.iter().any(|op| op.launched_ns > 0) {
        for _ in 0..UNDER_WAY {
            b.stream(StreamKind::Host);
        }
    }
    let mut ways = (first..first + UNDER_WAY).cycle();
    let mut infos: BTreeMap<&str, u32> = BTreeMap::new();
    let mut ends: Vec<OpId> = Vec::new();
    let lead = factor(scales, |s| s.what == "leads");
    for op in &rank.ops {
        let info = *infos
            .entry(&op.class)
            .or_insert_with(|| b.info(OpInfo::of(op.class.clone(), Phase::Forward, 0.0)));
        let stream = op.stream as u16;
        let mut waits: Vec<OpId> = op.after.iter().map(|a| ends[*a as usize]).collect();
        let launch = op.after.iter().position(|a| rank.ops[*a as usize].family.is_none());
        if let (true, Some(launch), Some(way)) = (op.launched_ns > 0, launch, ways.next()) {
            let work = Work::Compute { time: scaled(op.launched_ns, lead) };
            waits[launch] = b.op(way, work, &waits[launch..=launch], info, NO_MICRO_BATCH);
        }
        let mut push = |work: Work, waits: &mut Vec<OpId>| {
            let id = b.op(stream, work, waits, info, NO_MICRO_BATCH);
            waits.clear();
            id
        };
        if op.lead_ns > 0 {
            push(Work::Compute { time: scaled(op.lead_ns, lead) }, &mut waits);
        }
        let meets =
            op.collective.as_ref().and_then(|c| c.meets).filter(|_| slots.len() < usize::from(u16::MAX));
        if let Some(meet) = meets.filter(|meet| !slots.contains(meet)) {
            slots.push(meet);
            push(Work::Comm { slot: slots.len() as u16 - 1, transfer: TransferId(0) }, &mut waits);
        }
        let time = scaled(op.ns, factor(scales, |s| s.takes(op)));
        ends.push(push(Work::Compute { time }, &mut waits));
    }
    b.finish()
}

fn factor(scales: &[TimeScale], takes: impl Fn(&TimeScale) -> bool) -> f64 {
    scales.iter().filter(|s| takes(s)).map(|s| s.factor).product()
}

fn scaled(ns: u64, factor: f64) -> Time {
    if factor == 1.0 { Time::from_ns(ns) } else { Time::from_s(ns as f64 * factor / 1e9) }
}
