use serde_json::{Value, json};
use stepsim_bring::imports::syntax::python::condition::holds;
use stepsim_bring::imports::syntax::python::tokens::{PythonToken, lines};

#[test]
fn what_is_known_decides_and_nothing_else() {
    let known = |tokens: &[PythonToken]| match tokens {
        [PythonToken::Name(name)] => match name.as_str() {
            "kind" => Some(json!("bf16")),
            "True" => Some(Value::Bool(true)),
            _ => None,
        },
        [PythonToken::Text(text)] => Some(json!(text)),
        _ => None,
    };
    for (condition, truth) in [
        ("kind == 'bf16'", Some(true)),
        ("kind != 'bf16'", Some(false)),
        ("not kind == 'fp8'", Some(true)),
        ("kind is None", Some(false)),
        ("other is None", None),
        ("other and kind == 'fp8'", Some(false)),
        ("other or kind == 'bf16'", Some(true)),
        ("other and True", None),
        ("f(other or True)", None),
    ] {
        assert_eq!(holds(&lines(condition)[0].tokens, &known), truth, "{condition}");
    }
}
