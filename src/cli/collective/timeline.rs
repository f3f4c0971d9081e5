//! The timeline of collectives that a command plays by themselves.

use stepsim_core::engine::Record;
use stepsim_core::ids::{DeviceId, RankId};
use stepsim_core::program::World;
use stepsim_core::units::{Bandwidth, Time};
use stepsim_fabric::topology::Machine;
use stepsim_read::analysis::link_rates::RateChange;
use stepsim_read::analysis::links;
use stepsim_read::trace::{LinkCounter, RunMeta, Timeline, TraceError, TracedRank, write_file};

/// Links with a counter.
const TRACED_LINKS: usize = 32;

/// The ops of each device, and a counter for each of the busiest links: its mean rate while they run.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write(
    world: &World,
    record: &Record,
    machine: &Machine,
    devices: &[DeviceId],
    meta: &RunMeta,
    file: &std::path::Path,
) -> Result<(), TraceError> {
    let ranks = (0u32..).zip(devices).map(|(rank, device)| TracedRank {
        rank: RankId(rank),
        source: RankId(rank),
        name: format!("device {:04}", device.0),
    });
    let ranks: Vec<TracedRank> = ranks.collect();
    let busiest: Vec<_> = links::busiest(world, record).into_iter().take(TRACED_LINKS).collect();
    let links: Vec<LinkCounter> = busiest
        .iter()
        .map(|l| LinkCounter {
            resource: l.resource,
            name: machine.resource_name(l.resource),
            capacity: machine.capacity(l.resource),
        })
        .collect();
    let end = record.step_end;
    let rate = |l: &links::LinkUse| Bandwidth(l.bytes / end.s().max(1e-12));
    let starts = busiest.iter().map(|l| RateChange { time: Time::ZERO, resource: l.resource, rate: rate(l) });
    let ends = busiest.iter().map(|l| RateChange { time: end, resource: l.resource, rate: Bandwidth(0.0) });
    let link_use: Vec<RateChange> = starts.chain(ends).collect();
    let timeline =
        Timeline { links: &links, link_use: &link_use, ..Timeline::new(world, record, &ranks, meta) };
    write_file(&timeline, file).map(drop)
}
