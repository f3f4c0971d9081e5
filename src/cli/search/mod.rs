//! `stepsim search`: the best layout of a model on a machine.

pub(crate) mod words;

use std::time::Instant;

use comfy_table::{Table, presets};

use super::asked::{LayoutOptions, above_zero, budget};
use super::progress::TerminalProgress;
use super::tables::{gib, right};
use super::{Failure, say, stopping};
use stepsim_measure::score::ranges::range_in_words;
use stepsim_study::{
    Objective, RankedLayout, SearchOptions, SearchReport, StudyAxis, search, space as units,
};
use words::layout;

/// A layout that is slower by less than this part of the best's step has no reasons.
const SEEN: f64 = 0.0005;

/// Find the best layout of a model on a machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Tensor, sequence, context, pipeline, expert and data parallelism, schedule and chunks, sharding, micro-batch and
recomputation are chosen; the workload's own layout does not count, all else of it does. Every layout is estimated in
closed form. A layout is left out if a lower bound of its memory does not fit, if a lower bound of its time is longer
than every ranked one, or if its estimate is longer than the best simulated one by more than a margin. The rest is
simulated, best estimate first. What takes long says the best so far on the way.

Examples:
  stepsim search llama3-70b
  stepsim search llama3-70b --fix model=qwen2.5-72b -t h100-superpod-64 --report search.json -o best.json
  stepsim search gpt2-8 --fix parallelism.context.size=1 --vary parallelism.tensor=1,5 --max-memory 40
  stepsim search llama3-70b --vary parallelism.pipeline.schedule=1f1b,zb-h1,zb-v,dualpipe-v
  stepsim search llama3-8b-fsdp --offload --vary offload.prefetch.depth=1,2
  stepsim search qwen-vl-7b --placement --fix parallelism.tensor=4 --fix parallelism.context.size=1
  stepsim search llama3-70b -t h100-superpod-64 --devices 64..512 --objective devices --deadline-s 30
  stepsim search llama3-70b --objective cost --fix topology.device.price_USD_per_h=2.5 --devices 64..1024")]
pub struct Args {
    /// Workload: the name of a shipped one, or a file of ours or of training software
    workload: String,
    /// Machine: a count and a name (`64xh100`), a name, a path, or a simple one like `switch:8,450,1`
    /// [default: the one the workload names]
    #[arg(short, long)]
    topology: Option<String>,
    /// Values to try of a field, searched or not: `parallelism.tensor=4,8`; repeatable
    #[arg(long, value_name = "PATH=VALUES")]
    vary: Vec<String>,
    /// The aim: the shortest step, most tokens per second and device, cheapest tokens (the device's
    /// `price_USD_per_h`), tokens of least energy (its `power_W`), fewest devices, or least device memory
    #[arg(long, value_name = "WHAT", default_value = "time", value_parser = Objective::NAMED.map(|(name, _)| name))]
    objective: String,
    /// Longest step that counts, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = above_zero)]
    deadline_s: Option<f64>,
    /// Sizes of the machine to try, doubling its nodes: `64..4096`
    #[arg(long, value_name = "FEWEST..MOST", value_parser = sizes)]
    devices: Option<(u64, u64)>,
    /// How many layouts are ranked
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = crate::asked::whole::<u32>(1..=u32::MAX.into()))]
    top: u32,
    /// Most layouts that are simulated with a result that counts
    #[arg(long, default_value_t = 400, value_name = "N",
        value_parser = crate::asked::whole::<u32>(1..=u32::MAX.into()))]
    most_simulated: u32,
    /// End after this time with the best layout so far (as Ctrl-C does), and say how far it came: `10s`; one layout is
    /// simulated to its end
    #[arg(long, value_name = "SECONDS", value_parser = budget)]
    budget: Option<f64>,
    /// How much longer than the simulation a closed form may be, as a part of it
    #[arg(long, default_value_t = 0.05, value_name = "PART", value_parser = part)]
    margin: f64,
    /// Simulate every layout that the memory does not refute, and say what the search would have missed
    #[arg(long)]
    prove: bool,
    /// Choose too whether activations and optimizer state live on another tier of the machine, and how many layers
    /// ahead they are fetched
    #[arg(long)]
    offload: bool,
    /// Choose too where encoders of a multimodal model run: beside the language model, on stages or on devices of
    /// their own
    #[arg(long)]
    placement: bool,
    #[command(flatten)]
    asked: LayoutOptions,
}

