//! Files of other software by kind, and what is said of each: data of our own in the shape of files that people plan.

use std::collections::BTreeMap;
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

use stepsim::core::units::Time;

use crate::answer::flat;
use crate::command::{Folder, Said, json};
use crate::slow::{slow, turn};

/// A kind of file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    kind: String,
    files: BTreeMap<String, String>,
    /// What stands behind `stepsim plan`.
    plan: String,
    /// What is printed.
    #[serde(default)]
    says: Vec<String>,
    /// Fields of the workload that is written, by their pointer.
    #[serde(default)]
    workload: BTreeMap<String, Value>,
    /// Words of the refusal.
    #[serde(default)]
    refused: Vec<String>,
    /// How a refusal ends.
    status: Option<i32>,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("data/field.json")).expect("cases")
}

fn folder(files: &BTreeMap<String, String>) -> Folder {
    let folder = Folder::new();
    for (name, text) in files {
        std::fs::create_dir_all(folder.path(name).parent().expect("a folder")).expect("a folder");
        folder.write(name, text);
    }
    folder
}

#[test]
fn files_of_every_kind_are_read_by_their_own_software() {
    for case in turn(cases()) {
        let folder = folder(&case.files);
        let said: Said = folder.stepsim(&format!("plan {} --sources -o plan.json", case.plan));
        let text = format!("{}{}", said.out, said.error);
        if !case.refused.is_empty() {
            assert_eq!(said.status, Some(case.status.unwrap_or(2)), "{}: {text}", case.kind);
            case.refused
                .iter()
                .for_each(|part| assert!(text.contains(part), "{}: no `{part}` in\n{text}", case.kind));
            continue;
        }
        assert_eq!(said.status, Some(0), "{}: {text}", case.kind);
        case.says
            .iter()
            .for_each(|part| assert!(text.contains(part), "{}: no `{part}` in\n{text}", case.kind));
        let made = json(folder.path("plan.json"));
        for (pointer, value) in &case.workload {
            let found = made.pointer(pointer).unwrap_or(&Value::Null);
            assert_eq!(found, value, "{} {pointer}: {text}", case.kind);
        }
    }
}

/// A plan is one screen of 80 columns with the answer in its first ten lines; the run of its file and its page say the
/// same step, range, doubts and sentence.
#[test]
fn a_plan_is_a_screen_and_the_run_of_its_file() {
    let mut planned = 0;
    for case in turn(cases().iter().filter(|case| case.refused.is_empty())) {
        let folder = folder(&case.files);
        let plan = folder.stepsim_of_width(&format!("plan {} -o p.json --html p.html", case.plan), 80).ok();
        let lines: Vec<&str> = plan.lines().collect();
        assert!(lines.len() <= 25, "{}: {} lines\n{plan}", case.kind, lines.len());
        let run = flat(&folder.stepsim("run p.json --report r.json").ok());
        let answer = &folder.json("r.json")["answer"];
        let (said, page) = (flat(&plan), flat(&folder.text("p.html")));
        // A device whose power nobody states has no cost.
        let names = ["  step ", "  layout ", "  memory ", "  cost "];
        for name in names.iter().take(if answer["cost"].is_null() { 3 } else { 4 }) {
            assert!(
                lines.iter().take(10).any(|line| line.starts_with(name)),
                "{}: {name}\n{plan}",
                case.kind
            );
        }
        let step = Time::from_s(answer["step_time_s"].as_f64().expect("a step"));
        let mfu = 100.0 * answer["mfu"].as_f64().expect("MFU");
        assert!(said.contains(&format!(" step {step}, MFU {mfu:.1} %,")), "{}: {step}\n{plan}", case.kind);
        assert!(run.contains(&format!(" step {step} ")), "{}: {step}\n{run}", case.kind);
        for words in [&answer["range"], &answer["hangs_on"]] {
            let words = flat(words.as_str().expect("words"));
            for text in [&said, &run, &page] {
                assert!(text.contains(&words), "{}: no `{words}` in\n{text}", case.kind);
            }
        }
        let reading = &folder.json("p.json")["reading"];
        let doubts = ["not_understood", "at_most"].map(|list| reading[list].as_array().map_or(0, Vec::len));
        let known = answer["doubts"].as_array().map_or(0, Vec::len);
        assert!(doubts[0] + doubts[1] <= known, "{}: {reading} {answer}", case.kind);
        planned += 1;
    }
    assert!(planned >= if slow() { 20 } else { 6 }, "{planned} files were planned");
}

