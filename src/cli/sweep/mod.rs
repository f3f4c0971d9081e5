//! `stepsim sweep`: many variants of a step.

mod files;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::outputs::WRITTEN;
use super::progress::TerminalProgress;
use super::screen::put;
use super::{Failure, outputs, say};
use files::{PlotOptions, map, table};
use stepsim_form::compare::Formula;
use stepsim_simulate::RunStatus;
use stepsim_simulate::page::sheet::quoted;
use stepsim_study::{
    How, PointSelection, ReportColumns, Row, RowCondition, Space, Study, StudyAxis, StudyBase, StudyError,
    SweepOptions, SweepShard, otherwise::answered, set_text, sweep_each,
};

/// Rows that the terminal shows.
const SHOWN: usize = 20;

/// Run many variants of a step: one row each.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Every combination of the values is a point, and every point a row: its settings, status (`ok`, `invalid`,
`out_of_memory`, `deadlock`, `failed`), step_time_s, tokens_per_s_per_device, mfu, memory_peak_bytes, and exposed
seconds by kind of communication; --columns adds any field of its report. A point that cannot run is a row too.
While the sweep runs, -o grows by one whole line a point; killed at any moment, the same command with --resume goes
on. At the end its rows stand in the order of the points.

A study file holds the same: {\"workload\": \"gpt2-8\", \"topology\": \"dgx-a100-8\", \"set\": {\"batch.global\": 64},
\"vary\": {\"batch.micro_batch\": [1, 2, 4], \"parallelism.tensor\": \"1:8:x2\"}, \"zip\": {}, \"where\": [],
\"sample\": null, \"seed\": 0, \"columns\": [\"hfu\"]}

Examples:
  stepsim sweep gpt2-8 --vary batch.micro_batch=1,2,4 --vary parallelism.tensor=1,5 -o rows.jsonl
  stepsim sweep llama3-70b --vary batch.global=64:1024:x2 --closed-form -o rows.csv
  stepsim sweep gpt2-8 --zip batch.global=32,64 --zip batch.micro_batch=2,4
  stepsim sweep llama3-70b --vary parallelism.tensor=1:8:x2 --vary parallelism.pipeline.size=1:16:x2 \\
    --where 'parallelism.tensor * parallelism.pipeline.size <= 32' --sample 10 -o rows.jsonl \\
    --plot parallelism.tensor,step_time_s,parallelism.pipeline.size --html rows.html
  stepsim sweep gpt3-175b --vary batch.global=64:1024:x2 --form megatron-3d --html map.html
  stepsim sweep study.json --shard 1/4 -o part1.jsonl
  stepsim sweep merge part1.jsonl part2.jsonl part3.jsonl part4.jsonl -o rows.jsonl
  stepsim sweep best rows.jsonl --by mfu"
)]
pub struct Args {
    /// Work on rows that are there
    #[command(subcommand)]
    command: Option<RowsCommand>,
    /// Workload (a name, or a path that ends in .json), or a study file
    #[arg(required = true)]
    input: Option<String>,
    /// Machine: a count and a name (`64xh100`), a name, a path, or a simple one like `switch:8,450,1`
    /// [default: the one the workload names]
    #[arg(short, long)]
    topology: Option<String>,
    /// Values of a field: `path=a,b,c`, `path=1:8:x2`, `topology.nodes=2:8:+2`; repeatable, all combinations are run
    #[arg(long, value_name = "PATH=VALUES")]
    vary: Vec<String>,
    /// Values of a field that change together with the values of the other --zip
    #[arg(long, value_name = "PATH=VALUES")]
    zip: Vec<String>,
    /// Only points for which this holds: `parallelism.tensor * parallelism.pipeline.size <= 16`; repeatable
    #[arg(long = "where", value_name = "CONDITION")]
    conditions: Vec<String>,
    /// Draw this many points by chance
    #[arg(long, value_name = "N", value_parser = crate::asked::whole::<u32>(1..=u32::MAX.into()))]
    sample: Option<u32>,
    /// Seed of the draw
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Change a field at all points; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// Write the rows here: JSON lines, or comma-separated values where the name ends in .csv; `-` is the standard
    /// output
    #[arg(short, long, value_name = "FILE", help_heading = WRITTEN)]
    output: Option<PathBuf>,
    /// Columns that rows have beside their own, each a path in what `run --report` writes: `hfu`,
    /// `mean.stalls_s.pipeline_bubble`, `communication.tp.exposed_s`, `stages.0.memory.hbm.peak_bytes`
    #[arg(long, value_name = "PATH,...", value_delimiter = ',', conflicts_with = "closed_form")]
    columns: Vec<String>,
    /// A formula to hold to each point, with a map of where and why it is off: calculon, megatron-3d,
    /// pipeline-bubbles, scaling-book, or a file of yours
    #[arg(long, value_name = "FORMULA")]
    form: Option<PathBuf>,
    /// Estimate in closed form instead of simulating
    #[arg(long)]
    closed_form: bool,
    /// Go on with the rows that -o holds already
    #[arg(long, requires = "output")]
    resume: bool,
    /// Only the i-th of n parts of the points
    #[arg(long, value_name = "I/N", value_parser = shard, default_value = "1/1")]
    shard: SweepShard,
    /// Count the points and stop
    #[arg(long)]
    dry_run: bool,
    /// Threads [default: one a processor]
    #[arg(long, value_name = "N", value_parser = crate::asked::whole::<u16>(1..=u16::MAX.into()))]
    threads: Option<u16>,
    #[command(flatten)]
    drawn: PlotOptions,
}

