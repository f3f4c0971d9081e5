//! The model of a row: dimensions from its columns, the rest from rules.

use serde_json::{Map, Value, json};

use super::book::{RuleBook, Ruling};
use super::columns::Columns;
use super::origin::From;
use super::shapes::Shapes;
use crate::step::spec::{ModelSpec, from_value, merge};

/// Tokens of a sequence of a model of which nothing says it.
const SEQUENCE: u64 = 4096;

/// A model by a name in anybody's spelling, where the vocabulary knows its dimensions; one of which the name says the
/// parameters alone is none.
pub fn model_named(name: &str) -> Option<Value> {
    let book = RuleBook::load(&[]).ok()?.without_sources();
    let row = Map::from_iter([("model".to_string(), name.into())]);
    let mut ruling = book.rule(&row, &Shapes::new(), true).ok()?;
    ruling.columns.origin("layers").filter(|origin| origin.from != From::Assumed)?;
    ruling.columns.assume("seq", SEQUENCE.into(), "the name does not say it");
    model(&ruling).ok()
}

/// The model as JSON, laid over the shape that a rule named.
///
/// # Errors
/// A dimension is missing.
pub fn model(ruling: &Ruling) -> Result<Value, String> {
    let c = &ruling.columns;
    let layers = c.needs("layers")?;
    let mut model = json!({
        "name": Some(c.text("model")).filter(|n| !n.is_empty()).unwrap_or_else(|| "model".into()),
        "layers": layers,
        "hidden": c.needs("hidden")?,
        "heads": c.needs("heads")?,
        "ffn": c.count("ffn").or(c.count("moe_ffn")).ok_or("no ffn")?,
        "vocabulary": c.needs("vocab")?,
        "sequence": c.needs("seq")?,
    });
    for (field, column) in [("kv_heads", "kv_heads"), ("head_size", "head_dim")] {
        if let Some(value) = c.count(column) {
            model[field] = value.into();
        }
    }
    if let Some(modules) = c.count("mtp_layers") {
        model["prediction_modules"] = modules.into();
    }
    if let Some(gated) = c.get("gated_mlp").as_bool() {
        model["gated_mlp"] = gated.into();
    }
    if c.count("experts").is_some_and(|n| n > 1) {
        model["moe"] = experts(c, layers)?;
    }
    if let Some(rank) = c.count("kv_lora_rank") {
        model["mla"] = latent_attention(c, rank);
    }
    let mut whole = ruling.shape.clone();
    merge(&mut whole, model);
    merge(&mut whole, ruling.model.clone());
    Ok(whole)
}

/// The model, checked.
///
/// # Errors
/// The dimensions contradict each other.
pub fn checked(model: &Value, row: &str) -> Result<ModelSpec, String> {
    let loaded = from_value::<ModelSpec>(model.clone(), row.into(), row.into(), &[]);
    loaded.map(|m| m.value).map_err(|e| e.to_string())
}

fn experts(c: &Columns, layers: u64) -> Result<Value, String> {
    let width = c.count("moe_ffn").or(c.count("ffn")).ok_or("no width of the experts")?;
    let mut moe = json!({
        "experts": c.needs("experts")?,
        "top_k": c.needs("top_k")?,
        "ffn": width,
        "first_dense_layers": c.count("dense_layers").unwrap_or(0).min(layers.saturating_sub(1)),
    });
    let shared = c.count("shared_experts").or_else(|| Some(c.count("shared_ffn")?.div_ceil(width)));
    if let Some(shared) = shared {
        moe["shared_experts"] = shared.into();
    }
    if let Some(every) = c.count("moe_every_layers") {
        moe["every_layers"] = every.into();
    }
    if let Some(factor) = c.number("capacity_factor") {
        moe["capacity_factor"] = factor.into();
    }
    Ok(moe)
}

fn latent_attention(c: &Columns, rank: u64) -> Value {
    let or = |column: &str, usual: u64| c.count(column).unwrap_or(usual);
    let mut mla = json!({
        "kv_lora_rank": rank,
        "qk_nope_head_size": or("qk_nope_head_dim", 128),
        "qk_rope_head_size": or("qk_rope_head_dim", 64),
        "v_head_size": or("v_head_dim", 128),
    });
    if let Some(q) = c.count("q_lora_rank") {
        mla["q_lora_rank"] = q.into();
    }
    mla
}