/// A file of software that has no reader.
#[derive(Deserialize)]
struct Foreign {
    kind: String,
    file: String,
    text: String,
    says: String,
}

/// The law of the foreign file: no reader takes it, whatever stands beside it.
#[test]
fn files_of_other_software_give_no_numbers() {
    let all: Vec<Foreign> = serde_json::from_str(include_str!("data/foreign.json")).expect("files");
    for Foreign { kind, file, text, says } in all {
        let folder = Folder::new();
        folder.write(&file, text);
        folder.write(
            "ds.json",
            r#"{"zero_optimization": {"stage": 3}, "train_batch_size": 64, "steps_per_print": 9}"#,
        );
        folder.write("config.json", CONFIG);
        for beside in ["", "llama3-8b", "config.json"] {
            let said = folder.stepsim(&format!("plan {file} {beside} --on 8xh100 -o plan.json"));
            assert_eq!(said.status, Some(2), "{kind}, {beside}: {}{}", said.out, said.error);
            assert!(said.out.is_empty(), "{kind}, {beside}: {}", said.out);
            assert!(said.error.contains(&says), "{kind}: no `{says}` in {}", said.error);
            assert!(said.error.contains("stepsim "), "{kind}: no line that would work in {}", said.error);
        }
    }
}

/// A broken table ends the program with the table's name: it is not read as an empty one.
#[test]
fn broken_tables_are_loud() {
    let folder = Folder::new();
    let data =
        ["topologies", "workloads"].map(|name| std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name));
    let copied = Command::new("cp").arg("-rL").args(data).arg(folder.path(".")).status().expect("a copy");
    assert!(copied.success());
    folder.write("config.json", CONFIG);
    folder.write(
        "x.yaml",
        "base_model: a/b\nsequence_len: 4096\nsample_packing: true\nmicro_batch_size: 1\nodd: 2\n",
    );
    for table in ["words", "foreign", "axolotl"].map(|name| format!("workloads/imports/{name}.json")) {
        let whole = folder.text(&table);
        for (text, is_broken) in [(whole.replacen(": [", ": 1, \"x\": [", 1), true), (whole, false)] {
            folder.write(&table, text);
            let mut line = Command::new(env!("CARGO_BIN_EXE_stepsim"));
            line.args(["plan", "x.yaml", "config.json", "--on", "8xh100"])
                .env("STEPSIM_SHIPPED", folder.path("."));
            let done = line.current_dir(folder.path(".")).output().expect("a run");
            let said = String::from_utf8_lossy(&done.stderr);
            assert_eq!([said.contains(&table), !done.status.success()], [is_broken; 2], "{table}: {said}");
        }
    }
}

const CONFIG: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024,
    "intermediate_size": 2816, "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 8,
    "vocab_size": 32000, "max_position_embeddings": 8192, "tie_word_embeddings": false}"#;

/// What the command line states stands in the file that is written and in the line of the layout; a search varies the
/// rest.
#[test]
fn what_is_stated_stays() {
    let folder = Folder::new();
    folder.write("config.json", CONFIG);
    let rows: Vec<(String, String)> = serde_json::from_str(include_str!("data/stated.json")).expect("rows");
    for (sets, says) in turn(rows) {
        let words: String = sets.split(' ').map(|set| format!(" --set '{set}'")).collect();
        let text = folder
            .stepsim(&format!("plan config.json --on 8xh100 --batch 16{words} --sources -o plan.json"))
            .ok();
        assert!(text.contains(&says), "{sets}: no `{says}` in\n{text}");
        let made = json(folder.path("plan.json"));
        for set in sets.split(' ') {
            let (path, value) = set.split_once('=').expect("a setting");
            let value: Value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            let found = made.pointer(&format!("/{}", path.replace('.', "/"))).unwrap_or(&Value::Null);
            assert!(holds(found, &value), "{set}: {found} in\n{text}");
        }
    }
}

/// Whether a value has all that another states.
fn holds(found: &Value, stated: &Value) -> bool {
    match stated.as_object() {
        Some(map) => map.iter().all(|(key, value)| holds(&found[key], value)),
        None => found == stated,
    }
}

const LATENT: &str = r#"{"model_type": "kimi_linear", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4,
    "num_attention_heads": 8, "kv_lora_rank": 128, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64,
    "linear_attn_config": {"full_attn_layers": [4], "head_dim": 64, "num_heads": 8, "kda_layers": [1, 2, 3]},
    "moe_intermediate_size": 256, "num_experts": 16, "num_experts_per_token": 2, "first_k_dense_replace": 1,
    "vocab_size": 1000, "time_step_limit": [0.0, Infinity], "routed_scaling_factor": NaN // of Python
    , "WIDTH": 256}"#;

