//! Values read with their place say what serde_json says.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use stepsim_located::{from_text, typed, untyped};

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    #[serde(default)]
    count: u32,
    #[serde(default)]
    parts: Vec<Part>,
    #[serde(default)]
    pair: Option<(u8, String)>,
    #[serde(default)]
    by_number: BTreeMap<u64, bool>,
    #[serde(default)]
    by_word: BTreeMap<Word, f64>,
    #[serde(default)]
    kind: Option<Kind>,
    #[serde(default)]
    any: Value,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Part {
    width: f64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Near,
    Far,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Plain,
    Held(i8),
    Two(u8, u8),
    Named { width: f32 },
}

/// The path of what is wrong; what is read, and the words of an error, are serde_json's.
fn path(value: &Value) -> Option<String> {
    match (typed::<Whole>(value), Whole::deserialize(value)) {
        (Ok(one), Ok(other)) => {
            assert_eq!(one, other);
            None
        }
        (Err(one), Err(other)) => {
            assert_eq!(one.problem, other.to_string(), "{value}");
            Some(one.path)
        }
        (one, other) => panic!("{value}: {one:?}, serde_json says {other:?}"),
    }
}

#[test]
fn values_are_read_as_serde_json_reads_them() {
    let right = [
        json!({"count": 3, "parts": [{"width": 1}, {"width": -0.5}], "pair": [1, "a"], "any": {"b": [null, true]}}),
        json!({"by_number": {"16": true}, "by_word": {"near": 1}, "kind": "plain"}),
        json!({"kind": {"held": -3}, "pair": null}),
        json!({"kind": {"two": [1, 2]}}),
        json!({"kind": {"named": {"width": 1.5}}}),
        json!({"kind": {"plain": null}}),
    ];
    for value in right {
        assert_eq!(path(&value), None, "{value}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let wrong = [
        (json!(3), ""),
        (json!({"cuont": 3}), "cuont"),
        (json!({"count": -3}), "count"),
        (json!({"count": 1.5}), "count"),
        (json!({"count": u64::MAX}), "count"),
        (json!({"parts": {"width": 1}}), "parts"),
        (json!({"parts": [{"width": 1}, {}]}), "parts[1]"),
        (json!({"parts": [{"width": "1"}]}), "parts[0].width"),
        (json!({"pair": [1]}), "pair"),
        (json!({"pair": [1, "a", 2]}), "pair"),
        (json!({"pair": [1, 2]}), "pair[1]"),
        (json!({"by_number": {"x": true}}), "by_number.x"),
        (json!({"by_number": {"1": 1}}), "by_number.1"),
        (json!({"by_word": {"here": 1}}), "by_word.here"),
        (json!({"by_word": {"far": null}}), "by_word.far"),
        (json!({"kind": "other"}), "kind"),
        (json!({"kind": "held"}), "kind.held"),
        (json!({"kind": {"plain": 1}}), "kind.plain"),
        (json!({"kind": {"held": 300}}), "kind.held"),
        (json!({"kind": {"two": [1, "b"]}}), "kind.two[1]"),
        (json!({"kind": {"two": 1}}), "kind.two"),
        (json!({"kind": {"named": {"width": []}}}), "kind.named.width"),
        (json!({"kind": {"held": 1, "two": 2}}), "kind"),
        (json!({"kind": 1}), "kind"),
    ];
    for (value, place) in wrong {
        assert_eq!(path(&value).as_deref(), Some(place), "{value}");
    }
}

#[test]
fn a_list_is_no_object() {
    let problem = typed::<Part>(&json!([2.5])).unwrap_err().problem;
    assert_eq!(problem, "invalid type: sequence, expected struct Part");
}

#[test]
fn texts_say_line_and_column_too() {
    let said = |text| from_text::<Whole>(text).map_err(|fault| (fault.path, fault.problem)).unwrap_err();
    let told = |text| untyped(text).map_err(|fault| (fault.path, fault.problem)).unwrap_err();
    let pair = |path: &str, problem: &str| (path.to_owned(), problem.to_owned());
    let number = "invalid type: string \"x\", expected f64 at line 1 column 24";
    assert_eq!(said(r#"{"parts": [{"width": "x"}]}"#), pair("parts[0].width", number));
    assert_eq!(said(r#"{"count": 1} 2"#), pair("", "trailing characters at line 1 column 14"));
    let twice = "the key `b` stands here twice at line 1 column 18";
    assert_eq!(told(r#"{"a": {"b": 1, "b": 2}}"#), pair("a", twice));
    assert_eq!(told(r#"{"a": [1, }"#), pair("a[1]", "expected value at line 1 column 11"));
    assert_eq!(told(r#"{"a": {"b": 1,}}"#), pair("a.?", "trailing comma at line 1 column 15"));
    assert_eq!(told("{a: 1}").0, "?");
}
