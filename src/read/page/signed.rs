//! Lines of what is gained and lost: bars to both sides of a common zero.

use super::bars::{self, Bar, BarLine};

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
    let x = |value: f64| (value - low) / (high - low).max(f64::MIN_POSITIVE);
    let bar = |value: f64, class: &str, lane| Bar {
        class: class.to_owned(),
        from: x(value.min(0.0)),
        to: x(value.max(0.0)),
        lane,
        title: String::new(),
    };
    let line = |line: &Signed| {
        let value = bar(line.value, if line.value > 0.0 { "loss" } else { "gain" }, [2.0, 12.0]);
        let foretold = line.foretold.map(|foretold| bar(foretold, "foretold", [15.0, 3.0]));
        let bars = [value].into_iter().chain(foretold).collect();
        BarLine { name: line.name.clone(), bars, note: line.note.clone() }
    };
    bars::lines("changes", title, Some(x(0.0)), &lines.iter().map(line).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_lie_left_of_zero_and_losses_right() {
        let line = |value, foretold| Signed { name: "nic × 2".into(), value, foretold, note: String::new() };
        let drawn = signed("what if", &[line(-0.5, None), line(0.5, Some(1.0))]);
        // From −0.5 to 1: zero is a third from the left.
        assert!(drawn.contains("class=\"gain\" x=\"0.00%\" y=\"2\" width=\"33.33%\""), "{drawn}");
        assert!(drawn.contains("class=\"loss\" x=\"33.33%\" y=\"2\" width=\"33.33%\""), "{drawn}");
        assert_eq!(drawn.matches("foretold").count(), 1);
    }
}
