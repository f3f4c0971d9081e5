//! The model of a row: dimensions from its columns, the rest from rules.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::book::{RuleBook, Ruling};
use super::columns::DescribedColumns;
use super::origin::ValueClass;
use super::shapes::Shapes;
use super::size;
use stepsim_spec::rules::RuleSpec;
use stepsim_spec::{Kind, ModelSpec, RulesSpec, catalog, from_value, is_called_like_a_file, load, merge};

/// Tokens of a sequence of a model, where nothing says it.
const SEQUENCE: u64 = 4096;

/// A model by a name in anybody's spelling, where the vocabulary knows its dimensions. A name that says the parameters
/// alone gives none, and neither does one whose size differs from the size of the dimensions.
pub fn model_named(name: &str) -> Option<Value> {
    if of_another_size(name).is_some() {
        return None;
    }
    /// The shipped rules, read once.
    static BOOK: LazyLock<Option<RuleBook>> =
        LazyLock::new(|| Some(RuleBook::load(&[]).ok()?.without_sources()));
    let book = BOOK.as_ref()?;
    let row = Map::from_iter([("model".to_string(), name.into())]);
    let mut ruling = book.rule(&row, &Shapes::new(), true).ok()?;
    ruling.columns.origin("layers").filter(|origin| origin.from != ValueClass::Assumed)?;
    ruling.columns.assume("seq", SEQUENCE.into(), "the name does not say it");
    let mut found = model(&ruling).ok()?;
    put(&mut found, "sequence", ruling.workload["sequence"].as_u64());
    let off = size::off(&ruling, &checked(&found, name).ok()?);
    off.is_none_or(|off| off.by <= size::DROPPED).then_some(found)
}

/// The name of a known model from which a name differs in its active parameters (`A23B`) alone.
pub fn of_another_size(name: &str) -> Option<String> {
    let (Some(active), rest) = active_size(name.rsplit('/').next().unwrap_or_default()) else { return None };
    let rules = load::<RulesSpec>("models", &[]).ok()?.value.rules;
    let like = |spelling: &&str| {
        let (size, known) = active_size(spelling);
        size.is_some() && rest.starts_with(&known)
    };
    let mut near = rules.iter().flat_map(spellings).filter(like).peekable();
    let first = near.peek().map(|first| first.replace(' ', "-"));
    near.all(|spelling| active_size(spelling).0.as_ref() != Some(&active)).then_some(first)?
}

/// The word of a name that says its active parameters, and the other words as one.
fn active_size(name: &str) -> (Option<String>, String) {
    let name = name.to_lowercase();
    let is_size = |word: &&str| {
        let digits = word.strip_prefix('a').and_then(|word| word.strip_suffix('b'));
        digits.is_some_and(|digits| digits.parse::<f64>().is_ok())
    };
    let words = || name.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    (words().find(is_size).map(str::to_owned), words().filter(|word| !is_size(word)).collect())
}

/// A model by a word of a command line: a file or a shipped name as it stands, else a name in anybody's spelling.
pub fn model_of_word(word: &str) -> Value {
    let file = is_called_like_a_file(word) || Path::new(word).is_file();
    let stands = file || catalog::text(Kind::Model, word).is_some();
    let named = if stands { None } else { model_named(word) };
    named.unwrap_or_else(|| word.into())
}

/// Models that no file is shipped of and that [`model_named`] knows: their usual names, and the columns that their
/// rule fills.
pub fn models_by_name() -> Vec<(String, Map<String, Value>)> {
    let Ok(rules) = load::<RulesSpec>("models", &[]) else { return Vec::new() };
    let named = rules.value.rules.into_iter().filter(|rule| rule.fill.contains_key("layers"));
    let name = |rule: &RuleSpec| spellings(rule).next().map(str::to_string);
    named.filter_map(|rule| Some((name(&rule)?, rule.fill))).collect()
}

/// The names of one model that a rule knows.
pub fn spellings(rule: &RuleSpec) -> impl Iterator<Item = &str> {
    let pattern = rule.when.get("model").map(String::as_str).unwrap_or_default();
    let names = pattern.split_once(" but ").map_or(pattern, |(names, _)| names);
    names.split('|').filter_map(|name| name.trim().strip_prefix('@'))
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
    put(&mut model, "kv_heads", c.count("kv_heads"));
    put(&mut model, "head_size", c.count("head_dim"));
    put(&mut model, "prediction_modules", c.count("mtp_layers"));
    put(&mut model, "gated_mlp", c.get("gated_mlp").as_bool());
    if c.count("experts").is_some_and(|n| n > 1) {
        model["moe"] = experts(c, layers)?;
    }
    put(&mut model, "mla", c.count("kv_lora_rank").map(|rank| latent_attention(c, rank)));
    let mut whole = ruling.shape.clone();
    if whole.get("source").is_none()
        && let Some(origin) = c.origin("layers").filter(|origin| origin.from == ValueClass::Model)
    {
        model["source"] = origin.why.into();
    }
    merge(&mut whole, model);
    merge(&mut whole, ruling.model.clone());
    Ok(whole)
}

/// Sets a field that is known.
pub(super) fn put(value: &mut Value, field: &str, known: Option<impl Into<Value>>) {
    if let Some(known) = known {
        value[field] = known.into();
    }
}

/// The model, checked.
///
/// # Errors
/// The dimensions contradict each other.
pub fn checked(model: &Value, row: &str) -> Result<ModelSpec, String> {
    let loaded = from_value::<ModelSpec>(model.clone(), row.into(), row.into(), &[]);
    loaded.map(|m| m.value).map_err(|e| e.to_string())
}

fn experts(c: &DescribedColumns, layers: u64) -> Result<Value, String> {
    let width = c.count("moe_ffn").or(c.count("ffn")).ok_or("no width of the experts")?;
    let mut moe = json!({
        "experts": c.needs("experts")?,
        "top_k": c.needs("top_k")?,
        "ffn": width,
        "first_dense_layers": c.count("dense_layers").unwrap_or(0).min(layers.saturating_sub(1)),
    });
    let shared = c.count("shared_experts").or_else(|| Some(c.count("shared_ffn")?.div_ceil(width)));
    put(&mut moe, "shared_experts", shared);
    put(&mut moe, "every_layers", c.count("moe_every_layers"));
    put(&mut moe, "capacity_factor", c.number("capacity_factor"));
    Ok(moe)
}

fn latent_attention(c: &DescribedColumns, rank: u64) -> Value {
    let or = |column: &str, usual: u64| c.count(column).unwrap_or(usual);
    let mut mla = json!({
        "kv_lora_rank": rank,
        "qk_nope_head_size": or("qk_nope_head_dim", 128),
        "qk_rope_head_size": or("qk_rope_head_dim", 64),
        "v_head_size": or("v_head_dim", 128),
    });
    put(&mut mla, "q_lora_rank", c.count("q_lora_rank"));
    mla
}
