//! `stepsim estimate`: the closed form of one training step.

mod args;
mod rules;

pub use args::Args;
pub(crate) use args::tokens;

use comfy_table::Table;

use super::command_line::EXAMPLE;
use super::screen::note_without_effect;
use super::tables::{gib, table, term_table};
use super::write::{write_json, write_report};
use super::{Failure, calculon, outputs, say};
use stepsim_form::analytic::{Estimate, Rules};
use stepsim_form::compare::formula::quantities;
use stepsim_form::compare::workload::closed_form;
use stepsim_form::compare::{Estimators, not_claimed, unclaimed};
use stepsim_measure::score::ranges::Accuracy;
use stepsim_simulate::Inputs;

/// Estimates, writes the report if one is asked for, prints the tables.
///
/// # Errors
/// A file that cannot be read or is wrong, a step that does not fit in memory (status 2); a report that cannot be
/// written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(case) = calculon::case(args.workload.as_deref(), &args.calculon)? {
        if args.rules || args.topology.is_some() || !args.sets.is_empty() {
            return Err(Failure::input(
                "--rules, --topology and --set are for a workload: make one of Calculon's files with \
                 `stepsim import calculon`",
            ));
        }
        return calculon::alone(&case, args.report.as_deref());
    }
    say(&if args.rooflines { rooflines(args)? } else { workload(args)? })
}

fn rooflines(args: &Args) -> Result<String, Failure> {
    let (text, json) = rules::all_devices()?;
    write_report(args.report.as_deref(), &json)?;
    Ok(text)
}

/// Estimates a workload on a machine.
fn workload(args: &Args) -> Result<String, Failure> {
    let name = args.workload.as_deref().unwrap_or(EXAMPLE);
    let inputs = Inputs::load(name, args.topology.as_deref(), &args.sets)?;
    outputs::apart(&[("--report", args.report.as_deref())], &inputs.files())?;
    if !args.rules {
        note_without_effect(&inputs.without_effect());
    }
    let estimate = closed_form(&inputs)?;
    let rules_of = || rules::RulesOfThumb::new(&inputs, &estimate, args.tokens, args.devices);
    let rules = args.rules.then(rules_of).transpose()?;
    if let Some(path) = &args.report {
        let mut report = estimate.report();
        report["not_claimed"] = unclaimed(&inputs).into();
        report["quantities"] =
            serde_json::to_value(quantities(&Estimators::default(), &inputs)?).unwrap_or_default();
        if let Some(rules) = &rules {
            report["rules_of_thumb"] = rules.json();
        }
        write_json(path, &report)?;
    }
    let mut text = summary(&inputs, &estimate) + "\n";
    if let Some(rules) = &rules {
        text += &format!("{}\n", rules.text());
    }
    if let Some(sentence) = not_claimed(&unclaimed(&inputs)) {
        text += &format!("{sentence}\n");
    }
    let step_s = estimate.terms.total();
    Ok(text + &format!("accuracy: {}\n", Accuracy::of(&inputs, step_s).words(step_s)))
}

fn summary(inputs: &Inputs, estimate: &Estimate) -> String {
    let total = estimate.terms.total();
    let mut text = format!(
        "Closed form of {} on {}, {} devices\n\n{}\n\n",
        inputs.workload.name,
        inputs.topology.name,
        inputs.machine.devices(),
        term_table(&estimate.terms.named()).trim_fmt()
    );
    text += &format!(
        "{:.2} % of peak (model FLOP utilisation), {:.0} tokens/s, busiest pipeline rank {}\n\n",
        100.0 * estimate.mfu,
        estimate.tokens / total,
        estimate.busiest,
    );
    let mut memory = table(&["fullest device memory", "GiB"]);
    let fullest = estimate.fullest();
    let sums = [("total", fullest.total()), ("capacity", estimate.capacity)];
    for (name, bytes) in fullest.named().into_iter().chain(sums) {
        memory.add_row([name.to_string(), format!("{:.3}", gib(bytes))]);
    }
    text += &format!("{}\n", memory.trim_fmt());
    if fullest.total() > estimate.capacity {
        let over = gib(fullest.total() - estimate.capacity);
        text += &format!("does not fit: {over:.3} GiB more than there are\n");
    }
    let workload = &inputs.workload.value;
    let away = workload.offload.classes().iter().any(|class| class.1.iter().any(|p| !p.on_device()));
    if away || workload.sharding().cuts_gradients() {
        text += "memory: copies and reductions taken alone on their links; where they share them, more waits \
                 (see run)\n";
    }
    text += &format!("\n{}\n", rule_table(&estimate.rules, total).trim_fmt());
    text
}

fn rule_table(r: &Rules, total: f64) -> Table {
    let mut table = table(&["rule of thumb", "here", "rule"]);
    let billions = |n: f64| format!("{:.2} G", n / 1e9);
    let seconds = |s: f64| format!("{s:.6} s");
    let limit = |n: f64| if n.is_finite() { format!("{n:.0}") } else { "no limit".to_string() };
    for (name, here, rule) in [
        ("parameters, 12·L·h²", billions(r.parameters), billions(r.twelve_l_h2)),
        ("parameters that a token passes", billions(r.active_parameters), String::new()),
        (
            "bytes per parameter, before and after sharding",
            format!("{}", r.bytes_per_parameter),
            format!("{:.2}", r.bytes_per_parameter_sharded),
        ),
        ("step, 6·P·D at peak", seconds(total), seconds(r.six_p_d_time)),
        ("ideal bubble over useful time", String::new(), format!("{:.2} %", 100.0 * r.ideal_bubble)),
        (
            "tokens per replica and step, data parallelism hides above",
            limit(r.tokens_per_replica),
            limit(r.data_parallel_tokens),
        ),
        (
            "tokens per micro-batch, FSDP gathers hide above",
            limit(r.tokens_per_micro_batch),
            limit(r.fsdp_tokens),
        ),
        ("tensor degree, compute-bound below", String::new(), limit(r.tensor_degree)),
    ] {
        table.add_row([name.to_string(), here, rule]);
    }
    table
}
