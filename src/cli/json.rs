//! `--json`: a command's document on standard output, asked for by one name everywhere.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

use super::outputs::WRITTEN;

/// What `--json` stands for in a command that has no such option of its own; none where it writes no document.
fn meaning(command: &Command) -> Option<&'static str> {
    let has = |id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
    match command.get_name() {
        _ if has("json") => None,
        _ if has("report") => Some("--report=-"),
        "sweep" | "learn" => Some("--output=-"),
        _ => None,
    }
}

/// The command line in which each command that writes a document has `--json`.
pub(super) fn offered(command: Command) -> Command {
    let of = |sub: &Command| Some((sub.get_name().to_owned(), meaning(sub)?));
    let commands: Vec<_> = command.get_subcommands().filter_map(of).collect();
    commands.into_iter().fold(command, |command, (name, meaning)| {
        let help = format!("Print the document as JSON and nothing else: {}", meaning.replace('=', " "));
        let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help(help).help_heading(WRITTEN);
        command.mut_subcommand(name, |sub| sub.arg(json))
    })
}

/// The words of a command line in which `--json` is what it stands for.
pub(super) fn meant(command: &Command, words: &[OsString]) -> Vec<OsString> {
    let sub = words.iter().skip(1).find_map(|word| command.find_subcommand(word));
    let Some(meaning) = sub.and_then(meaning) else { return words.to_vec() };
    let options = words.iter().take_while(|word| *word != "--").count();
    let word = |(at, word): (usize, &OsString)| match at < options && word == "--json" {
        true => meaning.into(),
        false => word.clone(),
    };
    words.iter().enumerate().map(word).collect()
}
