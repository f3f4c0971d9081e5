use std::collections::BTreeMap;

use serde_json::Value;
use stepsim_form::compare::formula::*;

fn quantities() -> BTreeMap<String, f64> {
    [("pipeline", 4.0), ("forward_s", 2.0)].map(|(name, value)| (name.to_string(), value)).into()
}

#[test]
fn terms_are_expressions_over_what_stands_before_them() {
    let text = r#"{"name": "f", "quantities": {"idle": "pipeline - 1", "each": 0.5},
        "terms": {"bubble": "idle * (forward_s + each)", "data": "if(kind.of == 'x', 7, 8)"}}"#;
    let workload = serde_json::json!({"kind": {"of": "x"}});
    let terms = Formula::parse("f", text).unwrap().terms(&quantities(), &workload).unwrap();
    assert_eq!((terms[7], terms[9], terms.iter().sum::<f64>()), (7.5, 7.0, 14.5));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let message = |text: &str| {
        let found = Formula::parse("f.json", text).and_then(|f| f.terms(&quantities(), &Value::Null));
        found.map(|_| ()).unwrap_err().to_string()
    };
    for (text, part) in [
        (r#"{"name": "f", "terms": {"bubbles": "1"}}"#, "terms.bubbles"),
        (r#"{"name": "f", "terms": {"bubble": "1 +"}}"#, "a value is missing"),
        (r#"{"name": "f", "terms": {"bubble": "stages"}}"#, "there is no field `stages`"),
        (r#"{"name": "f", "terms": {"bubble": "pipeline > 1"}}"#, "gives true, no number"),
        (r#"{"terms": {}}"#, "is no formula"),
    ] {
        assert!(message(text).contains(part), "{text}: {}", message(text));
    }
}

/// Every shipped formula is read, says where it comes from, and names only quantities that there are.
#[test]
fn shipped_formulas_are_read() {
    for (name, text) in SHIPPED {
        let formula = Formula::parse(name, text).unwrap_or_else(|e| panic!("{e}"));
        assert!(formula.name == name && formula.source.len() > 100, "{name}: {}", formula.source);
    }
}
