//! `stepsim learn`: profiles of a step, or times of its kernels, as the prices of other runs.

mod times;

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::analyze::{classes, files};
use super::inputs;
use super::kernels::measured_rows;
use super::outputs::WRITTEN;
use super::write::write_json;
use super::{Failure, say};
use stepsim_bring::imports::{FileKind, recognise};
use stepsim_bring::nccl_tests::{self, MissingHeadings};
use stepsim_bring::training_log::{Log, StepWork};
use stepsim_measure::profile::{ProfileReport, Window, of_one_job, read, report};
use stepsim_measure::score::learned::{NotLearned, ProfileLessons, learn, learn_part};
use stepsim_measure::score::learned_rows::learn_rows;
use stepsim_simulate::Inputs;
use stepsim_spec::{Collectives, Spec, SpecError};
use times::to_times;

/// Take the prices of kernels, host and collectives from profiles of a real step, from its time, or from times of
/// kernels alone.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Kernels of the profile and of the plan are matched by their work: products, attention, optimizer, and memory-bound
kernels; a factor on each makes the plan take the profile's time. Collectives take their time with all ranks there, the
host the rest of the step. Kernels without a counterpart are listed with their time. Times of a step's own kernels
(`inspect --kernels`, `measure_device.py --kernels`) give each class its factor, and the host's from a launch.
The time of a step (--measured, or the median behind the warm-up of a log) tells how much slower than simulated four
parts of it are: matrix products, memory-bound kernels, the host, and exchanges that ranks wait for. A factor is about 1
before anything is measured, so a step moves mostly its largest part; a time that no likely factors give is refused,
with the command that plays what would explain it. An output of nccl-tests beside a log has the collectives.

Examples:
  stepsim learn rank*.json.gz --workload mine.json -t 8xh100 -o prices.json
  stepsim run mine.json -o cell.json --trace-ranks 0 --window-ms 100:180 -q && \\
    stepsim learn two_passes.json.gz --part cell.json --workload mine.json -o prices.json
  stepsim inspect mine.json --kernels kernels.jsonl && \\
    python3 measure_device.py --kernels kernels.jsonl --out times.jsonl && \\
    stepsim learn times.jsonl --workload mine.json -o prices.json
  stepsim learn train.log all_reduce.log --of mine.json -o prices.json
  stepsim learn --of mine.json --measured 7.2s -o prices.json
  stepsim run mine.json -t 8xh100 --prices prices.json
  stepsim run mine.json -t 512xh100 --prices prices.json --set parallelism.data=512 --set batch.global=4096
  stepsim search mine.json -t 512xh100 --set prices=prices.json")]
pub struct Args {
    /// Profiles of one or several ranks, as torch.profiler exports them, or their folder; or times of kernels, one a
    /// line (`.jsonl`); or logs of a training run, and outputs of nccl-tests
    #[arg(required_unless_present = "measured", value_name = "FILE")]
    traces: Vec<PathBuf>,
    /// In place of files the measured time of the step: `3.2s`, `640ms`, or a number of seconds; repeatable
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    #[arg(conflicts_with_all = ["traces", "part", "linked", "classes"])]
    measured: Vec<f64>,
    /// The workload that was profiled: name or path
    #[arg(short, long, visible_alias = "of", value_name = "NAME")]
    workload: String,
    /// The machine that it ran on [default: the one that the workload names]
    #[arg(short, long)]
    topology: Option<String>,
    /// Change a field of the workload, or behind `topology.` of the machine; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// The profiles hold a part of a step: the same part as simulated, a timeline that `run -o` wrote of one rank and
    /// window
    #[arg(long, value_name = "TIMELINE")]
    part: Option<PathBuf>,
    /// Count only device events whose launch is in the file
    #[arg(long)]
    linked: bool,
    /// Names of kernels, before the shipped ones, as `analyze --classes` takes them
    #[arg(long, value_name = "FILE")]
    classes: Option<PathBuf>,
    /// Write the prices here, as JSON for --prices
    #[arg(short, long, value_name = "FILE", help_heading = WRITTEN)]
    output: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("s", 1.0), ("", 1.0)];
    let found = units.iter().find_map(|(unit, s)| Some((text.strip_suffix(unit)?.trim(), s)));
    let value = found.and_then(|(number, s)| Some(number.parse::<f64>().ok()? * s));
    value.filter(|s| s.is_finite() && *s > 0.0).ok_or_else(|| "a time above 0, like 3.2s or 640ms".into())
}

