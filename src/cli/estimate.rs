//! `stepsim estimate`: the closed form of one training step.

mod own;

use std::path::PathBuf;

use comfy_table::{CellAlignment, Table, presets};

use super::run::write_json;
use super::{Failure, say};
use crate::analytic::{self, Estimate, Layer, OverCapacity, PerBlock, Quirks};
use crate::spec::calculon::Calculon;

/// The closed form of one training step: time term by term, memory, efficiencies.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Workload: the name of a shipped one, or a path that ends in .json [default: gpt3-175b]
    #[arg(conflicts_with = "calculon")]
    workload: Option<String>,
    /// Machine: a name, a path, or a simple one like `switch:8,450,1` [default: the one the workload names]
    #[arg(short, long, conflicts_with = "calculon")]
    topology: Option<String>,
    /// Change a field: `batch.global=768`, `topology.nodes=16`; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE", conflicts_with = "calculon")]
    sets: Vec<String>,
    /// Calculon's application, execution and system file (.json or .json.gz), read unchanged
    #[arg(long, num_args = 3, value_names = ["APP", "EXE", "SYS"])]
    calculon: Option<Vec<PathBuf>>,
    /// Calculon's arithmetic with all its known defects (the default)
    #[arg(long, conflicts_with = "repaired", requires = "calculon")]
    as_published: bool,
    /// The same model with its known defects repaired
    #[arg(long, requires = "calculon")]
    repaired: bool,
    /// Switch one defect on or off; repeatable
    #[arg(long, requires = "calculon", value_name = "NAME=on|off", value_parser = parse_quirk)]
    quirk: Vec<(String, bool)>,
    /// Write the numbers as JSON: Calculon's 96 outputs by name, or the terms of a workload
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print the cost of every layer of a block too
    #[arg(long, requires = "calculon")]
    layers: bool,
}

/// Reads `name=on` or `name=off`.
fn parse_quirk(text: &str) -> Result<(String, bool), String> {
    let known = || format!("allowed: {}, each with =on or =off", Quirks::NAMES.join(", "));
    let (name, state) = text.split_once('=').ok_or_else(known)?;
    let on = match state {
        "on" => true,
        "off" => false,
        _ => return Err(known()),
    };
    if Quirks::NAMES.contains(&name) { Ok((name.to_string(), on)) } else { Err(known()) }
}

impl Args {
    fn quirks(&self) -> Quirks {
        let mut quirks = if self.repaired { Quirks::REPAIRED } else { Quirks::AS_PUBLISHED };
        for (name, on) in &self.quirk {
            quirks.set(name, *on);
        }
        quirks
    }
}

/// Estimates, writes the report if one is asked for, prints the tables.
///
/// # Errors
/// A file that cannot be read or is wrong, a step that does not fit in memory (status 2); a report that cannot be
/// written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    for (i, (name, _)) in args.quirk.iter().enumerate() {
        if args.quirk[..i].iter().any(|earlier| earlier.0 == *name) {
            return Err(Failure::input(format!(
                "--quirk {name}: given twice\n  hint: switch each defect once"
            )));
        }
    }
    say(&match args.calculon.as_deref() {
        Some([app, exe, sys]) => calculon(args, &Calculon::load(app, exe, sys).map_err(Failure::input)?)?,
        _ => own::run(args)?,
    })
}

/// The closed form of Calculon's files, as text.
fn calculon(args: &Args, case: &Calculon) -> Result<String, Failure> {
    let quirks = args.quirks();
    let estimate = analytic::estimate(case, quirks);
    estimate.fits().map_err(|over| Failure::input(does_not_fit(case, &estimate, over)))?;
    if let Some(path) = &args.report {
        write_json(path, &estimate.outputs().to_json())?;
    }
    let mut text = summary(case, &estimate, quirks);
    if args.layers {
        text += "\n";
        text += &layer_table(&estimate.layers);
    }
    Ok(text)
}

fn gib(bytes: f64) -> f64 {
    bytes / (1u64 << 30) as f64
}