/// Work on rows that are there.
#[derive(Debug, clap::Subcommand)]
enum RowsCommand {
    /// Put parts of a study together
    Merge(files::Merge),
    /// Show the best rows
    Best(files::BestOptions),
}

/// Reads `i/n`.
fn shard(text: &str) -> Result<SweepShard, String> {
    let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match numbers {
        Some((number, of)) if number >= 1 && number <= of => Ok(SweepShard { number, of }),
        _ => Err("allowed: i/n with i from 1 to n, like 2/4".to_string()),
    }
}

/// Runs the command.
///
/// # Errors
/// A study that means nothing, or a result file of another (status 2); a file that cannot be written, or parts of which
/// points are missing (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Some(RowsCommand::Merge(of)) => return files::merge(of),
        Some(RowsCommand::Best(of)) => return files::best(of),
        None => {}
    }
    let input = args.input.as_deref().unwrap_or_default();
    let plots = args.drawn.plots()?;
    let StudyInputs { base, space, columns, common } = read(args, input)?;
    outputs::apart(&[("--output", args.output.as_deref()), ("--html", args.drawn.html())], &base.files())?;
    for set in common.2.iter().filter(|set| space.replaces(set)) {
        eprintln!("note: --set {set} has no effect: it is varied");
    }
    let points = args.shard.points(space.count()).len();
    if args.dry_run {
        let lengths: Vec<String> = space.lengths().iter().map(ToString::to_string).collect();
        let part =
            if args.shard.of > 1 { format!(", of which {points} in this part") } else { String::new() };
        let whole = if space.is_part() { "chosen of " } else { "" };
        return say(&format!("{} points ({whole}{}){part}\n", space.count(), lengths.join(" × ")));
    }
    let to_stdout = outputs::document_on_stdout();
    let options = SweepOptions {
        how: if args.closed_form { How::ClosedForm } else { How::Simulated },
        columns,
        shard: args.shard,
        threads: args.threads.map(usize::from),
        output: args.output.clone().filter(|_| !to_stdout),
        resume: args.resume,
    };
    let (bar, begun) = (TerminalProgress::of("points", points as u64), Instant::now());
    let mut tell = |done| {
        bar.at(done);
        ControlFlow::Continue(())
    };
    let (mut summary, mut rows) = (SweepSummary::default(), Vec::new());
    let draws = !plots.is_empty() || args.drawn.html().is_some() || args.form.is_some() || to_stdout;
    let mut see = |row: Row| {
        summary.see(&row);
        if draws {
            rows.push(row);
        }
    };
    let dropped = sweep_each(&base, &space, &options, &mut tell, &mut see).map_err(|e| match e {
        StudyError::Spec(e) => Failure::input(e),
        e => Failure::run(e),
    })?;
    bar.done();
    if dropped > 0 {
        eprintln!(
            "note: {dropped} bytes of broken lines at the end of the file were dropped, their points run again"
        );
    }
    if to_stdout {
        return put(&rows.iter().map(Row::line).collect::<String>());
    }
    let text = summary.text(args, &base, begun.elapsed().as_secs_f64())?;
    let drawn = args.drawn.write(&plots, &rows, args.output.as_deref(), &command(args, &common))?;
    say(&(text + &map(&rows) + &drawn))
}

/// The command that runs a point once its own settings stand behind it.
fn command(args: &Args, (workload, topology, sets): &SweepInputs) -> String {
    let verb = if args.closed_form { "estimate" } else { "run" };
    let mut words = vec!["stepsim".to_string(), verb.to_string(), quoted(workload)];
    if let Some(topology) = topology {
        words.extend(["-t".to_string(), quoted(topology)]);
    }
    words.extend(sets.iter().map(|set| format!("--set {}", quoted(set))));
    words.join(" ")
}

/// The workload, machine and settings that all points share.
type SweepInputs = (String, Option<String>, Vec<String>);

/// A study as it was given.
struct StudyInputs {
    base: StudyBase,
    space: Space,
    columns: ReportColumns,
    common: SweepInputs,
}

