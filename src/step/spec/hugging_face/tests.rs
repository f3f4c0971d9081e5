//! Configurations of published models become the models that they are; what is none is refused.

use serde_json::{Value, json};

use super::*;
use crate::step::model::ParameterCount;

fn configs() -> Vec<Value> {
    let file: Value = serde_json::from_str(include_str!("../../../../tests/data/hugging-face.json")).unwrap();
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
        // What is written is read back as the same model.
        let written = serde_json::to_value(&model).unwrap();
        assert_eq!(serde_json::from_value::<ModelSpec>(written).unwrap(), model, "{name}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
    let error = model(&json!({"model_type": "rwkv7", "architectures": ["RWKV7"]}), "x.json").unwrap_err();
    let text = error.to_string();
    assert!(text.contains("rwkv7") && text.contains("RWKV7") && text.contains("deepseek_v3"), "{text}");
    assert!(model(&json!([1, 2]), "x.json").is_err());
}
