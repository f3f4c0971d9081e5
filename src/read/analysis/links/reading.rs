//! The reading of the busiest links.

use std::fmt::Write;

use super::{BySlot, LISTED_LINKS, LinkGroup, LinkReport, alike_of, transfers, utilisation};
use crate::analysis::cells::{MOST_LINKS, grouped, new_table, percent};
use crate::analysis::reading::{PageContents, Reading, Report, Run, Sheet};
use crate::analysis::report::RunInfo;
use crate::page::sheet::{bars, gib};
use stepsim_core::program::World;
use stepsim_core::units::{Bytes, Time};

/// The busiest links, ports and tier bandwidths.
pub struct LinksReading;

impl Reading for LinksReading {
    fn read(&self, run: &mut Run<'_, '_>, report: &mut Report) {
        if run.slack.is_some() {
            let transfers = transfers(run.world(), &run.turn.recurring);
            report.links = busiest_links(run.world(), &transfers, run.end(), run.info);
        }
    }

    fn table(&self, r: &Report, out: &mut String, width: u16) {
        if r.links.is_empty() {
            return;
        }
        let mut table = new_table(width, ["link", "used", "bytes", "capacity"].map(String::from).to_vec());
        for link in r.links.iter().take(MOST_LINKS) {
            table.add_row([
                if link.count > 1 {
                    format!("{} (×{})", link.name, grouped(link.count))
                } else {
                    link.name.clone()
                },
                percent(link.utilisation),
                Bytes(link.bytes.round() as u64).to_string(),
                format!("{:.1} GB/s", link.capacity_gbps),
            ]);
        }
        let _ = writeln!(
            out,
            "\nBusiest links (of what they could carry in the step; ×n: n links alike)\n{table}"
        );
    }

    fn page(&self, report: &Report, _: &PageContents, sheet: &mut Sheet) {
        if report.links.is_empty() {
            return;
        }
        let note = "Bytes over the capacity of a link in the step; links with equal loads share a line.";
        sheet.section("Busiest links", note, |out| out.push_str(&chart(report)));
    }
}

fn busiest_links(world: &World, transfers: &[BySlot], end: Time, info: &RunInfo) -> Vec<LinkReport> {
    let busiest = alike_of(world, transfers, end, info.resources).into_iter().take(LISTED_LINKS);
    let report = |link: LinkGroup| LinkReport {
        name: (info.resource_name)(link.first),
        count: link.count,
        // Whole bytes: a fraction depends on the order of summing.
        bytes: link.used.bytes.round(),
        capacity_gbps: world.resources[link.used.resource.index()].capacity.gbps(),
        utilisation: utilisation(world, end, link.used.resource, link.used.bytes.round()),
    };
    busiest.map(report).collect()
}

/// Use of the busiest links.
fn chart(report: &Report) -> String {
    let lines: Vec<_> = report
        .links
        .iter()
        .map(|link| {
            let title = format!("{} through each, {} GB/s", gib(link.bytes), link.capacity_gbps);
            let count = if link.count > 1 { format!(" and {} alike", link.count - 1) } else { String::new() };
            let after = format!("{:.1} % of {} GB/s{count}", 100.0 * link.utilisation, link.capacity_gbps);
            let heat = format!("heat{}", (link.utilisation * 5.0).floor().clamp(0.0, 4.0));
            (link.name.clone(), vec![(heat, link.utilisation, title)], after)
        })
        .collect();
    let most = report.links.iter().map(|link| link.utilisation).fold(0.05, f64::max);
    bars("links", "busiest links", most, &lines)
}
