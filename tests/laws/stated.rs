//! Stated stays: whatever field of a workload the command line of `plan` states stands in the file that is written,
//! while a search varies the rest; or the refusal names the field.

use serde_json::Value;
use stepsim::simulate::Inputs;
use stepsim::spec::Disk;

use super::steps::count;
use super::walk::{Leaf, Walk};
use crate::command::Folder;

/// A small model, of which a search has much to vary.
const MODEL: &str = r#"{"name": "small", "layers": 4, "hidden": 512, "heads": 8, "kv_heads": 4, "ffn": 2048,
    "vocabulary": 32000, "sequence": 512, "gated_mlp": true, "moe": {"experts": 4, "top_k": 2, "ffn": 512}}"#;

/// Fields of a workload that stand by themselves: no element of a list, no key of a map, and not the model's own.
fn is_plain(leaf: &&Leaf) -> bool {
    let named = leaf.place.iter().all(|step| step != "[]" && step != "*");
    named && leaf.place[0] == "workload" && !["model", "topology", "base"].contains(&leaf.place[1].as_str())
}

/// Whether a field stands in a workload with a value, by whatever name: stating it again changes nothing.
fn stands(text: &str, set: &str) -> bool {
    let of = |sets: &[String]| {
        let inputs = Inputs::from_json(text, None, sets, &Disk).ok()?;
        serde_json::to_value(&inputs.workload.value).ok()
    };
    of(&[]).is_some_and(|plain| of(&[set.to_string()]) == Some(plain))
}

/// What a plan does with a field that is stated; none where it stands.
fn broken(folder: &Folder, leaf: &Leaf, value: &Value) -> Option<String> {
    let path = leaf.place[1..].join(".");
    let _ = std::fs::remove_file(folder.path("plan.json"));
    let line = format!("plan small.json --on 4xh100 --batch 16 --set '{path}={value}' -o plan.json");
    let said = folder.stepsim(&line);
    let told = |text: &str| leaf.place[1..].iter().any(|step| text.contains(step.as_str()));
    match said.status {
        Some(0 | 3) if folder.path("plan.json").is_file() => {
            let plan = folder.json("plan.json");
            let found = plan.pointer(&format!("/{}", path.replace('.', "/"))).unwrap_or(&Value::Null);
            (!stands(&plan.to_string(), &format!("{path}={value}")))
                .then(|| format!("{path}={value}: {found}"))
        }
        Some(2 | 3) if told(&said.error) => None,
        status => Some(format!("{path}={value}: {status:?}: {}{}", said.out, said.error)),
    }
}

#[test]
fn what_the_command_line_states_stands_in_the_plan() {
    let walk = Walk::new();
    let leaves: Vec<&Leaf> = walk.leaves.iter().filter(is_plain).collect();
    let folder = Folder::new();
    folder.write("small.json", MODEL);
    let most = (count() as usize / 10).clamp(8, leaves.len());
    let chosen = (0..most).map(|i| leaves[i * 733 % leaves.len()]);
    let all: Vec<String> =
        chosen.filter_map(|leaf| broken(&folder, leaf, walk.values(leaf, None).first()?)).collect();
    println!("{most} of {} fields", leaves.len());
    let plan = r#"{"base": "tiny-4"}"#;
    assert!(
        stands(plan, "batch.micro_batch=1") && !stands(plan, "batch.micro_batch=2"),
        "the law tells them apart"
    );
    assert!(all.is_empty(), "{} of {most} do not stay:\n{}", all.len(), all.join("\n"));
}
