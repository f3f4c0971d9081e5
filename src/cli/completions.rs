//! `stepsim completions` and `stepsim man`: what shells and manuals know of the command line.

use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;

use super::outputs::WRITTEN;
use super::{Failure, say};

/// Print a shell's completions.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stepsim completions bash > ~/.local/share/bash-completion/completions/stepsim
  stepsim completions zsh > \"${fpath[1]}/_stepsim\"
  stepsim completions fish > ~/.config/fish/completions/stepsim.fish")]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Write manual pages: one for the program, one for each subcommand.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  stepsim man -o ~/.local/share/man/man1 && man stepsim-run")]
pub struct Man {
    /// The folder that they are written to; it must be there
    #[arg(short, long = "output", alias = "out", value_name = "FOLDER", help_heading = WRITTEN)]
    out: PathBuf,
}

/// Runs `stepsim completions`.
///
/// # Errors
/// Standard output cannot be written (status 1).
pub fn run(args: &Args, mut program: Command) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut program, "stepsim", &mut text);
    say(&String::from_utf8_lossy(&text))
}

/// Runs `stepsim man`.
///
/// # Errors
/// The folder cannot be written to (status 1).
pub fn man(args: &Man, program: Command) -> Result<(), Failure> {
    let failed = |e| Failure::run(format!("--output {}: {e}", args.out.display()));
    clap_mangen::generate_to(program, &args.out).map_err(failed)
}