/// What is over capacity, by how much, and what holds it.
pub(super) fn does_not_fit(case: &Calculon, estimate: &Estimate, over: OverCapacity) -> String {
    let OverCapacity { tier, needed, capacity } = over;
    let held = if tier == 1 { &estimate.memory.tier1 } else { &estimate.memory.tier2 };
    let holders: Vec<String> = held
        .named()
        .into_iter()
        .filter(|holder| holder.1 > 0.0)
        .map(|(name, bytes)| format!("{name} {:.2} GiB", gib(bytes)))
        .collect();
    format!(
        "{}: mem{tier}.GiB: the step needs {:.2} GiB in tier {tier}, {:.2} GiB more than the {:.2} GiB there are\n  \
         held by: {}\n  hint: raise tensor_par, pipeline_par or (with optimizer_sharding) data_par, recompute more, or {}",
        case.names().system,
        gib(needed),
        gib(needed - capacity),
        gib(capacity),
        holders.join(", "),
        if tier == 1 { "offload to mem2" } else { "offload less" },
    )
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Tables of time, memory and efficiencies.
fn summary(case: &Calculon, estimate: &Estimate, quirks: Quirks) -> String {
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

/// Terms in seconds, each with its share of their sum.
fn term_table(terms: &[(&str, f64)]) -> Table {
    let total: f64 = terms.iter().map(|term| term.1).sum();
    let mut table = table(&["step", "seconds", "share"]);
    for (name, seconds) in terms.iter().chain(&[("total", total)]) {
        table.add_row([
            name.to_string(),
            format!("{seconds:.6}"),
            format!("{:.2} %", 100.0 * seconds / total),
        ]);
    }
    table
}

fn memory_table(case: &Calculon, estimate: &Estimate) -> Table {
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
fn layer_table(layers: &[Layer]) -> String {
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
        let sum = |part: fn(&PerBlock<analytic::Comm>) -> f64| all.iter().map(|c| part(c)).sum::<f64>();
        let stages = [&layer.forward, &layer.agrad, &layer.wgrad, &layer.optimizer].map(|stage| stage.time);
        let comms = [sum(|c| c.base.link_time), sum(|c| c.base.exposed_time)];
        let micro = stages.into_iter().chain(comms).map(|seconds| format!("{:.2}", seconds * 1e6));
        let kept = [layer.weight_bytes, layer.shape.stored_bytes].map(|bytes| format!("{:.3}", bytes / 1e6));
        table.add_row(std::iter::once(layer.name.to_string()).chain(micro).chain(kept));
    }
    format!("{}\n", table.trim_fmt())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &[&str]) -> Result<Args, clap::Error> {
        let files = ["estimate", "--calculon", "a.json", "e.json", "s.json"];
        Command::try_parse_from(files.iter().chain(line)).map(|command| command.args)
    }

    #[test]
    fn quirks_come_from_setting_and_switches() {
        let quirks = |line: &[&str]| parse(line).expect("a valid line").quirks();
        assert_eq!(quirks(&[]), Quirks::AS_PUBLISHED);
        assert_eq!(quirks(&["--repaired"]), Quirks::REPAIRED);
        let one = quirks(&["--repaired", "--quirk", "pipe_tile_twice=on"]);
        assert_eq!(one, Quirks { pipe_tile_twice: true, ..Quirks::REPAIRED });
        let rest = quirks(&["--as-published", "--quirk", "pipe_tile_twice=off"]);
        assert_eq!(rest, Quirks { pipe_tile_twice: false, ..Quirks::AS_PUBLISHED });
    }

    #[test]
    fn a_workload_or_calculons_files() {
        let files = parse(&[]).expect("a valid line").calculon.map(|files| files.len());
        assert_eq!(files, Some(3));
        assert!(parse(&["gpt3-175b"]).is_err(), "both");
        let alone = |line: &[&str]| Command::try_parse_from(line).map(|command| command.args);
        assert_eq!(
            alone(&["estimate", "llama3-8b-fsdp"]).expect("valid").workload.as_deref(),
            Some("llama3-8b-fsdp")
        );
        assert!(alone(&["estimate", "--repaired"]).is_err(), "quirks are Calculon's");
    }

    #[test]
    fn contradictions_and_unknown_switches_are_refused() {
        assert!(parse(&["--repaired", "--as-published"]).is_err());
        let text = parse(&["--quirk", "pipe=on"]).expect_err("no such switch").to_string();
        assert!(text.contains("pipe_tile_twice"), "{text}");
    }
}
