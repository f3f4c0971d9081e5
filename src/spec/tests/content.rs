use serde_json::json;
use stepsim_spec::*;

#[test]
fn another_value_of_a_field_is_what_the_whole_would_have() {
    let batch = json!({"global": 64, "micro_batch": 1});
    let content = Content::of(&json!({"name": "a", "batch": {"global": 8, "micro_batch": 1}, "seed": 3}));
    let whole = Content::of(&json!({"name": "a", "batch": batch.clone(), "seed": 3}));
    assert_eq!(content.with("batch", &batch), whole);
    assert_eq!(content.with("batch", &batch).hash(), whole.hash());
    assert_ne!(content.hash(), whole.hash());
    assert_eq!(whole.hash().len(), 16);
}
