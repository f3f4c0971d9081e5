//! The command line: one file per subcommand.
//!
//! Exit status: 0 done; 1 the run failed or a file could not be written; 2 the input or the command is wrong; 3 the
//! step does not fit in memory, or the command not in what the shell allows; 4 a gate is closed. Only the program's
//! `main` exits; a standard output that is closed early (`| head`) is no failure.

pub mod analyze;
mod asked;
mod calculon;
pub mod collective;
mod command_line;
pub mod compare;
pub mod completions;
pub mod diff;
pub mod estimate;
mod failure;
pub mod fill;
pub mod gate;
pub mod goodput;
mod help;
mod hints;
pub mod import;
mod inputs;
pub mod inspect;
mod json;
pub mod kernels;
pub mod knee;
pub mod learn;
pub mod list;
pub mod normal;
pub mod open;
mod outputs;
pub mod plan;
pub mod progress;
pub mod run;
pub mod schedule;
pub mod schema;
mod schema_fields;
pub mod score;
mod screen;
pub mod search;
mod serve;
pub mod share;
pub mod show;
mod stopping;
pub mod sweep;
mod tables;
mod timeline;
pub mod whatif;
mod write;

pub use failure::Failure;
pub use screen::{say, width};

use std::ffi::OsString;
use std::io;
use std::io::Write;
use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};

/// Simulates one distributed LLM training step, event by event: a timeline that opens in Perfetto, and a report that
/// says where the time went.
#[derive(Debug, Parser)]
#[command(name = "stepsim", version, after_help = AFTER_HELP, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Colour reports: auto means on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_short_help = true)]
    color: ColorChoice,
}

const AFTER_HELP: &str = "\
Workloads, machines, devices and models are JSON files. A name (`gpt3-175b`) means a file that the program carries
(`stepsim list`), a path (with `/`, or ending in .json) one of your own; `--set path=value` changes a field of either.

Examples:
  stepsim plan config.json --on 64xh100 --batch 512  anybody's model, script or recipe on any machine
  stepsim run                                        GPT-3 175B on 1,024 H100s: where the time goes
  stepsim run llama3-70b -o step.json.gz             the timeline, for ui.perfetto.dev
  stepsim run gpt3-175b --set batch.global=768       the same with another batch
  stepsim inspect llama3-70b                         what it expands to, without simulating
  stepsim search llama3-70b                          the best layout of a model on a machine
  stepsim sweep gpt2-8 --vary batch.micro_batch=1,2,4 -o rows.jsonl
  stepsim whatif gpt3-175b                           what 10 % on each resource buys
  stepsim diff before.json after.json                two reports side by side
  stepsim analyze rank0.json.gz                      where the time went in a profile of a real step
  stepsim schedule --all --stages 4 --micro-batches 8
  stepsim collective --topology switch:8,450,1 --op all-reduce --bytes 1Mi:1Gi:x4

Exit status: 0 done; 1 the run failed or a file could not be written; 2 the input or the command is wrong; 3 the step
does not fit in memory; 4 a gate is closed.";

