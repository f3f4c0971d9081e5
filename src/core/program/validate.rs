//! Checks that a world can be played: every number points into its table, every amount is one.
//!
//! The engine asks once before a run, so that a world made by hand is refused with table, entry and reason instead of
//! reading another rank's communicator or stopping in the middle. The engine reports the faults that cannot be seen
//! beforehand (mismatched ops, deadlocks, too little memory).

use std::fmt::Display;
use std::sync::Arc;

use super::{Action, BEHIND, Flow, Op, Program, Rank, Span, World};

/// An entry of a world that cannot be played.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{table}[{index}]: {why}")]
pub struct WorldError {
    /// The table: a field of [`World`], or of one of its programs.
    pub table: String,
    /// The entry, from 0.
    pub index: usize,
    /// The fault.
    pub why: String,
}

type Checked = Result<(), WorldError>;

fn wrong(table: impl Into<String>, index: usize, why: impl Into<String>) -> WorldError {
    WorldError { table: table.into(), index, why: why.into() }
}

/// Why a span does not lie in a table of that length, if it does not.
fn outside(span: Span, what: &str, length: usize) -> Option<String> {
    let end = u64::from(span.start) + u64::from(span.len);
    (end > length as u64).then(|| format!("span {}..{end} of {what}, which has {length} entries", span.start))
}

/// Why a number is no entry of a table of that length, if it is none.
fn beyond(number: impl Into<u64> + Display + Copy, what: &str, length: usize) -> Option<String> {
    (number.into() >= length as u64).then(|| format!("{what} {number} of {length}"))
}

fn refuse(table: &str, index: usize, faults: impl IntoIterator<Item = Option<String>>) -> Checked {
    match faults.into_iter().flatten().next() {
        Some(why) => Err(wrong(table, index, why)),
        None => Ok(()),
    }
}

impl World {
    /// Checks every table.
    ///
    /// # Errors
    /// The first entry that cannot be played.
    pub fn validate(&self) -> Result<(), WorldError> {
        self.check_resources()?;
        self.check_actions()?;
        self.check_comms()?;
        let needs = self.check_programs()?;
        for (r, rank) in self.ranks.iter().enumerate() {
            self.check_rank(r, rank, &needs)?;
        }
        Ok(())
    }

    fn check_resources(&self) -> Checked {
        for (i, resource) in self.resources.iter().enumerate() {
            let rate = resource.capacity.0;
            if !(rate.is_finite() && rate > 0.0) {
                return Err(wrong(
                    "resources",
                    i,
                    format!("a capacity of {rate} bytes/s; finite and above 0 is allowed"),
                ));
            }
        }
        for (i, span) in self.paths.iter().enumerate() {
            refuse("paths", i, [outside(*span, "uses", self.uses.len())])?;
        }
        for (i, (resource, times)) in self.uses.iter().enumerate() {
            let none = (*times == 0).then(|| "crosses its resource 0 times".to_owned());
            refuse("uses", i, [beyond(resource.0, "resource", self.resources.len()), none])?;
        }
        let odd = self.jitter.iter().position(|f| !(f.is_finite() && *f >= 0.0));
        odd.map_or(Ok(()), |i| Err(wrong("jitter", i, format!("a factor of {}", self.jitter[i]))))
    }

    fn check_actions(&self) -> Checked {
        for (i, action) in self.actions.iter().enumerate() {
            let flows = action.flows();
            for (f, flow) in flows.iter().enumerate() {
                refuse("actions", i, [amount(flow).map(|why| format!("flow {f} has {why}"))])?;
            }
            let Action::Graph { parents, parent_ids, .. } = action else { continue };
            if parents.len() != flows.len() {
                return Err(wrong(
                    "actions",
                    i,
                    format!("{} flows with {} lists of parents", flows.len(), parents.len()),
                ));
            }
            for (f, span) in parents.iter().enumerate() {
                refuse("actions", i, [outside(*span, "parent_ids", parent_ids.len())])?;
                let late = parent_ids[span.range()].iter().map(|p| p & !BEHIND).find(|p| *p as usize >= f);
                refuse(
                    "actions",
                    i,
                    [late.map(|p| format!("flow {f} follows flow {p}, which does not stand before it"))],
                )?;
            }
        }
        for (i, profile) in self.profiles.iter().enumerate() {
            let odd = profile.iter().find(|a| **a != World::NO_ACTION && **a as usize >= self.actions.len());
            refuse("profiles", i, [odd.map(|a| format!("action {a} of {}", self.actions.len()))])?;
        }
        Ok(())
    }