/// Two counts of devices, the fewest and the most.
fn sizes(text: &str) -> Result<(u64, u64), String> {
    let counts = text.split_once("..").and_then(|(a, b)| Some((units::count(a)?, units::count(b)?)));
    counts.ok_or_else(|| "two counts, as in 64..4096".to_string())
}

/// A part of a whole.
fn part(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|part| (0.0..=1.0).contains(part))
        .ok_or_else(|| "a part from 0 to 1".to_string())
}

/// Runs the command.
///
/// # Errors
/// Wrong input, or a space in which nothing fits (status 2); a file that cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let axes = args.vary.iter().map(|text| StudyAxis::parse("--vary", text));
    let vary: Vec<StudyAxis> = axes.collect::<Result<_, _>>().map_err(Failure::input)?;
    let options = SearchOptions {
        vary,
        objective: Objective::named(&args.objective).unwrap_or_default(),
        deadline_s: args.deadline_s,
        devices: args.devices,
        top: args.top as usize,
        most_simulated: args.most_simulated as usize,
        margin: args.margin,
        prove: args.prove,
        offload: args.offload,
        placement: args.placement,
        budget_s: args.budget,
        stop: stopping::token(),
        hear: Some(words::so_far),
        ..args.asked.options()
    };
    let (workload, topology) = (args.workload.as_str(), args.topology.as_deref());
    args.asked.check_outputs(workload, topology)?;
    let begun = Instant::now();
    let found =
        TerminalProgress::over("estimated and simulated", |tell| search(workload, topology, &options, tell))
            .map_err(Failure::input)?;
    args.asked.write_report(&found.report)?;
    let text = text(&found.report, begun.elapsed().as_secs_f64());
    let Some(best) = found.best else {
        say(&text)?;
        return Err(Failure::input(why_none(&found.report)));
    };
    let sets = found.report.ranking.first().map_or(&[][..], |first| &first.sets);
    args.asked.write_best(best, topology, sets)?;
    say(&text)
}

/// Why there is no best layout, and what to do.
fn why_none(report: &SearchReport) -> String {
    let of = |reason: &str| report.pruned.get(reason).copied().unwrap_or_default();
    match report.points {
        0 => "no layout has these values: degrees divide the devices of the machine, and heads, layers or \
              experts of the model; fix fewer fields"
            .to_string(),
        points if of("invalid") == points => {
            "no layout is valid: `stepsim run` with one of them says what is wrong".to_string()
        }
        _ if of("deadline") + report.unfit.get("deadline").copied().unwrap_or_default() > 0 => {
            "no layout ends by the deadline: use more devices, or a later one".to_string()
        }
        _ => "no layout fits: use more devices, offload, or another model".to_string(),
    }
}

