//! A run in other words: the same step, or it is said what was not understood or assumed; never silently another.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use stepsim::bring::describe::{Description, RuleBook, Shapes, ValueClass, describe};

use crate::slow::slow;

fn said(columns: &Value, book: &RuleBook) -> Result<Description, String> {
    describe(columns.as_object().expect("columns"), &Shapes::new(), "test", book)
}

/// Runs that say all that matters, of several kinds of software; and spellings that mean the same, by column, the first
/// of which stands in these runs.
fn data() -> Value {
    serde_json::from_str(include_str!("data/described.json")).expect("JSON")
}

fn runs() -> Vec<Value> {
    data()["runs"].as_array().expect("runs").clone()
}

/// What is simulated, without names.
fn step(d: &Description) -> (Value, Vec<String>) {
    let inputs = d.inputs("test", &[]).unwrap_or_else(|e| panic!("{e}"));
    let mut workload = serde_json::to_value(&inputs.workload.value).expect("JSON");
    workload["model"]["name"] = Value::Null;
    workload["name"] = Value::Null;
    (workload, d.machine.sets.clone())
}

fn with(run: &Value, column: &str, value: Value) -> Value {
    let mut run = run.clone();
    run[column] = value;
    run
}

#[test]
fn everything_said_is_understood() {
    let book = RuleBook::load(&[]).expect("the shipped rules");
    for run in runs() {
        let d = said(&run, &book).unwrap_or_else(|e| panic!("{e}: {run}"));
        assert!(d.not_understood.is_empty(), "{:?}: {run}", d.not_understood);
        assert!(d.warnings.is_empty(), "{:?}: {run}", d.warnings);
        for (path, column) in [
            ("parallelism.tensor", "tp"),
            ("batch.global", "gbs_seqs"),
            ("recompute.granularity", "recompute"),
        ] {
            let field = d.fields.iter().find(|f| f.path == path).unwrap_or_else(|| panic!("{path}: {run}"));
            assert_eq!(field.origin.from, ValueClass::Stated, "{path}");
            assert!(field.origin.why.contains(column), "{path}: {}", field.origin.why);
        }
        d.inputs("test", &[]).unwrap_or_else(|e| panic!("{e}: {run}"));
    }
}

/// Tokens a second, FLOP/s and time that cannot stand together are said, and what agrees is not.
#[test]
fn printed_figures_that_contradict_each_other_are_said() {
    let book = RuleBook::load(&[]).expect("the shipped rules");
    let run = &runs()[0];
    let d = said(run, &book).expect("a step");
    let of = |pointer: &str| d.workload.pointer(pointer).and_then(Value::as_f64).expect("a number");
    let devices = d.ruling.columns.number("n_devices").expect("devices");
    let rate = of("/batch/global") * of("/model/sequence") / (10.0 * devices);
    for (times, is_said) in [(1.05, false), (2.0, true), (0.5, true)] {
        let row = with(run, "step_time_s", 10.0.into());
        let row = with(&row, "tokens_per_s_per_device", (rate * times).into());
        let warnings = said(&row, &book).expect("a step").warnings;
        assert_eq!(warnings.iter().any(|w| w.contains("tokens a second")), is_said, "{times}: {warnings:?}");
    }
}

