//! Figures in lines of a log.

use serde::Deserialize;

/// A figure of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogPoint {
    /// The line.
    pub line: usize,
    /// The number of the step, where the line says it.
    pub step: Option<u64>,
    /// The number of all steps, where it stands behind that.
    pub of: Option<u64>,
    /// The steps that it stands for.
    pub steps: f64,
    /// The figure.
    pub value: f64,
}

/// Words around a figure, which `{}` stands for: `elapsed time per iteration (ms): {}`, `{}s/it`.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct FigurePattern {
    before: String,
    after: String,
}

impl TryFrom<String> for FigurePattern {
    type Error = String;

    fn try_from(text: String) -> Result<FigurePattern, String> {
        let (before, after) = text.split_once("{}").ok_or_else(|| format!("`{text}` has no {{}}"))?;
        Ok(FigurePattern { before: before.to_owned(), after: after.to_owned() })
    }
}

impl FigurePattern {
    /// The figure in a line; the last, where the words stand there several times.
    pub(super) fn find(&self, line: &str) -> Option<f64> {
        if self.before.is_empty() {
            return self.behind_figure(line);
        }
        let begins = |at: &usize| {
            let word = |c: char| c.is_alphanumeric() || c == '_';
            // `timing_s/step:` is another figure than `step:`.
            let inside =
                self.before.starts_with(word) && line[..*at].ends_with(|c: char| word(c) || c == '/');
            !inside
        };
        let places = line.match_indices(&self.before).map(|(at, _)| at).filter(begins);
        places.filter_map(|at| self.figure(&line[at + self.before.len()..])).last()
    }

    /// The figure at the beginning of a text.
    fn figure(&self, text: &str) -> Option<f64> {
        let text = text.trim_start_matches([' ', ':', '=', '\'', '"', '|', '.']);
        let (value, rest) = number(text)?;
        let fits = self.after.is_empty() || rest.trim_start().starts_with(self.after.trim_start());
        (fits && value > 0.0 && value.is_finite()).then_some(value)
    }

    /// The figure in front of words.
    fn behind_figure(&self, line: &str) -> Option<f64> {
        let places = line.match_indices(self.after.as_str());
        let figure = |at: usize| {
            let before = line[..at].trim_end();
            let digits = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
            let text = &before[before.trim_end_matches(digits).len()..];
            number(text).map(|(value, _)| value).filter(|value| *value > 0.0 && value.is_finite())
        };
        places.filter_map(|(at, _)| figure(at)).last()
    }
}

/// The number at the beginning of a text, and what is behind it: `1,234.5`, `1.2e3`, `7.1K`, `1:02:03` in seconds.
fn number(text: &str) -> Option<(f64, &str)> {
    let mantissa = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(text.len());
    let digits = text[..mantissa].trim_end_matches(['.', ',']);
    let mut rest = &text[digits.len()..];
    let mut value: f64 = digits.replace(',', "").parse().ok()?;
    if let Some((exponent, behind)) = rest.strip_prefix(['e', 'E']).and_then(exponent) {
        (value, rest) = (value * 10f64.powi(exponent), behind);
    }
    while let Some(more) = rest.strip_prefix(':') {
        let end = more.find(|c: char| !c.is_ascii_digit()).unwrap_or(more.len());
        let Ok(part) = more[..end].parse::<f64>() else { break };
        (value, rest) = (60.0 * value + part, &more[end..]);
    }
    let unit = |c: char| rest.strip_prefix(c).filter(|behind| !behind.starts_with(char::is_alphabetic));
    match (unit('K').or(unit('k')), unit('M')) {
        (Some(behind), _) => Some((value * 1e3, behind)),
        (_, Some(behind)) => Some((value * 1e6, behind)),
        _ => Some((value, rest)),
    }
}

/// A signed whole number at the beginning of a text, and what is behind it.
fn exponent(text: &str) -> Option<(i32, &str)> {
    let digits = text.trim_start_matches(['+', '-']);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let at = text.len() - digits.len() + end;
    Some((text[..at].parse().ok()?, &text[at..]))
}

/// The lines of a log without colours, with single blanks, dots of tables left out. What a progress bar wrote over
/// itself are lines. A last line without its end is left out: it may be cut inside a number.
pub(super) fn plain_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<&str> = text.split(['\n', '\r']).collect();
    let whole_document = text.trim_end().ends_with(['}', ']', '|']);
    if lines.len() > 1 && !whole_document {
        lines.pop();
    }
    lines.into_iter().map(plain).filter(|line| !line.is_empty()).collect()
}

fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let dots = rest.len() - rest.trim_start_matches('.').len();
        if rest.starts_with("\u{1b}[") {
            let end = rest[2..].find(|c: char| c.is_ascii_alphabetic());
            rest = end.map_or("", |end| &rest[end + 3..]);
            continue;
        }
        let skipped = if dots >= 3 { dots } else { c.len_utf8() };
        match c.is_whitespace() || dots >= 3 {
            true if out.ends_with(' ') || out.is_empty() => {}
            true => out.push(' '),
            false => out.push(c),
        }
        rest = &rest[skipped..];
    }
    out.truncate(out.trim_end().len());
    out
}

/// The figures of a pattern, each with the number of its step.
pub(super) fn figures(lines: &[String], pattern: &FigurePattern, steps: &[FigurePattern]) -> Vec<LogPoint> {
    let step = |line: &String| steps.iter().find_map(|step| step.find(line)).map(|n| n as u64);
    let of = |line: &String, step: u64| {
        let (_, behind) = line.split_once(&format!("{step}/"))?;
        number(behind.trim_start()).map(|(all, _)| all as u64)
    };
    let point = |(at, line): (usize, &String)| {
        let (value, step) = (pattern.find(line)?, step(line));
        Some(LogPoint { line: at, step, of: step.and_then(|step| of(line, step)), steps: 1.0, value })
    };
    lines.iter().enumerate().filter_map(point).collect()
}
