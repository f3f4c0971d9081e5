//! The report of a gate in Markdown, for a pull request.

use std::fmt::Write as _;

use serde_json::Value;

use super::logs::LogGate;
use super::play::{GateChange, GateReport};

const GIB: f64 = (1u64 << 30) as f64;
/// Fields of a change that are named.
const NAMED: usize = 4;

/// A change in percent.
fn percent(part: f64) -> String {
    format!("{:+.1} %", 100.0 * part)
}

impl GateReport {
    /// The report in Markdown; `renew` is the command that makes the baseline anew.
    pub fn markdown(&self, renew: &str) -> String {
        let mut text = format!("### stepsim gate: {}\n\n", self.head());
        text += "| | baseline | now | change | limit |\n|--|--:|--:|--:|--:|\n";
        let [before, after] = [self.before, self.after];
        let mut row = |name: &str, a: String, b: String, change: String, limit: String| {
            let _ = writeln!(text, "| {name} | {a} | {b} | {change} | {limit} |");
        };
        let seconds = |s: f64| format!("{s:.4} s");
        let gib = |bytes: u64| format!("{:.2} GiB", bytes as f64 / GIB);
        let mfu = |mfu: f64| format!("{:.1} %", 100.0 * mfu);
        let [step, memory] = self.limits.map(percent);
        row("step", seconds(before.step_s), seconds(after.step_s), percent(self.step_change), step);
        let bytes = [before, after].map(|side| gib(side.memory_bytes));
        row("memory", bytes[0].clone(), bytes[1].clone(), percent(self.memory_change), memory);
        let points = format!("{:+.1} points", 100.0 * (after.mfu - before.mfu));
        row("MFU", mfu(before.mfu), mfu(after.mfu), points, String::new());
        if !self.changes.is_empty() {
            text += "\n| changed | step with it alone | memory with it alone |\n|--|--:|--:|\n";
        }
        for change in &self.changes {
            text += &self.line(change);
        }
        if self.program_moved() {
            let [then, now] = &self.releases;
            let _ = writeln!(
                text,
                "\nThe program itself moved the baseline's step by {} (agreed on {:.4} s with {then}, now {:.4} s with \
                 {now}); the table compares both with {now}.",
                percent(self.program_change),
                self.agreed.step_s,
                before.step_s
            );
        }
        if self.is_outdated() || !self.passes {
            let _ = writeln!(text, "\nTo agree on it: `{renew}`");
        }
        text
    }

    /// True if the baseline says another step than there is, without a limit being passed.
    fn is_outdated(&self) -> bool {
        self.step_change < -self.limits[0] || self.program_moved()
    }

    /// The verdict in one line.
    fn head(&self) -> String {
        let over = |change: f64, limit: f64| change > limit;
        let mut what = Vec::new();
        if over(self.step_change, self.limits[0]) {
            what.push(format!("the step is {:.1} % longer", 100.0 * self.step_change));
        }
        if over(self.memory_change, self.limits[1]) {
            what.push(format!("memory grows by {:.1} %", 100.0 * self.memory_change));
        }
        let faster = self.step_change < -self.limits[0];
        match (what.is_empty(), faster, self.changes.is_empty(), self.program_moved()) {
            (false, ..) => what.join(", "),
            (_, true, ..) => {
                format!("the step is {:.1} % shorter: agree on it anew", -100.0 * self.step_change)
            }
            (_, _, true, true) => "nothing changed but stepsim".into(),
            (_, _, true, false) => "nothing changed".into(),
            _ => "within the limits".into(),
        }
    }

    fn line(&self, change: &GateChange) -> String {
        let plain = |value: &Value| match value {
            Value::Null => "default".to_owned(),
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        let fields = change.fields.iter().take(NAMED);
        let mut words: Vec<String> =
            fields.map(|(path, [then, now])| format!("`{path}` {} → {}", plain(then), plain(now))).collect();
        if let Some(more) = change.fields.len().checked_sub(NAMED).filter(|more| *more > 0) {
            words.push(format!("and {more} more"));
        }
        let alone = change.alone.map_or("does not run alone | ".into(), |alone| {
            let step = percent(alone.step_s / self.before.step_s - 1.0);
            let memory = percent(alone.memory_bytes as f64 / self.before.memory_bytes.max(1) as f64 - 1.0);
            format!("{step} | {memory}")
        });
        format!("| {} | {alone} |\n", words.join(", "))
    }
}

impl LogGate {
    /// The report in Markdown.
    pub fn markdown(&self) -> String {
        let is_noise = self.step_change.abs() <= 3.0 * self.noise;
        let head = match (self.passes, is_noise) {
            (_, true) => "no difference beyond the noise".to_owned(),
            (true, _) => "within the limit".to_owned(),
            (false, _) => "the step is longer".to_owned(),
        };
        let [before, after] = &self.logs;
        format!(
            "### stepsim gate: {head}\n\n| | |\n|--|--|\n| before | {before} |\n| after | {after} |\n\
             | change | {} ± {:.1} %, limit {} |\n",
            percent(self.step_change),
            100.0 * self.noise,
            percent(self.limit)
        )
    }
}
