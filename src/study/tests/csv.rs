use std::collections::BTreeMap;

use serde_json::{Map, json};
use stepsim_study::csv::*;
use stepsim_study::outcome::PointOutcome;
use stepsim_study::rows::Row;

/// Cells are quoted where they must be, and texts that a spreadsheet would take for a formula are made texts.
#[test]
fn cells_are_what_a_spreadsheet_reads() {
    let row = |stack: &str, message: Option<&str>| Row {
        key: "k".into(),
        point: 0,
        settings: Map::from_iter([("stack".to_string(), stack.into()), ("n".into(), json!(-2))]),
        outcome: PointOutcome {
            message: message.map(String::from),
            exposed_s: BTreeMap::from([("tp".to_string(), 1e-9)]),
            columns: BTreeMap::from([("mean.busy_s".to_string(), json!(0.5))]),
            ..PointOutcome::default()
        },
    };
    let text = csv(&[row("=a,\"b\"", None), row("-c", Some("no, \"never\"; 'why'"))]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("key,point,stack,n,status,") && lines[0].ends_with(",mean.busy_s,message"));
    assert!(lines[1].starts_with("k,0,\"'=a,\"\"b\"\"\",-2,") && lines[1].ends_with(",0.5,"), "{}", lines[1]);
    assert!(lines[2].starts_with("k,0,'-c,-2,") && lines[2].contains(",1e-9,"), "{}", lines[2]);
    assert!(lines[2].ends_with(",\"no, \"\"never\"\"; 'why'\""), "{}", lines[2]);
}
