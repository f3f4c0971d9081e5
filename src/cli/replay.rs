//! `stepsim replay`: a measured or imported step played again.

use std::path::{Path, PathBuf};

use super::outputs::WRITTEN;
use super::write::write_json;
use super::{Failure, inputs, say, timeline, width};
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::units::Time;
use stepsim_measure::profile::programs::StepPrograms;
use stepsim_measure::replay::moved::{MachineNetwork, MovedStep, moved};
use stepsim_measure::replay::on_machine::{OnMachine, OnMachineError};
use stepsim_measure::replay::{TimeScale, check, replay};
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_read::analysis::stall_cause::StallCause;
use stepsim_read::analysis::stalls::stalls;
pub use stepsim_read::analysis::table::{grouped, new_table, seconds};
use stepsim_read::trace::{RunMeta, write_file};
use stepsim_spec::SpecError;

/// Play a measured or imported step again, unchanged, with something faster or slower, or on a machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim import kineto rank*.json.gz -o step.json
  stepsim replay step.json                                   the measured step
  stepsim replay step.json --scale cuBLAS=0.8                GEMMs a fifth shorter
  stepsim replay step.json --scale communication=0.5 --scale host=0.5
  stepsim replay step.json --from h100-superpod-8 --to p6-b200          on another network
  stepsim replay step.json --from h100-superpod-1024 --data-parallel 4  four times the replicas
  stepsim replay step.json --on switch:8,400,1 -o step.pftrace          of `import chakra`: collectives over links

The factors scale a class of kernels (as `stepsim analyze` names it), `compute`, `communication`, `memory`, `host`,
a kind of communication (`all-gather`), or `leads`: the time between an op and the last op that it waits for.

With --to, each collective is scaled by the ratio of its times in the models of that machine's network and of the
measured machine's (--from); with --data-parallel N the largest groups have N times the ranks. Facts that the profiles
lack (sizes, places) are listed, and keep their times.

With --on, rank n is device n of a machine, and collectives and messages are flows that share its links. That needs
programs with the partners of each message: `stepsim import chakra` writes them.")]
pub struct Args {
    /// The output of `stepsim import kineto` or `import chakra`
    file: PathBuf,
    /// Play it on this machine: a name, a file, or a simple one like `switch:8,450,1`
    #[arg(long, value_name = "TOPOLOGY", conflicts_with_all = ["from", "scale"])]
    on: Option<String>,
    /// With --on, write the timeline here (.pftrace, .json, .json.gz)
    #[arg(short, long, value_name = "FILE", requires = "on", help_heading = WRITTEN)]
    output: Option<PathBuf>,
    /// A factor on the time of a class of work
    #[arg(long, value_name = "WHAT=FACTOR")]
    scale: Vec<String>,
    /// The machine that was measured: a name, a file, or a simple one like `switch:8,450,1`
    #[arg(long, value_name = "TOPOLOGY")]
    from: Option<String>,
    /// The machine whose network carries the collectives [default: the one that was measured]
    #[arg(long, value_name = "TOPOLOGY", requires = "from")]
    to: Option<String>,
    /// So many times the replicas
    #[arg(long, value_name = "N", requires = "from", default_value_t = 1,
        value_parser = crate::asked::whole::<u32>(1..=1_000_000))]
    data_parallel: u32,
    /// Also write the result as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    report: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The file or a factor is wrong (status 2); the step cannot be played, or a file not be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let step = read(&args.file).map_err(Failure::input)?;
    let scales: Vec<TimeScale> =
        args.scale.iter().map(|s| scale(s)).collect::<Result<_, _>>().map_err(Failure::input)?;
    let file = args.file.display().to_string();
    check(&step, &scales).map_err(|e| Failure::input(e.in_file(&file)))?;
    if let Some(on) = &args.on {
        return on_machine(&step, on, args);
    }
    let unchanged = replay(&step, &[]).map_err(Failure::run)?;
    let moved = args.from.as_deref().map(|from| elsewhere(&step, from, args)).transpose()?;
    let played = moved.as_ref().map_or(&step, |moved| &moved.step);
    check(played, &scales).map_err(|e| Failure::input(e.in_file(&file)))?;
    let changes = !scales.is_empty() || moved.is_some();
    let changed = if changes { replay(played, &scales).map_err(Failure::run)? } else { unchanged };
    let measured = Time::from_ns(step.measured_ns);
    if let Some(path) = &args.report {
        let value = serde_json::json!({
            "step": step.step, "measured_s": measured.s(), "replayed_s": unchanged.s(), "changed_s": changed.s(),
            "collectives": moved.as_ref().map(|m| &m.kinds), "unknown": moved.as_ref().map(|m| &m.unknown),
        });
        write_json(path, &value)?;
    }
    let off = |a: Time, b: Time| 100.0 * (a.s() / b.s().max(f64::MIN_POSITIVE) - 1.0);
    let held = match step.measured_ns {
        0 => format!("replayed {unchanged}"),
        _ => format!("measured {measured}, replayed {unchanged} ({:+.2} %)", off(unchanged, measured)),
    };
    let mut text = format!("{}: {} ranks, {held}\n", step.step, step.ranks.len());
    if communications_untimed(&step) {
        text += "  not known: the time of communication; --on MACHINE gives it\n";
    }
    if changes {
        text += &format!("  with {}: {changed} ({:+.2} %)\n", described(args), off(changed, unchanged));
    }
    if let Some(moved) = &moved {
        text += &collectives(moved);
    }
    say(&text)
}

