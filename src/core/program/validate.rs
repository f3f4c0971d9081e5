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
        let mut used = Vec::new();
        for (i, op) in program.ops.iter().enumerate() {
            op.note_slot(&mut used);
            // Most ops of most worlds are sound: what is wrong with one is found out behind this.
            let sound = ends(op.waits) <= waits
                && ends(op.memory) <= memory
                && usize::from(op.stream) < program.streams.len();
            if !sound {
                refuse(&format!("programs[{number}].ops"), i, faults(op, program))?;
            }
        }
        let slots = (0..=u16::MAX).zip(used).filter_map(|(slot, used)| used.then_some(slot)).collect();
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
