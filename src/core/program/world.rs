//! The world: programs bound to ranks, communicators, resources and tiers. The engine's whole input.

use std::borrow::Cow;
use std::sync::Arc;

use super::Program;
use super::action::Action;
use super::comms::{Comm, Comms};
use super::span::Span;
use crate::ids::{CommId, ProgramId, RankId, ResourceId, TierId, TransferId};
use crate::units::{Bandwidth, Bytes};

/// The compute units that `Op::slowdown` is for.
const WHOLE: u16 = 1000;

/// Everything that the engine plays out. Its tables belong together: they are written by the methods that add an entry
/// and by named [edits](super::Edit), and [`World::validate`] says what of them cannot be played.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// One per role; shared with the folded world.
    pub programs: Vec<Arc<Program>>,
    /// The ranks, in order of their ids.
    pub ranks: Vec<Rank>,
    /// Communicator of each slot: `Rank::slots` is a span of this table.
    pub slots: Vec<CommId>,
    /// Tiers of each rank: `Rank::tiers` is a span of this table.
    pub tier_uses: Vec<TierUse>,
    /// The communicators.
    pub comms: Comms,
    /// Members of the communicators in order: `Comm::members` is a span of this table.
    pub members: Vec<RankId>,
    /// One path per entry: a set of resources that one flow occupies at one rate. `Comm::paths` is a span of it.
    pub paths: Vec<Span>,
    /// The resources of the paths with how many times each path crosses them.
    pub uses: Vec<(ResourceId, u32)>,
    /// Shared capacities.
    pub resources: Vec<Resource>,
    /// Memory tiers.
    pub tiers: Vec<Tier>,
    /// The actions of all profiles.
    pub actions: Vec<Action>,
    /// Compute units that the kernel of each action takes from a device, in thousandths of those that `Op::slowdown` is
    /// for; 1000 where the list is shorter.
    pub action_units: Vec<u16>,
    /// `profiles[profile][transfer]` is an index into `actions`, or `NO_ACTION`.
    pub profiles: Vec<Vec<u32>>,
    /// Factors on kernel times from which ranks with a jitter seed draw, one an op; empty without jitter.
    pub jitter: Vec<f64>,
}

impl World {
    /// Entry of a profile for a transfer that its communicators never do.
    pub const NO_ACTION: u32 = u32::MAX;

