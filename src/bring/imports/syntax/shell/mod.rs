//! A shell line or script: the arguments of the programs that it would run. Nothing is executed (`player.rs`).
//!
//! `--name value`, `--name=value`, and `name=value` behind a program of Python are arguments. Of one that stands
//! twice the last counts.

mod condition;
mod expand;
mod grammar;
mod lexer;
mod marks;
mod pattern;
mod player;
mod regular;
pub mod slurm;
mod stubs;
mod sum;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::invocation::{Invocation, is_launcher};
use super::said::{Open, TextStatements};
use grammar::ShellCommand;
use marks::{below_open, is_variable, says_something, written as in_words};
use player::Player;
use stepsim_spec::{SpecError, json};

pub use super::super::invocation::Counts;
pub(in crate::imports) use marks::{known, opens};

/// The names in a script's variables beside its arguments: a model, a checkpoint, a tokenizer.
const BESIDE: &str = "script.names";

/// The program that a script runs with arguments, and the word behind it: `megatron sft`.
pub(in crate::imports) const PROGRAM: &str = "script.program";

/// True if a text has arguments of this kind: a word that begins with `--`, or a program of Python.
pub(super) fn looks_like(text: &str) -> bool {
    let first =
        text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or_default();
    let is_other = OTHERS.iter().any(|begin| first.starts_with(begin));
    !is_other && (text.starts_with("#!") || words(text).any(|word| word.starts_with("--") || is_python(word)))
}

/// The first line of a text that is no script of a shell: JSON, or Python.
const OTHERS: [&str; 5] = ["{", "[{", "import ", "from ", "\"\"\""];

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
    let mut before = "";
    for word in words(text) {
        let is_named = NAMING.contains(&std::mem::replace(&mut before, word));
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        if let Some(name) = name.strip_prefix("--") {
            names.push(name.replace('-', "_"));
        } else if name == word
            && !is_named
            && word.starts_with(|c: char| c.is_ascii_alphanumeric() || "./$".contains(c))
        {
            names.push(format!("@{}", word.rsplit('/').next().unwrap_or_default()));
        } else if is_override(word) {
            names.push(name.trim_start_matches('+').to_string());
        }
    }
    names
}

/// Words behind which a surrounding, a package or a folder stands, and no program that trains.
const NAMING: [&str; 5] = ["activate", "install", "load", "cd", "pushd"];

/// True if a word is `name=value`, as hydra and MaxText take them.
fn is_override(word: &str) -> bool {
    let Some((name, _)) = word.trim_start_matches(['+', '~']).split_once('=') else { return false };
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c))
}

/// Before the names of a configuration of DeepSpeed that a script writes down, and names of which it has one.
const WRITTEN: &str = "deepspeed_config";
const WRITTEN_MARKS: [&str; 5] =
    ["zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu", "fp16", "bf16"];
/// Decisions that are taken the other way, too, to see what hangs on them.
const MOST_DECISIONS: usize = 24;

/// Names with the words behind them.
type Found = Vec<(String, Vec<String>)>;

/// The statements of a script that is run by that line.
///
/// # Errors
/// A quote that is not closed, or a script that goes on too long.
pub fn read(text: &str, typed: &Invocation) -> Result<TextStatements, SpecError> {
    let tokens = lexer::tokens(text)?;
    let set = grammar::names_set(&tokens);
    let commands = grammar::commands(tokens);
    let job = slurm::variables(text, typed.counts);
    let mut player = played(&commands, typed, &job, None, None)?;
    let starts = |player: &Player| player.programs.iter().flatten().any(|word| word.starts_with("--"));
    let (found, program) = arguments_of(&player);
    let mut open: BTreeMap<String, Open> = BTreeMap::new();
    for (name, values) in &found {
        if value(values.clone()) != "" {
            continue;
        }
        for what in values.iter().flat_map(|value| opens(value)) {
            open.entry(in_words(what)).or_default().arguments.push(name.clone());
        }
    }
    for at in 0..player.decisions.len().min(MOST_DECISIONS) {
        let turned = played(&commands, typed, &job, Some(at), Some(&player))?;
        (player.played, player.written) = (turned.played, turned.written);
        let entry = open.entry(in_words(&player.decisions[at])).or_default();
        entry.arguments.extend(differing(&found, &arguments_of(&turned).0));
    }
    // As it is typed nothing is started: a value that conditions ask for may start it.
    let asked = if starts(&player) || found.is_empty() { BTreeMap::new() } else { player.choices.clone() };
    for (variable, choices) in asked {
        for choice in choices {
            let environment = [typed.environment.clone(), vec![(variable.clone(), choice)]].concat();
            let other =
                played(&commands, &Invocation { environment, ..typed.clone() }, &job, None, Some(&player))?;
            (player.played, player.written) = (other.played, other.written);
            if starts(&other) {
                open.entry(variable.clone()).or_default().arguments.push(PROGRAM.to_string());
            }
        }
    }
    let options = options_of(text);
    for name in std::mem::take(&mut player.needed) {
        let asked =
            options.get(name.as_str()).map_or_else(|| in_words(&name), |option| (*option).to_string());
        open.entry(asked).or_default().arguments.push(PROGRAM.to_string());
    }
    for (variable, choices) in std::mem::take(&mut player.choices) {
        open.entry(variable).or_default().choices.extend(choices);
    }
    let open = asked_for(open, &set);
    let beside = player.models_beside();
    let beside = (!beside.is_empty()).then(|| (BESIDE.to_string(), Value::from(beside.join(" "))));
    let environment = player
        .environment
        .iter()
        .filter(|(_, value)| says_something(value) && *value != "0")
        .map(|(name, text)| (format!("environment.{}", name.to_ascii_lowercase()), scalar(text.clone())));
    let program = program.map(|words| (PROGRAM.to_string(), Value::from(words)));
    let arguments = found.into_iter().map(|(name, values)| (name, value(values)));
    let of_job = slurm::devices(&job).map(|devices| ("job.devices".to_string(), devices.into()));
    let all = program.into_iter().chain(beside).chain(environment).chain(arguments);
    let arguments = all.chain(written(&player)).chain(of_job).collect();
    Ok(TextStatements { arguments, open })
}

