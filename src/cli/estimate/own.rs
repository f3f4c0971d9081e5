//! The closed form of our own workloads, as text and as JSON.

use serde_json::{Map, Value, json};

use super::{Args, gib, table, term_table};
use crate::analytic::own::{OwnEstimate, Rules};
use crate::cli::Failure;
use crate::cli::run::write_json;
use crate::compare::own::closed_form;
use crate::simulate::Inputs;

/// What is estimated when nothing is named.
const EXAMPLE: &str = "gpt3-175b";

/// Estimates a workload on a machine.
pub(super) fn run(args: &Args) -> Result<String, Failure> {
    let name = args.workload.as_deref().unwrap_or(EXAMPLE);
    let inputs = Inputs::load(name, args.topology.as_deref(), &args.sets).map_err(Failure::input)?;
    let estimate = closed_form(&inputs).map_err(Failure::input)?;
    if let Some(path) = &args.report {
        write_json(path, &report(&estimate))?;
    }
    Ok(summary(&inputs, &estimate))
}

/// Seconds, bytes and counts, with units in the names.
fn report(estimate: &OwnEstimate) -> Value {
    let keyed = |pairs: &[(&str, f64)], unit: &str| -> Map<String, Value> {
        let key = |name: &str| format!("{}_{unit}", name.replace(", ", "_").replace(' ', "_"));
        pairs.iter().map(|(name, value)| (key(name), json!(value))).collect()
    };
    let r = &estimate.rules;
    json!({
        "total_s": estimate.terms.total(),
        "terms": keyed(&estimate.terms.named(), "s"),
        "model_flop_utilisation": estimate.mfu,
        "model_flops": estimate.model_flops,
        "tokens": estimate.tokens,
        "device_memory": keyed(&estimate.fullest().named(), "bytes"),
        "device_memory_bytes": estimate.fullest().total(),
        "device_capacity_bytes": estimate.capacity,
        "rules": {
            "parameters": r.parameters,
            "active_parameters": r.active_parameters,
            "twelve_l_h2": r.twelve_l_h2,
            "bytes_per_parameter": r.bytes_per_parameter,
            "bytes_per_parameter_sharded": r.bytes_per_parameter_sharded,
            "six_p_d_flops": r.six_p_d,
            "six_p_d_at_peak_s": r.six_p_d_time,
            "ideal_bubble_share": r.ideal_bubble,
            "tokens_per_micro_batch": r.tokens_per_micro_batch,
            "tokens_per_replica": r.tokens_per_replica,
            "data_parallel_tokens": r.data_parallel_tokens,
            "fsdp_tokens": r.fsdp_tokens,
            "tensor_degree": r.tensor_degree,
        },
    })
}

fn summary(inputs: &Inputs, estimate: &OwnEstimate) -> String {
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
    text += &format!("\n{}\n", rule_table(&estimate.rules, total).trim_fmt());
    text
}

fn rule_table(r: &Rules, total: f64) -> comfy_table::Table {
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
