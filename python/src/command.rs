//! The command line: whole, as the program has it, and command by command, answered in memory.

use std::any::TypeId;
use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};
use pyo3::prelude::*;
use serde_json::{Value, json};
use stepsim::cli;

use crate::error::failed;
use crate::watch::watched;

/// Runs the command line as the program does and returns the exit status. The first word is the program's name.
#[pyfunction]
pub fn main(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| cli::program(&words))
}

/// What a command says on standard output; `words` begin with the command's name.
#[pyfunction]
pub fn answer(py: Python<'_>, words: Vec<OsString>) -> PyResult<String> {
    let words = named(words);
    watched(py, None, move |_| cli::answer(&words))?.map_err(|e| failed(&e))
}

/// Words behind the name of the program.
pub fn named(words: Vec<OsString>) -> Vec<OsString> {
    std::iter::once("stepsim".into()).chain(words).collect()
}

/// The commands with their arguments, as JSON.
#[pyfunction]
pub fn commands() -> String {
    Value::from_iter(cli::definition().get_subcommands().map(|c| (c.get_name().to_owned(), described(c))))
        .to_string()
}

fn described(command: &Command) -> Value {
    let subcommands = command.get_subcommands().filter(|c| c.get_name() != "help");
    json!({
        "about": command.get_about().map(ToString::to_string),
        "arguments": command.get_arguments().filter(|a| !a.is_hide_set()).map(argument).collect::<Vec<_>>(),
        "commands": Value::from_iter(subcommands.map(|c| (c.get_name().to_owned(), described(c)))),
    })
}

fn argument(argument: &Arg) -> Value {
    let choices = argument.get_possible_values();
    let values = argument.get_num_args().map_or(1, |range| range.max_values());
    let default = argument.get_default_values().first().map(|value| value.to_string_lossy());
    json!({
        "name": name(argument),
        "sets": sets(argument),
        "option": argument.get_long().map(|long| format!("--{long}")),
        "about": argument.get_help().map(ToString::to_string),
        "kind": kind(argument),
        "choices": choices.iter().map(|value| value.get_name()).collect::<Vec<_>>(),
        "repeats": matches!(argument.get_action(), ArgAction::Append),
        "values": if values > 64 { None } else { Some(values) },
        "is_required": argument.is_required_set(),
        "is_written": argument.get_help_heading() == Some("Output files"),
        "default": default,
    })
}

/// Whether an argument changes fields by their paths.
fn sets(argument: &Arg) -> bool {
    matches!(argument.get_long(), Some("set" | "set-a" | "set-b" | "fix"))
}

/// The name of an argument in Python: what sets fields is called settings there, and some words are taken.
fn name(argument: &Arg) -> String {
    let name = argument.get_long().unwrap_or(argument.get_id().as_str()).replace('-', "_");
    match name.as_str() {
        "from" => "from_".into(),
        "set" | "set_a" | "set_b" => name.replacen("set", "settings", 1),
        _ => name,
    }
}

/// What an argument takes.
fn kind(argument: &Arg) -> &'static str {
    if matches!(argument.get_action(), ArgAction::SetTrue | ArgAction::SetFalse) {
        return "flag";
    }
    let of = argument.get_value_parser().type_id();
    let whole = [TypeId::of::<u16>(), TypeId::of::<u32>(), TypeId::of::<u64>(), TypeId::of::<usize>()];
    match () {
        () if whole.iter().any(|whole| of == *whole) => "whole",
        () if of == TypeId::of::<f64>() => "number",
        () if of == TypeId::of::<std::path::PathBuf>() => "path",
        () => "text",
    }
}
