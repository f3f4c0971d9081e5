//! The busiest link of each rank of a timeline, with its use over time.

use rustc_hash::FxHashMap;

use super::Simulation;
use stepsim_core::ids::{RankId, ResourceId};
use stepsim_core::program::World;
use stepsim_read::analysis::stretches::Stretches;
use stepsim_read::analysis::{link_rates, links};
use stepsim_read::trace::{BusiestLink, TracedRank};

/// The busiest link among those that a rank's transfers cross, by rank of the record.
pub(super) fn busiest_links(run: &Simulation, ranks: &[TracedRank]) -> FxHashMap<RankId, BusiestLink> {
    let world = &run.folded.world;
    let used = links::busiest(world, &run.record);
    let used: FxHashMap<ResourceId, f64> = used.iter().map(|u| (u.resource, u.utilisation)).collect();
    let first = |r: &ResourceId| run.folded.resources.representative[r.index()];
    let mut of: FxHashMap<RankId, ResourceId> = FxHashMap::default();
    for traced in ranks {
        if !of.contains_key(&traced.source) {
            of.extend(busiest_of(world, traced.source, &used, first).map(|link| (traced.source, link)));
        }
    }
    let mut chosen: Vec<ResourceId> = of.values().copied().collect();
    chosen.sort_unstable();
    chosen.dedup();
    let mut bytes = vec![Stretches::new(run.record.step_end); chosen.len()];
    link_rates::uses(world, &run.record, &chosen, |place, (from, until), came| {
        bytes[place].add(from, until, came);
    });
    let link = |resource: ResourceId| BusiestLink {
        capacity: world.resources[resource.index()].capacity,
        bytes: bytes[chosen.partition_point(|other| *other < resource)].clone(),
    };
    of.into_iter().map(|(rank, resource)| (rank, link(resource))).collect()
}

/// The busiest link of a rank; of equally busy ones the first in the machine, folded or not.
fn busiest_of(
    world: &World,
    rank: RankId,
    used: &FxHashMap<ResourceId, f64>,
    first: impl Fn(&ResourceId) -> u32,
) -> Option<ResourceId> {
    let comms = world.slots_of(rank).iter().filter(|comm| comm.index() < world.comms.len());
    let paths = comms.flat_map(|comm| (0..world.comms[comm.index()].paths.len).map(|path| (*comm, path)));
    let crossed = paths.flat_map(|(comm, path)| world.path(comm, path)).map(|(resource, _)| *resource);
    let mut crossed: Vec<(ResourceId, f64)> = crossed.filter_map(|r| Some((r, *used.get(&r)?))).collect();
    let most = crossed.iter().map(|(_, utilisation)| *utilisation).fold(0.0, f64::max);
    crossed.retain(|(_, utilisation)| *utilisation >= most * (1.0 - 1e-9));
    crossed.into_iter().map(|(resource, _)| resource).min_by_key(first)
}