/// True if communication between ranks has no time of its own, as in execution traces that nobody measured.
fn communications_untimed(step: &StepPrograms) -> bool {
    let ops = step.ranks.iter().flat_map(|rank| &rank.ops);
    ops.filter_map(|op| Some((op.ns, op.collective.as_ref()?))).any(|(ns, c)| ns == 0 && c.ranks.len() > 1)
}

/// Plays the step on a machine.
fn on_machine(step: &StepPrograms, on: &str, args: &Args) -> Result<(), Failure> {
    let network = MachineNetwork::load(on)?;
    let played = OnMachine::play(step, &network).map_err(|e| match e {
        OnMachineError::Spec(e) => Failure::input(e.in_file(&args.file.display().to_string())),
        OnMachineError::Engine(e) => Failure::run(e),
    })?;
    let world = &played.world;
    let (_, times) = stalls(&mut Causes::new(world, &played.record), &mut IdleTimes::new(world));
    let end = played.record.step_end;
    let causes = StallCause::ALL.into_iter().map(|cause| {
        let sum: f64 = times.iter().map(|time| time.stall(cause).s()).sum();
        (cause.name(), sum / times.len().max(1) as f64)
    });
    let stalls: Vec<(&str, f64)> = causes.filter(|(_, s)| *s > 0.0).collect();
    let busy = times.iter().map(|time| time.busy.s()).sum::<f64>() / times.len().max(1) as f64;
    if let Some(path) = &args.report {
        let stalls: serde_json::Map<_, _> =
            stalls.iter().map(|(name, s)| ((*name).to_owned(), (*s).into())).collect();
        let value = serde_json::json!({
            "step": step.step, "on": on, "step_time_s": end.s(), "mean": {"busy_s": busy, "stalls_s": stalls},
            "rank_ends_s": ends(&played), "untold": played.untold,
        });
        write_json(path, &value)?;
    }
    if let Some(path) = &args.output {
        draw(step, on, &played, path)?;
    }
    let mut text = format!(
        "{}: {end} on {on}, {} ranks\n  of a mean rank: busy {}",
        step.step,
        step.ranks.len(),
        Time::from_s(busy)
    );
    for (name, s) in &stalls {
        text += &format!(", {name} {}", Time::from_s(*s));
    }
    text.push('\n');
    if played.untold > 0 {
        text += &format!(
            "  not known: the ranks or sizes of {} communications, which keep their time\n",
            played.untold
        );
    }
    say(&text)
}

/// When the last op of each rank ended.
fn ends(played: &OnMachine) -> Vec<f64> {
    let ops = |rank: RankId| 0..played.world.program_of(rank).ops.len() as u32;
    let last = |rank: RankId| ops(rank).map(|op| played.record.span(rank, OpId(op)).1).max();
    (0..played.record.ranks()).map(|rank| last(RankId(rank)).unwrap_or(Time::ZERO).s()).collect()
}

fn draw(step: &StepPrograms, on: &str, played: &OnMachine, path: &Path) -> Result<(), Failure> {
    let width = step.ranks.len().saturating_sub(1).to_string().len();
    let name = |rank: RankId| format!("rank {:0width$}", step.ranks[rank.index()].rank);
    let mut meta = RunMeta::default();
    meta.text("step", step.step.as_str());
    meta.text("topology", on);
    let ranks = (0..played.record.ranks()).map(RankId);
    timeline::of_whole((&played.world, &played.record), ranks, &name, &meta, |timeline| {
        write_file(&timeline, path).map(drop).map_err(Failure::run)
    })
}

/// The step with its collectives on another network, or among more ranks.
fn elsewhere(step: &StepPrograms, from: &str, args: &Args) -> Result<MovedStep, Failure> {
    let there = args.to.as_deref().map(MachineNetwork::load).transpose().map_err(Failure::input)?;
    let from = MachineNetwork::load(from).map_err(Failure::input)?;
    moved(step, &from, there.as_ref().unwrap_or(&from), args.data_parallel).map_err(Failure::input)
}

/// The changes, in words.
fn described(args: &Args) -> String {
    let network = args.to.iter().map(|to| format!("the network of {to}"));
    let replicas = (args.data_parallel > 1).then(|| format!("{} times the replicas", args.data_parallel));
    let words: Vec<String> = network.chain(replicas).chain(args.scale.iter().cloned()).collect();
    if words.is_empty() { "nothing changed".to_owned() } else { words.join(", ") }
}

/// The moves of collectives, and the unknown part of them.
fn collectives(moved: &MovedStep) -> String {
    let head = ["collectives", "count", "measured", "model of it", "model there", "there"].map(String::from);
    let mut table = new_table(width(), head.to_vec());
    for kind in &moved.kinds {
        let times = [kind.measured_s, kind.model_s, kind.model_there_s, kind.there_s].map(seconds);
        table.add_row([kind.kind.clone(), grouped(kind.count)].into_iter().chain(times));
    }
    let unknown = moved.unknown.iter().map(|what| format!("  not known: {what}\n"));
    format!("\n{table}\n{}", unknown.collect::<String>())
}

fn read(path: &Path) -> Result<StepPrograms, SpecError> {
    inputs::document(path, "what `stepsim import kineto` or `import chakra` writes")
}

fn scale(text: &str) -> Result<TimeScale, SpecError> {
    let wrong = || {
        SpecError::file(format!("--scale {text}"), "is no name with a factor")
            .allowed("WHAT=FACTOR, like `cuBLAS=0.8`")
    };
    let (what, factor) = text.rsplit_once('=').ok_or_else(wrong)?;
    Ok(TimeScale { what: what.to_string(), factor: factor.parse().map_err(|_| wrong())? })
}
