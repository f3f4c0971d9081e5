//! The transfers of a collective, by device and by link, as a timeline and as rows of a page.

use std::collections::BTreeMap;

use super::SizeRow;
use super::transfers::TransferRun;
use stepsim_core::ids::{DeviceId, ResourceId};
use stepsim_core::units::Time;
use stepsim_fabric::collective::Pattern;
use stepsim_fabric::topology::Machine;
use stepsim_read::palette;
use stepsim_read::trace::writer::{ArgumentName, Sink, Slice, Value};
use stepsim_read::trace::{MetaValue, RunMeta, TimelineError, TimelineSummary};
use stepsim_simulate::page::lane::{self, ItemStyle, LaneItem, Looks};

/// Links that have rows.
const LINKS: usize = 64;
/// Most names of links that a transfer lists.
const NAMED: usize = 6;

/// A pattern in words: `ring`, `exchange 4`, `trees up`.
pub(super) fn words(pattern: Pattern) -> String {
    let mut out = String::new();
    for c in format!("{pattern:?}").chars() {
        match c {
            c if c.is_ascii_uppercase() && !out.is_empty() => out.extend([' ', c.to_ascii_lowercase()]),
            c if c.is_ascii_alphanumeric() => out.push(c.to_ascii_lowercase()),
            _ if out.ends_with(' ') => {}
            _ => out.push(' '),
        }
    }
    out.trim().to_owned()
}

/// Puts things that may overlap on lanes: each on the first that is free.
fn lanes<T>(things: Vec<(Time, Time, T)>) -> Vec<Vec<(Time, Time, T)>> {
    let mut lanes: Vec<Vec<(Time, Time, T)>> = Vec::new();
    for thing in things {
        match lanes.iter_mut().find(|lane| lane.last().is_none_or(|last| last.1 <= thing.0)) {
            Some(lane) => lane.push(thing),
            None => lanes.push(vec![thing]),
        }
    }
    lanes
}

/// Writes the timeline: a process a device with its sends and receives, one with the links.
pub(super) fn timeline(
    machine: &Machine,
    all: &[TransferRun],
    meta: &RunMeta,
    row: &SizeRow,
    sink: &mut dyn Sink,
) -> Result<TimelineSummary, TimelineError> {
    let values: Vec<(&str, Value)> = meta.0.iter().map(|(key, value)| (key.as_str(), of(value))).collect();
    sink.begin(&values)?;
    let mut writer = TransferWriter::new(machine, row, sink)?;
    writer.whole(&values)?;
    for (device, sides) in by_device(all) {
        writer.device(device, sides)?;
    }
    writer.links(all)?;
    writer.sink.finish()?;
    Ok(writer.summary)
}

fn of(value: &MetaValue) -> Value<'_> {
    match value {
        MetaValue::Int(n) => Value::Uint(*n),
        MetaValue::Number(x) => Value::Float(*x),
        MetaValue::Text(text) => Value::Text(text),
    }
}

/// A transfer with its number.
type Numbered<'p> = (u64, &'p TransferRun);

/// The transfers that each device sends and gets.
fn by_device(all: &[TransferRun]) -> BTreeMap<DeviceId, [Vec<Numbered<'_>>; 2]> {
    let mut devices: BTreeMap<DeviceId, [Vec<Numbered>; 2]> = BTreeMap::new();
    for (number, played) in (1u64..).zip(all) {
        devices.entry(played.sent.from).or_default()[0].push((number, played));
        devices.entry(played.sent.to).or_default()[1].push((number, played));
    }
    devices
}

struct TransferWriter<'a> {
    machine: &'a Machine,
    row: &'a SizeRow,
    sink: &'a mut dyn Sink,
    keys: [ArgumentName; 6],
    summary: TimelineSummary,
}

