//! `stepsim normal`: whether a measured step is normal, and if not, why.

use std::path::{Path, PathBuf};

use super::inputs;
use super::outputs::WRITTEN;
use super::progress::TerminalProgress;
use super::write::write_json;
use super::{Failure, say, width};
use stepsim_bring::imports::{FileKind, recognise};
use stepsim_bring::training_log::{Log, RunSpeed, StepWork};
use stepsim_read::analysis::report::Report;
use stepsim_simulate::Inputs;
use stepsim_spec::SpecError;
use stepsim_study::JudgedRun;
use stepsim_study::normal::{FurtherStep, MeasuredNumber, StepVerdict, judge};
use stepsim_study::plan::{Request, RunPlan, SimulatedPlan};

/// Say whether a measured step is normal, and if not, why: a number or a log in, a verdict with its causes out.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The number is held against the range of measured steps like it. Inside it, it is normal, and what the step hangs on
is said. Outside it every cause that is known (settings that did not take, slow devices, hosts and links, other readings
of the number) is played in the size that makes the step take what was measured; those that cannot are dropped (--all).
Causes stand in the order of how usual they are in that size, those that one measurement shows on one line. The last
line is the measurement that tells the first two apart, played with both.
A log (Megatron-LM and Bridge, NeMo, torchtitan, DeepSpeed, Hugging Face and TRL with trainer_state.json, LLaMA-Factory,
torchtune, verl, MaxText, nanotron, nanoGPT, nanochat) says the steady step itself.

Examples:
  stepsim normal pretrain.sh --on 64xh100 --measured 13.1s
  stepsim normal llama3-8b-fsdp --measured '31 %'
  stepsim normal llama3-8b-fsdp --measured 4500tok/s/gpu --all
  stepsim normal config.yaml train.log --on 8xh100
  stepsim normal plan.json --measured 4.8s --reference 3.1s
  stepsim normal plan.json --measured 4.8s --also 'batch.global=2048 8.1s'")]
pub struct Args {
    /// Files and shipped names that describe the run, as `stepsim plan` takes them; logs of it among them
    #[arg(required = true, value_name = "FILE")]
    words: Vec<String>,
    /// The machine, as `stepsim plan` takes it [default: the one of a workload]
    #[arg(long, short = 't', visible_alias = "topology", value_name = "MACHINE")]
    on: Option<String>,
    /// The measured speed: `13.1s`, `640ms`, `31%`, `2100tok/s/gpu`, `134ktok/s` of all devices, `420TFLOPs`,
    /// `64samples/s` [default: the log's]
    #[arg(long, value_name = "SPEED", value_parser = str::parse::<RunSpeed>)]
    measured: Option<RunSpeed>,
    /// The same step when it was in order: then only factors are compared
    #[arg(long, value_name = "SPEED", value_parser = str::parse::<RunSpeed>)]
    reference: Option<RunSpeed>,
    /// A further measurement, of the step with fields changed, such as tells the first two causes apart:
    /// `model.layers=40 4.8s`; repeatable
    #[arg(long, value_name = "SETS SPEED")]
    also: Vec<String>,
    /// Sequences of a step [default: what the files say]
    #[arg(long, value_name = "N", value_parser = crate::asked::whole::<u64>(1..=1 << 32))]
    batch: Option<u64>,
    /// Change a field of the workload, or behind `topology.` of the machine; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// List every cause that reaches the number, and those that cannot
    #[arg(long)]
    all: bool,
    /// Print the verdict as JSON (`stepsim schema verdict`)
    #[arg(long, help_heading = WRITTEN)]
    json: bool,
}

/// Columns of the picture of a log.
const PICTURE: usize = 72;
/// Columns by which what is wrapped is indented.
const WRAPPED: usize = 3;

/// Runs the command.
///
/// # Errors
/// Wrong files, or no number (status 2), or a step that does not fit (status 3).
pub fn run(args: &Args) -> Result<(), Failure> {
    let (log, words) = sorted(&args.words)?;
    let request = Request {
        words: described(words, log.as_ref())?,
        on: args.on.clone(),
        batch: args.batch,
        sets: args.sets.clone(),
        ..Request::default()
    };
    let (plan, notes) = read(request, log.as_ref())?;
    let speed = match (args.measured, &log) {
        (Some(speed), None) => speed,
        (None, Some((_, log))) => log.speed(),
        (None, None) => {
            return Err(Failure::input("no number\n  hint: --measured 13.1s, or a log of the run"));
        }
        (Some(_), Some(_)) => {
            return Err(Failure::input("--measured beside a log\n  hint: give one of them"));
        }
    };
    let inputs = plan.inputs()?;
    let report = SimulatedPlan::of(&plan)?.report;
    let verdict = verdict(&inputs, &report, speed, args.reference, &args.also)?;
    let words = verdict.words(args.all);
    let judged = JudgedRun::Step(Box::new(verdict));
    if args.json {
        return write_json(Path::new("-"), &judged);
    }
    let picture = log.map_or(String::new(), |(path, log)| {
        let words = log.words(&StepWork::of(&inputs));
        format!("{}: {words}\n  {}\n", path.display(), log.steady.picture(PICTURE))
    });
    say(&wrapped(&format!("{picture}{notes}{}: {words}", plan.name)))
}

