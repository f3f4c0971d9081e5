//! Lines of what is gained and lost: bars to both sides of a common zero.

use std::fmt::Write;

use super::draw::{LEFT, WIDTH, drawing, line_name, rect, text};

/// Height of a line, and room to the right of the bars for what stands behind them.
const LINE: f64 = 22.0;
const NOTE: f64 = 250.0;

/// One line: bars of `value` and, below it and thinner, of what was `foretold`.
#[derive(Clone, Debug, PartialEq)]
pub struct Signed {
    /// What it is.
    pub name: String,
    /// Its bar: to the left below 0 (`gain`), to the right above (`loss`).
    pub value: f64,
    /// A second bar, if there is one.
    pub foretold: Option<f64>,
    /// What stands behind the bars.
    pub note: String,
}

/// The drawing of `lines`, all at one scale. `title` says what it shows, to those who do not see it.
pub fn signed(title: &str, lines: &[Signed]) -> String {
    let values = || lines.iter().flat_map(|line| [Some(line.value), line.foretold]).flatten();
    let (low, high) = values().fold((0.0f64, 0.0f64), |(low, high), x| (low.min(x), high.max(x)));
    let scale = (WIDTH - LEFT - NOTE) / (high - low).max(f64::MIN_POSITIVE);
    let x = |value: f64| LEFT + (value - low) * scale;
    let mut out = String::new();
    for (i, line) in (0..).zip(lines) {
        let y = f64::from(i) * LINE;
        line_name(&mut out, y + 14.0, &line.name);
        bar(
            &mut out,
            [x(0.0), x(line.value)],
            [y + 2.0, 12.0],
            if line.value > 0.0 { "loss" } else { "gain" },
        );
        if let Some(foretold) = line.foretold {
            bar(&mut out, [x(0.0), x(foretold)], [y + 15.0, 3.0], "foretold");
        }
        let right = [Some(line.value), line.foretold, Some(0.0)].into_iter().flatten().fold(0.0, f64::max);
        text(&mut out, x(right) + 6.0, y + 14.0, "note", &line.note);
    }
    let (zero, height) = (x(0.0), lines.len() as f64 * LINE + 4.0);
    let _ = write!(out, "<path class=\"zero\" d=\"M{zero:.1} 0V{height:.0}\"/>");
    drawing("changes", height, title, &out)
}

fn bar(out: &mut String, [from, to]: [f64; 2], [y, height]: [f64; 2], class: &str) {
    rect(out, class, [from.min(to), y, (from - to).abs().max(0.5), height], "");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_lie_left_of_zero_and_losses_right() {
        let line = |value, foretold| Signed { name: "nic × 2".into(), value, foretold, note: String::new() };
        let drawn = signed("what if", &[line(-0.5, None), line(0.5, Some(1.0))]);
        // 760 units from −0.5 to 1: zero is a third of them from the left.
        let zero = LEFT + (WIDTH - LEFT - NOTE) / 3.0;
        assert!(drawn.contains(&format!("class=\"gain\" x=\"{LEFT:.2}\"")), "{drawn}");
        assert!(drawn.contains(&format!("class=\"loss\" x=\"{zero:.2}\"")), "{drawn}");
        assert_eq!(drawn.matches("foretold").count(), 1);
    }
}
