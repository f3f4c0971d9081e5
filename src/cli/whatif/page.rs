//! The page about what-ifs.

use crate::command_line::command;
use stepsim_read::analysis::candidates::Candidate;
use stepsim_simulate::Head;
use stepsim_simulate::page::lane::Looks;
use stepsim_simulate::page::sheet::{Sheet, SignedBar, quoted, seconds, signed, table};
use stepsim_simulate::whatif::{WhatIf, WhatIfs};

/// Each change or candidate as a bar and as a row, the largest gain first.
///
/// # Errors
/// If the result cannot be written as JSON.
pub(super) fn page(result: &WhatIfs, head: &Head) -> serde_json::Result<String> {
    let title = format!("What if: {} on {}", result.workload, result.topology);
    let mut sheet = Sheet::new(&title, Looks::default(), &[]);
    let lines = lines(result);
    facts(&mut sheet, result, &lines);
    let note = "The step with each change, over the step without: green is faster, orange slower.";
    sheet.section("What each change buys", note, |out| out.push_str(&signed("change of the step", &lines)));
    let rows: Vec<Vec<String>> = match result.changes.as_slice() {
        [] => result.candidates.iter().map(|c| candidate(c, result.step_time_s)).collect(),
        changes => changes.iter().map(change).collect(),
    };
    let heads: &[&str] = match result.changes.as_slice() {
        [] => &["what", "otherwise", "how", "step", "change", "itself", "others wait"],
        _ => &["what if", "step", "change"],
    };
    let words = if result.changes.is_empty() { 3 } else { 1 };
    sheet.section("Every change", "Each is a run.", |out| table(out, heads, words, rows));
    sheet.command(&command(), head, &[]);
    sheet.finish(serde_json::json!({}), result)
}

/// A bar for each change or candidate.
fn lines(result: &WhatIfs) -> Vec<SignedBar> {
    let of_change = |w: &WhatIf| SignedBar { name: w.what.clone(), value: w.change, note: percent(w.change) };
    let of_candidate = |c: &Candidate| {
        let change = c.step_s / result.step_time_s - 1.0;
        SignedBar { name: format!("{}; {}", c.what, c.otherwise), value: change, note: percent(change) }
    };
    result.changes.iter().map(of_change).chain(result.candidates.iter().map(of_candidate)).collect()
}

fn facts(sheet: &mut Sheet, result: &WhatIfs, lines: &[SignedBar]) {
    let mut facts = vec![(seconds(result.step_time_s), "a step, unchanged".to_owned())];
    if let Some(best) = lines.first() {
        let step = result.step_time_s * (1.0 + best.value);
        facts.push((seconds(step), format!("a step: {}", best.name)));
        facts.push((percent(best.value), format!("the largest of {} changes", lines.len())));
    }
    if let Some(answer) = &result.answer {
        sheet.lead(&answer.hangs_on);
    }
    sheet.facts(facts);
}

fn change(w: &WhatIf) -> Vec<String> {
    vec![w.what.clone(), seconds(w.step_time_s), percent(w.change)]
}

fn candidate(c: &Candidate, step_s: f64) -> Vec<String> {
    let texts = [c.what.clone(), c.otherwise.clone(), c.arguments(quoted), seconds(c.step_s)];
    let shares = [c.step_s / step_s - 1.0, -c.own_s / step_s, -c.induced_s / step_s].map(percent);
    texts.into_iter().chain(shares).collect()
}

/// A change of the step; a change that is none stands as a dot.
fn percent(change: f64) -> String {
    let text = format!("{:.2} %", 100.0 * change.abs());
    match text.as_str() {
        "0.00 %" => "·".to_owned(),
        _ if change < 0.0 => format!("−{text}"),
        _ => format!("+{text}"),
    }
}
