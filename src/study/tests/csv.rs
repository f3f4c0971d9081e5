use std::collections::BTreeMap;

use serde_json::json;

use serde_json::Map;
use stepsim_study::csv::*;
use stepsim_study::outcome::PointOutcome;
use stepsim_study::rows::Row;

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
    let text = csv(&rows);
    let ends = [text.find('\n').expect("a head") + 1, csv(&rows[..1]).len(), text.len()];
    // Cut off anywhere: whole rows are read, and the bytes behind them are told.
    for end in 0..=text.len() {
        for tail in ["", "\0\0"] {
            std::fs::write(&path, format!("{}{tail}", &text[..end])).expect("a file");
            let mut read = Vec::new();
            let cut = each_of_csv(&path, &mut |row| {
                read.push(row);
                Ok(())
            })
            .expect("rows");
            assert!(rows.starts_with(&read), "{end}: {read:?}");
            let begun = if end < ends[0] { 0 } else { ends[read.len()] };
            assert_eq!(cut as usize, end - begun + tail.len(), "{end}");
        }
    }
    for wrong in ["a,b\n", "key,point\n1,2\n", "key,point,status\n1,2\n1,2,3\n"] {
        std::fs::write(&path, wrong).expect("a file");
        each_of_csv(&path, &mut |_| Ok(())).expect_err(wrong);
    }
}