    /// The programs, by number.
    pub fn programs(&self) -> &[Arc<Program>] {
        &self.programs
    }
    /// The ranks, by number.
    pub fn ranks(&self) -> &[Rank] {
        &self.ranks
    }
    /// The communicators, by number.
    pub fn comms(&self) -> &Comms {
        &self.comms
    }
    /// The shared capacities, by number.
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }
    /// The memory tiers, by number.
    pub fn tiers(&self) -> &[Tier] {
        &self.tiers
    }
    /// How a transfer plays out on a communicator, and the compute units that its kernel takes from a device, in
    /// thousandths of those that `Op::slowdown` is for. `None` for a transfer that the communicator never does.
    pub fn action_of(&self, comm: CommId, transfer: TransferId) -> Option<(&Action, u16)> {
        let profile = self.profiles.get(self.comms[comm.index()].profile as usize)?;
        let action = *profile.get(transfer.0 as usize)?;
        Some((self.actions.get(action as usize)?, self.units_of(action)))
    }
    /// The compute units that the kernel of an action takes from a device, in thousandths of those that
    /// `Op::slowdown` is for.
    pub(crate) fn units_of(&self, action: u32) -> u16 {
        self.action_units.get(action as usize).copied().unwrap_or(WHOLE)
    }
    /// The resources that a kernel of a rank crosses to the memory of its device; none where that is unlimited.
    pub fn memory_of(&self, rank: RankId) -> &[(ResourceId, u32)] {
        &self.uses[self.ranks[rank.index()].memory.range()]
    }
    /// The resources of path `path` of communicator `comm`, each with its coefficient.
    #[inline]
    pub fn path(&self, comm: CommId, path: u32) -> &[(ResourceId, u32)] {
        let span = self.comms[comm.index()].paths;
        assert!(path < span.len, "path {path} of a communicator that has {}", span.len);
        &self.uses[self.paths[(span.start + path) as usize].range()]
    }
    /// The members of a communicator, in order.
    pub fn members_of(&self, comm: CommId) -> &[RankId] {
        &self.members[self.comms[comm.index()].members.range()]
    }
    /// The communicators that a rank's slots mean.
    #[inline]
    pub fn slots_of(&self, rank: RankId) -> &[CommId] {
        &self.slots[self.ranks[rank.index()].slots.range()]
    }
    /// The tiers that a rank's tier numbers mean.
    #[inline]
    pub fn tiers_of(&self, rank: RankId) -> &[TierUse] {
        &self.tier_uses[self.ranks[rank.index()].tiers.range()]
    }
    /// The program of a rank.
    #[inline]
    pub fn program_of(&self, rank: RankId) -> &Program {
        &self.programs[self.ranks[rank.index()].program.index()]
    }
    /// Puts another world beside this one, on the same resources: its ranks follow those that are here. The first
    /// `shared_tiers` tiers are the same in both (those of the machine); others stay each world's own.
    pub fn join(&mut self, other: &World, shared_tiers: usize) {
        let moved = |span: Span, by: usize| Span { start: span.start + by as u32, ..span };
        let (programs, ranks, slots) = (self.programs.len(), self.ranks.len(), self.slots.len());
        let (comms, members, paths, uses) =
            (self.comms.len(), self.members.len(), self.paths.len(), self.uses.len());
        let (tiers, tier_uses) = (self.tiers.len(), self.tier_uses.len());
        let (actions, profiles) = (self.actions.len(), self.profiles.len());
        self.programs.extend(other.programs.iter().cloned());
        self.ranks.extend(other.ranks.iter().map(|rank| Rank {
            program: ProgramId(rank.program.0 + programs as u32),
            slots: moved(rank.slots, slots),
            tiers: moved(rank.tiers, tier_uses),
            memory: moved(rank.memory, uses),
            ..*rank
        }));
        self.slots.extend(other.slots.iter().map(|comm| CommId(comm.0.saturating_add(comms as u32))));
        self.tiers.extend(other.tiers.iter().skip(shared_tiers).cloned());
        self.tier_uses.extend(other.tier_uses.iter().map(|used| {
            let own = used.tier.index() >= shared_tiers;
            let tier = TierId(used.tier.0 + if own { (tiers - shared_tiers) as u32 } else { 0 });
            TierUse { tier, ..*used }
        }));
        self.comms.extend(&other.comms, |comm| Comm {
            profile: comm.profile + profiles as u32,
            members: moved(comm.members, members),
            paths: moved(comm.paths, paths),
            ..*comm
        });
        self.members.extend(other.members.iter().map(|rank| RankId(rank.0 + ranks as u32)));
        self.paths.extend(other.paths.iter().map(|path| moved(*path, uses)));
        self.uses.extend_from_slice(&other.uses);
        self.action_units.resize(actions, WHOLE);
        self.action_units.extend_from_slice(&other.action_units);
        self.actions.extend(other.actions.iter().cloned());
        let shifted = |row: &Vec<u32>| {
            row.iter().map(|a| if *a == Self::NO_ACTION { *a } else { a + actions as u32 }).collect()
        };
        self.profiles.extend(other.profiles.iter().map(shifted));
    }
    /// True if any action of a profile is a graph of flows.
    pub(super) fn plays_graphs(&self, profile: u32) -> bool {
        let graph = |action: &u32| self.actions.get(*action as usize).is_some_and(Action::is_graph);
        self.profiles.get(profile as usize).is_none_or(|row| row.iter().any(graph))
    }
    /// Number of op executions in one run.
    pub fn op_instances(&self) -> u64 {
        self.ranks.iter().map(|r| self.programs[r.program.index()].ops.len() as u64).sum()
    }
}

/// One rank: a program and what its slots mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rank {
    /// Its program.
    pub program: ProgramId,
    /// Span of `World::slots`.
    pub slots: Span,
    /// Span of `World::tier_uses`.
    pub tiers: Span,
    /// Span of `World::uses`: the bandwidth of the device's memory, which kernels and copies share. Empty where it is
    /// unlimited.
    pub memory: Span,
    /// Factor on the time of every kernel; 1 for a healthy device.
    pub slowness: f64,
    /// Seed of this rank's kernel jitter; ranks with equal seeds behave alike. 0 where there is no jitter.
    pub jitter_seed: u64,
}

/// A rank that is slower by less is no straggler.
const SLOW: f64 = 1.01;

impl Rank {
    /// By how much a straggler is slower, as people write it: `×2.85`.
    pub fn slow(&self) -> Option<String> {
        let text = format!("{:.2}", self.slowness);
        let text = text.trim_end_matches('0').trim_end_matches('.');
        (self.slowness >= SLOW).then(|| format!("×{text}"))
    }
}

/// A tier as one rank sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TierUse {
    /// The tier.
    pub tier: TierId,
    /// How many ranks that behave exactly alike this use stands for (1 unless the world is folded).
    pub count: u32,
}

/// A capacity that flows share: one direction of a link, a port, a tier's bandwidth. The machine knows its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resource {
    /// Bytes per second.
    pub capacity: Bandwidth,
}

/// A memory tier instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Tier {
    /// Its kind, for readers: `hbm`, `host`, `cxl`, `nvme`.
    pub name: Arc<str>,
    /// The bytes that it can hold.
    pub capacity: Bytes,
}

