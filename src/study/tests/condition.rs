use serde_json::json;

use stepsim_study::*;

fn holds(text: &str) -> Result<bool, String> {
    let point = json!({"a": 4, "b.size": 8, "kind": "1f1b", "order": true, "none": null});
    let condition = RowCondition::parse(text).map_err(|e| e.to_string())?;
    condition.holds(&|path| point.get(path).cloned()).map_err(|e| e.to_string())
}

#[test]
fn operators_bind_as_usual() {
    for text in [
        "a * b.size == 32",
        "a + b.size * 2 == 20 and not a > 4",
        "(a + b.size) * 2 == 24",
        "a - 1 - 1 == 2",
        "-a < 0 or nothing == 1",
        "kind == '1f1b' && b.size % a == 0",
        "order and none == null",
        "order or false and false",
        "not kind == \"gpipe\"",
    ] {
        assert_eq!(holds(text), Ok(true), "{text}");
    }
    assert_eq!(holds("a / b.size >= 1"), Ok(false));
}

#[test]
fn what_is_no_condition_is_refused() {
    for (text, part) in [
        ("", "a value is missing"),
        ("a *", "a value is missing"),
        ("(a == 4", "a `)` is missing"),
        ("a == 4 b", "`b` follows"),
        ("a < b.size < 9", "`< 9` follows"),
        ("a + 1", "not true or false"),
        ("c == 1", "no field `c`"),
        ("kind > 3", "is no number"),
        ("1x == 3", "`1x` is no number"),
        ("kind == 'open", "a text without its end"),
    ] {
        let message = holds(text).unwrap_err();
        assert!(message.contains(part), "{text}: {message}");
    }
}