impl<'a> TransferWriter<'a> {
    fn new(
        machine: &'a Machine,
        row: &'a SizeRow,
        sink: &'a mut dyn Sink,
    ) -> Result<TransferWriter<'a>, TimelineError> {
        let turn = if row.choice.chunks > 1 { "chunk" } else { "round" };
        let mut keys = Vec::new();
        for name in ["phase", turn, "from", "to", "bytes", "links"] {
            keys.push(sink.key(name)?);
        }
        let keys = [keys[0], keys[1], keys[2], keys[3], keys[4], keys[5]];
        Ok(TransferWriter { machine, row, sink, keys, summary: TimelineSummary::default() })
    }

    /// The slice of the whole collective, with what was run.
    fn whole(&mut self, values: &[(&str, Value)]) -> Result<(), TimelineError> {
        let pid = u64::from(self.machine.devices()) + 1;
        self.sink.process(pid, "collective")?;
        let thread = self.sink.thread(pid, "collective")?;
        let kind = self.sink.kind(self.row.transfer.op.name(), "step", values)?;
        let slice = Slice { start: 0, end: self.row.time.round_ns().max(1), ..Slice::default() };
        self.summary.slices += 1;
        Ok(self.sink.slice(thread, kind, &slice)?)
    }

    fn device(&mut self, device: DeviceId, sides: [Vec<Numbered>; 2]) -> Result<(), TimelineError> {
        let pid = u64::from(device.0) + 1;
        let name = format!("device {:04}", device.0);
        self.sink.process(pid, &name)?;
        for (side, category) in sides.into_iter().zip(["send", "receive"]) {
            self.rows(pid, &format!("{name} {category}"), category, side)?;
        }
        Ok(())
    }

    /// The busiest links in the order of their names.
    fn links(&mut self, all: &[TransferRun]) -> Result<(), TimelineError> {
        let mut links: BTreeMap<ResourceId, (f64, Vec<Numbered>)> = BTreeMap::new();
        for played in all {
            for link in &played.links {
                let of_link = links.entry(*link).or_default();
                of_link.0 += played.bytes / self.machine.capacity(*link).0;
                of_link.1.push((0, played));
            }
        }
        let mut busiest: Vec<_> = links.into_iter().collect();
        busiest.sort_by(|a, b| b.1.0.total_cmp(&a.1.0).then(a.0.cmp(&b.0)));
        busiest.truncate(LINKS);
        busiest.sort_by_key(|link| link.0);
        let pid = u64::from(self.machine.devices()) + 2;
        self.sink.process(pid, "links")?;
        for (link, (_, played)) in busiest {
            self.rows(pid, &self.machine.resource_name(link), "link", played)?;
        }
        Ok(())
    }

    /// Rows of transfers; those with a number have an arrow from the sender to the receiver.
    fn rows(
        &mut self,
        pid: u64,
        name: &str,
        category: &str,
        all: Vec<Numbered>,
    ) -> Result<(), TimelineError> {
        let things = all.into_iter().map(|(number, p)| (p.start, p.end, (number, p))).collect();
        for (number, lane) in (1..).zip(lanes(things)) {
            let name = if number == 1 { name.to_owned() } else { format!("{name} {number}") };
            let thread = self.sink.thread(pid, &name)?;
            for (start, end, (arrow, played)) in lane {
                let (start, end) = (start.round_ns(), end.round_ns());
                if start >= end {
                    self.summary.too_short += 1;
                    continue;
                }
                let kind = self.sink.kind(&words(played.sent.pattern), category, &[])?;
                let links: Vec<String> =
                    played.links.iter().take(NAMED).map(|link| self.machine.resource_name(*link)).collect();
                let links = links.join(", ");
                let [phase, turn, from, to, bytes, over] = self.keys;
                let args = [
                    (phase, Value::Uint(u64::from(played.phase))),
                    (turn, Value::Uint(u64::from(played.turn))),
                    (from, Value::Uint(u64::from(played.sent.from.0))),
                    (to, Value::Uint(u64::from(played.sent.to.0))),
                    (bytes, Value::Float(played.bytes)),
                    (over, Value::Text(&links)),
                ];
                let id = [arrow];
                let arrow: &[u64] = if arrow == 0 { &[] } else { &id };
                let (out, into): (&[u64], &[u64]) = match category {
                    "send" => (arrow, &[]),
                    "receive" => (&[], arrow),
                    _ => (&[], &[]),
                };
                self.summary.arrows += out.len() as u64;
                self.summary.slices += 1;
                self.sink.slice(thread, kind, &Slice { start, end, args: &args, out, into, alike: None })?;
            }
        }
        Ok(())
    }
}

/// Names and colours of patterns, and a row a device: what it sends, and what it gets.
pub(super) fn rows(all: &[TransferRun], end: Time) -> (Looks, Vec<lane::TimeRow>) {
    let mut patterns: Vec<String> = all.iter().map(|p| words(p.sent.pattern)).collect();
    patterns.sort();
    patterns.dedup();
    let look = |(i, name): (usize, &String)| ItemStyle { name: name.clone(), colour: palette::number(i) };
    let looks: Vec<ItemStyle> = patterns.iter().enumerate().map(look).collect();
    let item = |(_, p): &Numbered| LaneItem {
        start: p.start.round_ns(),
        end: p.end.round_ns(),
        kind: patterns.iter().position(|name| *name == words(p.sent.pattern)).unwrap_or(0) as u32,
        tag: 0,
    };
    let devices: Vec<_> = by_device(all).into_iter().collect();
    let few: Vec<_> = lane::few(&devices).collect();
    let rows = few.iter().map(|(device, [sends, receives])| {
        let lanes = [sends.iter().map(item).collect(), Vec::new(), receives.iter().map(item).collect()];
        lane::TimeRow::new(format!("device {}", device.0), end.round_ns(), few.len(), lanes, None)
    });
    (Looks { passes: looks.clone(), stalls: Vec::new(), communication: looks }, rows.collect())
}
