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
    /// Reads the lines of a log. Those from `begins` on are the run that counts; the lines before say what it does not
    /// print. A number that is printed twice and differs is none.
    pub(super) fn read(patterns: &[(FigurePattern, String)], lines: &[String], begins: usize) -> LogFacts {
        let (before, own) = lines.split_at(begins);
        let mut fields = numbers(patterns, own);
        for (field, value) in numbers(patterns, before) {
            fields.entry(field).or_insert(value);
        }
        let fields = fields.into_iter().filter_map(|(field, value)| Some((field, value?))).collect();
        LogFacts { fields, line: arguments(own).or_else(|| arguments(before)) }
    }

    /// The line from which on no line prints another global batch than the last: a run may begin with smaller ones.
    pub(super) fn last_batch(patterns: &[(FigurePattern, String)], lines: &[String]) -> usize {
        let of_batch = patterns.iter().filter(|(_, field)| field == "batch.global");
        let change = |(pattern, _): &(FigurePattern, String)| {
            let said: Vec<(usize, f64)> =
                lines.iter().enumerate().filter_map(|(at, line)| Some((at, pattern.find(line)?))).collect();
            let last = said.last()?.1;
            said.iter().rev().find(|(_, batch)| *batch != last).map(|(at, _)| at + 1)
        };
        of_batch.filter_map(change).max().unwrap_or(0)
    }

    /// One of them.
    pub fn get(&self, field: &str) -> Option<u64> {
        self.fields.get(field).copied()
    }
}

/// The numbers that lines print, by field; `None` where they differ.
fn numbers(patterns: &[(FigurePattern, String)], lines: &[String]) -> BTreeMap<String, Option<u64>> {
    let mut fields: BTreeMap<String, Option<u64>> = BTreeMap::new();
    for line in lines {
        for (pattern, field) in patterns {
            let whole = |value: &f64| (value - value.round()).abs() < WHOLE;
            if let Some(value) = pattern.find(line).filter(whole).map(|value| value.round() as u64) {
                let known = fields.entry(field.clone()).or_insert(Some(value));
                *known = known.filter(|known| *known == value);
            }
        }
    }
    fields
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
