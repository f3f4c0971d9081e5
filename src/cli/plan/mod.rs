//! `stepsim plan`: from anybody's files to the time of a step.

mod page;
mod screen;

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::asked::budget;
use super::outputs::WRITTEN;
use super::progress::TerminalProgress;
use super::screen::note_without_effect;
use super::search::words::so_far;
use super::write::{write_json, write_page, write_report};
use super::{Failure, normal, outputs, say, stopping, width};
use crate::estimate::tokens;
use screen::screen;
use stepsim_bring::hugging_face::name_of;
use stepsim_bring::imports::{Invocation, RunLength};
use stepsim_bring::training_log::RunSpeed;
use stepsim_read::analysis::head::Inert;
use stepsim_read::page::sheet::quoted;
use stepsim_simulate::Fault;
use stepsim_spec::is_called_like_a_file;
use stepsim_study::plan::{LayoutSource, PlanReport, Proposal, Request, RunPlan, SimulatedPlan};
use stepsim_study::space as units;

/// Say how long a step takes, of a model, a script or a recipe of any software, on a machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A file is recognised by its content: a Hugging Face config.json, a script of Megatron-LM, a recipe of NeMo or
Megatron-Bridge, a configuration of torchtitan, DeepSpeed (with a model beside it), nanotron or MaxText, or a workload
or model of stepsim. --sources and the file that is written say where each part comes from: stated, from the model,
the software's default, or assumed. A stated layout stays; for a model alone the fastest layout is searched.
`FILE.py:NAME` is one recipe of several.

Examples:
  stepsim plan llama3-70b --on 64xh100 --batch 512
  stepsim plan config.json --on '512 of b200' --batch 1024 -o plan.json
  stepsim plan pretrain.sh --on 1024xh100
  stepsim plan ds_config.json config.json --on 8xa100-40
  stepsim plan llama3-8b-fsdp")]
