use std::collections::BTreeSet;

use serde_json::{Value, json};
use stepsim_bring::describe::columns::*;

fn columns(value: Value) -> DescribedColumns {
    DescribedColumns::new(value.as_object().unwrap())
}

#[test]
fn patterns_are_texts_alternatives_negations_and_comparisons() {
    let row = columns(json!({"model": "Llama-3.1 70B", "tp": 8, "none": null}));
    for (column, pattern, fits) in [
        ("model", "llama*70b", true),
        ("model", "gpt*|*70b*", true),
        ("model", "llama", false),
        ("model", "!*gpt*", true),
        ("none", "", true),
        ("model", "", false),
        ("absent", "!", false),
        ("tp", "!", true),
        ("tp", ">4", true),
        ("tp", "<=7", false),
        ("tp", "8", true),
        ("absent", "<3", false),
    ] {
        assert_eq!(row.fits(column, pattern), fits, "{column} {pattern:?}");
    }
}

#[test]
fn products_need_all_their_columns_and_come_out_whole() {
    let row = columns(json!({"n": 64, "tp": "8", "pp": 3}));
    assert_eq!(row.value(&json!("=n/tp")), Some(json!(8)));
    assert_eq!(row.value(&json!("=2*n/tp/4+2*pp")), Some(json!(10)));
    assert_eq!(row.value(&json!("=n/pp")), None);
    assert_eq!(row.value(&json!("=n/dp")), None);
    assert_eq!(row.value(&json!("plain")), Some(json!("plain")));
    let fields = row.resolve(&json!({"a": "=n", "b": {"c": "=dp", "d": true}, "e": ["=tp"]}));
    assert_eq!(fields, json!({"a": 64, "b": {"d": true}, "e": [8]}));
}

#[test]
fn amounts_are_read_with_their_units() {
    let rows: Vec<(String, Option<f64>, Option<f64>)> =
        serde_json::from_str(include_str!("describe-amounts.json")).expect("rows");
    for (text, plain, tokens) in rows {
        assert_eq!(amount(&text, false), plain, "{text}");
        assert_eq!(amount(&text, true), tokens, "{text}");
    }
}

#[test]
fn columns_that_nothing_was_made_of_are_told() {
    let row = json!({"tp": 8, "optimizer": "sgd", "notes": "x", "seen": 1, "none": null, "empty": []});
    let own = columns(row.clone());
    own.count("tp");
    own.heed("seen");
    assert!(own.has("optimizer") && !own.fits("optimizer", "*adam*"));
    let silent = ["notes".to_string()].into();
    let told = own.unheeded(row.as_object().unwrap(), &silent, &BTreeSet::new());
    assert_eq!(told.into_iter().collect::<Vec<_>>(), [("optimizer".to_string(), json!("sgd"))]);
}

#[test]
fn what_cannot_be_a_count_is_none() {
    let row = columns(json!({"a": 2.5, "b": -1, "c": "1,024", "d": {"x": 1}, "e": 1e300, "extra": {"f": 7}}));
    let counts: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|c| row.count(c)).into();
    assert_eq!(counts, [None, None, Some(1024), None, None, Some(7)]);
    assert_eq!(row.needs("a"), Err("a is 2.5".to_string()));
}
