//! Pipeline schedules drawn on abstract durations, as `stepsim schedule` shows them.

use crate::command::stepsim;

fn drawn(words: &str) -> String {
    stepsim(&format!("schedule {words}")).ok()
}

#[test]
fn an_overlapped_pair_shares_a_box() {
    assert_eq!(
        drawn("--kind dualpipe -p 2 -m 4"),
        "\
dualpipe: 2 ranks x 2 chunk(s), 4 micro-batches; F 1 I 1 W 1
rank 0 F0-f2-F1-b2----f3&B0----b3----I1-W1-
rank 1 f2-F0-f3-B0----F1&b2----B1----i3-w3-
F forward  B backward  I input gradient  W weight gradient  small letters: chunk 1  . idle
makespan     12
bubble own   0 (0.0 %)
bubble idle  0 (0.0 %)
peak         3 3 live micro-batch chunks on rank 0, 1, ...
closed form  own 0 idle 0
"
    );
}

#[test]
fn all_schedules_in_one_table() {
    let table = drawn("--all -p 4 -m 6 --p2p 0.1");
    assert_eq!(table.lines().count(), 1 + stepsim::schedule::ALL.len() + 4);
    let some = include_str!("data/schedule-all.txt");
    for line in some.lines() {
        assert!(table.contains(&format!("{line}\n")), "{line}\nis not in\n{table}");
    }
}

#[test]
fn the_report_holds_the_golden_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let line = format!("--kind zb-v --stages 4 --micro-batches 8 --p2p 0.1 --report {}", file.display());
    drawn(&line);
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(report["makespan"], 26.8);
    assert_eq!(report["idle_max"], 2.8);
    assert_eq!(report["own_max"], 1.6);
    assert_eq!(report["peak"], serde_json::json!([8, 8, 8, 8]));
    assert_eq!(report["ranks"][3]["slots"][1], serde_json::json!(["F0.1", 2.3, 2.8]));
    assert_eq!(report["closed_form_without_p2p"]["idle"], 1.5);
}

#[test]
fn a_trace_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    drawn(&format!("--kind dualpipe -p 4 -m 8 --trace {}", file.display()));
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(r#""name":"m3 fwd + m"#), "{}", &text[..2000]);
    assert!(text.contains(r#""name":"stage 0 & backward m"#), "{}", &text[..2000]);
}

#[test]
fn an_order_from_a_file_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("order.json");
    std::fs::write(&file, r#"{"ranks": ["F0 F1 B0 B1", "F0 B0 F1 B1"]}"#).unwrap();
    let text = drawn(&format!("--order {}", file.display()));
    assert!(text.starts_with("user order: 2 ranks x 1 chunk(s), 2 micro-batches; F 1 I 1 W 1\n"), "{text}");
    let table = drawn(&format!("--all --order {}", file.display()));
    let columns = |name: &str| -> Vec<String> {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().skip(1).take(5).map(str::to_owned).collect()
    };
    assert_eq!(columns("yours"), columns("1f1b"));
    assert_ne!(columns("yours"), columns("zb-h1"));
    assert!(text.contains("makespan     9\n"), "{text}");
    std::fs::write(&file, r#"{"ranks": ["F0 F1 B0 B1", "F0 B0"]}"#).unwrap();
    let refused = stepsim(&format!("schedule --order {}", file.display())).refused();
    assert!(
        refused.contains("the order cannot run: rank 1: F1 is missing: every micro-batch needs F"),
        "{refused}"
    );
}

/// A timeline counts what the order holds; the page has each pass and each rank's bubble.
#[test]
fn timelines_count_live_chunks_and_pages_have_every_pass() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let line = format!("--kind 1f1b -p 4 -m 8 --trace {} --html {}", path("x.json"), path("x.html"));
    drawn(&line);
    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(path("x.json")).unwrap()).unwrap();
    let most = |rank: u64| {
        let of_rank = |e: &&serde_json::Value| e["name"].as_str().unwrap().starts_with(&format!("{rank} "));
        let counts =
            trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "C").filter(of_rank);
        counts.map(|e| e["args"]["number"].as_u64().unwrap()).max().unwrap()
    };
    assert_eq!([0, 1, 2, 3].map(most), [4, 3, 2, 1]);
    let page = std::fs::read_to_string(path("x.html")).unwrap();
    let data = page.split("id=\"data\">").nth(1).and_then(|rest| rest.split("</script>").next()).unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let rows = data["shown"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row["passes"].as_array().unwrap().len() == 4 * 16));
    assert_eq!(data["report"]["makespan"], 33.0);
    assert!(page.contains("pipeline bubble"));
}
