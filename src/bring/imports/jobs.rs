//! Jobs of clusters (Kubernetes, SkyPilot, dstack, Ray, Docker Compose) and makefiles: files that hold the lines which
//! start programs, as the script that they are.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_yaml_ng::Value;

use super::budget;
use super::invocation::is_launcher;

/// Keys whose text, or list of texts, is lines of a shell.
const LINES: [&str; 4] = ["setup", "run", "commands", "entrypoint"];
/// Keys whose list is the words of one line, the program first.
const WORDS: [&str; 3] = ["entrypoint", "command", "args"];
/// Keys that set variables of the surroundings.
const VARIABLES: [&str; 3] = ["env", "envs", "environment"];
/// Keys that stand beside the lines of a job.
const MARKS: &str = "compute:|apiVersion:|resources:|services:|num_nodes:|type: task|runtime_env:|envs:";
/// How deep a job may be nested.
const DEEPEST: usize = 24;

/// The script of a job; any other text as it stands.
pub fn unpacked(text: &str) -> Cow<'_, str> {
    made(text).or_else(|| script(text)).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// The script of a makefile: its variables, and the recipe that starts a training, where one alone does.
fn made(text: &str) -> Option<String> {
    if text.starts_with("#!")
        || !text.contains(":\n\t") && !text.contains("\n\t@")
        || budget::check(text).is_err()
    {
        return None;
    }
    let (mut set, mut recipes): (String, Vec<String>) = ("#!/bin/bash\n".to_string(), Vec::new());
    for line in text.replace("\\\n", " ").lines() {
        let shell = line.replace("$(", "${").replace("$$", "$");
        let shell = if shell.contains("${") { shell.replace(')', "}") } else { shell };
        if let (Some(command), Some(recipe)) = (shell.strip_prefix('\t'), recipes.last_mut()) {
            *recipe += &format!("{}\n", command.trim_start_matches(['@', '-']));
        } else if let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('\t')) {
            let name = name.trim_end_matches(['?', ':', '+', ' ']).trim_start_matches("export ");
            let value = shell.split_once('=').map_or(value, |(_, value)| value).trim();
            set += &format!("{name}=\"{}\"\n", value.trim_matches('"'));
        } else if line.ends_with(':') || line.contains(": ") {
            recipes.push(String::new());
        }
    }
    let starts = |recipe: &&String| recipe.split_whitespace().any(is_launcher);
    let mut started = recipes.iter().filter(starts);
    let recipe = started.next().filter(|_| started.next().is_none())?;
    Some(set + recipe)
}

/// The lines of all documents of a text, each once; `None` where it is no job or starts nothing.
fn script(text: &str) -> Option<String> {
    let is_job = |line: &str| MARKS.split('|').any(|mark| line.starts_with(mark));
    if text.starts_with("#!") || !text.lines().any(is_job) || budget::check(text).is_err() {
        return None;
    }
    // MosaicML's platform puts the configuration itself beside the command.
    let whole = || serde_yaml_ng::from_str::<Value>(text).ok();
    if let Some(configuration) = text.contains("\nparameters:").then(whole).flatten()
        && let (Some(_), Some(inner @ Value::Mapping(_))) =
            (configuration.get("command"), configuration.get("parameters"))
    {
        return serde_yaml_ng::to_string(inner).ok();
    }
    let (mut lines, mut maps): (Vec<String>, Vec<(String, String)>) = Default::default();
    for document in serde_yaml_ng::Deserializer::from_str(text) {
        let document = Value::deserialize(document).ok()?;
        match document.get("data").filter(|_| document.get("kind") == Some(&"ConfigMap".into())) {
            Some(Value::Mapping(data)) => maps.extend(
                data.iter()
                    .filter_map(|(name, text)| Some((name.as_str()?.to_owned(), text.as_str()?.to_owned()))),
            ),
            _ => gather(&document, 0, &mut lines),
        }
    }
    let starts = lines.iter().any(|line| !line.starts_with("export "));
    let mut seen = std::collections::BTreeSet::new();
    lines.retain(|line| seen.insert(line.clone()));
    if !starts {
        // The image's own program may read the one that a variable names.
        let is_named =
            |(name, _): &(String, String)| lines.iter().any(|line| line.ends_with(&format!("/{name}")));
        return maps.into_iter().find(is_named).map(|(_, text)| text);
    }
    let write =
        |(name, text): (String, String)| format!("cat > {MAPPED}{name} << 'END-OF-MAP'\n{text}\nEND-OF-MAP");
    let maps: Vec<String> = maps.into_iter().map(write).collect();
    Some(format!("#!/bin/bash\n{}\n{}\n", maps.join("\n"), lines.join("\n")))
}