#[test]
fn other_spellings_are_the_same_step() {
    let book = RuleBook::load(&[]).expect("the shipped rules");
    let mut wrong = Vec::new();
    let spellings: Vec<(String, Vec<String>)> =
        serde_json::from_value(data()["spellings"].clone()).expect("spellings");
    for (column, spellings) in &spellings {
        let first = |run: &&Value| {
            run[column].as_str() == Some(&spellings[0])
                || run[column].as_f64().is_some_and(|n| spellings[0].parse() == Ok(n))
        };
        for run in runs().iter().filter(first) {
            let wanted = step(&said(run, &book).expect("a step"));
            for spelling in spellings {
                match said(&with(run, column, spelling.as_str().into()), &book) {
                    Ok(d) if step(&d) == wanted && d.not_understood.is_empty() => {}
                    Ok(d) if step(&d) == wanted => {
                        wrong.push(format!("{column} {spelling:?}: gaps {:?}", d.not_understood))
                    }
                    Ok(d) => wrong.push(format!(
                        "{column} {spelling:?}: {} for {}",
                        difference(&step(&d).0, &wanted.0),
                        spellings[0]
                    )),
                    Err(e) => wrong.push(format!("{column} {spelling:?}: {e}")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn difference(a: &Value, b: &Value) -> String {
    let (a, b): (Map<_, _>, Map<_, _>) = (a.as_object().cloned().unwrap(), b.as_object().cloned().unwrap());
    let keys = a.keys().chain(b.keys()).filter(|k| a.get(*k) != b.get(*k) && *k != "stack");
    keys.map(|k| format!("{k} {} not {}", a.get(k).unwrap_or(&Value::Null), b.get(k).unwrap_or(&Value::Null)))
        .collect()
}

#[test]
fn other_names_of_columns_are_the_same_step() {
    let book = RuleBook::load(&[]).expect("the shipped rules");
    let names: Value = serde_json::from_str(include_str!("../workloads/rules/columns.json")).expect("JSON");
    let (mut wrong, mut tried) = (Vec::new(), BTreeSet::new());
    for run in runs() {
        let wanted = step(&said(&run, &book).expect("a step"));
        for (column, others) in names["aliases"].as_object().expect("names") {
            for other in others.as_array().into_iter().flatten().filter_map(Value::as_str) {
                let mut renamed = run.as_object().expect("columns").clone();
                let Some(value) = renamed.shift_remove(column) else { continue };
                if !tried.insert(other) && !slow() {
                    continue;
                }
                renamed.insert(other.to_string(), value);
                match said(&Value::Object(renamed), &book) {
                    Ok(d) if step(&d) == wanted && d.not_understood.is_empty() => {}
                    Ok(d) => wrong.push(format!(
                        "{column} as {other}: {} gaps {:?}",
                        difference(&step(&d).0, &wanted.0),
                        d.not_understood
                    )),
                    Err(e) => wrong.push(format!("{column} as {other}: {e}")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Without a column the step is the same, or what took its place is no longer called stated.
#[test]
fn columns_that_are_missing_are_assumed() {
    let book = RuleBook::load(&[]).expect("the shipped rules");
    for run in runs() {
        let whole = said(&run, &book).expect("a step");
        for column in run.as_object().expect("columns").keys() {
            let mut less = run.as_object().expect("columns").clone();
            less.shift_remove(column);
            let Ok(d) = said(&Value::Object(less), &book) else { continue };
            for field in d.of(ValueClass::Stated) {
                let words = format!("{column} = ");
                assert!(!field.origin.why.contains(&words), "{column}: {field:?}");
                let before = whole.fields.iter().find(|f| f.path == field.path).map(|f| &f.value);
                let follows = field.origin.why.split(", ").count() > 1 || field.path.starts_with("machine");
                assert!(
                    before.is_none() || before == Some(&field.value) || follows,
                    "{column}: {field:?} not {before:?}"
                );
            }
        }
    }
}

/// Words that nobody knows are told, and drop no row.
#[test]
fn unknown_words_are_gaps() {
    let book = RuleBook::load(&[]).expect("the shipped rules");
    for run in runs() {
        let words = [
            "recompute",
            "sharding",
            "precision",
            "overlap",
            "optimizer",
            "pp_layout",
            "moe_dispatcher",
            "fp8_recipe",
            "cuda_graphs",
        ];
        for column in words {
            let d = said(&with(&run, column, "quibbling".into()), &book)
                .unwrap_or_else(|e| panic!("{column}: {e}"));
            let pipeline = column != "pp_layout" || d.layout.pipeline > 1;
            assert!(d.not_understood.contains_key(column) || !pipeline, "{column}: {:?}", d.not_understood);
        }
        let d = said(&with(&run, "overlap", "torch.compile, quibbling".into()), &book).expect("a step");
        assert_eq!(d.not_understood.get("overlap"), Some(&json!("quibbling")));
    }
}

/// Images of a sequence are the encoder's; without any the step is of text alone, and that is said.
#[test]
fn images_go_through_the_encoder() {
    let book = RuleBook::load(&[]).expect("the shipped rules");
    let run = runs().into_iter().find(|run| run.get("images").is_some()).unwrap();
    let modules = |run: &Value| step(&said(run, &book).unwrap()).0["modules"].clone();
    let frozen = modules(&run);
    assert_eq!((&frozen["vision"]["items"], &frozen["vision"]["trained"]), (&json!(8), &json!("projector")));
    for (words, trained) in
        [("unfrozen", "all"), ("fully trained", "all"), ("not trained", "projector"), ("freeze", "projector")]
    {
        assert_eq!(modules(&with(&run, "encoder", json!(words)))["vision"]["trained"], trained, "{words}");
    }
    assert_eq!(modules(&with(&run, "images", json!("4 images of 448x448")))["vision"]["items"], 4);
    let gap = said(&with(&run, "images", json!("many")), &book).unwrap();
    assert!(gap.not_understood.contains_key("images") && gap.workload.get("modules").is_none());
    let text = with(&run, "images", Value::Null);
    assert_eq!(modules(&text), Value::Null);
    let said = said(&text, &book).unwrap();
    assert!(said.not_understood.contains_key("encoder"), "nothing is made of it: {:?}", said.not_understood);
    let assumed = said.ruling.columns.assumed;
    assert!(
        assumed.iter().any(|a| a.column == "images" && a.origin.why.contains("text alone")),
        "{assumed:?}"
    );
}

/// A size in a name is held to the model.
#[test]
fn no_model_is_silently_another() {
    let book = RuleBook::load(&[]).expect("the shipped rules");
    let of = |model: &str| {
        said(
            &json!({"device": "H100", "n_devices": 64, "model": model, "gbs_seqs": 64, "step_time_s": 1}),
            &book,
        )
    };
    for (name, billions) in [
        ("GPT 175B", 175.0),
        ("GPT 5B", 5.0),
        ("GPT-3 20B", 20.0),
        ("Nemotron_3_Super", 120.0),
        ("LLAMA3.1_405B", 405.0),
        ("GPT OSS 120B", 117.0),
        ("gpt-oss-20b", 20.9),
        ("Moonlight 16B", 16.0),
        ("DeepSeekV3", 671.0),
        ("DeepSeek-V2-Lite", 15.7),
        ("Gemma 2 27B", 27.2),
        ("Nemotron-H 56B", 56.0),
        ("Qwen3-32B", 32.8),
    ] {
        let d = of(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        let counted = stepsim::price::model::ParameterCount::of(&d.model).total() as f64 / 1e9;
        assert!((counted / billions - 1.0).abs() < 0.06, "{name}: {counted:.1} B");
    }
    // A mixture whose shape nobody knows is no dense model.
    assert!(of("Quibble 26B-A4B").is_err());
    let wrong = said(
        &json!({"device": "H100", "n_devices": 64, "model": "Llama 3.1 8B", "params_b": 13, "gbs_seqs": 64, "step_time_s": 1}),
        &book,
    );
    let wrong = wrong.expect("a step");
    assert!(wrong.warnings.iter().any(|w| w.contains("dropped")), "{:?}", wrong.warnings);
}

/// A micro-batch that does not divide what a replica has is another, and that is said; one that does stands as it is.
#[test]
fn a_micro_batch_divides_its_replicas_sequences() {
    let book = RuleBook::load(&[]).expect("the shipped rules");
    for (micro, used) in [(2, 2), (3, 2), (40, 32)] {
        let d = said(&with(&runs()[0], "mbs_seqs", micro.into()), &book).expect("a step");
        let field = d.fields.iter().find(|f| f.path == "batch.micro_batch").expect("a micro-batch");
        assert_eq!(
            (&field.value, field.origin.from == ValueClass::Stated),
            (&json!(used), micro == used),
            "{field:?}"
        );
    }
}

/// Experts that are cut over fewer ranks than the layers around them say so.
#[test]
fn experts_have_a_tensor_degree_of_their_own() {
    let book = RuleBook::load(&[]).expect("the shipped rules");
    let run = with(&with(&runs()[4], "tp", 4.into()), "dp", 32.into());
    for tensor in [1, 2, 4] {
        let d = said(&with(&run, "expert_tp", tensor.into()), &book).expect("a step");
        assert_eq!(d.workload["parallelism"]["expert_tensor"], tensor);
    }
}

/// Arguments under the names that software gives them are stated, and lie in the step.
#[test]
fn arguments_of_software_are_stated() {
    let book = RuleBook::load(&[]).expect("the shipped rules");
    let d = said(&with(&runs()[0], "overlap_param_gather", true.into()), &book).expect("a step");
    let told = d.fields.iter().find(|f| f.path == "gradient_buckets.overlap_weight_gather").expect("a field");
    assert!(told.value == true && told.origin.from == ValueClass::Stated, "{told:?}");
    assert!(told.origin.why.contains("overlap_param_gather = true"), "{told:?}");
}

/// A word of the optimizer's state says the same in whatever column it stands.
#[test]
fn a_word_means_the_same_in_every_column() {
    let book = RuleBook::load(&[]).expect("the shipped rules");
    let run = json!({"software": "torchtitan", "device": "H100", "n_devices": 8, "model": "Llama 3.1 8B", "seq": 8192,
        "gbs_seqs": 8, "mbs_seqs": 1, "sharding": "FSDP", "optimizer": "AdamW", "training": "full", "precision": "bf16"});
    let of = |column: &str| {
        let words = format!("{}, all state in bf16", run[column].as_str().unwrap_or_default());
        step(&said(&with(&run, column, words.into()), &book).expect("a step"))
    };
    assert_eq!(of("optimizer").0["precision"]["moments_bytes_per_parameter"], 4.0);
    assert_eq!(of("optimizer"), of("training"));
    assert_eq!(of("optimizer"), of("precision"));
}

/// A column is not overruled by a name, and tokens over sequences are a length.
#[test]
fn what_is_stated_stands_and_arithmetic_fills_holes() {
    let book = RuleBook::load(&[]).expect("the shipped rules");
    let run = json!({"software": "HF Trainer, PEFT", "device": "L40S", "n_devices": 1, "model": "Llama 3.2 3B",
        "gbs_seqs": 4, "gbs_tokens": 840, "training": "full", "precision": "bf16"});
    let full = said(&run, &book).expect("a step");
    assert!(full.workload["training"]["adapters"].is_null(), "{}", full.workload["training"]);
    assert_eq!(full.model.sequence, 210);
    let lora = said(&with(&run, "training", "LoRA".into()), &book).expect("a step");
    assert_eq!(lora.workload["training"]["adapters"]["rank"], 8);
}
