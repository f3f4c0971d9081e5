//! `stepsim completions` and `stepsim man`: what shells and manuals know of the command line.

use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;

use super::outputs::WRITTEN;
use super::{Failure, say};
use stepsim_spec::{Kind, catalog};

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
    say(&with_names(args.shell, &String::from_utf8_lossy(&text)))
}

/// Completions with the names of what is shipped: machines behind the options that take one, else workloads and models.
fn with_names(shell: Shell, text: &str) -> String {
    let all =
        |kinds: &[Kind]| kinds.iter().flat_map(|kind| catalog::names(*kind)).collect::<Vec<_>>().join(" ");
    let (machines, names) = (all(&[Kind::Topology]), all(&[Kind::Workload, Kind::Model]));
    match shell {
        Shell::Bash => format!(
            "{text}_stepsim_names() {{
    _stepsim \"$@\"
    case \"$2,$3\" in
        -*) ;;
        *,-t|*,--topology|*,--on) COMPREPLY+=($(compgen -W '{machines}' -- \"$2\")) ;;
        *,-*) ;;
        *) [ \"$COMP_CWORD\" -lt 2 ] || COMPREPLY+=($(compgen -W '{names}' -- \"$2\")) ;;
    esac
}}
complete -F _stepsim_names -o bashdefault -o default stepsim
"
        ),
        Shell::Fish => format!(
            "{text}complete -c stepsim -n 'not __fish_stepsim_needs_command' -a '{names}'
complete -c stepsim -s t -l topology -l on -r -a '{machines}'
"
        ),
        Shell::Zsh => {
            let named = |line: &str| {
                let topology =
                    [":TOPOLOGY:_default", ":MACHINE:_default"].iter().any(|end| line.contains(end));
                let place = line.starts_with("':") || line.starts_with("'*:");
                let by = if topology { "_stepsim_machines" } else { "_stepsim_names" };
                if topology || place { line.replace("_default", by) } else { line.to_owned() }
            };
            let body: Vec<String> = text.lines().skip(1).map(named).collect();
            format!(
                "#compdef stepsim
_stepsim_machines() {{ compadd {machines}; _files }}
_stepsim_names() {{ compadd {names}; _files }}
{}
",
                body.join("\n")
            )
        }
        _ => text.to_owned(),
    }
}

/// Runs `stepsim man`.
///
/// # Errors
/// The folder cannot be written to (status 1).
pub fn man(args: &Man, program: Command) -> Result<(), Failure> {
    let failed = |e| Failure::run(format!("--output {}: {e}", args.out.display()));
    clap_mangen::generate_to(program, &args.out).map_err(failed)
}
