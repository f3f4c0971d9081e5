//! Drawings as SVG text. Shapes have classes whose colours the style sheet sets, so that a page can be dark or printed.

use std::fmt::Write;

use super::bars::{bars, steps_down};
use super::escaped::escaped;
use super::gather::{Memory, Shown};
use super::lane::Row;
use crate::core::program::MemoryClass;
use crate::read::analysis::report::Report;
use crate::read::analysis::waterfall_report::BarsReport;

/// Width of all drawings in their own units, and where the scale begins.
pub const WIDTH: f64 = 1200.0;
pub const LEFT: f64 = 190.0;
/// Height of the row of a rank; its lanes begin and end so far down.
pub const ROW: f64 = 40.0;
pub const LANES: [(f64, f64); 3] = [(2.0, 18.0), (19.0, 27.0), (28.0, 36.0)];
/// What each lane is: class names of its shapes begin with it.
pub const CLASSES: [&str; 3] = ["p", "s", "c"];

/// A drawing of `height` with what `inside` writes.
pub(super) fn drawing(id: &str, height: f64, label: &str, inside: &str) -> String {
    format!(
        "<svg id=\"{id}\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">{inside}</svg>",
        escaped(label)
    )
}

pub(super) fn text(out: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let _ = write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{}</text>", escaped(text));
}

/// The name of a line, to the left of the scale; one that is too long for its place stands there narrower, not cut.
pub(super) fn line_name(out: &mut String, y: f64, name: &str) {
    const ROOM: f64 = LEFT - 12.0;
    if 5.8 * name.chars().count() as f64 <= ROOM {
        return text(out, LEFT - 8.0, y, "end", name);
    }
    let (x, name) = (LEFT - 8.0, escaped(name));
    let narrow = format!("textLength=\"{ROOM:.0}\" lengthAdjust=\"spacingAndGlyphs\"");
    let _ = write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"end\" {narrow}>{name}</text>");
}

/// Seconds in a unit that leaves a readable number.
pub fn seconds(s: f64) -> String {
    match s.abs() {
        x if x < 5e-11 => "0".to_owned(),
        x if x >= 1.0 => format!("{s:.3} s"),
        x if x >= 1e-3 => format!("{:.3} ms", s * 1e3),
        _ => format!("{:.1} us", s * 1e6),
    }
}

/// Bytes in a unit that leaves a readable number.
pub fn gib(bytes: f64) -> String {
    match bytes {
        b if b >= 1e12 => format!("{:.2} TiB", b / 1024f64.powi(4)),
        b if b >= 1e9 => format!("{:.1} GiB", b / 1024f64.powi(3)),
        b => format!("{:.1} MiB", b / 1024f64.powi(2)),
    }
}

/// Passes, stalls and communication of each row over the time, and the scale below.
pub fn timeline(rows: &[Row], end_ns: u64) -> String {
    let scale = (WIDTH - LEFT) / end_ns.max(1) as f64;
    let mut out = String::from("<g id=\"names\">");
    for (i, row) in (0..).zip(rows) {
        line_name(&mut out, f64::from(i) * ROW + 14.0, &row.name);
    }
    out.push_str("</g><g id=\"lanes\">");
    for (i, row) in (0..).zip(rows) {
        for ((items, (top, bottom)), class) in row.lanes().into_iter().zip(LANES).zip(CLASSES) {
            let y = f64::from(i) * ROW;
            paths(&mut out, items, class, scale, [y + top, bottom - top]);
        }
    }
    out.push_str("</g><g id=\"ticks\">");
    let height = rows.len() as f64 * ROW;
    for (ns, label) in ticks(end_ns as f64) {
        text(&mut out, LEFT + ns * scale, height + 14.0, "tick", &label);
    }
    out.push_str("</g>");
    drawing("timeline", height + 20.0, "passes, stalls and communication of each rank over time", &out)
}

/// Places and labels of a scale from 0 to `end` in ns: six or so round numbers, in the unit of the last one. The script draws
/// the same when one looks closer.
fn ticks(end: f64) -> Vec<(f64, String)> {
    let rough = (end / 6.0).max(1e-3);
    let decade = 10f64.powf(rough.log10().floor());
    let step = decade * [1.0, 2.0, 5.0, 10.0].into_iter().find(|m| m * decade >= rough).unwrap_or(10.0);
    let (unit, name) =
        [(1e9, "s"), (1e6, "ms"), (1e3, "us")].into_iter().find(|u| end >= u.0).unwrap_or((1.0, "ns"));
    let decimals = (-(step / unit).log10().floor()).max(0.0) as usize;
    let places = (0..).map(|i| f64::from(i) * step).take_while(|ns| *ns <= 0.97 * end);
    places.map(|ns| (ns, format!("{:.decimals$} {name}", ns / unit))).collect()
}

