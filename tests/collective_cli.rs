//! `stepsim collective` from its arguments to its report.

use clap::Parser;
use serde_json::Value;
use stepsim::cli::collective::{Args, run};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

/// The rows of the report of a call, or its error.
fn rows(arguments: &str) -> Result<Vec<Value>, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let words = std::iter::once("collective").chain(arguments.split_whitespace());
    let words = words.chain(["--report", file.to_str().expect("a path")]);
    let args = Cli::try_parse_from(words).map_err(|e| e.to_string())?.args;
    run(&args).map_err(|e| e.to_string())?;
    let text = std::fs::read_to_string(file).expect("a report");
    let report: Value = serde_json::from_str(&text).expect("the report is JSON");
    Ok(report["rows"].as_array().expect("rows").clone())
}

fn time(row: &Value) -> f64 {
    row["time_s"].as_f64().expect("a time")
}

#[test]
fn shipped_machines_run_what_suits_them() {
    let h200 = rows("--topology p5en-h200 --op all-reduce --bytes 1Mi,16Gi").expect("runs");
    assert_eq!((&h200[0]["protocol"], &h200[1]["algorithm"]), (&"LL128".into(), &"nvls".into()));
    let tpu = rows("--topology tpu-v5e-256 --op all-gather --bytes 1Gi").expect("runs");
    assert_eq!(tpu[0]["algorithm"], "torus-split");
    let mi300x = rows("--topology mi300x-8 --op all-reduce --bytes 1Gi").expect("runs");
    assert_eq!(mi300x[0]["algorithm"], "two-shot");
}

/// Every transfer stands in the timeline, on its sender, its receiver and the links that it crosses; the last ends
/// with the collective. The page draws them too.
#[test]
fn steps_are_drawn_transfer_by_transfer() {
    let cases = [
        ("switch:4,100,2", "all-reduce", "ring", 1 << 20, 4 * 6),
        ("switch:4,100,2", "all-reduce", "tree", 1 << 20, 0),
        ("nodes:2*4,370,1,50,5", "all-reduce", "hierarchical", 1 << 20, 0),
        ("torus:4x4,50,1", "all-gather", "torus", 1 << 22, 0),
    ];
    for (machine, op, algorithm, bytes, transfers) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
        let (trace, html) = (path("x.json"), path("x.html"));
        let call = format!(
            "--topology {machine} --op {op} --algorithm {algorithm} --bytes {bytes} --fidelity steps --trace {trace} --html {html}"
        );
        let row = &rows(&call).expect("runs")[0];
        let trace: Value = serde_json::from_slice(&std::fs::read(&trace).expect("a file")).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("events");
        let slices = |category: &str| events.iter().filter(|e| e["cat"] == category).collect::<Vec<_>>();
        let (sends, receives) = (slices("send"), slices("receive"));
        assert_eq!(sends.len() as u64, row["transfers"].as_u64().expect("a number"), "{algorithm}");
        assert_eq!(sends.len(), receives.len());
        assert!(transfers == 0 || sends.len() == transfers);
        assert_eq!(events.iter().filter(|e| e["ph"] == "s").count(), sends.len(), "an arrow each");
        let end = |e: &&Value| e["ts"].as_f64().expect("a time") + e["dur"].as_f64().expect("a time");
        let last = sends.iter().map(end).fold(0.0, f64::max);
        assert!((last - time(row) * 1e6).abs() < 2e-3, "{algorithm}: {last} us, {} s", time(row));
        let crosses = |e: &&Value| e["args"]["links"].as_str().is_some_and(|links| links.contains("->"));
        assert!(sends.iter().all(crosses), "{algorithm}");
        let crossed: usize =
            sends.iter().map(|e| e["args"]["links"].as_str().map_or(0, |l| l.split(", ").count())).sum();
        assert_eq!(slices("link").len(), crossed, "{algorithm}");
        let page = std::fs::read_to_string(&html).expect("a page");
        assert!(page.contains("Transfers of the largest size") && page.matches("</script>").count() == 2);
    }
}

/// Light to another site is paid where a message crosses to it, and not in each step of a kernel between nodes.
#[test]
fn the_way_to_another_site_is_paid_where_it_is_crossed() {
    let us = |call: &str, km: u32| {
        let call = format!("-t h100-two-sites --bytes 1Mi --set sites.link_km={km} {call}");
        1e6 * time(&rows(&call).expect("runs")[0])
    };
    // 4.9 us a km: a flat all-reduce passes each of the two joints twice, the sites of three levels exchange once, as
    // a message does.
    for (call, crossings) in [
        ("--op all-reduce --algorithm ring --set nodes=8", 4.0),
        ("--op all-reduce --algorithm three-level --set nodes=8", 1.0),
        ("--op send-recv --ranks 0,512", 1.0),
    ] {
        let longer = us(call, 1100) - us(call, 1000);
        assert!((longer / (490.0 * crossings) - 1.0).abs() < 0.01, "{call}: {longer}");
    }
}
