//! Lines of what is gained and lost: bars to both sides of a common zero.

use super::bars::{self, BarLine, BarSpan};

/// One line: a bar of `value`.
#[derive(Clone, Debug, PartialEq)]
pub struct SignedBar {
    /// Its name.
    pub name: String,
    /// Its bar: to the left below 0 (`gain`), to the right above (`loss`).
    pub value: f64,
    /// The note behind the bars.
    pub note: String,
}

/// The drawing of `lines`, all at one scale. `title` says what it shows, to those who do not see it.
pub fn signed(title: &str, lines: &[SignedBar]) -> String {
    let values = lines.iter().map(|line| line.value);
    let (low, high) = values.fold((0.0f64, 0.0f64), |(low, high), x| (low.min(x), high.max(x)));
    let x = |value: f64| (value - low) / (high - low).max(f64::MIN_POSITIVE);
    let line = |line: &SignedBar| {
        let bar = BarSpan {
            class: if line.value > 0.0 { "loss" } else { "gain" }.to_owned(),
            from: x(line.value.min(0.0)),
            to: x(line.value.max(0.0)),
            lane: [2.0, 12.0],
            title: String::new(),
        };
        BarLine { name: line.name.clone(), bars: vec![bar], note: line.note.clone() }
    };
    bars::lines("changes", title, Some(x(0.0)), &lines.iter().map(line).collect::<Vec<_>>())
}
