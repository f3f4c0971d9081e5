//! The page about what-ifs.

use crate::command_line::command;
use stepsim_simulate::Head;
use stepsim_simulate::page::lane::Looks;
use stepsim_simulate::page::sheet::{Sheet, Signed, seconds, signed, table};
use stepsim_simulate::whatif::{Parts, WhatIf, WhatIfs};

/// Each change as a pair of bars and as a row, the largest gain first.
///
/// # Errors
/// If the result cannot be written as JSON.
pub(super) fn page(result: &WhatIfs, head: &Head) -> serde_json::Result<String> {
    let title = format!("What if: {} on {}", result.workload, result.topology);
    let mut sheet = Sheet::new(&title, Looks::default(), &[]);
    facts(&mut sheet, result);
    let note = "The step with each change, over the step without: green is faster, orange slower. The thin grey bar is \
                what the critical path of the unchanged step foretells to first order.";
    let lines: Vec<Signed> = result.changes.iter().map(line).collect();
    sheet.section("What each change buys", note, |out| out.push_str(&signed("change of the step", &lines)));
    let note = "On the path: time that the critical path of the unchanged step spends on it.";
    sheet.section("Every change", note, |out| {
        let heads = ["what if", "where the two part", "step", "change", "on the path", "foretold"];
        table(out, &heads, 2, result.changes.iter().map(|w| row(w, result.step_time_s)));
    });
    sheet.command(&command(), head, &[]);
    sheet.finish(serde_json::json!({}), result)
}

fn facts(sheet: &mut Sheet, result: &WhatIfs) {
    let mut facts = vec![(seconds(result.step_time_s), "a step, unchanged".to_owned())];
    if let Some(best) = result.changes.first() {
        facts.push((seconds(best.step_time_s), format!("a step: {}", best.what)));
        facts.push((percent(best.change), format!("the largest of {} changes", result.changes.len())));
    }
    sheet.facts(facts);
    if let Some(best) = result.changes.first().filter(|best| best.change < 0.0) {
        sheet.lead(&format!(
            "{}: the step takes {} of {}",
            best.what,
            seconds(best.step_time_s),
            seconds(result.step_time_s)
        ));
    }
}

fn line(w: &WhatIf) -> Signed {
    let note = match w.foretold {
        Some(foretold) if w.parts.is_some() => {
            format!("{}, foretold {}", percent(w.change), percent(foretold))
        }
        _ => percent(w.change),
    };
    Signed { name: w.what.clone(), value: w.change, foretold: w.foretold, note }
}

fn row(w: &WhatIf, step_s: f64) -> Vec<String> {
    let parts = match w.parts {
        Some(Parts::PathChanged) => "the critical path becomes another",
        Some(Parts::BoundByMore) => "the ops of the path are bound by other things too",
        None => "",
    };
    let share = |s: f64| match s > 0.0 {
        true => format!("{:.1} %", 100.0 * s / step_s),
        false => "·".to_owned(),
    };
    let path = w.path_s.map_or(String::new(), share);
    let foretold = w.foretold.map_or(String::new(), percent);
    vec![w.what.clone(), parts.to_owned(), seconds(w.step_time_s), percent(w.change), path, foretold]
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
