//! Layers of each stage of a pipeline: in Megatron's letters, in words, as a list of numbers, or by cost.

use serde_json::Value;

use super::columns::DescribedColumns;
use super::origin::ValueOrigin;

/// `layer_split` of the workload, if there is one; `None`: as even as can be. A layout that is not understood, or is
/// one of another model, is left as a gap. Layers that do not fill the stages, but do with two more, leave room for
/// embedding and loss at the ends; fewer layers than stages stand behind a stage of the embedding alone.
pub fn layer_split(c: &mut DescribedColumns, layers: u64, stages: u64) -> Option<Value> {
    if !layers.is_multiple_of(stages) && (layers + 2).is_multiple_of(stages) {
        let why = "the layers do not fill the stages, with one less at both ends they do";
        c.fill("pp_layout", "ends-less".into(), ValueOrigin::assumed(why));
    }
    if layers < stages {
        let why = "fewer layers than stages: embedding and head are stages of their own";
        c.fill("pp_layout", "ends alone".into(), ValueOrigin::assumed(why));
    }
    let text = match c.get("pp_layout") {
        Value::Array(list) => list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        _ => c.text("pp_layout"),
    };
    if text.is_empty() || is_even(&text) && layers >= stages {
        return None;
    }
    let split = match text.as_str() {
        "by-cost" => Some(split_by_cost(layers, stages, head_in_layers(c))),
        text => split(text, layers, stages),
    };
    if split.is_none() {
        c.unheed("pp_layout");
    }
    split.or_else(|| (layers < stages).then(|| spread(layers, stages))).map(Value::from)
}

fn is_even(text: &str) -> bool {
    let text = text.to_lowercase();
    ["even", "uniform", "balanced", "equal", "default", "none", "auto"]
        .iter()
        .any(|word| text.starts_with(word))
}

/// Layers of each stage as a text says, if they make up `layers` and `stages`.
pub fn split(text: &str, layers: u64, stages: u64) -> Option<Vec<u64>> {
    let fits = |split: &Vec<u64>| split.iter().sum::<u64>() == layers && split.len() as u64 == stages;
    letters(text)
        .filter(fits)
        .or_else(|| numbers(text).filter(fits))
        .or_else(|| in_words(text, layers, stages).filter(fits))
}

/// Megatron's letters (`Et*4|(t*4|)*14tmL`): `t` is a layer; `E` embedding, `m` prediction of a second token and `L`
/// loss count nothing; `|` ends a stage, `x*n` and `(…)*n` repeat.
fn letters(text: &str) -> Option<Vec<u64>> {
    let compact: String = text.chars().filter(|c| !c.is_whitespace() && *c != ',').collect();
    let mut flat = String::new();
    let mut rest = compact.as_str();
    while let Some(c) = rest.chars().next() {
        let (unit, after) = if c == '(' { rest[1..].split_once(')')? } else { rest.split_at(c.len_utf8()) };
        let (times, after) = match after.strip_prefix('*') {
            Some(count) => {
                let digits = count.len() - count.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                (count[..digits].parse::<usize>().ok()?, &count[digits..])
            }
            None => (1, after),
        };
        if times > 10_000 || flat.len() > 100_000 {
            return None;
        }
        flat += &unit.repeat(times);
        rest = after;
    }
    // A group may repeat units that carry counts of their own.
    if flat.contains(['*', '(', ')']) {
        return letters(&flat);
    }
    let known = flat.contains('|') && flat.chars().all(|c| "EeTtDdMmLl|".contains(c));
    let layers = |stage: &str| stage.chars().filter(|c| "TtDd".contains(*c)).count() as u64;
    known.then(|| flat.split('|').map(layers).collect())
}

/// Numbers alone: `7, 8, 8, 7`, `[7, 8, 8, 7]`, `7-8-8-7`, `7|8|8|7`.
fn numbers(text: &str) -> Option<Vec<u64>> {
    let inner = text.trim().trim_matches(['[', ']', '(', ')']);
    let parts: Vec<&str> = inner.split([',', '-', '|', ' ', '/', '+']).filter(|p| !p.is_empty()).collect();
    (parts.len() > 1).then(|| parts.iter().map(|p| p.parse().ok()).collect()).flatten()
}

