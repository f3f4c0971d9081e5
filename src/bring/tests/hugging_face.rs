//! Configurations of published models become the models that they are; what is none is refused.

use serde_json::{Value, json};
use stepsim_bring::hugging_face::*;
use stepsim_price::model::ParameterCount;
use stepsim_spec::model::ModelSpec;

fn configs() -> Vec<Value> {
    let file: Value = serde_json::from_str(include_str!("../../../tests/data/hugging-face.json")).unwrap();
    file["configs"].as_array().unwrap().clone()
}

#[test]
fn published_models_keep_every_parameter() {
    let rows = configs();
    assert!(rows.len() >= 43);
    let mut wrong = Vec::new();
    for row in rows {
        let name = row["model"].as_str().unwrap();
        let model = match model(&row["config"], &format!("{name}/config.json")) {
            Ok(model) => model,
            Err(e) => {
                wrong.push(format!("{name}: {e}"));
                continue;
            }
        };
        assert_eq!(model.name, name);
        let count = ParameterCount::of(&model);
        for (what, got) in
            [("parameters", count.total()), ("active", count.active), ("modules", count.modules)]
        {
            if got != row[what].as_u64().unwrap() {
                wrong.push(format!("{name}: {what}: {got} for {}", row[what]));
            }
        }
        // The written file reads back as the same model.
        let written = serde_json::to_value(&model).unwrap();
        assert_eq!(serde_json::from_value::<ModelSpec>(written).unwrap(), model, "{name}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// An entry that cannot be read would leave its types unknown.
#[test]
fn every_architecture_of_the_table_is_known() {
    let file = include_str!("../../../workloads/imports/hugging-face.json");
    let table: Value = serde_json::from_str(file).unwrap();
    let unknown = model(&json!({"model_type": "none"}), "config.json").unwrap_err();
    let known: Vec<&str> = unknown.allowed.split([' ', ',']).collect();
    for (name, entry) in table["architectures"].as_object().unwrap() {
        let own = json!([name]);
        for kind in entry.get("types").unwrap_or(&own).as_array().unwrap() {
            assert!(known.contains(&kind.as_str().unwrap()), "{name}: {kind}");
        }
    }
}

#[test]
fn every_field_missing_or_wrong_is_refused_by_name() {
    let llama = configs().swap_remove(0)["config"].clone();
    for field in ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"] {
        let mut broken = llama.clone();
        broken.as_object_mut().unwrap().remove(field);
        let error = model(&broken, "config.json").unwrap_err().to_string();
        assert!(error.contains(field) && error.contains("config.json"), "{error}");
        broken[field] = json!("many");
        let error = model(&broken, "config.json").unwrap_err().to_string();
        assert!(error.contains(field) && error.contains("many"), "{error}");
        broken[field] = json!(0);
        assert!(model(&broken, "config.json").is_err(), "{field} of 0");
    }
}

#[test]
fn an_unknown_architecture_is_named() {
    let error = model(&json!({"model_type": "xlstm", "architectures": ["xLSTM"]}), "x.json").unwrap_err();
    let text = error.to_string();
    assert!(text.contains("xlstm") && text.contains("xLSTM") && text.contains("deepseek_v3"), "{text}");
    assert!(model(&json!([1, 2]), "x.json").is_err());
}

/// A request of a configuration that no model file can express is refused by its field.
#[test]
fn builds_that_are_not_known_are_refused_by_field() {
    let of = |kind: &str, field: &str, value: Value| {
        let row = configs().into_iter().find(|row| row["model"] == kind).unwrap();
        let mut config = row["config"].clone();
        let inner =
            if config.get("text_config").is_some() { &mut config["text_config"] } else { &mut config };
        inner[field] = value;
        model(&config, "config.json").unwrap_err().to_string()
    };
    let text = of("gemma-4-31b", "hidden_size_per_layer_input", json!(256));
    assert!(text.contains("hidden_size_per_layer_input"), "{text}");
    let text = of("hunyuan-a13b", "moe_topk", json!([8, 4]));
    assert!(text.contains("moe_topk") && text.contains("layers differ"), "{text}");
}

/// EXAONE 4's layers that see everything are not rotated.
#[test]
fn global_layers_may_be_without_rotation() {
    let exaone = json!({"model_type": "exaone4", "hidden_size": 5120, "intermediate_size": 27392,
        "num_hidden_layers": 64,
        "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "sliding_window": 4096,
        "sliding_window_pattern": "LLLG", "vocab_size": 102400});
    let model = model(&exaone, "config.json").unwrap();
    let rotary = |layer| model.layer(layer).attention.rotary;
    assert_eq!([rotary(2), rotary(3)], [None, Some(false)]);
    assert_eq!([2, 3].map(|layer| model.layer(layer).attention.window), [Some(4096), None]);
}

/// A configuration far from the size in its name was not read whole.
#[test]
fn parameters_are_held_to_the_size_in_the_name() {
    let row =
        configs().into_iter().find(|row| row["model"] == "qwen3-8b" || row["model"] == "qwen3-32b").unwrap();
    let right = row["model"].as_str().unwrap();
    assert!(model(&row["config"], &format!("{right}/config.json")).is_ok());
    let error = model(&row["config"], "Qwen3-Next-800B-A3B/config.json").unwrap_err().to_string();
    assert!(error.contains("says 800 B parameters") && error.contains("is not understood"), "{error}");
    for free in ["tiny-random-800B", "gemma-4-E2B", "Llama-4-Scout-17B-16E", "config"] {
        assert!(model(&row["config"], &format!("{free}/config.json")).is_ok(), "{free}");
    }
}