/// Runs the command.
///
/// # Errors
/// No profile, or not one of this workload (status 2); a file that cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let load = |sets: &[String]| {
        Inputs::load(&args.workload, args.topology.as_deref(), &[args.sets.as_slice(), sets].concat())
    };
    if !args.measured.is_empty() {
        return to_times(
            &args.workload,
            args.topology.as_deref(),
            &args.sets,
            &args.measured,
            args.output.as_deref(),
        );
    }
    let args = &Args { traces: files(&args.traces)?, ..args.clone() };
    if let Some(logs) = Logs::read(&args.traces)? {
        return logs.learn(args, &load);
    }
    let (learned, from) = if args.traces.iter().all(|path| path.extension().is_some_and(|e| e == "jsonl")) {
        of_kernels(args, &load)?
    } else {
        of_profiles(args, &load)?
    };
    if let Some(path) = &args.output {
        let mut file = serde_json::to_value(&learned).map_err(Failure::run)?;
        file["learned_from"] = from;
        file["learned_from"]["workload"] = json!(args.workload);
        file["learned_from"]["settings"] = json!(args.sets);
        write_json(path, &file)?;
    }
    say(&text(&learned))
}

/// Logs that are no profiles.
#[derive(Default)]
struct Logs {
    steps: Vec<(PathBuf, Log)>,
    collectives: Collectives,
}

impl Logs {
    /// Reads files that are all logs; `None` where the first is none.
    fn read(files: &[PathBuf]) -> Result<Option<Logs>, Failure> {
        let mut logs = Logs::default();
        for (i, path) in files.iter().enumerate() {
            let packed = path.extension().is_some_and(|e| e == "gz" || e == "jsonl" || e == "json");
            let text = if packed { String::new() } else { inputs::text(path)? };
            let nccl = recognise(text.as_bytes()) == Some(FileKind::NcclTests);
            match (nccl, Log::read(&text)?) {
                (true, _) => {
                    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
                    logs.collectives.measured.push(nccl_tests::read(
                        &text,
                        &name,
                        &MissingHeadings::default(),
                    )?);
                }
                (false, Some(log)) => logs.steps.push((path.clone(), log)),
                (false, None) if i == 0 => return Ok(None),
                (false, None) => {
                    let what = "is no log with times of steps and no output of nccl-tests";
                    return Err(SpecError::file(path.display().to_string(), what)
                        .hint("profiles and times of kernels are learned apart from logs")
                        .into());
                }
            }
        }
        Ok(Some(logs))
    }

    /// The prices with which the workload takes what its logs have.
    fn learn(&self, args: &Args, load: Load) -> Result<(), Failure> {
        let mut sets = args.sets.clone();
        if !self.collectives.measured.is_empty() {
            self.collectives.validate()?;
            let table = serde_json::to_value(&self.collectives).map_err(Failure::run)?;
            sets.push(format!("topology.collectives={table}"));
        }
        if self.steps.is_empty() {
            let hint = "beside it, a log of a training run; for collectives alone: stepsim import nccl-tests";
            return Err(Failure::input(format!("no log has times of steps\n  hint: {hint}")));
        }
        let inputs = load(&[])?;
        let planned = inputs.workload.value.batch.global;
        let work = StepWork::of(&inputs);
        let mut measured = Vec::new();
        for (path, log) in &self.steps {
            if let Some(own) = log.facts.get("batch.global").filter(|own| *own != planned) {
                let what = format!("has {own} sequences a step, and {} has {planned}", args.workload);
                return Err(SpecError::file(path.display().to_string(), what)
                    .hint(format!("--set batch.global={own}, if all else matches the run"))
                    .into());
            }
            say(&format!("{}: {}\n", path.display(), log.words(&work)))?;
            measured.push(log.seconds(&work));
        }
        to_times(&args.workload, args.topology.as_deref(), &sets, &measured, args.output.as_deref())
    }
}