/// Words: numbers of layers on the first and last stage, one less there, embedding or loss alone or counted as layers.
fn in_words(text: &str, layers: u64, stages: u64) -> Option<Vec<u64>> {
    let text = text.to_lowercase().replace(['-', '_'], " ");
    let says = |words: &str| words.split('|').any(|word| text.contains(word));
    let number_at = |end: &str| number_near(&text, end);
    let (first, last) = (number_at("first"), number_at("last"));
    if first.is_some() || last.is_some() {
        return with_ends(layers, stages, first, last);
    }
    if says("alone|own stage|stages of their own|stage of its own|own block") {
        return Some(spread(layers, stages));
    }
    let both = says("ends less|one less at|one fewer|one less layer");
    let embedding = both
        || says("account for embedding|embedding as a layer|embedding counted|embedding and|with embedding");
    let loss = both
        || says(
            "account for loss|head as a layer|loss as a layer|head counted|loss counted|and loss|and head|and lm head",
        );
    if embedding || loss {
        let counted = layers + u64::from(embedding) + u64::from(loss);
        let mut split: Vec<u64> = even(counted, stages);
        *split.first_mut()? -= u64::from(embedding).min(split[0]);
        let end = split.last_mut()?;
        *end -= u64::from(loss).min(*end);
        return Some(split);
    }
    None
}

/// The number beside a word: `11 on the first stage`, `first stage 11 layers`, `first=11`.
fn number_near(text: &str, word: &str) -> Option<u64> {
    let at = text.find(word)?;
    let piece_start = text[..at].rfind([',', ';']).map_or(0, |i| i + 1);
    let piece_end = text[at..].find([',', ';']).map_or(text.len(), |i| at + i);
    let figure = |piece: &str| {
        let digits = piece.split(|c: char| !c.is_ascii_digit()).filter(|d| !d.is_empty());
        digits.map(str::parse).collect::<Result<Vec<u64>, _>>().ok()
    };
    let behind = figure(&text[at..piece_end])?.first().copied();
    behind.or(figure(&text[piece_start..at])?.last().copied())
}

fn with_ends(layers: u64, stages: u64, first: Option<u64>, last: Option<u64>) -> Option<Vec<u64>> {
    let ends = u64::from(first.is_some()) + u64::from(last.is_some());
    let between = layers.checked_sub(first.unwrap_or(0) + last.unwrap_or(0))?;
    let mut split: Vec<u64> = first.into_iter().collect();
    split.extend(even(between, stages.checked_sub(ends).filter(|n| *n > 0)?));
    split.extend(last);
    Some(split)
}

/// As even as can be, the longer ones first.
fn even(layers: u64, stages: u64) -> Vec<u64> {
    (0..stages).map(|s| layers / stages + u64::from(s < layers % stages)).collect()
}

/// Embedding and head on stages of their own, the layers spread between them.
pub fn spread(layers: u64, stages: u64) -> Vec<u64> {
    if stages < 3 {
        return even(layers, stages);
    }
    let mut split = vec![0];
    split.extend(even(layers, stages - 2));
    split.push(0);
    split
}

/// Weights of the LM head over a layer's weights: the ratio of their times.
fn head_in_layers(c: &DescribedColumns) -> f64 {
    let width = |name: &str| c.number(name).unwrap_or(0.0);
    let (hidden, ffn) = (width("hidden"), width("ffn"));
    let shared = c.number("kv_heads").zip(c.number("heads")).map_or(1.0, |(kv, heads)| kv / heads.max(1.0));
    let products = if c.get("gated_mlp").as_bool() == Some(false) { 2.0 } else { 3.0 };
    let layer = hidden * hidden * (2.0 + 2.0 * shared) + products * hidden * ffn;
    if layer > 0.0 { width("vocab") * hidden / layer } else { 0.0 }
}

/// nanotron's split (`models/base.py`, `build_model`): blocks go to a stage until the cost up to there passes its
/// share, the LM head counting as a block; so a large head has a stage without layers, and stages may be left with
/// nothing.
pub fn split_by_cost(layers: u64, stages: u64, head: f64) -> Vec<u64> {
    let share = (layers as f64 + head) / stages as f64;
    let (mut split, mut stage) = (vec![0; stages as usize], 0);
    for layer in 1..=layers {
        split[stage] += 1;
        let passed = layer as f64 > share * (stage + 1) as f64;
        stage += usize::from(passed && stage + 1 < split.len());
    }
    split
}
