//! Drawings as SVG text. Shapes have classes whose colours the style sheet sets, so that a page can be dark or printed.

use std::fmt::Write;

use super::escaped::escaped;
use super::lane::TimeRow;

/// Width of all drawings in their own units.
pub const WIDTH: f64 = 1200.0;
/// The beginning of the scale.
pub const LEFT: f64 = 190.0;
/// Height of the row of a rank.
pub const ROW: f64 = 40.0;
/// Beginning and end of its lanes.
pub const LANES: [(f64, f64); 3] = [(2.0, 18.0), (19.0, 27.0), (28.0, 36.0)];
/// The kinds of lanes: class names of their shapes begin with these.
pub const CLASSES: [&str; 3] = ["p", "s", "c"];

/// A drawing of `height` with what `inside` writes.
pub(crate) fn drawing(id: &str, height: f64, label: &str, inside: &str) -> String {
    format!(
        "<svg id=\"{id}\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">{inside}</svg>",
        escaped(label)
    )
}

pub(crate) fn text(out: &mut String, x: f64, y: f64, class: &str, text: &str) {
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
pub fn timeline(rows: &[TimeRow], end_ns: u64) -> String {
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

/// Places and labels of a scale from 0 to `end` in ns: six or so round numbers, in the unit of the last one. The
/// script draws the same when one looks closer.
pub fn ticks(end: f64) -> Vec<(f64, String)> {
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
        // Shapes too narrow to be seen would only make the page heavy; a script draws them when one looks closer.
        if w >= 0.15 {
            let _ = write!(shapes[kind], "M{x:.1} {y:.0}h{w:.1}v{height:.0}h-{w:.1}z");
        }
    }
    for (kind, shape) in shapes.iter().enumerate().filter(|(_, shape)| !shape.is_empty()) {
        let _ = write!(out, "<path class=\"{class}{kind}\" d=\"{shape}\"/>");
    }
}
