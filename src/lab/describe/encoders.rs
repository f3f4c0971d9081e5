//! What a row says of the encoder in front of its model: images or clips a sequence, and what of it is trained.

use serde_json::{Value, json};

use super::columns::Columns;
use crate::step::spec::ModelSpec;

/// The encoders that a step has, as in the workload; `None` where the model has none, or no image is named: a step of text alone
/// then, which is said.
pub fn encoders(c: &mut Columns, model: &ModelSpec) -> Option<Value> {
    let module = model.modules.first()?;
    let Some(items) = counted(c) else {
        if !c.has("images") {
            c.assume(
                "images",
                0.into(),
                &format!("no images are named: text alone, without `{}`", module.name),
            );
        }
        return None;
    };
    if items == 0 {
        return None;
    }
    let mut used = json!({"items": items});
    if let Some(trained) = trained(c) {
        used["trained"] = trained.into();
    }
    Some(json!({module.name.as_str(): used}))
}

/// The number of images, alone or in front of words (`8 images of 448x448`).
fn counted(c: &Columns) -> Option<u64> {
    let first = c.peek("images").as_str().and_then(|text| text.split_whitespace().next()?.parse().ok());
    let items = c.peek("images").as_u64().or(first)?;
    c.heed("images");
    Some(items)
}

/// What of the encoder is trained, in the words of its column: a frozen one still has a projector that is.
fn trained(c: &Columns) -> Option<&'static str> {
    let words = c.peek("encoder").as_str().unwrap_or_default().to_lowercase();
    let says = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    let trained = if !words.contains("unfroz") && says(&["froz", "freez", "fixed", "not trained"]) {
        "projector"
    } else if says(&["train", "full", "unfroz", "tuned"]) {
        "all"
    } else {
        return None;
    };
    c.heed("encoder");
    Some(trained)
}
