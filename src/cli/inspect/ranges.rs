//! Numbers as people say them.

use std::fmt::Write;

/// Numbers in order as text: `0–7`, `0, 8, 16 … 120 (16 of them)`, `0–3, 12–15`.
pub(super) fn ranges(numbers: &[u32]) -> String {
    if let [first, second, .., last] = numbers {
        let step = second.saturating_sub(*first);
        if step > 1 && numbers.len() > 3 && numbers.windows(2).all(|w| w[1].saturating_sub(w[0]) == step) {
            return format!("{first}, {second} … {last} ({} of them)", numbers.len());
        }
    }
    let mut out = String::new();
    for run in numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
        let separator = if out.is_empty() { "" } else { ", " };
        let _ = match run {
            [one] => write!(out, "{separator}{one}"),
            [first, .., last] => write!(out, "{separator}{first}–{last}"),
            [] => Ok(()),
        };
    }
    out
}
