//! Files beside a script: scripts that it takes in (`source models/qwen3-4B.sh`), and configurations that it writes
//! down for the program that it runs (`cat <<END > ds_config.json`).

use std::path::Path;

use serde_json::Value;

use super::player::Player;
use stepsim_step::spec::{Disk, Files, json};

/// Before the names of a configuration that a script writes down.
const WRITTEN: &str = "deepspeed_config";
/// Names of such a configuration; it has at least one.
const MARKS: [&str; 5] =
    ["zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu", "fp16", "bf16"];
/// Scripts take in others at most this deep.
const DEEPEST: usize = 4;

/// A text with the scripts that it takes in, where they stand beside it as they are named; of another, its name is
/// kept.
pub fn with_sources(text: &str, file: &str) -> String {
    taken_in(text, Path::new(file).parent().unwrap_or(Path::new("")), 0)
}

fn taken_in(text: &str, folder: &Path, depth: usize) -> String {
    let mut whole = String::with_capacity(text.len());
    for line in text.lines() {
        whole += line;
        whole.push('\n');
        let Some(path) = source(line).filter(|_| depth < DEEPEST) else { continue };
        // The text before a folder's name is the place of the script itself.
        let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        while !parts.is_empty() {
            let beside = folder.join(parts.join("/"));
            if let Ok(text) = Disk.read(&beside) {
                whole += &taken_in(&text, beside.parent().unwrap_or(folder), depth + 1);
                break;
            }
            parts.remove(0);
        }
        if let (true, Some(name)) = (parts.is_empty(), path.rsplit('/').next()) {
            whole += &format!("MODEL_SOURCE=models/{}\n", name.trim_end_matches(".sh"));
        }
    }
    whole
}

/// The script that a line takes in.
fn source(line: &str) -> Option<&str> {
    let line = line.trim();
    let rest = line.strip_prefix("source ").or(line.strip_prefix(". "))?;
    let path = rest.trim().trim_matches(['"', '\'']);
    let plain = path.ends_with(".sh") && !path.contains(char::is_whitespace);
    plain.then(|| path.rsplit_once('}').map_or(path, |(_, path)| path))
}

/// The names and values of the JSON that a script writes down, variables put in.
pub(super) fn documents(text: &str, player: &mut Player) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(end) = ends_with(line) else { continue };
        let body: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != end).collect();
        let body = player.filled(&body.join("\n"));
        if let Ok(value) = json::read_of_others("", &body)
            && MARKS.iter().any(|mark| value.get(*mark).is_some())
        {
            let _ = super::super::flat::flatten(WRITTEN, value, 1, &mut found);
        }
    }
    found
}

/// The word that ends the document which begins behind a line.
fn ends_with(line: &str) -> Option<&str> {
    let line = line.split_once('#').map_or(line, |(line, _)| line);
    let (_, rest) = line.split_once("<<").filter(|(_, rest)| !rest.starts_with('<'))?;
    let word = rest.trim_start_matches('-').split_whitespace().next()?;
    Some(word.trim_matches(['"', '\'']))
        .filter(|word| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}
