//! The encoder in front of a row's model: images or clips a sequence, and the trained part of it.

use serde_json::{Value, json};

use super::columns::DescribedColumns;
use stepsim_spec::ModelSpec;

/// The encoders that a step has, as in the workload; `None` where the model has none, or no image is named: a step of
/// text alone then, which is said.
pub fn encoders(c: &mut DescribedColumns, model: &ModelSpec) -> Option<Value> {
    let used = used(c, model);
    if used.is_none() {
        // Its words were understood, and nothing was made of them.
        c.unheed("encoder");
    }
    used
}

fn used(c: &mut DescribedColumns, model: &ModelSpec) -> Option<Value> {
    let module = model.modules.first()?;
    let Some(items) = counted(c).or(Some(module.per_sequence).filter(|items| *items > 0)) else {
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
    if c.has("encoder_trained") {
        used["trained"] = c.get("encoder_trained").clone();
    }
    Some(json!({module.name.as_str(): used}))
}

/// The number of images, alone or in front of words (`8 images of 448x448`).
fn counted(c: &DescribedColumns) -> Option<u64> {
    let first = c.peek("images").as_str().and_then(|text| text.split_whitespace().next()?.parse().ok());
    let items = c.peek("images").as_u64().or(first)?;
    c.heed("images");
    Some(items)
}
