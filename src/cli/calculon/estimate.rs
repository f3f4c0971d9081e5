//! The closed form of Calculon's files, as text and as JSON.

use comfy_table::Table;

use crate::Failure;
use crate::estimate::Args;
use crate::tables::{gib, table, term_table};
use crate::write::write_report;
use stepsim_form::calculon::closed_form;
use stepsim_form::calculon::closed_form::{CalculonEstimate, CalculonLayer, OverCapacity, PerBlock, Quirks};
use stepsim_form::calculon::files::Calculon;

/// The closed form of Calculon's files, as text.
pub(crate) fn text(args: &Args, case: &Calculon) -> Result<String, Failure> {
    let quirks = args.quirks();
    let estimate = closed_form::estimate(case, quirks);
    estimate.fits().map_err(|over| Failure::input(does_not_fit(case, &estimate, over)))?;
    write_report(args.report.as_deref(), &estimate.outputs().to_json())?;
    let mut text = summary(case, &estimate, quirks);
    if args.layers {
        text += "\n";
        text += &layer_table(&estimate.layers);
    }
    Ok(text)
}

/// The tier that is over capacity, by how much, and its contents.
pub(super) fn does_not_fit(case: &Calculon, estimate: &CalculonEstimate, over: OverCapacity) -> String {
    let OverCapacity { tier, needed, capacity } = over;
    let held = if tier == 1 { &estimate.memory.tier1 } else { &estimate.memory.tier2 };
    let holders: Vec<String> = held
        .named()
        .into_iter()
        .filter(|holder| holder.1 > 0.0)
        .map(|(name, bytes)| format!("{name} {:.2} GiB", gib(bytes)))
        .collect();
    format!(
        "{}: mem{tier}.GiB: the step needs {:.2} GiB in tier {tier}, {:.2} GiB more than the {:.2} GiB there \
         are\n  held by: {}\n  hint: raise tensor_par, pipeline_par or (with optimizer_sharding) data_par, \
         recompute more, or {}",
        case.names().system,
        gib(needed),
        gib(needed - capacity),
        gib(capacity),
        holders.join(", "),
        if tier == 1 { "offload to mem2" } else { "offload less" },
    )
}

/// Tables of time, memory and efficiencies.
fn summary(case: &Calculon, estimate: &CalculonEstimate, quirks: Quirks) -> String {
    let exe = case.exe();
    let outputs = estimate.outputs();
    let mut text = format!(
        "Closed form ({quirks}): t {} · p {} · d {} · {} chunks · {} micro-batches of {}\n\n",
        exe.tensor_par,
        exe.pipeline_par,
        exe.data_par,
        exe.pipeline_interleaving,
        case.microbatches(),
        exe.microbatch_size,
    );
    let time = term_table(&estimate.terms.named());
    text += &format!("{}\n\n{}\n\n", time.trim_fmt(), memory_table(case, estimate).trim_fmt());

    let mut rates = table(&["rates", ""]);
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    rates.add_row(["model FLOP utilisation".to_string(), percent(estimate.efficiency.total)]);
    rates.add_row(["while computing".to_string(), percent(estimate.efficiency.compute)]);
    rates.add_row(["share of time computing".to_string(), percent(estimate.efficiency.system)]);
    rates.add_row(["sequences / s".to_string(), format!("{:.4}", estimate.efficiency.sample_rate)]);
    for (name, bandwidth) in [
        ("hides tiled tensor parallelism", outputs.tp_bw_overlap_req),
        ("hides data parallelism, chunks", outputs.dp_bw_overlap_req_chunk),
        ("hides data parallelism, last chunk", outputs.dp_bw_overlap_req_tail),
        ("hides offload", outputs.offload_mem_bw_req),
    ] {
        if bandwidth != 0.0 {
            rates.add_row([name.to_string(), format!("{:.2} GB/s", bandwidth / 1e9)]);
        }
    }
    text += &format!("{}\n", rates.trim_fmt());
    text
}

fn memory_table(case: &Calculon, estimate: &CalculonEstimate) -> Table {
    let memory = &estimate.memory;
    let (tier1, tier2) = (memory.tier1, memory.tier2);
    let mut table = table(&["memory of one processor", "tier 1 GiB", "tier 2 GiB"]);
    for ((name, first), (_, second)) in tier1.named().into_iter().zip(tier2.named()) {
        table.add_row([name.to_string(), format!("{:.3}", gib(first)), format!("{:.3}", gib(second))]);
    }
    table.add_row([
        "total".to_string(),
        format!("{:.3}", gib(tier1.total())),
        format!("{:.3}", gib(tier2.total())),
    ]);
    let sys = case.sys();
    let capacity = [sys.mem1.capacity_gib, sys.mem2.capacity_gib].map(|gib| format!("{gib:.3}"));
    table.add_row(["capacity".to_string(), capacity[0].clone(), capacity[1].clone()]);
    table
}

/// One row a layer: processing and collective time of one micro-batch in microseconds, bytes in MB.
fn layer_table(layers: &[CalculonLayer]) -> String {
    let mut table = table(&[
        "layer",
        "forward us",
        "agrad us",
        "wgrad us",
        "optim us",
        "tp link us",
        "tp exposed us",
        "weights MB",
        "stored MB",
    ]);
    for layer in layers {
        let comm = &layer.comm;
        let all = [&comm.forward, &comm.agrad, &comm.redo];
        let sum = |part: fn(&PerBlock<closed_form::TensorCollective>) -> f64| {
            all.iter().map(|c| part(c)).sum::<f64>()
        };
        let stages = [&layer.forward, &layer.agrad, &layer.wgrad, &layer.optimizer].map(|stage| stage.time);
        let comms = [sum(|c| c.base.link_time), sum(|c| c.base.exposed_time)];
        let micro = stages.into_iter().chain(comms).map(|seconds| format!("{:.2}", seconds * 1e6));
        let kept = [layer.weight_bytes, layer.shape.stored_bytes].map(|bytes| format!("{:.3}", bytes / 1e6));
        table.add_row(std::iter::once(layer.name.to_string()).chain(micro).chain(kept));
    }
    format!("{}\n", table.trim_fmt())
}
