//! Facts that a log prints of its run.

use std::collections::BTreeMap;

use super::line::FigurePattern;

/// Numbers of the run that a log prints, by field of a workload, `devices` among them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogFacts {
    /// By field.
    pub fields: BTreeMap<String, u64>,
    /// The arguments that Megatron prints, as a line that starts it; none where there are none.
    pub line: Option<String>,
}

/// Rounds a product of whole numbers may differ by.
const WHOLE: f64 = 0.01;

impl LogFacts {
    /// Reads the lines of a log. A number that is printed twice and differs is none.
    pub(super) fn read(patterns: &[(FigurePattern, String)], lines: &[String]) -> LogFacts {
        let mut fields: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for line in lines {
            for (pattern, field) in patterns {
                let whole = |value: &f64| (value - value.round()).abs() < WHOLE;
                if let Some(value) = pattern.find(line).filter(whole) {
                    fields.entry(field.clone()).or_default().push(value.round() as u64);
                }
            }
        }
        let one = |values: Vec<u64>| values.iter().all(|v| *v == values[0]).then_some(values[0]);
        let fields = fields.into_iter().filter_map(|(field, values)| Some((field, one(values)?))).collect();
        LogFacts { fields, line: arguments(lines) }
    }

    /// One of them.
    pub fn get(&self, field: &str) -> Option<u64> {
        self.fields.get(field).copied()
    }
}

/// The block of arguments that Megatron prints, as a line of a shell. Names that are off or empty are left out.
fn arguments(lines: &[String]) -> Option<String> {
    let is_edge = |line: &String, word: &str| line.contains(word) && line.contains("-----");
    let begin = lines.iter().position(|line| is_edge(line, " arguments ") && !is_edge(line, "end of"))?;
    let end = lines[begin..].iter().position(|line| is_edge(line, "end of arguments"))?;
    let mut words = vec!["python pretrain_gpt.py".to_owned()];
    for line in &lines[begin + 1..begin + end] {
        // A rank may stand in front: `0: name value`.
        let line =
            line.split_once(": ").filter(|(rank, _)| rank.len() < 6).map_or(line.as_str(), |(_, rest)| rest);
        let Some((name, value)) = line.trim().split_once(' ') else { continue };
        let name = name.replace('_', "-");
        match value.trim() {
            "None" | "False" | "[]" => {}
            "True" => words.push(format!("--{name}")),
            value if value.contains([' ', '\'', '(', '[', '<']) => {}
            value => words.push(format!("--{name} {value}")),
        }
    }
    (words.len() > 1).then(|| words.join(" "))
}
