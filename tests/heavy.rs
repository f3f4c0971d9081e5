//! Texts that cost more than they say: each is refused, in few words, before it takes time or memory.

use crate::command::{Folder, stepsim};

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

/// Steps whose plan would take minutes or gigabytes: refused at the field, with the number that goes.
#[test]
fn heavy_steps_are_refused_before_they_are_planned() {
    let dynamic = "parallelism.context.dynamic.tokens_per_rank=4 --set documents.lengths=[100,200]";
    for (step, place, allowed) in [
        ("gpt3-175b --set batch.global=8388608 --set parallelism.data=16", "batch.global", "at most"),
        (&format!("gpt2-8 --set batch.global=2048 --set {dynamic}"), "tokens_per_rank", "at least"),
    ] {
        let message = stepsim(&format!("run {step}")).refused();
        assert!(message.contains(place) && message.contains(allowed), "{step}: {message}");
    }
    let message = stepsim("schedule --all --stages 128 --micro-batches 2048").refused();
    assert!(message.contains("262144") && message.contains("at most 65536"), "{message}");
}
