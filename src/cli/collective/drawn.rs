//! The transfers of a collective, as rows of a page.

use std::collections::BTreeMap;

use super::transfers::TransferRun;
use stepsim_core::ids::DeviceId;
use stepsim_core::units::Time;
use stepsim_fabric::collective::Pattern;
use stepsim_read::palette;
use stepsim_simulate::page::lane::{self, ItemStyle, LaneItem, Looks};

/// A pattern in words: `ring`, `exchange 4`, `trees up`, `neighbour axis 0 up` towards larger coordinates.
fn words(pattern: Pattern) -> String {
    let mut out = String::new();
    for c in format!("{pattern:?}").chars() {
        match c {
            c if c.is_ascii_uppercase() && !out.is_empty() => out.extend([' ', c.to_ascii_lowercase()]),
            c if c.is_ascii_alphanumeric() => out.push(c.to_ascii_lowercase()),
            _ if out.ends_with(' ') => {}
            _ => out.push(' '),
        }
    }
    let flags = [
        ("forward true", "up"),
        ("forward false", "down"),
        (" backwards false", ""),
        ("backwards true", "mirrored"),
    ];
    flags.iter().fold(out.trim().to_owned(), |text, (flag, word)| text.replace(flag, word))
}

/// The transfers that each device sends and gets.
fn by_device(all: &[TransferRun]) -> BTreeMap<DeviceId, [Vec<&TransferRun>; 2]> {
    let mut devices: BTreeMap<DeviceId, [Vec<_>; 2]> = BTreeMap::new();
    for played in all {
        devices.entry(played.sent.from).or_default()[0].push(played);
        devices.entry(played.sent.to).or_default()[1].push(played);
    }
    devices
}

/// Names and colours of patterns, and a row a device: what it sends, and what it gets.
pub(super) fn rows(all: &[TransferRun], end: Time) -> (Looks, Vec<lane::TimeRow>) {
    let mut patterns: Vec<String> = all.iter().map(|p| words(p.sent.pattern)).collect();
    patterns.sort();
    patterns.dedup();
    let look = |(i, name): (usize, &String)| ItemStyle { name: name.clone(), colour: palette::number(i) };
    let looks: Vec<ItemStyle> = patterns.iter().enumerate().map(look).collect();
    let item = |p: &&TransferRun| LaneItem {
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