/// How a workload is read under settings.
type Load<'a> = &'a dyn Fn(&[String]) -> Result<Inputs, SpecError>;

/// The prices from profiles, and the names of these.
fn of_profiles(args: &Args, load: Load) -> Result<(ProfileLessons, Value), Failure> {
    let profiles = profiles(args, &args.traces)?;
    let learned = match &args.part {
        Some(part) => learn_part(load, &profiles, &self::profiles(args, std::slice::from_ref(part))?),
        None => learn(load, &profiles),
    };
    let files: Vec<&String> = profiles.ranks.iter().map(|rank| &rank.file).collect();
    let from = json!({"profiles": files, "device": profiles.ranks[0].device});
    Ok((learned.map_err(|why| failure(args, why))?, from))
}

/// The prices from times of kernels, and the files that these came from.
fn of_kernels(args: &Args, load: Load) -> Result<(ProfileLessons, Value), Failure> {
    let of_profiles =
        [("--part", args.part.is_some()), ("--linked", args.linked), ("--classes", args.classes.is_some())];
    if let Some((option, _)) = of_profiles.iter().find(|(_, given)| *given) {
        return Err(Failure::input(format!(
            "{option} is for profiles\n  hint: leave it out beside times of kernels (.jsonl)"
        )));
    }
    let mut rows = Vec::new();
    for path in &args.traces {
        rows.extend(measured_rows(path)?);
    }
    let inputs = load(&[])?;
    let learned = learn_rows(&inputs, &rows).map_err(|why| failure(args, why))?;
    let device = rows.iter().find_map(|row| row.device.clone());
    Ok((learned, json!({"kernels": args.traces, "device": device})))
}

fn failure(args: &Args, why: NotLearned) -> Failure {
    match why {
        NotLearned::Spec(e) => e.into(),
        NotLearned::Run(e) => e.into(),
        NotLearned::Other(problem) => SpecError::file(format!("--workload {}", args.workload), problem)
            .hint("`stepsim diff PROFILE WORKLOAD` shows both side by side; --set and --topology change the plan")
            .into(),
    }
}

fn profiles(args: &Args, traces: &[PathBuf]) -> Result<ProfileReport, Failure> {
    let classes = classes(args.classes.as_deref())?;
    let mut profiles = Vec::new();
    for path in traces {
        profiles.extend(read(path, &classes)?);
    }
    of_one_job(&profiles)?;
    let window = if args.linked { Window::Linked } else { Window::All };
    Ok(report(&mut profiles, window))
}

fn text(learned: &ProfileLessons) -> String {
    let mut text =
        String::from("| | measured | simulated | times | with these prices | off |\n|--|--|--|--|--|--|\n");
    for line in &learned.lines {
        let times = line.times.map_or(String::new(), |times| format!("{times:.3}"));
        let off = match line.profile_s > 0.0 {
            true => format!("{:+.1} %", 100.0 * (line.after_s / line.profile_s - 1.0)),
            false => String::new(),
        };
        let [a, b, c] = [line.profile_s, line.before_s, line.after_s].map(|s| format!("{:.3} ms", 1e3 * s));
        let _ = writeln!(text, "| {} | {a} | {b} | {times} | {c} | {off} |", line.what);
    }
    for (what, seconds) in &learned.unmatched {
        let _ = writeln!(text, "  {:.3} ms {what}", 1e3 * seconds);
    }
    for doubt in &learned.doubts {
        let _ = writeln!(text, "  doubt: {doubt}");
    }
    text
}
