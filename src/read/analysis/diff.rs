//! Two reports side by side: what changed, and by how much.

use std::collections::BTreeMap;

use serde_json::Value;

use super::lines::Lines;
pub use super::lines::{Line, Measure};
use super::registry::{View, in_view};
use super::report::Report;

/// Compares two reports line by line: headline, where the time went, the way from the peak to MFU, communication,
/// kernels by class, memory peaks, then stages and layers where both have as many.
pub fn diff(a: &Report, b: &Report) -> Vec<Line> {
    let mut lines = Lines::default();
    lines.section("step");
    lines.add("step time", Measure::Seconds, a.step_time_s, b.step_time_s);
    lines.add("tokens/s", Measure::TokensPerSecond, a.tokens_per_s, b.tokens_per_s);
    lines.add("MFU", Measure::Fraction, a.mfu, b.mfu);
    lines.add("HFU", Measure::Fraction, a.hfu, b.hfu);
    lines.add("devices", Measure::Count, a.devices as f64, b.devices as f64);
    lines.add("ops", Measure::Count, a.ops as f64, b.ops as f64);
    in_view(View::Difference, &[]).for_each(|reading| reading.compare(a, b, &mut lines));
    let names: BTreeMap<&String, ()> = a.own.keys().chain(b.own.keys()).map(|name| (name, ())).collect();
    for name in names.into_keys() {
        lines.section(name);
        let [of_a, of_b] = [a, b].map(|report| numbers(report.own.get(name)));
        for (unit, ending) in [(Measure::Seconds, "_s"), (Measure::Bytes, "_bytes"), (Measure::Count, "")] {
            let of_unit = |all: &BTreeMap<String, f64>| {
                let unit = |path: &str| ["_s", "_bytes", ""].into_iter().find(|end| path.ends_with(end));
                all.iter()
                    .filter(|(path, _)| unit(path) == Some(ending))
                    .map(|(p, v)| (p.clone(), *v))
                    .collect()
            };
            lines.all(unit, &of_unit(&of_a), &of_unit(&of_b));
        }
    }
    lines.lines
}

/// The numbers of a section by their path in it.
fn numbers(section: Option<&Value>) -> BTreeMap<String, f64> {
    let (mut found, mut left) =
        (BTreeMap::new(), Vec::from_iter(section.map(|value| (String::new(), value))));
    while let Some((path, value)) = left.pop() {
        let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        match value {
            Value::Number(number) => drop(found.insert(path, number.as_f64().unwrap_or(0.0))),
            Value::Array(list) => {
                left.extend(list.iter().enumerate().map(|(i, v)| (below(&i.to_string()), v)))
            }
            Value::Object(fields) => left.extend(fields.iter().map(|(name, v)| (below(name), v))),
            _ => {}
        }
    }
    found
}