/// One shape for each kind on a lane.
fn paths(out: &mut String, items: &[u64], class: &str, scale: f64, [y, height]: [f64; 2]) {
    let mut shapes: Vec<String> = Vec::new();
    let mut at = 0;
    for item in items.chunks_exact(4) {
        let (start, length, kind) = (at + item[0], item[1], item[2] as usize);
        at = start + length;
        shapes.resize(shapes.len().max(kind + 1), String::new());
        let (x, w) = (LEFT + start as f64 * scale, length as f64 * scale);
        // What is too narrow to be seen would only make the page heavy; a script draws it when one looks closer.
        if w >= 0.15 {
            let _ = write!(shapes[kind], "M{x:.1} {y:.0}h{w:.1}v{height:.0}h-{w:.1}z");
        }
    }
    for (kind, shape) in shapes.iter().enumerate().filter(|(_, shape)| !shape.is_empty()) {
        let _ = write!(out, "<path class=\"{class}{kind}\" d=\"{shape}\"/>");
    }
}

/// Where the time of each stage went.
pub fn breakdown(report: &Report) -> String {
    let step = report.run_time_s;
    let percent = |s: f64| format!("{} ({:.1} %)", seconds(s), 100.0 * s / step);
    let line = |name: String, time: &crate::read::analysis::report::Breakdown| {
        let mut parts = vec![("busy".to_owned(), time.busy_s, format!("kernels: {}", percent(time.busy_s)))];
        for (cause, s) in &time.stalls_s {
            parts.push((format!("s{}", *cause as usize), *s, format!("{}: {}", cause.name(), percent(*s))));
        }
        (name, parts, format!("{:.1} % busy", 100.0 * time.busy_s / step))
    };
    let mut lines = vec![line("mean of all ranks".to_owned(), &report.mean)];
    if report.stages.len() > 1 {
        lines.extend(report.stages.iter().map(|stage| line(format!("stage {}", stage.stage), &stage.time)));
    }
    bars("breakdown", "where the time went", step, &lines)
}

/// What the colours of [`breakdown`] mean, by class, with the share of each in the mean of all ranks; of causes those that
/// can be seen.
pub fn breakdown_key(report: &Report) -> Vec<(String, String)> {
    let percent = |s: f64| 100.0 * s / report.run_time_s;
    let named = |class: String, name: &str, s: f64| (class, format!("{name} {:.1} %", percent(s)));
    let causes = report.mean.stalls_s.iter().filter(|(_, s)| percent(**s) >= 0.05);
    let causes = causes.map(|(cause, s)| named(format!("s{}", *cause as usize), cause.name(), *s));
    [named("busy".to_owned(), "kernels", report.mean.busy_s)].into_iter().chain(causes).collect()
}

/// From the peak of the devices down to MFU, what took how much.
pub fn waterfall(bars: &BarsReport) -> String {
    let lines = bars.groups().into_iter().map(|(group, share, parts)| {
        let mut largest: Vec<_> = parts.iter().filter(|part| !part.what.is_empty()).collect();
        largest.sort_by(|a, b| b.share.abs().total_cmp(&a.share.abs()));
        let named: Vec<String> = largest
            .iter()
            .take(3)
            .map(|part| format!("{} {} {:.1}", part.what, part.part, 100.0 * part.share).replace("  ", " "))
            .collect();
        (group.to_owned(), share, named.join(", "))
    });
    steps_down(lines, bars.mfu)
}

/// Communication by kind: under kernels, while the rank stood still for something else, exposed.
pub fn communication(report: &Report) -> String {
    let most = |of: &std::collections::BTreeMap<_, crate::read::analysis::report::CommunicationReport>| {
        of.values().map(|c| c.ran_s).fold(0.0, f64::max)
    };
    let whole = report
        .stages
        .iter()
        .map(|stage| most(&stage.communication))
        .fold(most(&report.communication), f64::max);
    let mut lines = Vec::new();
    let mut all = |name: &str, of: &std::collections::BTreeMap<crate::read::analysis::kind::OpKind, _>| {
        for (kind, c) in of {
            let c: &crate::read::analysis::report::CommunicationReport = c;
            let part =
                |class: &str, what: &str, s: f64| (class.to_owned(), s, format!("{what}: {}", seconds(s)));
            let parts = vec![
                part("under", "under kernels", c.under_kernels_s),
                part("idle", "while the rank stood still for something else", c.while_idle_s),
                part("exposed", "exposed", c.exposed_s),
            ];
            let after = format!("{}, {} a rank", seconds(c.ran_s), gib(c.bytes));
            lines.push((format!("{name} {}", kind.name()), parts, after));
        }
    };
    all("mean", &report.communication);
    if report.stages.len() > 1 {
        report.stages.iter().for_each(|stage| all(&format!("stage {}", stage.stage), &stage.communication));
    }
    bars("communication", "communication in three parts", whole, &lines)
}

