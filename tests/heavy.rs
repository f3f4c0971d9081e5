//! Texts that cost more than they say: each is refused, in few words, before it takes time or memory.

use cpu_time::ThreadTime;
use stepsim::bring::imports::syntax::Syntax;
use stepsim::bring::imports::table::FormatTable;
use stepsim::bring::imports::{Beside, translate};

use crate::command::Folder;
use crate::slow::slow;

#[test]
fn heavy_texts_are_refused_in_few_words() {
    let nest = |open: &str, inner: &str, close: &str, n: usize| open.repeat(n) + inner + &close.repeat(n);
    let doubling: String = ('A'..='Y')
        .zip('B'..='Z')
        .map(|(a, b)| format!("{b}=${a}${a}\n"))
        .collect::<String>()
        .replace("$A", "abcdefgh");
    let texts = [
        ("brackets.json", "[".repeat(1_000_000)),
        ("model.json", format!("{{\"model\": {}}}", nest("[", "1", "]", 10_000))),
        ("brackets.yaml", format!("model: {}", "[".repeat(50_000))),
        ("maps.yaml", format!("model: {}", "{a: ".repeat(10_000))),
        ("brackets.toml", format!("a = {}", "[".repeat(10_000))),
        (
            "sum.sh",
            format!("N=$(({}))\ntorchrun pretrain_gpt.py --num-layers $N\n", nest("(", "1", ")", 10_000)),
        ),
        (
            "else.sh",
            format!("N={}\ntorchrun pretrain_gpt.py --num-layers $N\n", nest("${A:-", "1", "}", 10_000)),
        ),
        (
            "branches.sh",
            format!(
                "#!/bin/sh\n{}",
                nest("if true; then\n", "torchrun x.py --num-layers 8\n", "fi\n", 10_000)
            ),
        ),
        ("doubling.sh", format!("{doubling}torchrun pretrain_gpt.py --num-layers $Z\n")),
        ("calls.py", format!("def a_config():\n    cfg.model.layers = {}\n", nest("f(", "1", ")", 10_000))),
    ];
    for (name, text) in texts {
        let folder = Folder::new();
        folder.write(name, text);
        let message = folder.stepsim(&format!("run {name}")).refused();
        assert!(message.len() < 1200, "{name}: {} bytes of {}", message.len(), &message[..300]);
    }
    let folder = Folder::new();
    for condition in [nest("(", "1", ")", 1500) + ">0", "1+".repeat(4000) + "1>0"] {
        let line = format!("sweep tiny-4 --vary batch.global=4 --where '{condition}'");
        let message = folder.stepsim(&line).refused();
        assert!(message.contains("--where"), "{}", &message[..message.len().min(300)]);
    }
}

/// Texts of at least so many bytes in every syntax: unknown names, values that hang on one another, and calls.
fn long_texts(bytes: usize) -> Vec<(Syntax, &'static str, String)> {
    let many = |head: &str, line: &dyn Fn(usize) -> String, tail: &str| {
        let (mut text, mut lines) = (head.to_string(), 0..);
        while text.len() < bytes {
            text += &line(lines.next().unwrap_or_default());
        }
        text + tail
    };
    let recipe =
        "from megatron.bridge.recipes import x\ndef a_pretrain_config():\n    x0 = 1\n    cfg = Config()\n";
    let trainer = "from transformers import TrainingArguments\nargs = TrainingArguments(max_steps=1)\n";
    let end = "    return cfg\n";
    vec![
        (Syntax::Yaml, "keys", many("model:\n", &|i| format!("  unknown_key_{i}: {i}\n"), "")),
        (Syntax::Yaml, "sections", many("model:\n", &|i| format!("  sub{i}:\n    a: {i}\n"), "")),
        (Syntax::Yaml, "references", many("a0: 1\n", &|i| format!("a{}: ${{a{i}}}\n", i + 1), "")),
        (Syntax::Toml, "keys", many("[model]\n", &|i| format!("unknown_key_{i} = {i}\n"), "")),
        (Syntax::Toml, "sections", many("", &|i| format!("[section{i}]\na = {i}\n"), "")),
        (Syntax::Json, "keys", many("{\"a\": 1", &|i| format!(", \"unknown_key_{i}\": {i}"), "}")),
        (Syntax::Json, "objects", many("{\"a\": [{}", &|_| ", {}".into(), "]}")),
        (Syntax::Shell, "options", many("torchrun x.py", &|i| format!(" --unknown-{i} {i}"), "\n")),
        (Syntax::Shell, "variables", many("a0=1\n", &|i| format!("a{}=$a{i}\n", i + 1), "torchrun x.py\n")),
        (Syntax::Shell, "arrays", many("a=(1)\n", &|_| "a=(${a[@]} ${a[@]})\n".into(), "torchrun x.py\n")),
        (Syntax::Python, "fields", many(recipe, &|i| format!("    cfg.model.unknown_{i} = {i}\n"), end)),
        (Syntax::Python, "variables", many(recipe, &|i| format!("    x{} = x{i} + 1\n", i + 1), end)),
        (
            Syntax::Python,
            "parts",
            many(&format!("{recipe}    cfg = x"), &|_| ".a".into(), "\n    return cfg\n"),
        ),
        (
            Syntax::Python,
            "functions",
            many(recipe, &|i| format!("def f{i}():\n    return f{}()\n", i + 1), ""),
        ),
        (Syntax::Calls, "keywords", many(trainer, &|i| format!("args = SFTConfig(unknown_{i}={i})\n"), "")),
        (Syntax::Calls, "variables", many(trainer, &|i| format!("x{i} = [{i}]\n"), "")),
    ]
}

/// Readers cost by the byte, whatever a text holds, by every format that has its syntax.
/// `STEPSIM_SLOW=1 cargo test --test all heavy::readers -- --nocapture` prints the table.
#[test]
fn readers_cost_by_the_byte() {
    let [few, many] = if slow() { [1 << 16, 1 << 19] } else { [1 << 12, 1 << 14] };
    let took = |format: &str, text: &str| {
        let begun = ThreadTime::now();
        let _ = translate(format, text, "file", &Beside::default());
        begun.elapsed().as_secs_f64()
    };
    let mut dear = Vec::new();
    for ((syntax, what, short), (.., long)) in long_texts(few).iter().zip(long_texts(many)) {
        let mut formats: Vec<&str> = FormatTable::all()
            .iter()
            .filter(|(_, table)| table.syntax.contains(syntax))
            .map(|f| *f.0)
            .collect();
        formats.truncate(if slow() { usize::MAX } else { 1 });
        for format in formats {
            let (short_s, long_s) = (took(format, short), took(format, &long));
            let [times, longer] = [long_s / (short_s + NOISE_S), long.len() as f64 / short.len() as f64];
            let row = format!("{format:20} {syntax:?} {what}: {long_s:.2} CPU-s of {} bytes", long.len());
            println!("{row}");
            let most_s = MOST_S + MOST_S_A_MB * long.len() as f64 / 1e6;
            dear.extend((times > MOST_GROWTH * longer || long_s > most_s).then_some(row));
        }
    }
    assert!(dear.is_empty(), "cost by more than the byte:\n{}", dear.join("\n"));
}

/// A text four times as long costs four times as much, and some for luck; a square would be sixteen times.
const MOST_GROWTH: f64 = 1.7;
/// CPU-seconds for each megabyte, and for a short text that does all that a reader may do.
const MOST_S_A_MB: f64 = 1.0;
const MOST_S: f64 = 0.5;
const NOISE_S: f64 = 0.005;
