//! The verdict in words.

use std::fmt::Write as _;

use super::judge::NEAR;
use super::verdict::{Judgement, StepVerdict};

/// Causes that are told.
const SHOWN: usize = 2;

impl StepVerdict {
    /// The verdict in four lines; `all` lists every cause.
    pub fn words(&self, all: bool) -> String {
        let mut text = self.head();
        let shown = if all { usize::MAX } else { SHOWN };
        // Played steps in terms of the reference.
        let scale = self.reference_s.map_or(1.0, |reference| reference / self.answer.step_time_s);
        for (i, class) in self.causes.iter().take(shown).enumerate() {
            let told = if all { class.causes.len() } else { 2 };
            let each = class.causes.iter().take(told);
            let each: Vec<String> =
                each.map(|cause| format!("{}: {:.3} s", cause.what, scale * cause.step_s)).collect();
            let _ = match self.judgement {
                Judgement::Normal => writeln!(text, "  unless {} by the clock", each.join("; or ")),
                _ => writeln!(text, "  {}. {}", i + 1, each.join("; or ")),
            };
        }
        self.rest(&mut text);
        if all {
            for (what, most) in &self.dropped {
                let _ = writeln!(text, "  not {what}: {:.3} s at most", scale * most);
            }
        }
        text
    }

    /// The judgement, the distance and the range.
    fn head(&self) -> String {
        let (m, s) = (self.measured_s, self.reference_s.unwrap_or(self.answer.step_time_s));
        let word = match self.judgement {
            Judgement::Normal => "normal",
            Judgement::Slow => "slow",
            Judgement::Fast => "faster than it can well be",
            Judgement::Impossible => "impossible: more than the peak of the devices",
            Judgement::Unknown if m > s => "no range is known; slower than simulated",
            Judgement::Unknown => "no range is known; faster than simulated",
        };
        let expected = match (self.reference_s, self.answer.range_s) {
            (Some(reference), _) => format!("{reference:.3} s before"),
            (None, Some([low, high])) => {
                let wide = self.nine_in_ten_s.filter(|_| m < low || m > high);
                let wide = wide.map(|[low, high]| format!(" ({low:.3} to {high:.3} s of nine in ten)"));
                format!("{low:.3} to {high:.3} s expected{}", wide.unwrap_or_default())
            }
            (None, None) => format!("{s:.3} s simulated"),
        };
        let way = if m > s { "longer" } else { "shorter" };
        let far = format!("{:.3} s {way} than {s:.3} s ({:.2} times)", (m - s).abs(), m / s);
        let why = if self.answer.range_s.is_none() && self.reference_s.is_none() {
            format!("\n  {}", self.answer.range)
        } else {
            String::new()
        };
        let read = if self.read_as.is_empty() { String::new() } else { format!(" ({})", self.read_as) };
        format!("{word}: {m:.3} s a step{read}, {expected}: {far}{why}\n")
    }

    /// How sure that is, and what tells the first two apart.
    fn rest(&self, text: &mut String) {
        if self.judgement == Judgement::Normal {
            if !self.answer.hangs_on.is_empty() {
                let _ = writeln!(text, "  it hangs on: {}", self.answer.hangs_on);
            }
            return;
        }
        let should = self.reference_s.unwrap_or(self.answer.step_time_s);
        if self.causes.is_empty() && (self.measured_s / should).ln().abs() > NEAR {
            *text +=
                "  no single cause that is played reaches it: two together, or one that is not known here\n";
        }
        match &self.telling {
            Some(telling) if telling.seconds.is_some() => {
                let [a, b] = telling.seconds.unwrap_or_default();
                let _ = writeln!(
                    text,
                    "  tells 1 from 2: {} (--also '{} SPEED'): {a:.3} s if 1, {b:.3} s if 2",
                    telling.what,
                    telling.sets.join(" ")
                );
            }
            Some(telling) => {
                let _ = writeln!(text, "  shows 1: {}", telling.what);
            }
            None => {}
        }
        if !self.is_told && self.causes.len() > SHOWN {
            let all = self.causes.len();
            let what = "one profile of ten steps does (stepsim analyze)";
            let _ = writeln!(
                text,
                "  one number does not tell: causes of {all} classes reach it (--all); {what}"
            );
        }
        if !self.answer.doubts.is_empty() {
            let _ = writeln!(text, "  doubtful, and may be why: {}", self.answer.doubts.join("; "));
        }
    }
}
