use clap::Parser;

use super::*;

#[derive(Parser)]
struct ScheduleCommand {
    #[command(flatten)]
    args: Args,
}

fn output(line: &str, screen: Screen) -> Result<String, Failure> {
    let args = ScheduleCommand::try_parse_from(std::iter::once("schedule").chain(line.split_whitespace()))
        .unwrap()
        .args;
    let mut out = Vec::new();
    run_to(&args, screen, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

const PIPE: Screen = Screen { width: 120, color: false };

#[test]
fn a_drawing_in_letters() {
    assert_eq!(
        output("--kind 1f1b -p 2 -m 2 --tw 0.5", PIPE).unwrap(),
        "\
1f1b: 2 ranks x 1 chunk(s), 2 micro-batches; F 1 I 1 W 0.5
rank 0 F0-F1-.....B0--...B1---
rank 1 ...F0-B0---F1-B1--.....
F forward  B backward  . idle
makespan     7.5
bubble own   2.5 (33.3 %)
bubble idle  2.5 (33.3 %)
peak         2 1 live micro-batch chunks on rank 0, 1, ...
closed form  own 2.5 idle 2.5
"
    );
}

#[test]
fn an_overlapped_pair_shares_a_box() {
    assert_eq!(
        output("--kind dualpipe -p 2 -m 4", PIPE).unwrap(),
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
fn narrow_boxes_lose_their_digits_first() {
    let text = output("--kind 1f1b -p 2 -m 2", Screen { width: 20, color: false }).unwrap();
    assert!(text.contains("\nrank 0 FF1...B0-.B1-\nrank 1 .F0B0-FB1-...\n"), "{text}");
}

#[test]
fn a_drawing_in_colours_has_the_same_columns() {
    let line = "--kind zb-v -p 3 -m 6";
    let width = 80;
    let colored = output(line, Screen { width, color: true }).unwrap();
    let plain = output(line, Screen { width, color: false }).unwrap();
    for (colored, plain) in colored.lines().zip(plain.lines()).filter(|(_, p)| p.starts_with("rank")) {
        let shown: String = colored
            .split('\x1b')
            .map(|s| s.split_once('m').filter(|(c, _)| c.starts_with('[')).map_or(s, |(_, text)| text))
            .collect();
        assert_eq!(shown.len(), plain.len());
        assert!(plain.len() <= width);
    }
}

#[test]
fn all_schedules_in_one_table() {
    let table = output("--all -p 4 -m 6 --p2p 0.1", PIPE).unwrap();
    assert_eq!(table.lines().count(), 1 + stepsim_step::schedule::ALL.len() + 4);
    let some = include_str!("../../../tests/data/schedule-all.txt");
    for line in some.lines() {
        assert!(table.contains(&format!("{line}\n")), "{line}\nis not in\n{table}");
    }
}

#[test]
fn the_report_holds_the_golden_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let line = format!("--kind zb-v --stages 4 --micro-batches 8 --p2p 0.1 --report {}", file.display());
    output(&line, PIPE).unwrap();
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(report["makespan"], 26.8);
    assert_eq!(report["idle_max"], 2.8);
    assert_eq!(report["own_max"], 1.6);
    assert_eq!(report["peak"], serde_json::json!([8, 8, 8, 8]));
    assert_eq!(report["ranks"][3]["slots"][1], serde_json::json!(["F0.1", 2.3, 2.8]));
    assert_eq!(report["closed_form_without_p2p"]["idle"], 1.5);
}

#[test]
fn thirds_of_a_second_do_not_show_the_clock() {
    let text = output("--kind interleaved-1f1b -p 4 -m 8 -v 3", PIPE).unwrap();
    assert!(text.contains("makespan     27\nbubble own   3 (11.1 %)\n"), "{text}");
}

#[test]
fn a_trace_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    output(&format!("--kind dualpipe -p 4 -m 8 --trace {}", file.display()), PIPE).unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(r#""name":"m3 fwd + m"#), "{}", &text[..2000]);
    assert!(text.contains(r#""name":"stage 0 & backward m"#), "{}", &text[..2000]);
}

#[test]
fn an_order_from_a_file_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("order.json");
    std::fs::write(&file, r#"{"ranks": ["F0 F1 B0 B1", "F0 B0 F1 B1"]}"#).unwrap();
    let text = output(&format!("--order {}", file.display()), PIPE).unwrap();
    assert!(text.starts_with("user order: 2 ranks x 1 chunk(s), 2 micro-batches; F 1 I 1 W 1\n"), "{text}");
    let table = output(&format!("--all --order {}", file.display()), PIPE).unwrap();
    let columns = |name: &str| -> Vec<String> {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().skip(1).take(5).map(str::to_owned).collect()
    };
    assert_eq!(columns("yours"), columns("1f1b"));
    assert_ne!(columns("yours"), columns("zb-h1"));
    assert!(text.contains("makespan     9\n"), "{text}");
    std::fs::write(&file, r#"{"ranks": ["F0 F1 B0 B1", "F0 B0"]}"#).unwrap();
    assert_eq!(
        output(&format!("--order {}", file.display()), PIPE).unwrap_err().to_string(),
        format!(
            "{}: the order cannot run: rank 1: F1 is missing: every micro-batch needs F and either B or both I and W \
                 on every chunk",
            file.display()
        )
    );
}

#[test]
fn bad_numbers_are_refused() {
    let error = |line: &str| output(line, PIPE).unwrap_err().to_string();
    assert_eq!(error("--kind gpipe -p 2 -m 2 --tf nan"), "--tf NaN: must be a number from 0 to 1000000");
    assert_eq!(error("--kind gpipe -p 2 -m 2 --p2p=-1"), "--p2p -1: must be a number from 0 to 1000000");
    assert_eq!(
        error("--kind gpipe -p 2 -m 2 --tf 0 --ti 0 --tw 0"),
        "--tf 0: the passes together must take some time (1e-6 or more)"
    );
    assert_eq!(
        error("--kind gpipe -p 20 -m 20 --tf 1e5"),
        "--tf + --ti + --tw = 100002: 800 slots of such times may take more than 1e7 units, beyond the simulator's \
         clock; use a larger unit of time"
    );
    assert!(
        error("--kind 2f2b -p 2 -m 2")
            .starts_with("schedule 2f2b: there is no schedule of this name; choose one of")
    );
    assert_eq!(
        error("--kind gpipe -p 2 -m 2 --report /nonexistent/report.json"),
        "cannot create `/nonexistent/report.json`: No such file or directory (os error 2); make the folder \
         first, or choose another path"
    );
}

/// A late pass began after the stall that it causes: viewers would turn an arrow from one to the other round.
#[test]
fn arrows_of_a_timeline_lead_to_what_began_later() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.json");
    output(&format!("--kind zb-v -p 4 -m 8 --trace {}", file.display()), PIPE).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let ns = |event: &serde_json::Value, key: &str| (event[key].as_f64().unwrap() * 1e3).round() as u64;
    // The start of the innermost slice that an end of an arrow stands in.
    let begin = |end: &serde_json::Value| {
        let at = ns(end, "ts");
        let row = events.iter().filter(|e| e["ph"] == "X" && e["tid"] == end["tid"]);
        row.filter(|e| (ns(e, "ts")..ns(e, "ts") + ns(e, "dur")).contains(&at))
            .map(|e| ns(e, "ts"))
            .max()
            .unwrap()
    };
    let mut arrows = 0;
    for tail in events.iter().filter(|e| e["ph"] == "s") {
        let head = events.iter().find(|e| e["ph"] == "f" && e["id"] == tail["id"]).unwrap();
        assert!(begin(tail) <= begin(head), "{tail} {head}");
        arrows += 1;
    }
    assert!(arrows >= 6, "{arrows}");
}

/// A timeline counts what the order holds; the page has each pass and each rank's bubble.
#[test]
fn timelines_count_live_chunks_and_pages_have_every_pass() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let line = format!("--kind 1f1b -p 4 -m 8 --trace {} --html {}", path("x.json"), path("x.html"));
    output(&line, PIPE).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(path("x.json")).unwrap()).unwrap();
    let most = |pid: u64| {
        let counts =
            trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "C" && e["pid"] == pid);
        counts.map(|e| e["args"]["number"].as_u64().unwrap()).max().unwrap()
    };
    assert_eq!([1, 2, 3, 4].map(most), [4, 3, 2, 1]);
    let page = std::fs::read_to_string(path("x.html")).unwrap();
    let data = page.split("id=\"data\">").nth(1).and_then(|rest| rest.split("</script>").next()).unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let rows = data["shown"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row["passes"].as_array().unwrap().len() == 4 * 16));
    assert_eq!(data["report"]["makespan"], 33.0);
    assert!(page.contains("pipeline bubble"));
}
