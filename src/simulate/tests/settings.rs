use std::collections::BTreeMap;

use stepsim_simulate::*;

#[test]
fn a_file_of_settings_stands_where_it_is_named() {
    let files: BTreeMap<String, String> = [
        ("mine.json".to_string(), r#"{"set": ["a=1", "topology.b=2"], "more": 3}"#.to_string()),
        ("none.json".to_string(), r#"{"set": 3}"#.to_string()),
    ]
    .into();
    let sets = ["x=0", "prices=mine.json", "a=9"].map(str::to_string);
    let all = expanded(&sets, &files).unwrap();
    assert_eq!(all, ["x=0", "a=1", "topology.b=2", "a=9"]);
    assert_eq!(Settings::of(&all).machine, ["b=2"]);
    for (file, word) in [("none.json", "no settings"), ("lost.json", "cannot be read")] {
        let error = expanded(&[format!("prices={file}")], &files).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains(file) && error.contains("learn"), "{error}");
    }
}