/// Counts, ranking and what turns the workload into the best.
fn text(report: &SearchReport, seconds: f64) -> String {
    let of = |reason: &str| report.pruned.get(reason).copied().unwrap_or_default();
    let mut text = format!(
        "{} on {} ({} devices): {} layouts in {seconds:.1} s\n  {} invalid, {} over memory (closed form), {} too \
         slow for certain, {} too slow (closed form, margin {:.0} %), {} simulated\n",
        report.workload,
        report.topology,
        report.devices,
        report.points,
        of("invalid"),
        of("memory"),
        of("floor"),
        of("time"),
        100.0 * report.margin,
        report.simulated,
    );
    for (reason, count) in &report.unfit {
        text += &format!("  of these {count} {reason}\n");
    }
    if let Some(deadline) = report.deadline_s {
        text += &format!("  {} can only take longer than {deadline} s (closed form)\n", of("deadline"));
    }
    if let Some(stopped) = &report.stopped {
        text += &format!("  {}\n", stopped.sentence());
    } else if of("limit") > 0 {
        text += &format!(
            "  {} more were left out by --most-simulated: a margin of {:.1} % holds for the rest\n",
            of("limit"),
            100.0 * report.time_margin_reached
        );
    }
    text += &format!(
        "  the closed form was at most {:.1} % of itself longer than the simulation\n",
        100.0 * report.closed_form_longest
    );
    if let Some(simulating) = &report.simulating {
        text += &format!("  {}\n", simulating.sentence());
    }
    if report.floor_longest > 0.0 {
        text += &format!(
            "  the lower bound of a step was no bound: {:.2} % of itself longer than the simulation\n",
            100.0 * report.floor_longest
        );
    }
    if let Some(proof) = &report.proof {
        text += &format!(
            "  proof: the search by itself simulates {} of the {}, and its best is {:.2} % worse than the \
             best of all; closed form and simulation order them alike to {} (Kendall's tau)\n",
            proof.searched,
            proof.simulated,
            100.0 * proof.regret,
            proof.kendall_tau.map_or("-".to_string(), |tau| format!("{tau:.3}")),
        );
    }
    let Some(best) = report.ranking.first() else { return text };
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header([
        "step",
        "four in five, s",
        "closed form",
        "MFU",
        "memory",
        "devices",
        "$/M tokens",
        "J/token",
        "layout",
    ]);
    let perhaps = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
    for ranked in &report.ranking {
        let outcome = &ranked.outcome;
        table.add_row([
            format!("{:.4} s", outcome.step_time_s.unwrap_or_default()),
            outcome.range_s.map_or(String::new(), range_in_words),
            format!("{:.4} s", ranked.closed_form_s),
            format!("{:.1} %", 100.0 * outcome.mfu.unwrap_or_default()),
            format!("{:.1} GiB", gib(outcome.memory_peak_bytes.unwrap_or_default() as f64)),
            ranked.devices.to_string(),
            perhaps(ranked.usd_per_million_tokens),
            perhaps(ranked.joules_per_token),
            layout(&ranked.settings),
        ]);
    }
    right(&mut table, 0..8);
    text += &format!("\n{}:\n{table}\n", report.objective.order());
    text += &worth_measuring(report);
    text += &why(report);
    text += &format!("\nassumed: {}\n\nthe best:\n", report.assumed.join("; "));
    for set in &best.sets {
        let quote = if set.contains(['{', '[', '"', ' ']) { "'" } else { "" };
        text += &format!("  --set {quote}{set}{quote}\n");
    }
    text
}

/// The best and two that differ from it in kind, each with how far to trust it.
fn worth_measuring(report: &SearchReport) -> String {
    let mut text = String::from("\nworth measuring, ten steps each:\n");
    for ranked in report.worth_measuring() {
        text += &format!("  {}\n", layout(&ranked.settings));
        let behind = ranked.behind.iter().map(|why| format!("not first: {why}"));
        let lines = behind.chain(ranked.advice.iter().flat_map(|advice| advice.lines()));
        text += &lines.map(|line| format!("    {line}\n")).collect::<String>();
    }
    text
}

/// Where the step of the best goes, and what those behind it spend more on.
fn why(report: &SearchReport) -> String {
    let mut text = String::new();
    if let Some(bars) = &report.ranking[0].waterfall {
        let groups = bars.groups();
        let groups = groups.iter().map(|(name, share, _)| format!("{name} {:.1} %", 100.0 * share));
        let groups: Vec<String> = groups.collect();
        text += &format!("\nthe best, of the peak: MFU {:.1} %, {}\n", 100.0 * bars.mfu, groups.join(", "));
    }
    for (place, ranked) in report.ranking.iter().enumerate().filter(|(_, r)| !r.slower_by.is_empty()) {
        let firsts = ranked.slower_by.iter().take(3);
        let firsts: Vec<String> = firsts.map(|r| format!("{} {:+.4} s", r.what, r.more_s)).collect();
        let seconds = |r: &RankedLayout| r.outcome.step_time_s.unwrap_or_default();
        let more = seconds(ranked) - seconds(&report.ranking[0]);
        if more < SEEN * seconds(&report.ranking[0]) {
            continue;
        }
        text += &format!("number {} against it, {more:+.4} s: {}\n", place + 1, firsts.join(", "));
    }
    text
}