pub struct Args {
    /// Files and shipped names that describe the run
    #[arg(required = true, value_name = "FILE")]
    words: Vec<String>,
    /// The machine: a count and a name (`64xh100`, `512 of b200`), a shipped machine, or a path
    /// [default: the one of a workload]
    #[arg(long, short = 't', visible_alias = "topology", value_name = "MACHINE")]
    on: Option<String>,
    /// Sequences of a step [default: what the files say]
    #[arg(long, value_name = "N", value_parser = batch)]
    batch: Option<u64>,
    /// Tokens of a sequence (`8192`, `8K`) [default: what the files say]
    #[arg(long, alias = "seq", value_name = "N", value_parser = sequence)]
    sequence: Option<u64>,
    /// The training software (`stepsim list stacks`)
    /// [default: from the files; of a model alone the one most runs use]
    #[arg(long, value_name = "STACK")]
    stack: Option<String>,
    /// Change a field of the workload, or behind `topology.` of the machine; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// Search the fastest layout also where one is stated
    #[arg(long)]
    search: bool,
    /// End a search after this time with the best layout so far (as Ctrl-C does), and say how far it came: `10s`; one
    /// layout is simulated to its end
    #[arg(long, value_name = "SECONDS", value_parser = budget)]
    budget: Option<f64>,
    /// Threads [default: one a processor]
    #[arg(long, value_name = "N", value_parser = crate::asked::whole::<u16>(1..=u16::MAX.into()))]
    threads: Option<u16>,
    /// Tokens of the whole run (`15T`, `300B`, `52k`): days and, where devices have a price, dollars
    #[arg(long, value_name = "N", value_parser = tokens)]
    tokens: Option<f64>,
    /// Samples of the whole run (`52k`), each a sequence, in place of --tokens [default: what the files say]
    #[arg(long, value_name = "N", value_parser = tokens, conflicts_with = "tokens")]
    samples: Option<f64>,
    /// Passes over the samples [default: what the files say, or 1]
    #[arg(long, value_name = "E", conflicts_with = "tokens")]
    epochs: Option<f64>,
    /// Say where each word of the description came from
    #[arg(long)]
    sources: bool,
    /// What was measured: a verdict, as `stepsim normal` gives it
    #[arg(long, value_name = "SPEED", value_parser = str::parse::<RunSpeed>)]
    measured: Option<RunSpeed>,
    /// Write the workload here [default: NAME.plan.json; on another machine than such a file's,
    /// NAME.MACHINE.plan.json]
    #[arg(short, long, value_name = "WORKLOAD.json", help_heading = WRITTEN)]
    output: Option<PathBuf>,
    /// Write the step, and where each part of it comes from, as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    report: Option<PathBuf>,
    /// Write the plan as a page here: .html, one file that opens in any browser
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    html: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Wrong files, or a step that does not fit (status 2, 3); a file that cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let request = Request {
        words: args.words.clone(),
        on: args.on.clone(),
        batch: args.batch,
        sequence: args.sequence,
        stack: args.stack.clone(),
        sets: args.sets.clone(),
        search: args.search,
    };
    let mut plan = request.read()?;
    plan.budget_s = args.budget;
    if plan.layout == LayoutSource::Searched {
        plan.stop = stopping::token();
    }
    plan.threads = args.threads.map(usize::from);
    plan.hear = Some(so_far);
    let laid_out = TerminalProgress::over("layouts", |tell| plan.laid_out(tell));
    let silent = outputs::document_on_stdout();
    if !silent && (args.sources || laid_out.is_err()) {
        say(&plan.text())?;
    }
    laid_out.map_err(|e| Failure::from(Fault::from(&e)))?;
    let (path, wrote) = match &args.output {
        Some(path) => (path.clone(), "wrote"),
        None => own_path(&args.words[0], &plan.workload),
    };
    let to_stdout = path == Path::new("-");
    if !to_stdout {
        write_json(&path, &plan.workload)?;
    }
    let planned = match SimulatedPlan::of(&plan).map_err(Failure::from) {
        Err(failure) if failure.status == 3 => return Err(proposing(&plan, failure, &path)),
        planned => planned?,
    };
    let is_asked = |inert: &&Inert| args.sets.iter().any(|set| set.starts_with(&inert.field));
    let inert: Vec<&Inert> = planned.report.run.without_effect.iter().filter(is_asked).collect();
    note_without_effect(&inert);
    let next = next(&plan, &path);
    let length = RunLength {
        steps: plan.length.steps.filter(|_| args.samples.or(args.epochs).is_none()),
        samples: args.samples.or(plan.length.samples),
        epochs: args.epochs.or(plan.length.epochs),
    };
    let tokens = args.tokens.or_else(|| planned.tokens_of(&length));
    write_page(args.html.as_deref(), || page::page(&plan, &planned, tokens, &next))?;
    write_report(args.report.as_deref(), &PlanReport::of(&plan, &planned))?;
    if silent {
        return if to_stdout { write_json(&path, &plan.workload) } else { Ok(()) };
    }
    let whole = match (tokens, length.epochs) {
        (Some(tokens), _) => Some(planned.whole_run(tokens)),
        (None, Some(epochs)) => Some(format!("{epochs} epochs of how many samples? --samples N")),
        (None, None) => None,
    };
    let screen = screen(&plan, &planned, whole.as_deref(), width());
    let measure = match &plan.advice {
        Some(advice) if args.sources => format!("{}\n", advice.risk().join("\n")),
        _ => String::new(),
    };
    let verdict = match args.measured {
        Some(speed) => normal::wrapped(
            &normal::verdict(&plan.inputs()?, &planned.report, speed, None, &[])?.words(false),
        ),
        None => String::new(),
    };
    say(&format!("{screen}{measure}{verdict}{wrote} {}\nnext: {}\n", path.display(), next.join("\n      ")))
}

