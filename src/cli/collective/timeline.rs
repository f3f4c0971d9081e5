//! The timeline of one collective.

use super::{Args, Error, Row};
use crate::analysis::links;
use crate::ids::{DeviceId, RankId};
use crate::topology::Machine;
use crate::trace::{Detail, Link, LinkUse, RunMeta, Timeline, TracedRank, write_file};
use crate::units::{Bandwidth, Bytes, Time};

/// Links with a counter.
const TRACED_LINKS: usize = 32;

/// One slice for each device, and a counter for each of the busiest links: its mean rate while the collective runs.
pub(super) fn write(
    args: &Args,
    machine: &Machine,
    devices: &[DeviceId],
    row: &Row,
    file: &std::path::Path,
) -> Result<(), Error> {
    let ranks = (0u32..).zip(devices).map(|(rank, device)| TracedRank {
        rank: RankId(rank),
        source: RankId(rank),
        name: format!("device {:04}", device.0),
    });
    let ranks: Vec<TracedRank> = ranks.collect();
    let mut meta = RunMeta::default();
    meta.text("topology", &*args.topology);
    meta.text("op", args.op.name());
    meta.text("algorithm", row.choice.algorithm.name());
    meta.text("size", Bytes(row.transfer.bytes).to_string());
    meta.number("busbw_GBps", row.busbw());
    let busiest: Vec<_> = links::busiest(&row.world, &row.record).into_iter().take(TRACED_LINKS).collect();
    let links: Vec<Link> = busiest
        .iter()
        .map(|l| Link {
            resource: l.resource,
            name: machine.resource_name(l.resource),
            capacity: machine.capacity(l.resource),
        })
        .collect();
    let rate = |l: &links::LinkUse| Bandwidth(l.bytes / row.time.s().max(1e-12));
    let starts = busiest.iter().map(|l| LinkUse { time: Time::ZERO, resource: l.resource, rate: rate(l) });
    let ends = busiest.iter().map(|l| LinkUse { time: row.time, resource: l.resource, rate: Bandwidth(0.0) });
    let link_use: Vec<LinkUse> = starts.chain(ends).collect();
    let timeline = Timeline {
        world: &row.world,
        record: &row.record,
        ranks: &ranks,
        meta: &meta,
        detail: Detail::Op,
        window: None,
        stalls: None,
        critical: &[],
        slack: None,
        uncontended: None,
        links: &links,
        link_use: &link_use,
        pools: &[],
        steps: &[],
    };
    write_file(&timeline, file)?;
    Ok(())
}