/// Keys of a config.json with a size in them are read or stop, and JSON as Python writes it is read.
#[test]
fn sizes_of_a_configuration_are_read_or_stop() {
    let folder = Folder::new();
    let count = |key: &str| {
        folder.write("config.json", LATENT.replace("WIDTH", key));
        let said = folder.stepsim("import hf config.json --report count.json");
        (said.status == Some(0))
            .then(|| json(folder.path("count.json"))["parameters"]["total"].as_u64().unwrap())
            .ok_or(said.error)
    };
    let wide = count("routed_scale").expect("read");
    let narrow = count("routed_expert_hidden_size").expect("read");
    // Three layers of 16 experts of three matrices are half as wide, and two projections a layer stand around them.
    assert_eq!(wide - narrow, 3 * (16 * 3 * 256 * 256 - 2 * 512 * 256));
    for key in ["num_routed_experts", "o_lora_rank", "swa_head_dim"] {
        let error = count(key).expect_err("not read");
        assert!(error.contains(key) && error.contains("nothing of kimi_linear reads"), "{error}");
    }
}

/// Addresses of a hub and folders are words, a second machine leaves the first plan, and a run of many tokens has days
/// and dollars.
#[test]
fn a_plan_has_no_surprises() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("release")).expect("a folder");
    folder.write("release/config.json", CONFIG);
    folder.stepsim("plan release --on 8xh100 --batch 16").ok();
    let first = folder.text("release.plan.json");
    let text = folder
        .stepsim(
            "plan ./release --on 8xa100-80 --batch 16 --tokens 1T --set topology.device.price_USD_per_h=2",
        )
        .ok();
    assert!(text.contains("wrote release.8xa100-80.plan.json") && text.contains(" days ("), "{text}");
    assert_eq!(folder.text("release.plan.json"), first);
    let text = folder
        .stepsim("plan https://huggingface.co/Qwen/Qwen3-0.6B/tree/main --on 8xh100 --batch 16 --seq 1024 --sources")
        .ok();
    assert!(text.contains("0.60 B"), "{text}");
}

/// What is said of the cases that lie beside the repository, by their ids: each ends by itself, and says what is right.
#[test]
fn cases_of_the_field_are_right_or_refused_with_a_way_out() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside = root.ancestors().skip(1).map(|a| a.join("shared/field-cases")).find(|p| p.is_dir());
    let Some(beside) = beside else {
        return eprintln!("SKIPPED: the field cases are not beside the repository");
    };
    let right: BTreeMap<String, Vec<String>> =
        serde_json::from_str(include_str!("data/field-shared.json")).expect("what is right");
    let days = std::fs::read_dir(&beside).expect("folders").flatten().map(|day| day.path());
    let places: Vec<_> = days.filter(|day| day.is_dir()).chain([beside]).collect();
    let mut cases = BTreeMap::new();
    for place in &places {
        let text = std::fs::read_to_string(place.join("cases.jsonl")).expect("cases");
        for case in text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a case")) {
            let said = |key: &str| case[key].as_str().unwrap_or_default().to_string();
            cases.insert(said("id"), (place, said("command")));
        }
    }
    for (id, parts) in turn(right) {
        let folder = Folder::new();
        // Behind a sign stands which of a case's commands is meant.
        let (name, nth) = id.split_once(';').unwrap_or((id.as_str(), "0"));
        let (place, command) = &cases[name];
        let files = std::fs::read_dir(place).expect("a folder").flatten().map(|file| file.path());
        for file in files.filter(|file| file.is_file()) {
            std::fs::copy(&file, folder.path(&file.file_name().unwrap_or_default().to_string_lossy()))
                .expect("a copy");
        }
        let line = command.split([';', '(']).nth(nth.parse().expect("a number")).unwrap_or_default().trim();
        let line = &line.replace('"', "'");
        let line = line.strip_prefix("stepsim ").unwrap_or(line);
        let sources = if line.starts_with("plan ") { " --sources" } else { "" };
        let said = folder.stepsim(&format!("{line}{sources}"));
        let text = format!("{}{}", said.out, said.error);
        assert!(matches!(said.status, Some(0 | 2 | 3)), "{id}: {text}");
        parts.iter().for_each(|part| assert!(text.contains(part), "{id}: no `{part}` in\n{text}"));
    }
}
