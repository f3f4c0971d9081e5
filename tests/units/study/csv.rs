use std::collections::BTreeMap;

use serde_json::json;

use serde_json::Map;
use stepsim::study::csv::*;
use stepsim::study::outcome::PointOutcome;
use stepsim::study::rows::Row;
use stepsim::study::rows::write_text;

/// A sweep's comma-separated file equals its findings, whatever a cell holds.
#[test]
fn values_are_read_back() {
    let row = |point: u64, stack: &str, message: Option<&str>| Row {
        key: format!("{point:032x}"),
        point,
        settings: Map::from_iter([
            ("stack".to_string(), stack.into()),
            ("batch.micro_batch".into(), json!(2)),
        ]),
        outcome: PointOutcome {
            message: message.map(String::from),
            step_time_s: Some(0.125),
            memory_peak_bytes: Some(1 << 40),
            exposed_s: BTreeMap::from([("tp".to_string(), 1e-9)]),
            columns: BTreeMap::from([("mean.busy_s".to_string(), json!(0.5))]),
            ..PointOutcome::default()
        },
    };
    let rows = vec![row(0, "=a,\"b\"", None), row(1, "-c", Some("no, \"never\"; 'why'"))];
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.csv");
    write_text(&path, &csv(&rows)).expect("a file");
    let mut read = Vec::new();
    each_of_csv(&path, &mut |row| read.push(row)).expect("rows");
    assert_eq!(read, rows);
    for wrong in ["", "a,b\n", "key,point,status\n1,2\n"] {
        std::fs::write(&path, wrong).expect("a file");
        each_of_csv(&path, &mut |_| ()).expect_err(wrong);
    }
}