/// The words of each program that a script runs, in order.
///
/// # Errors
/// As [`read`].
pub fn programs(text: &str, typed: &Invocation) -> Result<Vec<Vec<String>>, SpecError> {
    Ok(run(text, typed)?.0)
}

/// The words of each program, and texts of files by their names.
type Played = (Vec<Vec<String>>, BTreeMap<String, String>);

/// The words of the programs that a script runs, and the files that it writes.
pub(in crate::imports) fn run(text: &str, typed: &Invocation) -> Result<Played, SpecError> {
    let commands = grammar::commands(lexer::tokens(text)?);
    let player = played(&commands, typed, &slurm::variables(text, typed.counts), None, None)?;
    Ok((player.programs, player.files))
}

/// The variables that nothing sets and that a script starts as its programs.
pub(in crate::imports) fn open_programs(text: &str, typed: &Invocation) -> Vec<String> {
    let (programs, _) = run(text, typed).unwrap_or_default();
    let of = |words: &Vec<String>| {
        let is_behind = |word: &String| !word.starts_with('-') || word.contains('=');
        let named = words.iter().position(|word| word.ends_with(".py") || word == "-m");
        let words = &words[..named.unwrap_or(words.len())];
        let launched = words.first().filter(|word| is_launcher(word)).is_some();
        let program =
            words.windows(2).find(|pair| launched && is_behind(&pair[0]) && marks::unset(&pair[1]).is_some());
        program.and_then(|pair| marks::unset(&pair[1])).map(str::to_string)
    };
    programs.iter().filter_map(of).collect()
}

/// A script that has been played, with a decision taken the other way, behind a play before.
fn played(
    commands: &[ShellCommand],
    typed: &Invocation,
    job: &[(String, String)],
    flip: Option<usize>,
    before: Option<&Player>,
) -> Result<Player, SpecError> {
    let environment: Vec<(String, String)> = job.iter().chain(&typed.environment).cloned().collect();
    let counts = typed.counts.or_else(|| slurm::counts(job));
    let mut player = Player::new(&typed.file, &environment, &typed.words, counts);
    player.flip = flip;
    (player.played, player.written) = before.map_or((0, 0), |before| (before.played, before.written));
    player.play(commands);
    if player.is_spent() {
        return Err(SpecError::at("", "the script does too much to be followed")
            .allowed("400,000 commands, and words of 16 MiB altogether")
            .hint("give the line that starts the training by itself"));
    }
    Ok(player)
}

/// The arguments of all programs, and the first program that has some, with the word behind it.
fn arguments_of(player: &Player) -> (Found, Option<String>) {
    let mut programs = player.options_left();
    programs.extend(player.programs.iter().cloned());
    let mut found = Vec::new();
    programs.iter().for_each(|program| arguments(&apart(program), &mut found));
    let has_some = |words: &&Vec<String>| words.iter().any(|word| word.starts_with("--"));
    let first = programs.iter().find(has_some).map(|words| words[..words.len().min(2)].join(" "));
    (found, first)
}

