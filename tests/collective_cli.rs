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

/// The page draws what each device sends and gets.
#[test]
fn a_page_draws_transfers() {
    for (machine, op, algorithm) in [
        ("switch:4,100,2", "all-reduce", "tree"),
        ("nodes:2*4,370,1,50,5", "all-reduce", "hierarchical"),
        ("torus:4x4,50,1", "all-gather", "torus"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let html = folder.path().join("x.html");
        let call = format!(
            "--topology {machine} --op {op} --algorithm {algorithm} --bytes 1Mi --fidelity steps --html {}",
            html.to_str().expect("UTF-8")
        );
        rows(&call).expect("runs");
        let page = std::fs::read_to_string(&html).expect("a page");
        assert!(page.contains("Transfers of the largest size") && page.matches("</script>").count() == 2);
        assert!(page.contains("device 0") && page.contains("device 3"), "{algorithm}");
        assert!(
            !page.contains("forward true") && page.contains("neighbour axis 1 up") == (algorithm == "torus"),
            "{algorithm}"
        );
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
