//! Hints for the words that people try first: `--tp 8`, `--gpus 64`, `h100x64`, `8 nodes of 8 h100`, `rn`.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use stepsim_spec::nearest;

/// Options of training software, and the field that each is.
const FIELDS: [(&[&str], &str); 9] = [
    (&["tp", "tensor", "tensor-parallel", "tensor-model-parallel-size"], "parallelism.tensor"),
    (&["pp", "pipeline", "pipeline-parallel", "pipeline-model-parallel-size"], "parallelism.pipeline.size"),
    (&["cp", "context", "context-parallel-size"], "parallelism.context.size"),
    (&["ep", "expert", "expert-model-parallel-size"], "parallelism.expert"),
    (&["dp", "data", "data-parallel"], "parallelism.data"),
    (&["mbs", "micro-batch", "micro-batch-size"], "batch.micro_batch"),
    (&["gbs", "batch", "batch-size", "global-batch", "global-batch-size"], "batch.global"),
    (&["seq", "seq-length", "sequence", "sequence-length"], "sequence"),
    (&["price", "price-per-hour", "dollars"], "topology.device.price_USD_per_h"),
];
/// Options that count devices.
const DEVICES: [&str; 7] = ["gpus", "num-gpus", "gpu", "devices", "num-devices", "world-size", "n-gpus"];
/// Options that take a machine.
const MACHINE: [&str; 4] = ["-t", "--on", "--topology", "--machine"];

/// A hint about words that are no command line.
pub(super) fn of_words(program: &clap::Command, words: &[String], error: &clap::Error) -> Option<String> {
    let part = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::UnknownArgument => option(words, part(ContextKind::InvalidArg)?),
        ErrorKind::InvalidSubcommand => {
            let names = program.get_subcommands().map(clap::Command::get_name);
            let near = nearest(part(ContextKind::InvalidSubcommand)?, names);
            near.first().map(|name| format!("did you mean `stepsim {name}`?"))
        }
        _ => None,
    }
}

/// Takes away what clap would propose by spelling alone.
pub(super) fn quiet(error: &mut clap::Error) {
    use ContextKind::{Suggested, SuggestedArg, SuggestedSubcommand, SuggestedValue, Usage};
    for kind in [Suggested, SuggestedArg, SuggestedSubcommand, SuggestedValue, Usage] {
        error.remove(kind);
    }
}

/// A field or a machine in place of an option that there is not.
fn option(words: &[String], typed: &str) -> Option<String> {
    let option = typed.split('=').next()?;
    let name = option.trim_start_matches('-').replace('_', "-");
    let value = value_of(words, option);
    if let Some((_, path)) = FIELDS.iter().find(|(names, _)| names.contains(&name.as_str())) {
        return Some(format!("a field of the step: --set {path}={}", value.unwrap_or("N")));
    }
    if !typed.starts_with('-') && typed.contains('=') {
        return Some(format!("a field of the workload: --set {typed}"));
    }
    DEVICES.contains(&name.as_str()).then(|| {
        let machine = if words.get(1).is_some_and(|command| command == "plan") { "--on" } else { "-t" };
        let counted = match value {
            Some(value) if value.contains(|c: char| !c.is_ascii_digit()) => value.to_owned(),
            value => format!("{}xh100", value.unwrap_or("64")),
        };
        format!("a machine by count and name: {machine} {counted}")
    })
}

/// The words behind an option, or behind its equals sign.
fn value_of<'a>(words: &'a [String], option: &str) -> Option<&'a str> {
    let at = words.iter().position(|word| word.split('=').next() == Some(option))?;
    words[at].split_once('=').map(|(_, value)| value).or_else(|| words.get(at + 1).map(String::as_str))
}

/// A hint about words that a command has refused.
pub(super) fn of_failure(words: &[String]) -> Option<String> {
    let machine = MACHINE.iter().find_map(|option| value_of(words, option)).and_then(count_first);
    if let Some(machine) = machine {
        return Some(format!("the count stands before the name: {machine}"));
    }
    if let Some((field, thousands)) = words.iter().find_map(|word| counted_in_k(word)) {
        return Some(format!("in full: {field}={} or {field}={}", thousands << 10, thousands * 1000));
    }
    let timeline = |word: &&String| word.ends_with(".json.gz") || word.ends_with(".pftrace");
    let reads_steps =
        words.get(1).is_some_and(|command| matches!(command.as_str(), "plan" | "run" | "inspect"));
    let file = words.get(2).filter(timeline).filter(|_| reads_steps)?;
    Some(format!("a profile or a timeline is read by: stepsim analyze {file}"))
}

/// `sequence=512k`: a field and its thousands.
fn counted_in_k(word: &str) -> Option<(&str, u64)> {
    let (field, count) = word.split_once('=')?;
    Some((field, count.strip_suffix(['k', 'K'])?.parse::<u32>().ok()?.into()))
}

/// `h100x64` and `8 nodes of 8 h100` with their count before the name.
fn count_first(text: &str) -> Option<String> {
    let numbers: Vec<&str> =
        text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()).collect();
    let words: Vec<&str> = text.split([' ', 'x']).filter(|word| !word.is_empty()).collect();
    if let [nodes, "node" | "nodes", .., name] = words[..] {
        let each = numbers.get(1)?.parse::<u64>().ok()?;
        let count = nodes.parse::<u64>().ok()?.checked_mul(each)?;
        return Some(format!("{count}x{name}"));
    }
    // `rtx4090` is a name.
    let (name, count) = text.rsplit_once('x').filter(|(name, _)| !name.ends_with("rt"))?;
    let counts = !count.is_empty() && count.bytes().all(|digit| digit.is_ascii_digit());
    (counts && name.starts_with(|c: char| c.is_ascii_alphabetic())).then(|| format!("{count}x{name}"))
}
