//! The quotient of a world by a stable partition: one rank, communicator, resource and tier per class.

use rustc_hash::FxHashMap;

use super::bundles::Twins;
use super::incidence::Incidence;
use super::merged::MergedTransfers;
use super::transfers::Transfers;
use super::{Classes, FoldedWorld};
use crate::ids::{CommId, ProgramId, RankId, ResourceId, TierId};
use crate::program::{Comm, Rank, Span, TierUse, World};

/// Builds the folded world; `None` if a merged coefficient or count does not fit 32 bits. `ways` are the classes of the
/// ways alone, numbered densely, and `transfers` what is alike with them.
pub(super) fn quotient(
    world: &World,
    incidence: &Incidence<'_>,
    colouring: &[u32],
    ways: &[u32],
    transfers: &Transfers,
) -> Option<FoldedWorld> {
    let colours = colouring.iter().max().map_or(0, |last| *last as usize + 1);
    let range = |from: u32, to: u32| Classes::of_colouring(&colouring[from as usize..to as usize], colours);
    let bundled = &colouring[incidence.comms as usize..incidence.resources as usize];
    let (comms, twins) = incidence.bundles.classes(bundled, colours);
    let mut quotient = Quotient {
        full: world,
        incidence,
        ways,
        merged: MergedTransfers::new(world, &incidence.ways, transfers),
        of_way: FxHashMap::default(),
        twins,
        folded: FoldedWorld {
            world: World { jitter: world.jitter.clone(), ..World::default() },
            ranks: range(0, incidence.comms),
            comms,
            resources: range(incidence.resources, incidence.tiers),
            tiers: range(incidence.tiers, incidence.ways_from),
        },
    };
    quotient.ranks()?;
    quotient.comms();
    quotient.paths()?;
    quotient.merged.give(&mut quotient.folded.world);
    let FoldedWorld { world: w, resources, tiers, .. } = &mut quotient.folded;
    w.resources = resources.representative.iter().map(|&r| world.resources[r as usize]).collect();
    w.tiers = tiers.representative.iter().map(|&t| world.tiers[t as usize].clone()).collect();
    Some(quotient.folded)
}

struct Quotient<'w> {
    full: &'w World,
    incidence: &'w Incidence<'w>,
    ways: &'w [u32],
    merged: MergedTransfers<'w>,
    /// By class of ways: the folded paths that stand for it, each with how many flows of a class take one way at once.
    of_way: FxHashMap<u32, Vec<(u32, u32)>>,
    twins: Twins,
    folded: FoldedWorld,
}

