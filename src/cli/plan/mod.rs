//! `stepsim plan`: from anybody's files to the time of a step.

mod page;

use std::path::{Path, PathBuf};

use super::outputs::WRITTEN;
use super::progress::Bar;
use super::write::{write_json, write_page};
use super::{Failure, outputs, say};
use stepsim_step::spec::hugging_face::name_of;
use stepsim_step::spec::is_called_like_a_file;
use stepsim_study::plan::{Planned, Request, RunPlan};

/// Say how long a step takes, of a model, a script or a recipe of any software, on a machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A file is recognised by its content: a Hugging Face config.json, a script of Megatron-LM, a recipe of NeMo or
Megatron-Bridge, a configuration of torchtitan, DeepSpeed (with a model beside it), nanotron or MaxText, or a workload or
model of stepsim. What is printed says where each part comes from: stated, from the model, the software's default,
assumed. A layout that is stated stays; of a model alone the fastest is searched. `FILE.py:NAME` is one recipe of several.

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
    /// The machine: a count and a name (`64xh100`, `512 of b200`), a shipped machine, or a path [default: the one of a workload]
    #[arg(long, short = 't', visible_alias = "topology", value_name = "MACHINE")]
    on: Option<String>,
    /// Sequences of a step [default: what the files say]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    batch: Option<u64>,
    /// Tokens of a sequence [default: what the files say]
    #[arg(long, alias = "seq", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    sequence: Option<u64>,
    /// The training software (`stepsim list stacks`) [default: that of the files; of a model alone the one most runs use]
    #[arg(long, value_name = "STACK")]
    stack: Option<String>,
    /// Change a field of the workload, or behind `topology.` of the machine; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// Search the fastest layout also where one is stated
    #[arg(long)]
    search: bool,
    /// Write the workload here [default: NAME.plan.json]
    #[arg(short, long, value_name = "WORKLOAD.json", help_heading = WRITTEN)]
    output: Option<PathBuf>,
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
    let laid_out = Bar::over("layouts", |tell| plan.laid_out(tell));
    let silent = outputs::document_on_stdout();
    if !silent {
        say(&plan.text())?;
    }
    laid_out.map_err(Failure::input)?;
    let path =
        args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.plan.json", stem(&args.words[0]))));
    if !silent {
        write_json(&path, &plan.workload)?;
    }
    let planned = match Planned::of(&plan).map_err(Failure::from) {
        Err(failure) if failure.status == 3 => fitting(&mut plan, failure, &path, silent)?,
        planned => planned?,
    };
    let next = next(&plan, &path);
    write_page(args.html.as_deref(), || page::page(&plan, &planned, &next))?;
    if silent {
        return write_json(&path, &plan.workload);
    }
    say(&format!("{}wrote {}\nnext:\n  {}\n", planned.text(), path.display(), next.join("\n  ")))
}

/// The name of the file that is written, from the first word: the stem of a file, or a model's name without its publisher.
fn stem(word: &str) -> String {
    let name = if is_called_like_a_file(word) || Path::new(word).is_file() {
        name_of(word.split(".py:").next().unwrap_or(word))
    } else {
        word.rsplit('/').next().unwrap_or(word).to_lowercase().replace(char::is_whitespace, "-")
    };
    if name.is_empty() { "workload".to_string() } else { name }
}

/// The step with the least recomputation or offload that fits, where it does not fit as it is stated.
fn fitting(plan: &mut RunPlan, failure: Failure, path: &Path, silent: bool) -> Result<Planned, Failure> {
    let found = Bar::over("what fits", |tell| plan.made_to_fit(tell));
    let Some(why) = found.map_err(Failure::input)? else {
        let hint = format!("hint: more devices, or another layout: stepsim search {}", path.display());
        return Err(failure.and(&hint));
    };
    if !silent {
        say(&format!("                   {why}\n"))?;
        write_json(path, &plan.workload)?;
    }
    Planned::of(plan).map_err(Failure::from)
}

/// The next three commands.
fn next(plan: &RunPlan, path: &Path) -> [String; 3] {
    let (file, machine) = (path.display(), machine(plan));
    [("run", " --why"), ("whatif", ""), ("search", "")]
        .map(|(command, more)| format!("stepsim {command} {file}{machine}{more}"))
}

/// The machine and its settings; the workload names it, so that only settings must be said again.
fn machine(plan: &RunPlan) -> String {
    plan.machine_sets.iter().map(|set| format!(" --set {set}")).collect()
}