fn read(args: &Args, input: &str) -> Result<StudyInputs, Failure> {
    let path = Path::new(input);
    let study = if input.ends_with(".json") && input != "-" {
        Study::load(path).map_err(Failure::input)?
    } else {
        None
    };
    let mut axes = study.as_ref().map_or(Ok(Vec::new()), Study::axes).map_err(Failure::input)?;
    let parse = |option, list: &[String]| -> Result<Vec<StudyAxis>, Failure> {
        list.iter().map(|text| StudyAxis::parse(option, text).map_err(Failure::input)).collect()
    };
    axes.extend(parse("--vary", &args.vary)?);
    axes.extend(StudyAxis::zip(parse("--zip", &args.zip)?).map_err(Failure::input)?);
    if axes.is_empty() {
        return Err(Failure::input(format!(
            "{}: nothing varies\n  hint: --vary batch.micro_batch=1,2,4, or \"vary\" in a study file",
            input
        )));
    }
    let mut sets = study.as_ref().map_or(Vec::new(), Study::sets);
    sets.extend(args.sets.iter().cloned());
    let mut choice =
        study.as_ref().map_or(Ok(PointSelection::default()), Study::choice).map_err(Failure::input)?;
    let conditions = args.conditions.iter().map(|text| RowCondition::parse(text));
    choice.conditions.extend(conditions.collect::<Result<Vec<_>, _>>().map_err(Failure::input)?);
    if let Some(sample) = args.sample {
        choice = PointSelection { sample: Some(sample as usize), seed: args.seed, ..choice };
    }
    let columns = study.iter().flat_map(|study| &study.columns).chain(&args.columns).cloned();
    let formula = args.form.as_deref().map(|form| Formula::load(&form.to_string_lossy())).transpose();
    let columns = ReportColumns::new(columns).and_then(|columns| Ok(columns.with_formula(formula?)));
    let columns = columns.map_err(Failure::input)?;
    let workload = study.as_ref().map_or(input, |study| &study.workload).to_string();
    let topology = args.topology.clone().or(study.as_ref().and_then(|study| study.topology.clone()));
    let base = StudyBase::load(&workload, topology.as_deref(), &sets).map_err(Failure::input)?;
    let space = Space::of(axes, &choice, &base).map_err(Failure::input)?;
    Ok(StudyInputs { base, space, columns, common: (workload, topology, sets) })
}

/// How a sweep went, and its fastest rows.
#[derive(Default)]
struct SweepSummary {
    /// Rows by how they ended.
    counts: Vec<(RunStatus, usize)>,
    /// The fastest, fastest first; of equal ones the first.
    fastest: Vec<Row>,
    /// The fault of the first without a result.
    fault: Option<String>,
}

impl SweepSummary {
    fn see(&mut self, row: &Row) {
        let outcome = &row.outcome;
        match self.counts.iter_mut().find(|(status, _)| *status == outcome.status) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((outcome.status, 1)),
        }
        if self.fault.is_none() {
            self.fault = outcome.message.clone();
        }
        let Some(time) = outcome.step_time_s else { return };
        let at = self.fastest.partition_point(|other| other.outcome.step_time_s <= Some(time));
        if at < SHOWN {
            self.fastest.truncate(SHOWN - 1);
            self.fastest.insert(at, row.clone());
        }
    }

    fn text(&self, args: &Args, base: &StudyBase, seconds: f64) -> Result<String, Failure> {
        let count: usize = self.counts.iter().map(|(_, count)| count).sum();
        let mut text = format!("{count} points in {seconds:.1} s");
        for status in [
            RunStatus::Ok,
            RunStatus::Invalid,
            RunStatus::OutOfMemory,
            RunStatus::Deadlock,
            RunStatus::Failed,
        ] {
            if let Some((_, count)) = self.counts.iter().find(|(of, _)| *of == status) {
                let name = serde_json::to_value(status).unwrap_or_default();
                text += &format!(", {count} {}", name.as_str().unwrap_or_default());
            }
        }
        text += "\n";
        if !self.fastest.is_empty() {
            let fastest: Vec<&Row> = self.fastest.iter().collect();
            text += &format!("{}\n", table(&fastest, "settings, fastest first"));
            if !args.closed_form {
                let sets = fastest[0].settings.iter().map(|(path, value)| set_text(path, value));
                let inputs = base.inputs(&sets.collect::<Vec<_>>()).map_err(Failure::input)?;
                text += &format!("the first: {}\n", answered(&inputs)?.hangs_on);
            }
        }
        if let Some(fault) = &self.fault {
            text += &format!("the first that has no result: {}\n", fault.lines().next().unwrap_or_default());
        }
        if let Some(path) = &args.output {
            text += &format!("rows: {}\n", path.display());
        }
        Ok(text)
    }
}
