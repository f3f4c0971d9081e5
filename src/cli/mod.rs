//! The command line: one file per subcommand.
//!
//! Exit status: 0 done; 1 the run failed or a file could not be written; 2 the input or the command is wrong.

pub mod collective;
pub mod estimate;
pub mod run;
pub mod schedule;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Simulates one distributed LLM training step, event by event.
///
/// Without a subcommand's arguments the built-in example runs: GPT-3 175B on 1,024 H100s.
#[derive(Debug, Parser)]
#[command(name = "stepsim", version, after_help = AFTER_HELP, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "Examples:
  stepsim run                                        GPT-3 175B on 1,024 H100s: where the time goes
  stepsim run llama3-70b -o step.json.gz             the timeline, for ui.perfetto.dev
  stepsim run gpt3-175b --set batch.global=768       the same with another batch
  stepsim schedule --all --stages 4 --micro-batches 8
  stepsim collective --topology switch:8,450,1 --op all-reduce --bytes 1Mi:1Gi:x4

Exit status: 0 done; 1 the run failed or a file could not be written; 2 the input or the command is wrong.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Simulate a training step: a report, and a timeline for Perfetto
    Run(run::Args),
    /// Estimate a step in closed form
    Estimate(estimate::Args),
    /// Run a pipeline schedule on abstract durations and draw it
    Schedule(schedule::Args),
}

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    message: String,
    status: u8,
}

impl Failure {
    /// The input or the command is wrong.
    pub fn input(error: impl std::fmt::Display) -> Failure {
        Failure { message: error.to_string(), status: 2 }
    }
    /// The run failed, or a file could not be written.
    pub fn run(error: impl std::fmt::Display) -> Failure {
        Failure { message: error.to_string(), status: 1 }
    }
}

/// Runs the command line and returns the exit status.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Estimate(args) => estimate::run(args).map_err(Failure::input),
        Command::Schedule(args) => schedule::run(args).map_err(Failure::input),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", failure.message);
            ExitCode::from(failure.status)
        }
    }
}