/// The subcommands: each with what it does, its arguments, and what runs it.
macro_rules! commands {
    ($($(#[$about:meta])* $command:ident($args:ty) = $run:expr,)+) => {
        #[derive(Debug, Subcommand)]
        enum Command { $($(#[$about])* $command($args)),+ }

        impl Command {
            fn run(self) -> Result<(), Failure> {
                match self { $(Command::$command(args) => ($run)(&args)),+ }
            }
        }
    };
}

commands! {
    /// Simulate a training step: a report, and a timeline for Perfetto
    Run(Box<run::Args>) = run::run,
    /// Say how long a step takes, of a model, a script or a recipe of any software, on a machine
    Plan(plan::Args) = plan::run,
    /// Show what a workload and a machine expand to, without simulating
    Inspect(inspect::Args) = inspect::run,
    /// Say where the time went in profiles of real steps
    Analyze(analyze::Args) = analyze::run,
    /// Say what a faster resource, or the absence of a cost, would buy
    Whatif(whatif::Args) = whatif::run,
    /// Say whether a measured step is normal, and if not, why
    Normal(normal::Args) = normal::run,
    /// Hold a changed training configuration against an agreed step, for pull requests
    Gate(gate::Args) = gate::run,
    /// Compare two reports
    Diff(diff::Args) = diff::run,
    /// Say which part of days of training is progress: interruptions, restarts, checkpoints
    Goodput(goodput::Args) = goodput::run,
    /// Estimate a step in closed form
    Estimate(estimate::Args) = estimate::run,
    /// Compare the closed form of a step with its simulation, term by term
    Compare(compare::Args) = compare::run,
    /// Turn files of other tools into a workload, a model or a topology
    Import(import::Args) = import::run,
    /// Play several jobs on one machine, each on devices of its own
    Share(share::Args) = share::run,
    /// Run a pipeline schedule on abstract durations and draw it
    Schedule(schedule::Args) = schedule::run,
    /// Time a collective by size on a machine
    Collective(collective::Args) = collective::run,
    /// Simulate measured steps, and tell how far off the simulation is
    Score(score::Args) = score::run,
    /// Take the prices of kernels, host and collectives from a real step: its profiles, its logs or its time
    Learn(learn::Args) = learn::run,
    /// Show what kernels are priced at, and how far measured ones are off
    Kernels(kernels::Args) = kernels::run,
    /// Run many variants of a step: one row each
    Sweep(sweep::Args) = sweep::run,
    /// Find the best layout of a model on a machine
    Search(search::Args) = search::run,
    /// Find the least recomputation or offload with which a step fits, and the largest micro-batch
    Fill(fill::Args) = fill::run,
    /// Find how much of one field is enough: a bandwidth, a depth, a number that shares
    Knee(knee::Args) = knee::run,
    /// Show a timeline in the viewer
    Open(open::Args) = open::run,
    /// List the workloads, machines, devices and models that the program carries
    List(list::Args) = list::run,
    /// Print a shipped file, or a file with everything in it resolved
    Show(show::Args) = show::run,
    /// Print the JSON Schema of a kind of file
    Schema(schema::Args) = schema::run,
    /// Print completions for a shell
    Completions(completions::Args) = |args| completions::run(args, definition()),
    /// Write manual pages
    Man(completions::Man) = |args| completions::man(args, definition()),
}

/// The command line as clap has it: for whoever walks its arguments.
pub fn definition() -> clap::Command {
    json::offered(Cli::command())
}

/// Looks at the files that a command line names, as [`main`] does before it runs one; words that are missing or wrong
/// are passed over.
///
/// # Errors
/// An output is an input or another output, or its name means another format.
pub fn check_files(words: &[&str]) -> Result<(), Failure> {
    let command = definition().ignore_errors(true);
    let matches = command.clone().try_get_matches_from(words).map_err(Failure::input)?;
    outputs::guard(&command, &matches)
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    ExitCode::from(program(&std::env::args_os().collect::<Vec<_>>()))
}

/// Runs a command line as the program does, and returns the exit status. The first word is the name under which it
/// was called. From then on an interrupt ends the process.
pub fn program(words: &[OsString]) -> u8 {
    stepsim_bring::read_other_software();
    let result = match parsed(words) {
        Ok((Cli { command: Some(command), color }, matches)) => {
            stopping::listen();
            screen::choose_colour(color);
            outputs::guard(&Cli::command(), &matches).and_then(|()| command.run())
        }
        Ok((Cli { command: None, .. }, _)) => say(&help::arranged(definition()).render_help().to_string()),
        Err(mut e) => {
            let hint = hints::of_words(&definition(), &command_line::command(), &e);
            if hint.is_some() {
                hints::quiet(&mut e);
            }
            // Help and version are errors to clap too; their exit code is 0. A closed pipe is no failure.
            let _ = e.print();
            if let Some(hint) = hint {
                let _ = writeln!(io::stderr(), "  hint: {hint}");
            }
            return e.exit_code() as u8;
        }
    };
    match result {
        Ok(()) => 0,
        Err(failure) => {
            // Nobody may be listening there either.
            let _ = writeln!(io::stderr(), "error: {}", screen::harmless(&failure.message));
            if let Some(hint) = hints::of_failure(&command_line::command()) {
                let _ = writeln!(io::stderr(), "  hint: {}", screen::harmless(&hint));
            }
            failure.status
        }
    }
}

/// Runs a command and returns what it says on standard output, where nothing is printed: for programs that carry the
/// command line. With `--report -` that is the report alone. The first word is as in [`program`].
///
/// # Errors
/// The words are no command, or it fails.
pub fn answer(words: &[OsString]) -> Result<String, Failure> {
    let (Cli { command, .. }, matches) = match parsed(words) {
        // Help and the version.
        Err(e) if !e.use_stderr() => return Ok(e.to_string()),
        parsed => parsed?,
    };
    let command = command.ok_or_else(|| Failure::input("no command\n  hint: `stepsim --help` lists them"))?;
    let (done, said) = screen::kept(|| {
        outputs::guard(&Cli::command(), &matches)?;
        command.run()
    });
    done.map(|()| said)
}

/// The options of `stepsim run` from its words; the first word is as in [`program`].
///
/// # Errors
/// The words are none of `run`, or name one file twice.
pub fn run_args(words: &[OsString]) -> Result<run::Args, Failure> {
    let (Cli { command, .. }, matches) = parsed(words)?;
    outputs::guard(&Cli::command(), &matches)?;
    match command {
        Some(Command::Run(args)) => run::check(&args).map(|()| *args),
        _ => Err(Failure::input("the words are not those of `stepsim run`")),
    }
}

fn parsed(words: &[OsString]) -> Result<(Cli, clap::ArgMatches), clap::Error> {
    command_line::typed(words);
    let command = Cli::command();
    let words = json::meant(&command, words);
    let matches = help::arranged(json::offered(command)).try_get_matches_from(words)?;
    Ok((Cli::from_arg_matches(&matches)?, matches))
}
