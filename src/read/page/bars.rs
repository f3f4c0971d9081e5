//! Lines of bars at one scale: a name, its bars, and what is said of them.
//!
//! They are lines of the page, not one drawing: their text has the size of the page's whatever its width, a narrow
//! window shows each name above its bars, and paper breaks between lines.

use std::fmt::Write;

use super::escaped::escaped;

/// A bar: from where to where, 0 to 1 of the scale.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BarSpan {
    pub class: String,
    pub from: f64,
    pub to: f64,
    /// How far down in its line it begins, and its height, in pixels of 20.
    pub lane: [f64; 2],
    pub title: String,
}

/// A line of them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BarLine {
    pub name: String,
    pub bars: Vec<BarSpan>,
    pub note: String,
}

/// Where a bar lies that is alone in its line.
const WHOLE: [f64; 2] = [2.0, 16.0];

/// The lines; `label` says what they show, to those who do not see it. `zero` is marked on the scale.
pub(super) fn lines(id: &str, label: &str, zero: Option<f64>, lines: &[BarLine]) -> String {
    let id = if id.is_empty() { String::new() } else { format!(" id=\"{}\"", escaped(id)) };
    let mut out = format!("<div{id} class=\"lines\" role=\"group\" aria-label=\"{}\">", escaped(label));
    for line in lines {
        let _ = write!(out, "<div><span>{}</span><svg>", escaped(&line.name));
        if let Some(at) = zero {
            let at = 100.0 * at;
            let _ =
                write!(out, "<line class=\"zero\" x1=\"{at:.2}%\" x2=\"{at:.2}%\" y1=\"0\" y2=\"100%\"/>");
        }
        line.bars.iter().for_each(|bar| drawn(&mut out, bar));
        let _ = write!(out, "</svg><span class=\"note\">{}</span></div>", escaped(&line.note));
    }
    out.push_str("</div>");
    out
}

/// A bar, wide enough to be seen.
fn drawn(out: &mut String, bar: &BarSpan) {
    let ([y, height], x, width) = (bar.lane, 100.0 * bar.from, 100.0 * (bar.to - bar.from).max(0.0005));
    let title =
        if bar.title.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(&bar.title)) };
    let _ = write!(
        out,
        "<rect class=\"{}\" x=\"{x:.2}%\" y=\"{y}\" width=\"{width:.2}%\" height=\"{height}\">{title}</rect>",
        bar.class
    );
}

/// A line of [`bars`]: its name, class, value and title of each part, and what is said of them.
pub type BarParts = (String, Vec<(String, f64, String)>, String);

/// Bars of parts of a whole, one line a name.
pub fn bars(id: &str, label: &str, whole: f64, of: &[BarParts]) -> String {
    let line = |(name, parts, note): &BarParts| {
        let mut from = 0.0;
        let bars = parts.iter().filter_map(|(class, value, title)| {
            let to = from + value / whole.max(f64::MIN_POSITIVE);
            let bar = BarSpan { class: class.clone(), from, to, lane: WHOLE, title: title.clone() };
            from = to;
            (bar.to - bar.from > 5e-5).then_some(bar)
        });
        BarLine { name: name.clone(), bars: bars.collect(), note: note.clone() }
    };
    lines(id, label, None, &of.iter().map(line).collect::<Vec<_>>())
}

/// Bars that lead down from the peak to MFU: each with its name, its share and what is in it.
pub fn steps_down(bars: impl Iterator<Item = (String, f64, String)>, mfu: f64) -> String {
    let line = |name: &str, [from, to]: [f64; 2], class: &str, note: String| {
        // Gains may lead above the peak.
        let [from, to] = [from, to].map(|share| share.clamp(0.0, 1.1) / 1.1);
        let bar = BarSpan { class: class.to_owned(), from, to, lane: WHOLE, title: note.clone() };
        BarLine { name: name.to_owned(), bars: vec![bar], note }
    };
    let mut all = vec![line("peak", [0.0, 1.0], "peak", "100 %".to_owned())];
    let mut left = 1.0;
    for (name, share, inside) in bars {
        let (sign, class) = if share < 0.0 { ('+', "gain") } else { ('−', "loss") };
        let to = left - share;
        let note = format!("{sign}{:.1} %  {inside}", 100.0 * share.abs());
        all.push(line(&name, [to.min(left), to.max(left)], class, note));
        left = to;
    }
    all.push(line("MFU", [0.0, mfu], "busy", format!("{:.1} %", 100.0 * mfu)));
    lines("waterfall", "from the peak to MFU", None, &all)
}

/// Two bars a line, one above the other: the name, both values and both as text.
pub fn pairs(of: &[(&str, [f64; 2], [String; 2])]) -> String {
    let whole = of.iter().flat_map(|line| line.1).map(f64::abs).fold(f64::MIN_POSITIVE, f64::max);
    let line = |(name, values, notes): &(&str, [f64; 2], [String; 2])| {
        let bar = |i: usize| {
            let (class, top) = [("a", 1.0), ("b", 11.0)][i];
            let (to, title) = (values[i].abs() / whole, notes[i].clone());
            BarSpan { class: class.to_owned(), from: 0.0, to, lane: [top, 9.0], title }
        };
        BarLine { name: (*name).to_owned(), bars: vec![bar(0), bar(1)], note: notes.join("\n") }
    };
    lines("", "both side by side", None, &of.iter().map(line).collect::<Vec<_>>())
}
