use serde_json::{Value, json};
use stepsim_study::refine::*;

#[test]
fn ends_have_fewer_layers_and_none_is_lost() {
    assert_eq!(splits(80, 1), [] as [Value; 0]);
    assert_eq!(splits(8, 2), [json!([5, 3]), json!([6, 2])]);
    assert_eq!(splits(12, 4)[..2], [json!([3, 4, 3, 2]), json!([3, 4, 4, 1])]);
    assert_eq!(splits(4, 4), [] as [Value; 0], "no stage is empty");
    for split in splits(80, 16) {
        let layers = split.as_array().unwrap().iter().filter_map(Value::as_u64);
        assert_eq!(layers.sum::<u64>(), 80, "{split}");
    }
}