impl Quotient<'_> {
    fn ranks(&mut self) -> Option<()> {
        let users = self.tier_users();
        let FoldedWorld { world: w, ranks, comms, tiers, .. } = &mut self.folded;
        let mut programs = FxHashMap::default();
        for (class, &rank) in (0..).zip(&ranks.representative) {
            let full = self.full.ranks[rank as usize];
            let program = *programs.entry(full.program).or_insert_with(|| {
                w.programs.push(self.full.programs[full.program.index()].clone());
                ProgramId(w.programs.len() as u32 - 1)
            });
            let of_comm = |c: &CommId| comms.of.get(c.index()).map_or(*c, |&class| CommId(class));
            let slots = Span::append(&mut w.slots, self.full.slots_of(RankId(rank)).iter().map(of_comm));
            let start = w.tier_uses.len() as u32;
            for (number, bound) in (0..).zip(self.full.tiers_of(RankId(rank))) {
                let Some(&tier) = tiers.of.get(bound.tier.index()) else {
                    w.tier_uses.push(*bound);
                    continue;
                };
                let count = users.get(&(tier, class, number)).copied().unwrap_or(0);
                w.tier_uses.push(TierUse { tier: TierId(tier), count: u32::try_from(count).ok()? });
            }
            let tiers = Span { start, len: full.tiers.len };
            // Filled in with the paths.
            let memory = Span::default();
            w.ranks.push(Rank { program, slots, tiers, memory, ..full });
        }
        Some(())
    }

    /// How many ranks of a class use one tier of a class as their tier number so-and-so: by (tier class, rank class,
    /// number).
    fn tier_users(&self) -> FxHashMap<(u32, u32, u32), u64> {
        let mut users = FxHashMap::default();
        for (class, &tier) in (0..).zip(&self.folded.tiers.representative) {
            for edge in self.incidence.graph.at(self.incidence.tiers + tier) {
                let rank_class = self.folded.ranks.of[edge.to as usize];
                *users.entry((class, rank_class, edge.label)).or_insert(0) += u64::from(edge.weight);
            }
        }
        users
    }

    fn comms(&mut self) {
        let FoldedWorld { world: w, ranks, comms, .. } = &mut self.folded;
        let mut seen = vec![u32::MAX; ranks.len()];
        let mut first_path = 0;
        for (class, &comm) in (0..).zip(&comms.representative) {
            let full = self.full.comms[comm as usize];
            let of_members = self.full.members_of(CommId(comm)).iter().map(|member| ranks.of[member.index()]);
            let first = |rank: &u32| std::mem::replace(&mut seen[*rank as usize], class) != class;
            let members = Span::append(&mut w.members, of_members.filter(first).map(RankId));
            let own = self.incidence.ways.of_comm(comm);
            let (mut profile, mut len) = (full.profile, full.paths.len);
            if !own.is_empty() {
                let own = &self.ways[own];
                let merged = self.merged.profile(full.profile, own);
                (profile, len) = (merged.profile, merged.paths.len() as u32);
                for (path, &(way, flows)) in (first_path..).zip(&merged.paths) {
                    self.of_way.entry(own[way as usize]).or_default().push((path, flows));
                }
            }
            let paths = Span { start: first_path, len };
            first_path += len;
            let needed = needed(self.incidence, ranks, comm, full.needed);
            w.comms.push(Comm { needed, profile, members, paths });
        }
    }

    /// The paths of all communicator classes, with the crossings of one resource of each class summed.
    fn paths(&mut self) -> Option<()> {
        let FoldedWorld { world: w, ranks, resources, .. } = &mut self.folded;
        let paths = w.comms.entries().last().map_or(0, |c| c.paths.start + c.paths.len);
        let mut crossings: Vec<(u32, u32, u32)> = Vec::new();
        let mut of_resource: Vec<(u32, u64)> = Vec::new();
        for (class, &resource) in (0..).zip(&resources.representative) {
            of_resource.clear();
            for edge in self.incidence.graph.at(self.incidence.resources + resource) {
                let weight = u64::from(edge.weight);
                if edge.to < self.incidence.comms {
                    // The resources of a rank's kernels stand behind all paths.
                    of_resource.push((paths + ranks.of[edge.to as usize], weight));
                } else if let Some(way) = edge.to.checked_sub(self.incidence.ways_from) {
                    let folded = self.of_way.get(&self.ways[way as usize]).into_iter().flatten();
                    of_resource.extend(folded.map(|&(path, flows)| (path, u64::from(flows) * weight)));
                } else {
                    let comms = self.twins.of(edge.to - self.incidence.comms).iter();
                    let first_path = |comm: &u32| w.comms[*comm as usize].paths.start;
                    of_resource.extend(comms.map(|comm| (first_path(comm) + edge.label, weight)));
                }
            }
            of_resource.sort_unstable();
            for same in of_resource.chunk_by(|a, b| a.0 == b.0) {
                let sum = same.iter().map(|(_, weight)| weight).sum::<u64>();
                crossings.push((same[0].0, class, u32::try_from(sum).ok()?));
            }
        }
        crossings.sort_unstable();
        let mut next = 0;
        for path in 0..paths + w.ranks.len() as u32 {
            let start = next;
            while crossings.get(next).is_some_and(|c| c.0 == path) {
                next += 1;
            }
            let span = Span { start: start as u32, len: (next - start) as u32 };
            match path.checked_sub(paths) {
                None => w.paths.push(span),
                Some(rank) => w.ranks[rank as usize].memory = span,
            }
        }
        w.uses = crossings.into_iter().map(|(_, resource, sum)| (ResourceId(resource), sum)).collect();
        Some(())
    }
}

/// Arrivals that start an action of a folded communicator: one for each distinct pair (rank class, slot).
///
/// Where ranks use the communicator through more slots than it needs arrivals, a rank's slots take turns and count
/// once: by port. In both cases what falls away is the arrivals that merged.
fn needed(incidence: &Incidence<'_>, ranks: &Classes, comm: u32, needed: u32) -> u32 {
    let meetings = incidence.meetings(comm);
    let by_slot = meetings.iter().map(|(_, slots)| slots.len()).sum::<usize>() == needed as usize;
    let mut arrivals: Vec<(u32, u32, u32)> = Vec::new();
    for (rank, slots) in &meetings {
        let counted = if by_slot { slots } else { &slots[..1] };
        arrivals.extend(counted.iter().map(|slot| (ranks.of[*rank as usize], *slot, slots[0])));
    }
    let all = arrivals.len();
    arrivals.sort_unstable();
    arrivals.dedup();
    needed - ((all - arrivals.len()) as u32).min(needed)
}
