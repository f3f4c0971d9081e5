//! Folding: ranks, communicators, resources and tiers that must behave alike, merged **exactly**.
//!
//! Data-parallel replicas and tensor-parallel peers do the same thing at the same time. [`fold`] finds the coarsest
//! *stable* partition of a world's incidence structure and builds the quotient: a world of one rank, one
//! communicator, one resource and one tier per class, which the engine runs as it runs any other. Every rank's spans
//! in the full world equal its class's spans in the folded one, to the picosecond.
//!
//! # The partition
//!
//! Vertices are ranks, communicators, resources, tiers, and the paths of communicators that play graphs of flows (their
//! *ways*). Edges:
//!
//! | edge | label | weight |
//! |---|---|---|
//! | rank – communicator | the program's slot | 1 |
//! | communicator – resource | number of the path, where it is no way | coefficient: how often the path crosses it |
//! | communicator – way | none | 1 |
//! | way – resource | none | coefficient |
//! | rank – resource | none; memory that its kernels feel | coefficient |
//! | rank – tier | the program's tier number | ranks that the use stands for |
//!
//! Communicators of the same ranks on the same paths are one vertex, whose labels say which of them and which slot
//! (`bundles`).
//!
//! A partition is stable (equitable) if any two vertices of a class have, for each class and each label, the same sum
//! of weights towards it. Initial colours are what the engine sees of a vertex on its own: program, slowness and
//! jitter seed of a rank; profile, arrivals needed and number of paths of a communicator; capacity of a resource, and
//! how often ways cross it, so that the largest class of ways need not serve as a splitter; name and capacity of a
//! tier; of a way the profile, and the flows that take it (`transfers`). Jitter, stragglers and uneven fabrics split
//! classes by themselves; nothing is assumed. The partition is found by colour refinement (one-dimensional
//! Weisfeiler–Leman), by splitters with the larger part left out, O(m log n) for m edges: C. Berkholz, P. Bonsma, M.
//! Grohe, *Tight lower and upper bounds for the complexity of canonical colour refinement*, Theory of Computing
//! Systems 60 (2017); the idea is J. Hopcroft's (1971). Nothing is hashed: classes are exact, not probable.
//!
//! Flows are not vertices, since communicators of one profile share them. Two flows of an action are of one *class*
//! if they have the same latency, bytes and limit, take ways of one class, and wait for flows of the same classes
//! (and queue behind the same, which is told apart from waiting); how many they wait for, and what waits for them,
//! does not matter. Ways of one class must carry equally many flows of each class: where they do not, they are split
//! and the world is refined once more, until both agree.
//!
//! # The quotient
//!
//! * The coefficient of path k of communicator class C on resource class R is the sum of the coefficients with which
//!   the paths k of **all** communicators of C cross **one** resource of R.
//! * Of a graph one flow is left for each class. Where n flows of a class take each way of a class, the folded path
//!   has n times the sum of the coefficients with which the ways cross one resource. So a round of a ring of equal
//!   ranks is one flow, and so are the chunks that share a link in it.
//! * A folded communicator needs one arrival for each distinct pair (rank class, slot) among its members: a rank may
//!   meet its own class through two slots (the send and the receive of a ring).
//! * A use of a tier counts the ranks of the class that use **one** tier of the tier's class.
//!
//! # Why it is exact
//!
//! *Rates.* Let the active flows be a union of classes (communicator class, path), each flow of a class with the same
//! latency, bytes and limit. Progressive filling finds the level of resource r as (capacity − Σ rate·load of frozen
//! flows) / Σ load of the others, where the load of a class on r is the same for all r of one class by stability. So
//! all resources of a class saturate at one level; all flows of a class, which cross the same set of resource
//! classes, freeze there; and the filling of the quotient is the same computation. Hence max–min rates are constant
//! on classes. A solver that works by components sees other ones in the two runs, since resources that cannot fill join
//! nothing (`engine::sharing`): the bits of a rate do not depend on it, for a level is computed from the flows on its
//! resource alone, and what is left out never saturates.
//!
//! *Events.* By induction over events: if until time t all ranks of a class had equal spans and all flows of a class
//! equal progress, then at t the same ops of a class end together, the same stream heads are freed, the
//! communicators of a class get their last arrival together (each pair (rank class, slot) among its members arrives
//! at one time), and the set of active flows is again a union of classes.
//!
//! *Transfers.* By induction along a graph: the flows that a flow waits for or queues behind are of the same classes
//! for all of its class, and a class ends together, so a class of flows begins together. Ways of a class carry
//! equally many of them and cross resources in equal sums both ways, so the load of a class of flows is the same on
//! all resources of a class, which is all that the argument on rates asks for.
//!
//! *Floats.* Coefficients are whole numbers, so loads are exact sums in any order, and the engine multiplies a level
//! by an aggregated load instead of subtracting flow by flow; the folded and the unfolded run then do the same
//! floating-point operations on the same values.
//!
//! # Hazards
//!
//! * The slot label must stand on both sides of the edge. Seen only from the rank, a tensor-parallel and a
//!   data-parallel group of the same shape would merge, and they carry different traffic.
//! * Memory admission is not a max–min rate: where several ranks share a tier that can fill up, some get in and
//!   others wait. Such ranks are told apart by their place among the users of the tier (see `memory`), so that no
//!   two ranks of a class compete; the bound that decides whether a tier can fill up is conservative. If two of them
//!   ask at the same picosecond, the engine must decide by their ids and not by the order of events, which folding
//!   may change.
//! * Merging is by program *identity*: equal programs under two numbers do not merge.
//! * Errors of a folded run speak of folded ranks; [`FoldedWorld::representative`] names the rank meant.
//!
//! ```
//! use stepsim_core::fold::fold;
//! use stepsim_core::ids::RankId;
//! use stepsim_core::program::{Edit, Program, World};
//!
//! let mut world = World::default();
//! let program = world.add_program(Program::default());
//! for _ in 0..3 {
//!     world.add_rank(program, 0);
//! }
//! world.edit(&Edit::SlowRank(RankId(1), 2.5));
//! let folded = fold(&world);
//! assert_eq!(folded.world.ranks().len(), 2);
//! assert_eq!(folded.source(RankId(2)), folded.source(RankId(0)));
//! ```

