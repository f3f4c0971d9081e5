//! The reading of memory tiers.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{BytesByClass, Peak, TierReport};
use crate::analysis::cells::{merged, new_table, omitted, percent, shown};
use crate::analysis::reading::{Lines, Measure, PageContents, Reading, ReadingContext, Report, Run, Sheet};
use crate::analysis::shown as page;
use crate::analysis::stages::StageReport;
use crate::page::escaped::escaped;
use crate::page::sheet::{gib, key};
use stepsim_core::program::{MemoryClass, World};
use stepsim_core::units::Bytes;

/// How full the tiers were, and of what.
pub struct MemoryReading;

impl Reading for MemoryReading {
    fn read(&self, run: &mut Run<'_, '_>, report: &mut Report) {
        report.memory = by_tier(run.world(), &run.peaks, |_| true);
    }

    fn table(&self, r: &Report, out: &mut String, width: u16) {
        let names: Vec<&String> = r.memory.keys().collect();
        if names.is_empty() {
            return;
        }
        let mut head = vec![
            "tier".to_string(),
            "stage".to_string(),
            "peak".to_string(),
            "of".to_string(),
            "full".to_string(),
        ];
        head.extend(MemoryClass::ALL.iter().map(|c| c.name().to_string()));
        let mut table = new_table(width, head);
        let mut left_out = String::new();
        for name in names {
            let filled =
                |s: &StageReport| s.memory.get(name).filter(|tier| tier.peak_bytes > 0).map(memory_row);
            let of_stage = |s: &StageReport| filled(s).map(|row| (s.stage, row.clone(), row));
            let rows = merged(r.stages.iter().filter_map(of_stage), Vec::eq);
            let shown = shown(&rows);
            for (stages, cells) in &shown {
                table.add_row([name, stages].into_iter().chain(cells));
            }
            if shown.len() < rows.len() {
                left_out = omitted(shown.len(), rows.len());
            }
        }
        let _ = writeln!(out, "\nMemory at its peak, by what is resident then{left_out}");
        let _ = writeln!(out, "{table}");
    }

    /// The tier of a stage that is fullest, and what fills it.
    fn glance(&self, r: &Report, _: ReadingContext<'_>, out: &mut String, _: u16) {
        let full = |t: &TierReport| t.peak_bytes as f64 / t.capacity_bytes.max(1) as f64;
        let tiers =
            r.stages.iter().flat_map(|s| s.memory.iter().map(move |(name, tier)| (s.stage, name, tier)));
        let Some((stage, name, tier)) = tiers.max_by(|a, b| full(a.2).total_cmp(&full(b.2))) else { return };
        let mut classes: Vec<(&str, u64)> = MemoryClass::ALL
            .iter()
            .filter_map(|c| tier.by_class.get(c.name()).map(|bytes| (c.name(), *bytes)))
            .filter(|(_, bytes)| *bytes > 0)
            .collect();
        classes.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let held: Vec<_> = classes.iter().take(2).map(|(name, b)| format!("{name} {}", Bytes(*b))).collect();
        let of_stage = if r.stages.len() > 1 { format!(", stage {stage}") } else { String::new() };
        let _ = writeln!(
            out,
            "Memory    {name} {} full{of_stage}: {} of {}",
            percent(full(tier)),
            Bytes(tier.peak_bytes),
            Bytes(tier.capacity_bytes)
        );
        if !held.is_empty() {
            let _ = writeln!(out, "          {}", held.join(", "));
        }
    }

    fn page(&self, _: &Report, shown: &PageContents, sheet: &mut Sheet) {
        sheet.section("Memory", "The level of each tier by class; the dashed line is its capacity.", |out| {
            let classes =
                MemoryClass::ALL.iter().map(|class| (format!("m{}", *class as usize), class.name()));
            key(out, classes);
            out.push_str(&chart(&shown.memory, shown.step_ns));
        });
    }

    fn compare(&self, a: &Report, b: &Report, lines: &mut Lines) {
        lines.section("memory");
        let peaks = |r: &Report| {
            r.memory.iter().map(|(tier, t)| (format!("{tier} peak"), t.peak_bytes as f64)).collect()
        };
        lines.all(Measure::Bytes, &peaks(a), &peaks(b));
    }
}