    fn check_comms(&self) -> Checked {
        for (i, rank) in self.members.iter().enumerate() {
            refuse("members", i, [beyond(rank.0, "rank", self.ranks.len())])?;
        }
        // Paths that the actions of a profile use.
        let most = |action: &u32| self.actions.get(*action as usize).map(Action::flows).unwrap_or_default();
        let most = |profile: &Vec<u32>| profile.iter().flat_map(most).map(|flow| flow.path).max();
        let paths: Vec<Option<u32>> = self.profiles.iter().map(most).collect();
        for (i, comm) in self.comms.iter().enumerate() {
            refuse(
                "comms",
                i,
                [
                    outside(comm.members, "members", self.members.len()),
                    outside(comm.paths, "paths", self.paths.len()),
                    beyond(comm.profile, "profile", self.profiles.len()),
                ],
            )?;
            let path = paths[comm.profile as usize].filter(|path| *path >= comm.paths.len);
            let why = |path| {
                format!("its profile {} uses path {path}, and it has {}", comm.profile, comm.paths.len)
            };
            refuse("comms", i, [path.map(why)])?;
        }
        Ok(())
    }

    fn check_programs(&self) -> Result<Vec<Arc<Needs>>, WorldError> {
        let needs = |(i, program): (usize, &Arc<Program>)| program.facts.try_of(|| Needs::of(i, program));
        self.programs.iter().enumerate().map(needs).collect()
    }

    fn check_rank(&self, r: usize, rank: &Rank, needs: &[Arc<Needs>]) -> Checked {
        let slow = !(rank.slowness.is_finite() && rank.slowness >= 0.0);
        refuse(
            "ranks",
            r,
            [
                beyond(rank.program.0, "program", self.programs.len()),
                outside(rank.slots, "slots", self.slots.len()),
                outside(rank.tiers, "tier_uses", self.tier_uses.len()),
                outside(rank.memory, "uses", self.uses.len()),
                slow.then(|| format!("a slowness of {}", rank.slowness)),
            ],
        )?;
        let needs = &needs[rank.program.index()];
        let tiers = &self.tier_uses[rank.tiers.range()];
        if tiers.len() < needs.tiers {
            return Err(wrong(
                "ranks",
                r,
                format!("{} tiers bound, and its program uses {}", tiers.len(), needs.tiers),
            ));
        }
        let used = tiers[..needs.tiers].iter().find(|t| t.tier.index() >= self.tiers.len());
        refuse("ranks", r, [used.map(|t| format!("bound to tier {} of {}", t.tier.0, self.tiers.len()))])?;
        for &slot in &needs.slots {
            let Some(comm) = self.slots[rank.slots.range()].get(slot as usize) else {
                let why = format!("its program uses communicator slot {slot}, and it has {}", rank.slots.len);
                return Err(wrong("ranks", r, why));
            };
            let unbound = comm.index() >= self.comms.len();
            refuse("ranks", r, [unbound.then(|| format!("its communicator slot {slot} is bound to none"))])?;
        }
        Ok(())
    }
}

/// The demands of a program on a rank.
struct Needs {
    slots: Vec<u16>,
    tiers: usize,
}

impl Needs {
    fn of(number: usize, program: &Program) -> Result<Needs, WorldError> {
        let ends = |span: Span| u64::from(span.start) + u64::from(span.len);
        let [waits, memory] = [program.waits.len(), program.memory.len()].map(|length| length as u64);
        for (i, op) in program.ops.iter().enumerate() {
            // Most ops of most worlds are sound: what is wrong with one is found out behind this.
            let sound = ends(op.waits) <= waits
                && ends(op.memory) <= memory
                && usize::from(op.stream) < program.streams.len();
            if !sound {
                refuse(&format!("programs[{number}].ops"), i, faults(op, program))?;
            }
        }
        let slots = (0..=u16::MAX)
            .zip(program.used_slots())
            .filter_map(|(slot, used)| used.then_some(slot))
            .collect();
        let effects = program.memory.iter().chain(&program.resident);
        let tiers = effects.map(|effect| usize::from(effect.tier) + 1).max().unwrap_or(0);
        Ok(Needs { slots, tiers })
    }
}

fn faults(op: &Op, program: &Program) -> [Option<String>; 3] {
    [
        outside(op.waits, "waits", program.waits.len()),
        outside(op.memory, "memory", program.memory.len()),
        beyond(op.stream, "stream", program.streams.len()),
    ]
}

