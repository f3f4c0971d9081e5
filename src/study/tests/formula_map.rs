use serde_json::json;

use stepsim_study::formula_columns::{FARTHEST, OFF, term_column};
use stepsim_study::formula_map::*;
use stepsim_study::rows::Row;

#[test]
fn the_map_says_where_and_why() {
    let row = |point: u64, stages: u64, off: f64, bubble: f64, term: &str| -> Row {
        serde_json::from_value(json!({"key": "k", "point": point, "status": "ok",
            "settings": {"stages": stages, "same": 1},
            "columns": {OFF: off, FARTHEST: term, term_column("bubble"): bubble, term_column("data"): 0.5}}))
        .expect("a row")
    };
    let rows =
        [row(0, 1, 0.5, 0.0, "data"), row(1, 4, -6.5, -7.0, "bubble"), row(2, 4, -4.5, -5.0, "bubble")];
    let map = FormulaMap::of(&rows).expect("a map");
    assert_eq!((map.off.points, map.off.mean, map.off.most, map.off.most_at), (3, -3.5, -6.5, 1));
    let (name, farthest, errors) = &map.terms[0];
    assert_eq!((*name, *farthest, errors.mean, errors.most_at), ("bubble", 2, -4.0, 1));
    let settings: Vec<_> = map.settings.iter().map(|(s, e, t)| (s.as_str(), e.mean, t.as_str())).collect();
    assert_eq!(settings, [("stages=4", -5.5, "bubble"), ("stages=1", 0.5, "data")]);
    assert!(map.sentence().contains("bubble is the farthest term on 2"), "{}", map.sentence());
    assert_eq!(FormulaMap::of(&[]), None);
}
