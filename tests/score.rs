//! Rows of measurements become workloads by rules; whatever a row or a rule file holds, the answer says what is wrong.

use std::path::Path;

use serde_json::{Map, Value, json};
use stepsim::bring::describe::RuleBook;
use stepsim::measure::score::{Case, case, read};
use stepsim::price::model::{ParameterCount, module_parameters};
use stepsim::spec::ModelSpec;

use crate::command::Folder;

fn data(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name).display().to_string()
}

/// What rows of our own, of another style and of sources that nobody knows mean, field by field: by pointers into what
/// becomes of them, and among settings of the machine, assumed columns and words that were not understood.
#[test]
fn rows_mean_what_is_written_of_them() {
    let meanings: Value = serde_json::from_str(include_str!("data/rows-meaning.json")).expect("JSON");
    let book = RuleBook::load(&[]).expect("the shipped rules");
    let nobody = RuleBook::load(&[]).expect("the shipped rules").without_sources();
    let mut wrong = Vec::new();
    for (file, meanings) in meanings.as_object().expect("files") {
        let rows = read(Path::new(&data(file))).expect("rows");
        let book = if file.contains("unseen") { &nobody } else { &book };
        for (id, meaning) in meanings.as_object().expect("rows") {
            let row = rows.iter().find(|row| row.id == *id || id.starts_with(':') && row.id.ends_with(id));
            let case = case(row.expect(id), book).unwrap_or_else(|e| panic!("{id}: {e}"));
            let assumed: Map<String, Value> =
                case.assumed.iter().map(|of| (of.column.to_string(), of.value.clone())).collect();
            let whole = json!({
                "stack": case.stack, "class": case.class, "measured_s": case.measured_s, "scale": case.scale,
                "measured_from": case.measured_from, "moe": case.moe, "layer": case.layer,
                "topology": case.machine.topology, "workload": case.workload, "assumed": assumed,
            });
            let words: Vec<&String> = case.not_understood.keys().collect();
            for (what, wanted) in meaning.as_object().expect("fields") {
                let all = || wanted.as_array().expect("a list").iter().filter_map(Value::as_str);
                let right = match what.as_str() {
                    "sets" => all().all(|set| case.machine.sets.iter().any(|s| s == set)),
                    "assumed" => all().all(|column| whole["assumed"].get(column).is_some()),
                    "not_understood" => all().eq(words.iter().map(|word| word.as_str())),
                    pointer => match (whole.pointer(pointer), wanted.as_f64()) {
                        (found, None) => found == Some(wanted),
                        (found, Some(wanted)) => found
                            .and_then(Value::as_f64)
                            .is_some_and(|found| (found - wanted).abs() <= 1e-6 * wanted.abs()),
                    },
                };
                if !right {
                    wrong.push(format!(
                        "{id} {what}, not {wanted}: {whole} {:?} {words:?}",
                        case.machine.sets
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every kind of bad row is skipped or refused with a reason; nothing else happens.
#[test]
fn bad_rows_say_why() {
    let folder = Folder::new();
    folder.stepsim(&format!("score {} --report report.json", data("bad-rows.jsonl"))).ok();
    let report = folder.json("report.json");
    let rows = report["rows"].as_array().expect("rows");
    let why = |id: &str| {
        let row = rows
            .iter()
            .find(|r| r["id"].as_str().is_some_and(|i| i.ends_with(id)))
            .unwrap_or_else(|| panic!("{id}"));
        assert!(row.get("predicted_s").is_none(), "{row}");
        row["skipped"].as_str().or(row["failed"].as_str()).unwrap_or_else(|| panic!("{row}")).to_string()
    };
    for (id, reason) in [
        ("bad/device", "no rule knows the device \"Abacus\""),
        ("bad/nothing", "no "),
        ("bad/time", "neither a time nor a rate"),
        ("bad/degrees", "8 devices are no multiple of tp 3"),
        ("bad/batch", "2 sequences for 64 replicas"),
        ("bad/fraction", "n_devices is 8.5"),
        ("bad/negative", "n_devices is -8"),
        ("bad/huge", "n_devices is 1e+300"),
        ("bad/million", "at `nodes`"),
        ("bad/types", "n_devices is "),
        ("bad/experts", "no top_k"),
        ("bad/heads", "heads"),
        ("bad/memory", "written from memory"),
        ("bad/torus", "100003"),
        ("bad-rows.jsonl:16", "no JSON object"),
        ("bad-rows.jsonl:17", "not JSON"),
    ] {
        assert!(why(id).contains(reason), "{id}: {}", why(id));
    }
    let layout = rows.iter().find(|r| r["id"] == "bad/layout").expect("a row");
    assert_eq!(layout["not_understood"]["pp_layout"], "(t*4", "a gap drops no row");
    assert_eq!((&report["overall"]["rows"], &report["overall"]["simulated"]), (&17.into(), &1.into()));
}

/// A step whose measured MFU is below what its rules, or the row itself, say stands in no mean, but among the layouts
/// to choose from.
#[test]
fn steps_far_from_the_peak_are_held_apart() {
    let folder = Folder::new();
    let scored = |row: &Value| {
        folder.write("rows.jsonl", row.to_string());
        folder.stepsim("score rows.jsonl --report report.json").ok();
        folder.json("report.json")
    };
    let text = std::fs::read_to_string(data("bad-rows.jsonl")).expect("rows");
    let row: Value = text
        .lines()
        .find_map(|l| l.contains("bad/layout").then(|| serde_json::from_str(l)))
        .unwrap()
        .unwrap();
    for (least, simulated, apart) in [(0.0, 1, Value::Null), (0.9, 0, 1.into())] {
        let mut row = row.clone();
        row["apart_below_mfu"] = least.into();
        let said = scored(&row);
        let all = &said["overall"];
        assert_eq!((&all["simulated"], &all["apart_errors"]["rows"]), (&simulated.into(), &apart), "{said}");
    }
    // What was not measured as a step is held apart whatever it took, and says why.
    let mut row = row.clone();
    row["apart"] = "made by a model".into();
    let said = scored(&row);
    let told =
        (&said["rows"][0]["status"], &said["rows"][0]["skipped"], &said["overall"]["apart_errors"]["rows"]);
    assert_eq!(told, (&"apart".into(), &"made by a model".into(), &1.into()), "{said}");
}

/// A row faster than its device can be is held apart, and what is doubted is named.
#[test]
fn the_impossible_is_doubted() {
    let folder = Folder::new();
    let text = std::fs::read_to_string(data("rows.jsonl")).expect("rows");
    let mut row: Value = serde_json::from_str(text.lines().next().expect("a row")).expect("JSON");
    let mut scored = |step_s: f64, batch: u64| {
        row["step_time_s"] = step_s.into();
        row["mbs_seqs"] = batch.into();
        folder.write("rows.jsonl", row.to_string());
        folder.stepsim("score rows.jsonl --report report.json").ok();
        folder.json("report.json")["rows"][0].clone()
    };
    // As it stands, and in micro-batches that do not fit.
    for said in [scored(0.1, 2), scored(0.1, 16)] {
        let why = said["skipped"].as_str().unwrap_or_default();
        assert_eq!(said["status"], "apart", "{said}");
        assert!(why.starts_with("`step_time_s` would be") && why.contains("whose peak is 989"), "{why}");
    }
    let slow = scored(1e4, 2)["warnings"].to_string();
    assert!(slow.contains("times the simulated step"), "{slow}");
    assert!(!scored(10.0, 2)["warnings"].to_string().contains("times the simulated step"));
}

/// Rows that differ in one column from a small model on eight H100.
fn rows_with(columns: &[Value]) -> Vec<Case> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.jsonl");
    let row = |own: &Value| {
        let mut row = json!({
            "id": "a row", "kind": "step", "source": "nobody", "device": "H100 SXM", "n_devices": 8, "layers": 28,
            "hidden": 3072, "heads": 32, "ffn": 8192, "seq": 4096, "gbs_seqs": 64, "precision": "bf16", "step_time_s": 2,
        });
        row.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        row.to_string()
    };
    std::fs::write(&path, columns.iter().map(row).collect::<Vec<_>>().join("\n")).expect("rows");
    let book = RuleBook::load(&[]).expect("the shipped rules");
    let rows = read(&path).expect("rows");
    rows.iter().map(|row| case(row, &book).unwrap_or_else(|e| panic!("{e}"))).collect()
}

/// What columns mean beside a small model, of `tests/data/columns-meaning.json`: by pointers into what becomes of the
/// row; `null` is nothing, and `not` another value.
#[test]
fn columns_mean_what_is_written_of_them() {
    let table: Vec<Value> = serde_json::from_str(include_str!("data/columns-meaning.json")).expect("JSON");
    let columns: Vec<Value> = table.iter().map(|row| row["columns"].clone()).collect();
    for (row, case) in table.iter().zip(rows_with(&columns)) {
        let whole = json!({"stack": case.stack, "workload": case.workload, "longest": case.longest,
            "apart_below_mfu": case.apart_below_mfu, "not_understood": case.not_understood.keys().collect::<Vec<_>>()});
        for (pointer, wanted) in row["says"].as_object().expect("fields") {
            let found = whole.pointer(pointer).unwrap_or(&Value::Null);
            let right = wanted.get("not").map_or(found == wanted, |other| found != other);
            assert!(right, "{}: {pointer} is {found}, not {wanted}", row["columns"]);
        }
    }
}

/// A row that gives no more than a name has the model of that name: its parameters are the published ones, in billions.
#[test]
fn names_of_the_literature_have_their_parameters() {
    let named: Vec<(String, f64)> =
        serde_json::from_str(include_str!("data/score-names.json")).expect("names");
    let bare = ["layers", "hidden", "heads", "ffn"].map(|column| (column.to_string(), Value::Null));
    let rows = named.iter().map(|(model, _)| {
        let mut row = json!({"model": model, "n_devices": 2048, "gbs_seqs": 4096});
        row.as_object_mut().unwrap().extend(bare.clone());
        row
    });
    let rows: Vec<Value> = rows.collect();
    for (case, (name, billions)) in rows_with(&rows).iter().zip(&named) {
        let model: ModelSpec = serde_json::from_value(case.workload["model"].clone()).expect("a model");
        let encoders: u64 = model.modules.iter().map(module_parameters).sum();
        let count = (ParameterCount::of(&model).total() + encoders) as f64 / 1e9;
        assert!((count / billions - 1.0).abs() < 0.015, "{name}: {count} of {billions}");
    }
}

/// A micro-batch that nobody states is halved before anything is computed again; one that is stated stays.
#[test]
fn a_guessed_micro_batch_is_the_first_to_go() {
    let ways = |words: Value| {
        let mut row = json!({"software": "Megatron-LM", "gbs_seqs": null, "step_time_s": null, "tokens_per_s_per_device": 3000});
        row.as_object_mut().unwrap().extend(words.as_object().unwrap().clone());
        rows_with(&[row])[0].reliefs[0].what.clone()
    };
    assert_eq!(ways(json!({})), "micro-batches of 1");
    assert_ne!(ways(json!({"mbs_seqs": 2})), "micro-batches of 1");
    let of_software = ways(json!({"software": "PyTorch FSDP", "gbs_seqs": 256, "tp": 1, "pp": 1}));
    assert!(
        of_software.starts_with("micro-batches of "),
        "what a rule took of software is a guess too: {of_software}"
    );
}

/// The shipped measured steps are read: a run of measured software has a range, in words and as numbers.
#[test]
fn a_run_of_measured_software_has_a_range() {
    let folder = Folder::new();
    let text =
        folder.stepsim("run gpt2-8 -t 8xh100 --set stack=megatron-te-2024 --full --report report.json").ok();
    assert!(text.contains("  range ") && text.contains(" s (four in five of "), "{text}");
    let report = folder.json("report.json");
    let [low, high] = [0, 1].map(|i| report["answer"]["range_s"][i].as_f64().expect("a range"));
    assert!(low < high, "{low} {high}");
    let swept = "sweep gpt2-8 -t 8xh100 --vary batch.global=64 --columns answer.range_s.0,answer.range_s.1 -o rows.jsonl";
    folder.stepsim(swept).ok();
    let row: Value =
        serde_json::from_str(folder.text("rows.jsonl").lines().next().expect("a row")).expect("JSON");
    let columns = &row["columns"];
    assert!(columns["answer.range_s.1"].as_f64() > columns["answer.range_s.0"].as_f64(), "{row}");
}

/// A row has its estimate and range by what all sources but its own measured, and its class says how many lie inside.
#[test]
fn rows_have_ranges_and_classes_say_how_many_lie_inside() {
    let folder = Folder::new();
    folder.stepsim(&format!("score {} --report report.json --rows rows.jsonl", data("rows.jsonl"))).ok();
    let report = folder.json("report.json");
    let row =
        report["rows"].as_array().expect("rows").iter().find(|row| row["status"] == "done").expect("one");
    let [low, high] = [0, 1].map(|i| row["range_s"][i].as_f64().expect("a range"));
    let estimate = row["estimate_s"].as_f64().expect("an estimate");
    assert!(low < estimate && estimate < high, "{row}");
    let all = &report["ranges"]["all"];
    assert!(all["steps"].as_u64() > Some(0) && all["inside"].as_f64() <= Some(1.0), "{all}");
    assert!(folder.text("rows.jsonl").contains("\"range_s\":["));
}

/// A run that names no software is played with the stacks that were measured most on its device: its range covers
/// theirs, and it is told that a word about them would settle it. On a device of whose maker nothing was measured,
/// there is no range.
#[test]
fn a_run_without_software_is_played_with_those_measured_there() {
    let said = |sets: &str| {
        let folder = Folder::new();
        folder.stepsim(&format!("run gpt2-8 -q --report r.json --set stack=simple {sets}")).ok();
        folder.json("r.json")["answer"]["range"].as_str().expect("a range").to_owned()
    };
    let without = said("-t 8xh100");
    let stacks = without.split_once("; tell `stack`: ").expect(&without).1;
    let stacks: Vec<&str> = stacks.split(", ").filter_map(|part| part.split(' ').next()).collect();
    assert!(stacks.contains(&"megatron-te-2024"), "{without}");
    let ends = |words: &str| {
        let (low, behind) = words.split_once(" to ").expect(words);
        [low, behind.split(' ').next().expect(words)].map(|end| end.parse::<f64>().expect(words))
    };
    for stack in stacks {
        let with = said(&format!("-t 8xh100 --set stack={stack}"));
        let ([least, most], [low, high]) = (ends(&without), ends(&with));
        assert!(least <= 1.03 * low && most >= 0.97 * high, "{with}");
    }
    let unmeasured = said("-t gaudi3-8 --set stack=megatron-te-2024");
    assert!(
        unmeasured.contains("no step on Intel Gaudi 3 (HLS-3/OAM) was measured; ten steps of "),
        "{unmeasured}"
    );
}

/// The same rows give the same bytes, whatever thread takes which.
#[test]
fn scores_are_reproducible_and_hold_what_they_promise() {
    let folder = Folder::new();
    let write = |name: &str| {
        let rows = data("rows.jsonl");
        let said = folder.stepsim(&format!("score {rows} --report {name}.json --rows {name}.jsonl")).ok();
        for what in ["source", "device", "stack", "model"] {
            assert!(said.contains(&format!("| {what} | rows | simulated |")), "{what}: {said}");
        }
        (folder.text(&format!("{name}.json")), folder.text(&format!("{name}.jsonl")))
    };
    let (first, second) = (write("a"), write("b"));
    assert!(first == second);
    let report: Value = serde_json::from_str(&first.0).expect("JSON");
    assert_eq!(report["overall"]["simulated"], 5, "{report}");
    for group in [&report["overall"], &report["sources"]["own"]] {
        let fields = "rows simulated mean_abs_error median_abs_error p90_abs_error max_abs_error bias";
        for field in fields.split(' ') {
            assert!(group[field].is_number(), "{field}: {group}");
        }
    }
    let row = &report["rows"][0];
    let (measured, predicted) = (row["measured_s"].as_f64().unwrap(), row["predicted_s"].as_f64().unwrap());
    assert!((row["error"].as_f64().unwrap() - (predicted / measured - 1.0)).abs() < 1e-12);
    assert!(row["assumed"].as_array().is_some_and(|a| a.iter().all(|a| a["why"] != "")));
    assert_eq!(first.1.lines().count(), 5);
}

#[test]
fn rules_of_ones_own_lie_over_the_shipped_ones() {
    let folder = Folder::new();
    let rule = json!({"layer": "user", "rules": [{
        "when": {"software": "megatron-lm*"}, "why": "a test", "fill": {"stack": "mine"},
        "workload": {"recompute": {"granularity": "selective"}}, "model": {"gated_mlp": true},
    }]});
    folder.write("mine.json", rule.to_string());
    let book = RuleBook::load(&[folder.path("mine.json").display().to_string()]).expect("rules");
    let rows = read(Path::new(&data("rows.jsonl"))).unwrap();
    let own = case(&rows[0], &book).unwrap();
    assert_eq!(own.stack, "mine");
    assert_eq!(own.workload["recompute"]["granularity"], "selective");
    assert_eq!(own.workload["model"]["gated_mlp"], true);
}