/// The names whose words are others.
fn differing(found: &Found, other: &Found) -> Vec<String> {
    let values = |all: &Found, name: &str| all.iter().find(|(n, _)| n == name).map(|(_, v)| value(v.clone()));
    let names: BTreeSet<&String> = found.iter().chain(other).map(|(name, _)| name).collect();
    names.into_iter().filter(|name| values(found, name) != values(other, name)).cloned().collect()
}

/// The options by which a script's own line sets variables: `--model) MODEL="$2"`.
fn options_of(text: &str) -> BTreeMap<&str, &str> {
    let mut options = BTreeMap::new();
    let mut last = None;
    for word in text.split_whitespace() {
        let arm = word.strip_suffix(')').filter(|option| option.starts_with("--"));
        let option = arm.map(|arm| arm.rsplit('|').next().unwrap_or(arm));
        if option.is_some() {
            last = option;
        } else if let (Some((name, _)), Some(option)) = (word.split_once('='), last) {
            options.entry(name).or_insert(option);
            last = None;
        }
    }
    options
}

/// The variables that the line which runs a script may set: of one that the script sets itself, in a branch that was
/// not taken, the variable that chooses the branch is asked for.
fn asked_for(mut open: BTreeMap<String, Open>, set: &BTreeSet<String>) -> Vec<Open> {
    let chooses = open.iter().filter(|(name, open)| !open.choices.is_empty() && !set.contains(name.as_str()));
    let chooses = chooses.max_by_key(|(_, open)| open.choices.len()).map(|(name, _)| name.clone());
    if let Some(chooses) = chooses {
        let own: Vec<String> = open.keys().filter(|name| set.contains(name.as_str())).cloned().collect();
        let moved: Vec<String> =
            own.iter().filter_map(|name| open.remove(name)).flat_map(|open| open.arguments).collect();
        open.entry(chooses).or_default().arguments.extend(moved);
    }
    let kept = open.into_iter().filter(|(_, open)| !open.arguments.is_empty() || !open.choices.is_empty());
    let is_asked = |variable: &str| is_variable(variable) || variable.starts_with("--");
    kept.map(|(variable, open)| Open { is_variable: is_asked(&variable), variable, ..open }).collect()
}

/// The names and values of the configurations that a script writes down for the program that it runs.
fn written(player: &Player) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for text in player.files.values() {
        if let Ok(value) = json::read_of_others("", text)
            && WRITTEN_MARKS.iter().any(|mark| value.get(*mark).is_some())
        {
            let _ = super::flat::flatten(WRITTEN, value, 1, &mut found);
        }
    }
    found
}

/// The words of a program, without a line of its own that is played by itself (`bash -c "..."`); other words that hold
/// options come apart.
fn apart(program: &[String]) -> Vec<String> {
    let is_shell = |word: &String| ["bash", "sh"].contains(&word.rsplit('/').next().unwrap_or_default());
    let takes_line = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    let line = program.windows(2).position(|pair| is_shell(&pair[0]) && takes_line(&pair[1]));
    // Words before a program say how a cluster starts it.
    let is_head =
        program.first().is_some_and(|word| HEADS.contains(&word.rsplit('/').next().unwrap_or_default()));
    let starts = |word: &String| is_shell(word) || word.ends_with(".py") || is_launcher(word);
    let begin = program.iter().skip(1).position(starts).filter(|_| is_head).map_or(0, |at| at + 1);
    // An option with a value in which blanks stand stays one: `--plugin={"a": 1}`.
    let is_many = |word: &str| {
        let mut parts = word.split_whitespace();
        let first = parts.next().unwrap_or_default();
        let has_value = first.starts_with("--") && first.contains('=');
        word.contains("--") && parts.next().is_some_and(|next| !has_value || next.starts_with("--"))
    };
    let come_apart = |word: &String| match is_many(word) {
        true => word.split_whitespace().map(|word| word.trim_matches(['"', '\'']).to_string()).collect(),
        false => vec![word.clone()],
    };
    let end = line.unwrap_or(program.len());
    program[begin.min(end)..end].iter().flat_map(come_apart).collect()
}

/// Programs that start another one elsewhere.
const HEADS: [&str; 8] =
    ["srun", "mpirun", "mpiexec", "docker", "podman", "singularity", "apptainer", "nsys"];

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
    // `32_000` is a number to Python.
    let digits = if text.chars().all(|c| c.is_ascii_digit() || c == '_') {
        text.replace('_', "")
    } else {
        text.clone()
    };
    if let Ok(number) = digits.parse::<f64>()
        && number.is_finite()
    {
        return stepsim_spec::json::whole(number);
    }
    match text.as_str() {
        "True" | "true" => true.into(),
        "False" | "false" => false.into(),
        _ => text.into(),
    }
}