/// The file of a plan, and whether it is written or overwritten; one of another file or machine is left as it is.
fn own_path(word: &str, plan: &Value) -> (PathBuf, &'static str) {
    let file = Invocation::of(word).file;
    let of_another =
        |path: &Path, field: &str| written(path).is_some_and(|before| before[field] != plan[field]);
    let named = |stem: &str| PathBuf::from(format!("{stem}.plan.json"));
    let mut stem = stem(&file);
    if is_called_like_a_file(&file) && of_another(&named(&stem), "description") {
        let ending = Path::new(&file).extension().unwrap_or_default();
        stem = format!("{stem}-{}", ending.to_string_lossy());
    }
    let mut path = named(&stem);
    if of_another(&path, "topology") {
        let machine = name_of(plan["topology"].as_str().unwrap_or_default());
        path = named(&format!(
            "{stem}.{}",
            machine.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "-")
        ));
    }
    let changed = written(&path).is_some_and(|before| before != *plan);
    (path, if changed { "overwrote" } else { "wrote" })
}

/// The plan that a file holds.
fn written(path: &Path) -> Option<Value> {
    serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
}

/// Tokens of a sequence: `8192`, or `8K` as contexts are called, of 1,024 each.
fn sequence(text: &str) -> Result<u64, String> {
    let tokens = units::count(&text.replace(['k', 'K'], "Ki")).filter(|n| (1..=1 << 32).contains(n));
    tokens.ok_or_else(|| "a number of tokens: 8192, 8K; at most 4294967296".to_owned())
}

/// Sequences of a step: `512`, `1e3`.
pub(crate) fn batch(text: &str) -> Result<u64, String> {
    let sequences = units::count(text).filter(|n| (1..=1 << 32).contains(n));
    sequences.ok_or_else(|| "a whole number of sequences: 512, 1e3; at most 4294967296".to_owned())
}

/// The name of the file that is written, from the first word: the stem of a file, or a model's name without its
/// publisher.
fn stem(word: &str) -> String {
    let name = if is_called_like_a_file(word) || Path::new(word).is_file() {
        name_of(word.split(".py:").next().unwrap_or(word))
    } else {
        word.rsplit('/').next().unwrap_or(word).to_lowercase().replace(char::is_whitespace, "-")
    };
    if name.is_empty() { "workload".to_string() } else { name }
}

/// A step that does not fit as it is stated, with what would make it fit; where a part of what was given was not read,
/// it says that instead.
fn proposing(plan: &RunPlan, mut failure: Failure, path: &Path) -> Failure {
    if let Some(doubt) = plan.doubt_of_layout() {
        failure.message = format!("whether it fits is not known: {doubt}\nas far as it is read: {failure}");
        return failure.and("hint: say by --set what it means, or let a layout be searched: --search");
    }
    // The state before the step does not hang on how long samples are.
    let is_state = failure.message.contains("the state before the step needs");
    if let Some(limit) = plan.limits.first().filter(|_| !is_state) {
        failure.message = format!("at the most that {limit}: {failure}");
    }
    let file = quoted(&path.display().to_string());
    let proposal = TerminalProgress::over("what fits", |tell| plan.proposal(tell));
    let hint = match proposal {
        Err(error) => return Failure::input(error),
        Ok(None) => format!("hint: more devices, or another layout: stepsim search {file}{}", machine(plan)),
        Ok(Some(Proposal { gives_up, sets, step_s })) => {
            let sets: String = sets.iter().map(|set| format!(" --set '{set}'")).collect();
            format!(
                "hint: as a proposal, {gives_up}: {step_s:.4} s: stepsim run {file}{}{sets}",
                machine(plan)
            )
        }
    };
    failure.and("the layout stays as stated").and(&hint)
}

/// The next commands; a layout that is stated may have more room than it uses.
fn next(plan: &RunPlan, path: &Path) -> Vec<String> {
    let (file, machine) = (quoted(&path.display().to_string()), machine(plan));
    let fill = (plan.layout == LayoutSource::Stated).then_some(("fill", ""));
    let commands = [Some(("run", " --why")), Some(("whatif", "")), fill, Some(("search", ""))];
    let line = |(command, more)| format!("stepsim {command} {file}{machine}{more}");
    commands.into_iter().flatten().map(line).collect()
}

/// The machine and its settings; the workload names it, so that only settings must be said again.
fn machine(plan: &RunPlan) -> String {
    plan.machine_sets.iter().map(|set| format!(" --set {set}")).collect()
}