impl World {
    /// The world with every round of its actions written out.
    pub(crate) fn flat(&self) -> Cow<'_, World> {
        if !self.actions.iter().any(|action| matches!(action, Action::Rounds(_))) {
            return Cow::Borrowed(self);
        }
        let mut flat = self.clone();
        flat.flatten();
        Cow::Owned(flat)
    }
    /// Writes out every round of its actions.
    pub fn flatten(&mut self) {
        for action in &mut self.actions {
            if let Action::Rounds(rounds) = action {
                *action = rounds.flat().into();
            }
        }
    }
}

/// Making a world by hand: for tests, benches and small studies.
impl World {
    /// Adds a resource.
    pub fn add_resource(&mut self, capacity: Bandwidth) -> ResourceId {
        self.resources.push(Resource { capacity });
        ResourceId(self.resources.len() as u32 - 1)
    }
    /// Adds a program.
    pub fn add_program(&mut self, program: Program) -> ProgramId {
        self.programs.push(Arc::new(program));
        ProgramId(self.programs.len() as u32 - 1)
    }
    /// Adds a memory tier.
    pub fn add_tier(&mut self, name: &str, capacity: Bytes) -> TierId {
        self.tiers.push(Tier { name: name.into(), capacity });
        TierId(self.tiers.len() as u32 - 1)
    }
    /// Adds an action whose kernel takes the compute units that `Op::slowdown` is for; returns its number.
    pub fn add_action(&mut self, action: Action) -> u32 {
        self.add_action_taking(action, WHOLE)
    }
    /// Adds an action whose kernel takes `units` thousandths of them; returns its number.
    pub fn add_action_taking(&mut self, action: Action, units: u16) -> u32 {
        self.action_units.resize(self.actions.len(), WHOLE);
        self.action_units.push(units);
        self.actions.push(action);
        self.actions.len() as u32 - 1
    }
    /// Adds a profile: the number of the action of each transfer, or `NO_ACTION`; returns its number.
    pub fn add_profile(&mut self, actions: impl IntoIterator<Item = u32>) -> u32 {
        self.profiles.push(actions.into_iter().collect());
        self.profiles.len() as u32 - 1
    }
    /// Adds a rank that does `program`, healthy and without tiers; bind its slots with [`World::bind`].
    pub fn add_rank(&mut self, program: ProgramId, slots: u32) -> RankId {
        let slots = Span::append(&mut self.slots, (0..slots).map(|_| CommId(u32::MAX)));
        self.ranks.push(Rank {
            program,
            slots,
            tiers: Span::default(),
            memory: Span::default(),
            slowness: 1.0,
            jitter_seed: 0,
        });
        RankId(self.ranks.len() as u32 - 1)
    }
    /// Adds a communicator that is what another one is, of the same ranks on the same paths, and is written once with
    /// it, unless it plays graphs of flows.
    pub fn add_twin(&mut self, comm: CommId) -> CommId {
        let of = self.comms[comm.index()];
        match self.plays_graphs(of.profile) {
            true => self.comms.push(of),
            false => self.comms.push_twin(comm.index()),
        }
        CommId(self.comms.len() as u32 - 1)
    }
    /// Says which communicator a slot of a rank means.
    ///
    /// # Panics
    /// If the rank has no such slot.
    pub fn bind(&mut self, rank: RankId, slot: u16, comm: CommId) {
        let slots = self.ranks[rank.index()].slots.range();
        self.slots[slots][usize::from(slot)] = comm;
    }
    /// Says which tiers a rank's tier numbers mean, from its device's own memory on.
    pub fn set_tiers(&mut self, rank: RankId, tiers: &[TierId]) {
        let uses = tiers.iter().map(|tier| TierUse { tier: *tier, count: 1 });
        self.ranks[rank.index()].tiers = Span::append(&mut self.tier_uses, uses);
    }
    /// Says what kernels of a rank cross to the memory of their device, and how many times.
    pub fn set_memory(&mut self, rank: RankId, uses: &[(ResourceId, u32)]) {
        self.ranks[rank.index()].memory = Span::append(&mut self.uses, uses.iter().copied());
    }
    /// Factors on kernel times from which ranks with a jitter seed draw, one an op.
    pub fn set_jitter(&mut self, factors: Vec<f64>) {
        self.jitter = factors;
    }
    /// Makes a rank draw from the factors; ranks with equal seeds behave alike, 0 draws nothing.
    pub fn set_jitter_seed(&mut self, rank: RankId, seed: u64) {
        self.ranks[rank.index()].jitter_seed = seed;
    }
    /// Adds a communicator of the given profile; each path is a list of resources with coefficients.
    pub fn add_comm(&mut self, profile: u32, members: &[RankId], paths: &[&[(ResourceId, u32)]]) -> CommId {
        let members = Span::append(&mut self.members, members.iter().copied());
        let of_paths = paths.iter().map(|path| Span::append(&mut self.uses, path.iter().copied()));
        let paths = Span::append(&mut self.paths, of_paths);
        self.comms.push(Comm { needed: members.len, profile, members, paths });
        CommId(self.comms.len() as u32 - 1)
    }
}