/// The verdict about a step, whose report has its answer, with a bar while causes are played.
///
/// # Errors
/// The step cannot be played.
pub(super) fn verdict(
    inputs: &Inputs,
    report: &Report,
    speed: RunSpeed,
    reference: Option<RunSpeed>,
    also: &[String],
) -> Result<StepVerdict, Failure> {
    let bar = TerminalProgress::new("playing what could be wrong");
    let mut measured = MeasuredNumber::of(speed, inputs, report)?;
    measured.further = also.iter().map(|text| further(text, inputs)).collect::<Result<_, _>>()?;
    let verdict = judge(inputs, report, &measured, reference.map(|r| r.seconds(&StepWork::of(inputs))))?;
    bar.done();
    Ok(verdict)
}

/// A further measurement: settings, and behind the last blank the speed.
fn further(text: &str, inputs: &Inputs) -> Result<FurtherStep, Failure> {
    let wrong = || {
        Failure::input(format!("--also '{text}'\n  allowed: settings and a speed: 'model.layers=40 4.8s'"))
    };
    let (sets, speed) = text.trim().rsplit_once(' ').ok_or_else(wrong)?;
    let speed: RunSpeed = speed.parse().map_err(|_| wrong())?;
    let sets: Vec<String> = sets.split_whitespace().map(str::to_owned).collect();
    let seconds = speed.seconds(&StepWork::of(&inputs.again(&sets)?));
    Ok(FurtherStep { sets, seconds })
}

/// Lines that are wider than the screen, on several; those behind the first are indented.
pub(super) fn wrapped(text: &str) -> String {
    let (width, mut out) = (usize::from(width()), String::new());
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let mut used = 0;
        for word in line.split(' ').skip_while(|word| word.is_empty()) {
            let long = word.chars().count() + 1;
            match used {
                0 => out += &" ".repeat(indent),
                _ if used + long > width => out += &format!("\n{}", " ".repeat(indent + WRAPPED)),
                _ => out.push(' '),
            }
            used = if used == 0 {
                indent + long
            } else if used + long > width {
                indent + WRAPPED + long
            } else {
                used + long
            };
            out += word;
        }
        out.push('\n');
    }
    out
}

/// A log and its file.
type NamedLog = (PathBuf, Log);

/// The log among words, and the other words.
fn sorted(words: &[String]) -> Result<(Option<NamedLog>, Vec<String>), Failure> {
    let (mut found, mut others) = (None, Vec::new());
    for word in words {
        match read_log(Path::new(word))? {
            Some(_) if found.is_some() => {
                return Err(Failure::input(format!(
                    "{word}: is a second log\n  hint: give the log of one run"
                )));
            }
            Some(log) => found = Some((PathBuf::from(word), log)),
            None => others.push(word.clone()),
        }
    }
    Ok((found, others))
}

/// The log that a file is; `None` where it is none.
///
/// # Errors
/// It has the lines of two runs.
pub(super) fn read_log(path: &Path) -> Result<Option<Log>, Failure> {
    if !path.is_file() {
        return Ok(None);
    }
    let bytes = inputs::bytes(path)?;
    let is_other = |kind| matches!(kind, FileKind::Workload | FileKind::Model | FileKind::HuggingFace);
    if recognise(&bytes).is_some_and(is_other) {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(Log::read(&text).map_err(|e| SpecError { file: path.display().to_string(), ..e })?)
}

/// The words that describe a run: those given, or what its log prints of it.
fn described(words: Vec<String>, log: Option<&(PathBuf, Log)>) -> Result<Vec<String>, Failure> {
    if !words.is_empty() {
        return Ok(words);
    }
    let Some((path, log)) = log else { return Ok(words) };
    let line = log.facts.line.clone().ok_or_else(|| {
        let what = "does not print how the run was started";
        let hint =
            format!("name its script, configuration or model: stepsim normal {} llama3-8b", path.display());
        SpecError::file(path.display().to_string(), what).hint(hint)
    })?;
    Ok(vec![line])
}

/// The plan of a request, with the batch and the lengths that its log prints; what these changed, in words.
fn read(request: Request, log: Option<&(PathBuf, Log)>) -> Result<(RunPlan, String), Failure> {
    let mut plan = request.read()?;
    let mut notes = String::new();
    if let Some((path, log)) = log {
        let mut more = request;
        for (field, now) in [
            ("batch.global", plan.workload["batch"]["global"].as_u64()),
            ("batch.micro_batch", plan.workload["batch"]["micro_batch"].as_u64()),
            ("sequence", plan.workload["sequence"].as_u64()),
        ] {
            let stated = more.sets.iter().any(|set| set.starts_with(&format!("{field}=")))
                || field == "batch.global" && more.batch.is_some();
            let Some(own) = log.facts.get(field).filter(|own| Some(*own) != now && !stated) else { continue };
            more.sets.push(format!("{field}={own}"));
            let before = now.map_or("nothing".into(), |now| now.to_string());
            notes += &format!("  {field}: {own} by the log ({before} by the description)\n");
        }
        if !notes.is_empty() {
            plan = more.read()?;
        }
        devices(path, log, &plan)?;
    }
    let laid_out = TerminalProgress::over("layouts", |tell| plan.laid_out(tell));
    laid_out.map_err(|e| Failure::from(stepsim_simulate::Fault::from(&e)))?;
    Ok((plan, notes))
}

/// Refuses a machine of another size than the log's.
fn devices(path: &Path, log: &Log, plan: &RunPlan) -> Result<(), Failure> {
    let has = u64::from(stepsim_simulate::Site::load(&plan.on, &plan.machine_sets)?.machine().devices());
    match log.facts.get("devices").filter(|own| *own != has) {
        None => Ok(()),
        Some(own) => {
            let what = format!("is of {own} devices, and {} has {has}", plan.on);
            Err(SpecError::file(path.display().to_string(), what)
                .hint(format!("--on '{own}xh100', or what it was"))
                .into())
        }
    }
}
