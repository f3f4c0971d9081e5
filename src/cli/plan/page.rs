//! The page about a plan.

use crate::command_line::command;
use stepsim_core::units::grouped;
use stepsim_read::analysis::cost::joules_in_words;
use stepsim_simulate::page::lane::Looks;
use stepsim_simulate::page::sheet::{Sheet, gib, seconds, table};
use stepsim_study::plan::{Planned, RunPlan};

/// The step, where each part of the run comes from, and the next commands.
///
/// # Errors
/// If the workload cannot be written as JSON.
pub(super) fn page(plan: &RunPlan, planned: &Planned, next: &[String]) -> serde_json::Result<String> {
    let mut sheet = Sheet::new(&format!("{} on {}", plan.name, plan.on), Looks::default(), &[]);
    facts(&mut sheet, planned);
    sheet.lead(&format!("A step takes {}", planned.range));
    let row = |class: &str, why: &str| vec![class.to_owned(), why.to_owned()];
    let rows = plan
        .classes()
        .into_iter()
        .flat_map(|(class, lines)| lines.into_iter().map(move |line| row(class, line)));
    let missed = plan.not_understood.iter().map(|words| row("not understood", words));
    let rows: Vec<_> = rows.chain(missed).chain([row("layout", &planned.layout)]).collect();
    let note = "Stated, from the model, the software's default, or assumed because nothing says it.";
    sheet.section("Where each part comes from", note, |out| table(out, &["", "what"], 2, rows));
    sheet.section("What to do next", "", |out| {
        table(out, &["command"], 1, next.iter().map(|command| vec![command.clone()]));
    });
    sheet.command(&command(), &serde_json::Value::Null, &[]);
    sheet.finish(serde_json::json!({}), &plan.workload)
}

fn facts(sheet: &mut Sheet, planned: &Planned) {
    let mut facts = vec![
        (seconds(planned.step_s), "a step".to_owned()),
        (format!("{:.1} %", 100.0 * planned.mfu), "MFU".to_owned()),
        (grouped(planned.tokens_per_s_per_device.round() as u64), "tokens per second and device".to_owned()),
    ];
    facts.extend(planned.memory_bytes.map(|bytes| {
        let of = planned.capacity_bytes.map_or(String::new(), |all| format!(", of {}", gib(all)));
        (gib(bytes as f64), format!("of memory on the fullest device{of}"))
    }));
    let cost = planned.cost.as_ref();
    let usd = cost.and_then(|cost| cost.usd_per_million_tokens);
    let joules = cost.and_then(|cost| cost.joules_per_token).map(|joules| 1e6 * joules);
    let costs = [usd.map(|usd| format!("{usd:.3} $")), joules.map(joules_in_words)];
    facts.extend(costs.into_iter().flatten().map(|cost| (cost, "a million tokens".to_owned())));
    sheet.facts(facts);
}
