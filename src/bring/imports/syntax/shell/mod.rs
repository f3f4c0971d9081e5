//! A shell line or script: the arguments of the programs that it would run. Nothing is executed (`player.rs`).
//!
//! `--name value`, `--name=value`, and `name=value` behind a program of Python are arguments. Of one that stands
//! twice the last counts.

pub mod beside;
mod condition;
mod grammar;
mod lexer;
mod marks;
mod player;
pub mod slurm;
mod sum;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::invocation::Invocation;
use super::said::{Open, TextStatements};
use marks::{below_open, says_something, unset};
use player::Player;
use stepsim_step::spec::SpecError;

pub(super) use beside::with_sources;

/// The names in a script's variables beside its arguments: a model, a checkpoint, a tokenizer.
const BESIDE: &str = "script.names";

/// The program that a script runs with arguments, and the word behind it: `megatron sft`.
pub(in crate::imports) const PROGRAM: &str = "script.program";

/// True if a text has arguments of this kind: a word that begins with `--`, or a program of Python.
pub(super) fn looks_like(text: &str) -> bool {
    text.starts_with("#!") || words(text).any(|word| word.starts_with("--") || is_python(word))
}

/// Words of a text that are in no comment.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(|line| line.split_once(" #").map_or(line, |(line, _)| line))
        .filter(|line| !line.trim_start().starts_with('#'))
        .flat_map(|line| line.split(|c: char| c.is_whitespace() || "\"'()`".contains(c)))
}

fn is_python(word: &str) -> bool {
    matches!(word, "python" | "python3" | "torchrun")
}

/// The names of all arguments that stand in a text, in whatever branch.
pub(super) fn names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for word in words(text) {
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        if let Some(name) = name.strip_prefix("--") {
            names.push(name.replace('-', "_"));
        } else if name == word && word.starts_with(|c: char| c.is_ascii_alphanumeric() || "./$".contains(c)) {
            names.push(format!("@{}", word.rsplit('/').next().unwrap_or_default()));
        } else if is_override(word) {
            names.push(name.trim_start_matches('+').to_string());
        }
    }
    names
}

/// True if a word is `name=value`, as hydra and MaxText take them.
fn is_override(word: &str) -> bool {
    let Some((name, _)) = word.trim_start_matches(['+', '~']).split_once('=') else { return false };
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c))
}

/// The statements of a script that is run by that line.
///
/// # Errors
/// A quote that is not closed, or a script that goes on too long.
pub fn read(text: &str, typed: &Invocation) -> Result<TextStatements, SpecError> {
    let commands = grammar::commands(lexer::tokens(text)?);
    let job = slurm::variables(text);
    let environment: Vec<(String, String)> = job.iter().chain(&typed.environment).cloned().collect();
    let mut player = Player::new(&environment, &typed.words);
    player.play(&commands);
    if player.is_spent() {
        return Err(SpecError::at("", "the script does too much to be followed")
            .allowed("100,000 commands, and words of 16 MiB altogether")
            .hint("give the line that starts the training by itself"));
    }
    let mut programs = player.options_left();
    programs.append(&mut player.programs);
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let documents = beside::documents(text, &mut player);
    for program in &programs {
        arguments(&apart(program), &mut found);
    }
    let mut open: BTreeMap<String, Open> = BTreeMap::new();
    for (name, values) in &found {
        for variable in values.iter().filter_map(|value| unset(value)) {
            let entry = open.entry(variable.to_string()).or_default();
            entry.arguments.push(name.clone());
        }
    }
    let beside = player.models_beside();
    let blocking =
        player.blocks_launches().then(|| ("environment.cuda_launch_blocking".to_string(), 1.into()));
    for (variable, choices) in player.choices {
        open.entry(variable).or_default().choices.extend(choices);
    }
    // Values that another branch would have set are no matter of the line.
    let mut set = BTreeSet::new();
    commands.iter().for_each(|command| command.names_set(&mut set));
    open.retain(|variable, _| !set.contains(variable.as_str()));
    let open = open.into_iter().map(|(variable, open)| Open { variable, ..open }).collect();
    let of_job = slurm::devices(&job).map(|devices| ("job.devices".to_string(), devices.into()));
    let beside = (!beside.is_empty()).then(|| (BESIDE.to_string(), Value::from(beside.join(" "))));
    let arguments = found.into_iter().map(|(name, values)| (name, value(values)));
    let program = programs.iter().find(|words| words.iter().any(|word| word.starts_with("--")));
    let program =
        program.map(|words| (PROGRAM.to_string(), Value::from(words[..words.len().min(2)].join(" "))));
    let beside = beside.into_iter().chain(blocking);
    let arguments =
        program.into_iter().chain(beside).chain(arguments).chain(documents).chain(of_job).collect();
    Ok(TextStatements { arguments, open })
}

/// The words of a program; one that holds a line of its own (`bash -c "..."`) comes apart.
fn apart(program: &[String]) -> Vec<String> {
    let come_apart = |word: &String| match word.contains("--") && word.contains(char::is_whitespace) {
        true => word.split_whitespace().map(|word| word.trim_matches(['"', '\'']).to_string()).collect(),
        false => vec![word.clone()],
    };
    program.iter().flat_map(come_apart).collect()
}

/// Adds the arguments among the words of a program.
fn arguments(words: &[String], found: &mut Vec<(String, Vec<String>)>) {
    // True if plain words belong to the argument before them.
    let mut open = false;
    let mut of_python = false;
    for word in words {
        let named =
            word.strip_prefix("--").filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()));
        of_python |= is_python(word) || word.ends_with(".py");
        let (name, value) = match named {
            Some(name) => name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value))),
            None if of_python && is_override(word) => {
                let (name, value) = word.trim_start_matches(['+', '~']).split_once('=').unwrap_or_default();
                (name, Some(value))
            }
            None => {
                let ends = word.ends_with(".py") || (word.starts_with('-') && word.parse::<f64>().is_err());
                open &= !ends;
                if open && let Some((_, values)) = found.last_mut() {
                    values.push(word.clone());
                }
                continue;
            }
        };
        let name = if named.is_some() { name.replace('-', "_") } else { name.to_string() };
        found.retain(|(other, _)| *other != name);
        open = value.is_none();
        found.push((name, value.map(str::to_string).into_iter().collect()));
    }
}

/// No value: given. One: a number, a truth or a text. More: a list.
fn value(mut values: Vec<String>) -> Value {
    match values.len() {
        0 => Value::Bool(true),
        1 => scalar(values.remove(0)),
        _ => values.into_iter().map(scalar).collect(),
    }
}

/// A value; what is open says nothing, nor does a variable that only another machine's shell would fill in. Of a path
/// below a folder that is open the rest stands.
fn scalar(text: String) -> Value {
    if !says_something(&text) || text.contains("${") {
        return below_open(&text).unwrap_or_default().into();
    }
    if let Ok(number) = text.parse::<f64>()
        && number.is_finite()
    {
        return stepsim_step::spec::json::whole(number);
    }
    match text.as_str() {
        "True" | "true" => true.into(),
        "False" | "false" => false.into(),
        _ => text.into(),
    }
}
