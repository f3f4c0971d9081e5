use serde_json::json;
use stepsim_spec::expression::*;

fn number(text: &str) -> Result<f64, String> {
    let named = json!({"a": 4, "b.size": 8, "kind": "1f1b", "min": 3});
    let value = Expression::parse(text)?.value(&|name| named.get(name).cloned())?;
    value.as_f64().ok_or_else(|| value.to_string())
}

#[test]
fn functions_are_called() {
    for (text, want) in [
        ("max(a, b.size, 2) - min", 5.0),
        ("if(kind == '1f1b', (a - 1) / b.size, 0)", 0.375),
        ("ceil(b.size / 3) + floor(a / 3)", 4.0),
        ("pow(2, a) + sqrt(a) + log2(b.size) + exp(0)", 22.0),
        ("min(a, -b.size)", -8.0),
    ] {
        assert_eq!(number(text), Ok(want), "{text}");
    }
    for (text, part) in [
        ("max(a", "a `)` is missing after max("),
        ("if(a, 1)", "takes a condition and two values, not 2"),
        ("sqrt(a, a)", "`sqrt` does not take 2 numbers"),
        ("abs(a)", "`(a)` follows"),
        ("if(a, 1, 2)", "4 is not true or false"),
    ] {
        let message = number(text).unwrap_err();
        assert!(message.contains(part), "{text}: {message}");
    }
}