/// The folder of files that a job holds in its maps: where each is mounted is not followed.
const MAPPED: &str = "/configmap/";

/// The text of a file that a script writes, or that a map of its job holds under that name.
pub(super) fn written<'a>(files: &'a BTreeMap<String, String>, path: &str) -> Option<&'a String> {
    files.get(path).or_else(|| files.get(&format!("{MAPPED}{}", path.rsplit('/').next()?)))
}

/// Adds the lines of a part of a job, what is set for it first.
fn gather(value: &Value, depth: usize, lines: &mut Vec<String>) {
    match value {
        Value::Sequence(all) if depth < DEEPEST => {
            all.iter().for_each(|value| gather(value, depth + 1, lines))
        }
        Value::Mapping(map) if depth < DEEPEST => {
            VARIABLES.iter().filter_map(|key| map.get(*key)).for_each(|set| variables(set, lines));
            for key in LINES {
                match map.get(key) {
                    Some(Value::String(text)) => lines.push(text.clone()),
                    Some(Value::Sequence(all)) if key != "entrypoint" => {
                        lines.extend(all.iter().filter_map(Value::as_str).map(str::to_owned));
                    }
                    _ => {}
                }
            }
            lines.extend(Some(words(map)).filter(|line| !line.is_empty()));
            let is_own = |key: &str| LINES.contains(&key) || WORDS.contains(&key) || VARIABLES.contains(&key);
            let parts = map.iter().filter(|(key, _)| !key.as_str().is_some_and(is_own));
            parts.for_each(|(_, value)| gather(value, depth + 1, lines));
        }
        _ => {}
    }
}

/// The line that a container runs: the words of its program, its arguments behind them.
fn words(map: &serde_yaml_ng::Mapping) -> String {
    let all = WORDS.iter().filter_map(|key| map.get(*key)).flat_map(|value| match value {
        Value::String(text) => vec![text.clone()],
        Value::Sequence(all) => all.iter().filter_map(plain).map(|word| in_quotes(&word)).collect(),
        _ => Vec::new(),
    });
    // A text of `entrypoint` is a line already.
    let is_line = matches!(map.get("entrypoint"), Some(Value::String(_)));
    all.skip(usize::from(is_line)).collect::<Vec<String>>().join(" ")
}

/// A word as a shell reads it: what a variable says in it counts.
fn in_quotes(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+${}".contains(c);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        // `$(NAME)` is a variable to Kubernetes and a program to a shell.
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// `NAME: value`, `- NAME=value`, or `- {name: NAME, value: value}`.
fn variables(set: &Value, lines: &mut Vec<String>) {
    let mut put = |name: &str, value: String| {
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        lines.extend(is_name.then(|| format!("export {name}={}", in_quotes(&value))));
    };
    match set {
        Value::Mapping(map) => {
            let pairs = map.iter().filter_map(|(name, value)| Some((name.as_str()?, plain(value)?)));
            pairs.for_each(|(name, value)| put(name, value));
        }
        Value::Sequence(all) => {
            for one in all {
                match (one.as_str().and_then(|text| text.split_once('=')), one.get("name"), one.get("value"))
                {
                    (Some((name, value)), ..) => put(name, value.to_owned()),
                    (None, Some(name), Some(value)) => {
                        put(name.as_str().unwrap_or_default(), plain(value).unwrap_or_default())
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// A value as a word.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        _ => None,
    }
}