/// The fault of a flow whose numbers are no amounts.
fn amount(flow: &Flow) -> Option<String> {
    if !(flow.bytes.is_finite() && flow.bytes >= 0.0) {
        return Some(format!("{} bytes", flow.bytes));
    }
    (flow.rate_limit.is_nan() || flow.rate_limit <= 0.0)
        .then(|| format!("a rate limit of {} bytes/s", flow.rate_limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{CommId, ProgramId, RankId, ResourceId, TransferId};
    use crate::program::{Comm, NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, StreamKind, Work};
    use crate::units::{Bandwidth, Time};

    fn flow(bytes: f64, path: u32) -> Flow {
        Flow { latency: Time::ZERO, bytes, rate_limit: f64::INFINITY, path }
    }

    /// A kernel and a copy behind it on one rank.
    fn sound() -> World {
        let mut b = ProgramBuilder::new();
        let info = OpInfo::of("op", Phase::Forward, 0.0);
        b.info(info);
        let (compute, copies) = (b.stream(StreamKind::Compute), b.stream(StreamKind::CopyIn));
        let first = b.op(compute, Work::Compute { time: Time(1) }, &[], 0, NO_MICRO_BATCH);
        let copy = Work::Comm { slot: 0, transfer: TransferId(0) };
        b.op(copies, copy, &[first], 0, NO_MICRO_BATCH);
        let mut world = World::default();
        let program = world.add_program(b.finish());
        let action = world.add_action(Action::Phases(vec![flow(10.0, 0)]));
        let profile = world.add_profile([action]);
        let link = world.add_resource(Bandwidth(1e9));
        let rank = world.add_rank(program, 1);
        let copy = world.add_comm(profile, &[rank], &[&[(link, 1)]]);
        world.bind(rank, 0, copy);
        world
    }

    /// The fault of a world made by hand is said with table, entry and reason.
    #[test]
    fn a_world_that_cannot_be_played_is_refused() {
        sound().validate().unwrap();
        type Edit = (&'static str, fn(&mut World));
        let edits: [Edit; 17] = [
            ("ranks[0]: its program uses communicator slot 0, and it has 0", |w| w.ranks[0].slots.len = 0),
            ("ranks[0]: its communicator slot 0 is bound to none", |w| w.slots[0] = CommId(u32::MAX)),
            ("ranks[0]: span 4294967295..4294967296 of slots, which has 1 entries", |w| {
                w.ranks[0].slots.start = u32::MAX
            }),
            ("ranks[0]: program 3 of 1", |w| w.ranks[0].program = ProgramId(3)),
            ("ranks[0]: a slowness of NaN", |w| w.ranks[0].slowness = f64::NAN),
            ("ranks[0]: span 5..6 of uses, which has 1 entries", |w| {
                w.ranks[0].memory = Span { start: 5, len: 1 }
            }),
            ("resources[0]: a capacity of 0 bytes/s", |w| w.resources[0].capacity = Bandwidth(0.0)),
            ("resources[0]: a capacity of inf bytes/s", |w| {
                w.resources[0].capacity = Bandwidth(f64::INFINITY)
            }),
            ("uses[0]: resource 7 of 1", |w| w.uses[0].0 = ResourceId(7)),
            ("uses[0]: crosses its resource 0 times", |w| w.uses[0].1 = 0),
            ("paths[0]: span 0..9 of uses", |w| w.paths[0].len = 9),
            ("members[0]: rank 9 of 1", |w| w.members[0] = RankId(9)),
            ("comms[0]: profile 5 of 1", |w| w.comms.set(0, Comm { profile: 5, ..w.comms[0] })),
            ("comms[0]: its profile 0 uses path 4", |w| w.actions[0] = Action::Phases(vec![flow(1.0, 4)])),
            ("actions[0]: flow 0 has NaN bytes", |w| w.actions[0] = Action::Phases(vec![flow(f64::NAN, 0)])),
            ("profiles[0]: action 1 of 1", |w| w.profiles[0][0] = 1),
            ("programs[0].ops[1]: span 0..8 of waits", |w| {
                std::sync::Arc::make_mut(&mut w.programs[0]).ops[1].waits.len = 8;
            }),
        ];
        for (text, edit) in edits {
            let mut world = sound();
            edit(&mut world);
            let error = world.validate().unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
        let mut late = sound();
        late.actions[0] = Action::Graph {
            flows: vec![flow(1.0, 0)],
            parents: vec![Span { start: 0, len: 1 }],
            parent_ids: vec![0],
        };
        let error = late.validate().unwrap_err().to_string();
        assert_eq!(error, "actions[0]: flow 0 follows flow 0, which does not stand before it");
    }
}