pub mod bundles;
mod classes;
pub mod demands;
pub mod folds;
mod incidence;
mod memory;
mod merged;
pub mod partition;
mod quotient;
mod transfers;
mod ways;

pub use classes::{Classes, FoldedWorld};
pub use folds::Folds;

use crate::program::World;
use demands::Demands;
use transfers::{Transfers, numbered};

/// Merges all that must behave alike. The result runs to the same spans as `world`; see the module's page for why.
///
/// If a merged coefficient does not fit its 32 bits, the world is returned [unfolded](FoldedWorld::unfolded).
pub fn fold(world: &World) -> FoldedWorld {
    folded(world, &Demands::of(world))
}

/// The same, what its programs ask of its tables being known.
fn folded(world: &World, demands: &Demands) -> FoldedWorld {
    let incidence = incidence::Incidence::of(world, demands);
    let ways = &incidence.ways;
    // The classes of transfers, the ways being coloured as in `seen`.
    let (mut seen, mut transfers) = Transfers::coarsest(world, ways);
    let mut colours = seen.clone();
    loop {
        let initial = incidence.initial_colours(world, &demands.turns, &colours);
        let colouring = partition::coarsest_stable(&incidence.graph, initial, incidence.ways_from);
        let (of_ways, count) = numbered(colouring[incidence.ways_from as usize..].iter());
        if of_ways != seen {
            let (looked, finer, finer_count) = Transfers::look(world, ways, &of_ways);
            (transfers, seen) = (looked, of_ways);
            if finer_count > count {
                colours = finer;
                continue;
            }
        }
        return quotient::quotient(world, &incidence, &colouring, &seen, &transfers)
            .unwrap_or_else(|| FoldedWorld::unfolded(world.clone()));
    }
}