/// By name, the fullest of the tiers that `wanted` picks.
pub(crate) fn by_tier(
    world: &World,
    peaks: &[Peak],
    wanted: impl Fn(usize) -> bool,
) -> BTreeMap<String, TierReport> {
    let mut tiers: BTreeMap<String, TierReport> = BTreeMap::new();
    for (t, (tier, peak)) in world.tiers.iter().zip(peaks).enumerate() {
        let fuller = tiers.get(&*tier.name).is_none_or(|known| peak.bytes.0 > known.peak_bytes);
        if wanted(t) && fuller {
            let report = TierReport {
                peak_bytes: peak.bytes.0,
                capacity_bytes: tier.capacity.0,
                peak_at_s: peak.at.s(),
                by_class: by_class(&peak.by_class),
            };
            tiers.insert(tier.name.to_string(), report);
        }
    }
    tiers
}

fn by_class(bytes: &BytesByClass) -> BTreeMap<String, u64> {
    MemoryClass::ALL.iter().map(|&c| (c.name().to_string(), bytes[c as usize])).collect()
}

fn memory_row(tier: &TierReport) -> Vec<String> {
    let full = tier.peak_bytes as f64 / tier.capacity_bytes.max(1) as f64;
    let mut row =
        vec![Bytes(tier.peak_bytes).to_string(), Bytes(tier.capacity_bytes).to_string(), percent(full)];
    let class = |c: &MemoryClass| tier.by_class.get(c.name()).copied().unwrap_or(0);
    row.extend(MemoryClass::ALL.iter().map(|c| match class(c) {
        0 => "·".to_string(),
        bytes => Bytes(bytes).to_string(),
    }));
    row
}

/// The level of each tier over time, by class, with its capacity as a line.
fn chart(tiers: &[page::TierCurve], step_ns: u64) -> String {
    let mut out = String::from("<div class=\"lines levels\" role=\"group\" aria-label=\"memory over time\">");
    for tier in tiers {
        let peak = tier.points.iter().map(|p| p.1.iter().sum::<u64>()).max().unwrap_or(0) as f64;
        let capacity = tier.capacity_bytes as f64;
        // A tier that is hardly used would show nothing at the scale of its capacity.
        let whole = if peak * 4.0 > capacity { capacity.max(peak) } else { peak * 1.1 };
        let name = escaped(&tier.name);
        let _ = write!(
            out,
            "<div><span>{name}</span><svg viewBox=\"0 0 {SIDE} {SIDE}\" preserveAspectRatio=\"none\">"
        );
        levels(&mut out, tier, step_ns, whole);
        if capacity <= whole * 1.001 {
            let at = SIDE * (1.0 - capacity / whole);
            let _ = write!(out, "<path class=\"capacity\" d=\"M0 {at:.1}H{SIDE}\"/>");
        }
        let note = format!("{} of {} at the peak\nheight: {}", gib(peak), gib(capacity), gib(whole));
        let _ = write!(out, "</svg><span class=\"note\">{note}</span></div>");
    }
    out.push_str("</div>");
    out
}

/// Width and height of a drawing that is stretched to its place.
const SIDE: f64 = 1000.0;

/// The bytes of each class on a tier, on top of the one before.
fn levels(out: &mut String, tier: &page::TierCurve, step_ns: u64, whole: f64) {
    let y = |bytes: f64| SIDE * (1.0 - bytes / whole.max(1.0));
    let x = |ns: u64| SIDE * ns as f64 / step_ns.max(1) as f64;
    let starts = tier.points.iter().map(|p| p.0);
    let ends: Vec<u64> = starts.skip(1).chain([step_ns]).collect();
    let mut levels = vec![0.0; tier.points.len()];
    let mut areas = Vec::new();
    for class in MemoryClass::ALL {
        let held = |p: &(u64, [u64; MemoryClass::ALL.len()])| p.1[class as usize] as f64;
        if tier.points.iter().all(|p| held(p) == 0.0) {
            continue;
        }
        levels.iter_mut().zip(&tier.points).for_each(|(level, point)| *level += held(point));
        let mut shape = format!("M{:.1} {:.1}", x(0), y(0.0));
        for (level, end) in levels.iter().zip(&ends) {
            let _ = write!(shape, "V{:.1}H{:.1}", y(*level), x(*end));
        }
        areas.push((class, shape));
    }
    // The sum of all first: what holds less lies over it.
    for (class, shape) in areas.iter().rev() {
        let (number, bottom, name) = (*class as usize, y(0.0), class.name());
        let _ =
            write!(out, "<path class=\"m{number}\" d=\"{shape}V{bottom:.1}z\"><title>{name}</title></path>");
    }
}
