use serde_json::json;
use stepsim_bring::describe::columns::DescribedColumns;
use stepsim_bring::describe::shape::*;

#[test]
fn parameters_tell_width_and_mlp() {
    let columns = |value: serde_json::Value| DescribedColumns::new(value.as_object().unwrap());
    // Brown et al. 2020, table 2.1: 6.7 B is 32 x 4,096 and 175 B is 96 x 12,288.
    for (billions, layers) in [(6.7, 32), (175.0, 96)] {
        let mut c = columns(json!({"params_b": billions}));
        assert!(by_parameters(&mut c));
        assert_eq!((c.count("layers"), c.count("hidden")), (Some(layers), Some(128 * layers)));
    }
    let mut wide = columns(json!({"params_b": 8.86, "tp": 16}));
    assert!(by_parameters(&mut wide) && wide.count("hidden") == Some(4096));
    assert!(!by_parameters(&mut columns(json!({"params_b": 7, "layers": 32}))));
    // OPT 6.7B, and Mistral 7B.
    let mut opt = columns(json!({"params_b": 6.7, "layers": 32, "hidden": 4096, "ffn": 16384, "heads": 32}));
    parameters(&mut opt);
    assert_eq!(opt.text("mlp_by_parameters"), "plain");
    let mut mistral = columns(
        json!({"params_b": 7.2, "layers": 32, "hidden": 4096, "ffn": 14336, "heads": 32, "kv_heads": 8}),
    );
    parameters(&mut mistral);
    assert_eq!(mistral.text("mlp_by_parameters"), "gated");
}
