//! How far ahead copies are issued, and how far ahead they should have been.
//!
//! For a kernel that waits for a copy towards the device:
//! ```text
//! had    = when the kernel was ready but for its copies − when the copy could be issued (its own waits over)
//! needed = when the copy had arrived − when it could be issued
//! ```
//! `needed` counts queueing behind other copies and the transfer itself. The kernel stalls for `needed − had` where
//! that is positive; issuing the copy so much earlier would have hidden it, had the link been free.

mod reading;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cause::Causes;
use super::kind::OpKind;
use super::turns::Recurring;
pub use reading::Prefetch;
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::program::{Phase, Program, StreamKind, World};
use stepsim_core::units::Time;

/// The copy of a layer in a phase that came latest, of all ranks and micro-batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PrefetchReport {
    /// Global layer number of the kernel that waited.
    pub layer: Option<u32>,
    /// Its phase in words.
    pub phase: String,
    /// Kernels that waited for a copy, stalled or not, on all ranks.
    pub kernels: u64,
    /// How long before the kernel was otherwise ready the copy could be issued.
    pub had_s: f64,
    /// How long before it should have been.
    pub needed_s: f64,
    /// Layers that the rank computed in the needed time before the kernel: the distance in layers.
    pub needed_layers: u32,
}

/// One kernel's latest copy.
#[derive(Clone, Copy)]
struct Distance {
    rank: RankId,
    kernel: OpId,
    ready: Time,
    issue: Time,
    had: Time,
    needed: Time,
}

impl Distance {
    /// How much too late, negative if early.
    fn late(&self) -> i128 {
        i128::from(self.needed.0) - i128::from(self.had.0)
    }
}

/// The copies of a layer in a phase.
#[derive(Clone, Copy, Debug)]
pub struct LayerCopies {
    had: Time,
    needed: Time,
    layers: u32,
    kernels: u64,
}

/// By layer and phase.
pub type CopiesByLayer = BTreeMap<(Option<u32>, Phase), LayerCopies>;

/// True if no kernel that ends behind a moment hangs on anything before another, `since`.
pub fn recur(causes: &Causes, since: Time, behind: Time) -> bool {
    let behind = |d: &Distance| causes.span(d.rank, d.kernel).1 > behind;
    let hangs_on = |d: &Distance| d.issue.min(d.ready.saturating_sub(d.needed));
    distances(causes).filter(behind).all(|distance| hangs_on(&distance) >= since)
}

/// True if anything is copied to a device.
pub fn has_copies(world: &World) -> bool {
    world.programs.iter().any(|program| copies_in(program))
}

fn copies_in(program: &Program) -> bool {
    program.streams.iter().any(|s| s.kind == StreamKind::CopyIn)
}

/// The distances of all kernels that wait for copies.
fn distances<'a>(causes: &'a Causes) -> impl Iterator<Item = Distance> + use<'a> {
    let copies = |rank: &RankId| copies_in(causes.world().program_of(*rank));
    (0..causes.record().ranks()).map(RankId).filter(copies).flat_map(move |rank| {
        let kernels = &causes.index_of(rank).kernels;
        kernels.iter().filter_map(move |&kernel| distance(causes, rank, kernel))
    })
}

/// The worst distance for each layer and phase that waits for copies. `weight` is how many ranks a rank of the world
/// stands for.
pub fn copies(causes: &Causes, recurring: &Recurring, weight: impl Fn(RankId) -> u64) -> CopiesByLayer {
    let mut worst: BTreeMap<(Option<u32>, Phase), (Distance, u64)> = BTreeMap::new();
    for distance in distances(causes) {
        let Distance { rank, kernel, .. } = distance;
        let program = causes.world().program_of(rank);
        let info = &program.infos[program.ops[kernel.index()].info as usize];
        let entry = worst.entry((info.layer, info.phase)).or_insert((distance, 0));
        entry.1 += weight(rank) * recurring.of_rank(rank, program)(kernel);
        if distance.late() > entry.0.late() {
            entry.0 = distance;
        }
    }
    let of_layer = |(layer, (worst, kernels)): (_, (Distance, u64))| {
        let layers = layers_within(causes, &worst);
        (layer, LayerCopies { had: worst.had, needed: worst.needed, layers, kernels })
    };
    worst.into_iter().map(of_layer).collect()
}

/// In the order of layers.
pub fn prefetch(copies: CopiesByLayer) -> Vec<PrefetchReport> {
    let report = |((layer, phase), of): (_, LayerCopies)| PrefetchReport {
        layer,
        phase: Phase::name(phase).to_string(),
        kernels: of.kernels,
        had_s: of.had.s(),
        needed_s: of.needed.s(),
        needed_layers: of.layers,
    };
    copies.into_iter().map(report).collect()
}

/// The latest of the copies that a kernel waits for; `None` if it waits for none.
fn distance(causes: &Causes, rank: RankId, kernel: OpId) -> Option<Distance> {
    let (program, record) = (causes.world().program_of(rank), causes.record());
    let waits = &program.waits[program.ops[kernel.index()].waits.range()];
    let is_copy = |w: &OpId| causes.kind(rank, *w) == OpKind::CopyIn;
    let end = |op: OpId| record.span(rank, op).1;
    let copy = waits.iter().copied().filter(is_copy).max_by_key(|c| end(*c))?;
    let others = waits.iter().copied().filter(|w| !is_copy(w));
    let ready = others.chain(causes.predecessor(rank, kernel)).map(end).max().unwrap_or_default();
    let issue = program.waits[program.ops[copy.index()].waits.range()].iter().map(|&w| end(w)).max();
    let issue = issue.unwrap_or_default();
    let (had, needed) = (ready.saturating_sub(issue), end(copy).saturating_sub(issue));
    Some(Distance { rank, kernel, ready, issue, had, needed })
}

/// How many layers' kernels ran in the needed time before a kernel was otherwise ready.
fn layers_within(causes: &Causes, distance: &Distance) -> u32 {
    let program = causes.world().program_of(distance.rank);
    let from = distance.ready.saturating_sub(distance.needed);
    let layer = |op: OpId| program.infos[program.ops[op.index()].info as usize].layer;
    let (mut layers, mut current, mut op) = (0, layer(distance.kernel), distance.kernel);
    while let Some(before) = causes.predecessor(distance.rank, op) {
        if causes.record().span(distance.rank, before).1 <= from {
            break;
        }
        if layer(before) != current {
            (layers, current) = (layers + 1, layer(before));
        }
        op = before;
    }
    layers
}