/// Use of the busiest links.
pub fn links(report: &Report) -> String {
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

/// The level of each tier over time, by class, with its capacity as a line.
pub fn memory(tiers: &[Memory], step_ns: u64) -> String {
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

/// What each class holds of a tier, on top of the one before.
fn levels(out: &mut String, tier: &Memory, step_ns: u64, whole: f64) {
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

/// Kernel classes under the roof that the device's peak and its memory make.
pub fn roofline(shown: &Shown) -> Option<String> {
    const HEIGHT: f64 = 300.0;
    let bandwidth = shown.memory_bandwidth?;
    let classes: Vec<_> =
        shown.kernels.iter().filter(|(_, k)| k.flops > 0.0 && k.bytes > 0.0 && k.seconds > 0.0).collect();
    let longest = classes.iter().map(|(_, k)| k.seconds).fold(0.0, f64::max);
    if longest == 0.0 {
        return None;
    }
    let points: Vec<(f64, f64)> =
        classes.iter().map(|(_, k)| (k.flops / k.bytes, k.flops / k.seconds)).collect();
    let low = points.iter().map(|p| p.0).fold(shown.peak_flops / bandwidth / 8.0, f64::min).log10().floor();
    let high = points.iter().map(|p| p.0).fold(shown.peak_flops / bandwidth * 8.0, f64::max).log10().ceil();
    let bottom = points.iter().map(|p| p.1).fold(shown.peak_flops / 100.0, f64::min).log10().floor();
    let top = shown.peak_flops.log10() + 0.2;
    let x = |intensity: f64| LEFT + (intensity.log10() - low) / (high - low) * (WIDTH - LEFT - 130.0);
    let y = |rate: f64| 10.0 + (top - rate.log10()) / (top - bottom) * HEIGHT;
    let mut out = String::new();
    let ridge = shown.peak_flops / bandwidth;
    let start = 10f64.powf(low).max(10f64.powf(bottom) / bandwidth);
    let _ = write!(
        out,
        "<path class=\"capacity\" d=\"M{:.1} {:.1}L{:.1} {:.1}H{:.1}\"/>",
        x(start),
        y(start * bandwidth),
        x(ridge),
        y(shown.peak_flops),
        WIDTH - 100.0
    );
    text(
        &mut out,
        x(ridge) + 6.0,
        y(shown.peak_flops) - 6.0,
        "note",
        &format!("{:.0} TFLOP/s", shown.peak_flops / 1e12),
    );
    for decade in low as i32..=high as i32 {
        text(
            &mut out,
            x(10f64.powi(decade)),
            HEIGHT + 26.0,
            "tick",
            &format!("{} FLOP/byte", 10f64.powi(decade)),
        );
    }
    for decade in bottom as i32..=top as i32 {
        text(
            &mut out,
            LEFT - 8.0,
            y(10f64.powi(decade)),
            "end",
            &format!("{} TFLOP/s", 10f64.powi(decade - 12)),
        );
    }
    let mut placed = Vec::new();
    for ((name, k), (intensity, rate)) in classes.into_iter().zip(points) {
        let radius = 3.0 + 12.0 * (k.seconds / longest).sqrt();
        let title =
            format!("{name}: {} kernels, {}, {:.1} TFLOP/s", k.count, seconds(k.seconds), rate / 1e12);
        let _ = write!(
            out,
            "<circle class=\"kernel\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius:.1}\"><title>{}</title></circle>",
            x(intensity),
            y(rate),
            escaped(&title)
        );
        let [x, y] = free_place(&mut placed, [x(intensity) + radius + 2.0, y(rate) + 3.0], name);
        text(&mut out, x, y, "note", name);
    }
    Some(drawing("roofline", HEIGHT + 34.0, "kernel classes under the roof of the device", &out))
}

/// Where a name can stand without lying over those `placed` before: as near above or below its place as there is room.
fn free_place(placed: &mut Vec<[f64; 3]>, [x, y]: [f64; 2], name: &str) -> [f64; 2] {
    const LINE: f64 = 12.0;
    let width = 6.0 * name.chars().count() as f64;
    let free = |y: f64| {
        let over =
            |other: &[f64; 3]| (other[1] - y).abs() < LINE && other[0] < x + width && x < other[0] + other[2];
        !placed.iter().any(over)
    };
    let lines = (0..).flat_map(|line| [f64::from(line), -f64::from(line)]);
    // As many lines as there are names always have a free one among them.
    let y = lines.map(|line| y + line * LINE).take(4 * placed.len() + 1).find(|y| free(*y)).unwrap_or(y);
    placed.push([x, y, width]);
    [x, y]
}

#[cfg(test)]
mod tests {
    use super::{free_place, ticks};

    #[test]
    fn names_do_not_lie_over_each_other() {
        let mut placed = Vec::new();
        let at = [(0.0, 50.0), (10.0, 51.0), (20.0, 49.0), (300.0, 50.0)];
        let ys: Vec<f64> = at.map(|(x, y)| free_place(&mut placed, [x, y], "gemm-input-grad")[1]).to_vec();
        assert_eq!(ys, [50.0, 63.0, 37.0, 50.0]);
    }

    #[test]
    fn scales_have_round_numbers() {
        let of = |end: f64| ticks(end).into_iter().map(|t| t.1).collect::<Vec<_>>();
        assert_eq!(of(167_902.0), ["0 us", "50 us", "100 us", "150 us"]);
        assert_eq!(of(129_012_000.0), ["0 ms", "50 ms", "100 ms"]);
        assert_eq!(of(2.6e9), ["0.0 s", "0.5 s", "1.0 s", "1.5 s", "2.0 s", "2.5 s"]);
        assert_eq!(of(26e9)[1], "5 s");
    }
}
