use serde_json::json;
use stepsim_core::ids::RankId;
use stepsim_read::analysis::report::Report;
use stepsim_simulate::behaviour::DrawnRank;
use stepsim_simulate::page::*;
use stepsim_simulate::{Inputs, Options, Simulation};

fn of(workload: &str) -> (String, Report) {
    let inputs = Inputs::load(workload, None, &[]).unwrap();
    let run = Simulation::run(&inputs, &Options::default()).unwrap();
    let mut report = run.report(false);
    report.run.command = vec!["stepsim".into(), "run".into(), "</script><b>".into()];
    let ranks = DrawnRank::asked((0..run.plan.world.ranks.len() as u32).map(RankId));
    (page(&run, &ranks, &report).unwrap(), report)
}

#[test]
fn a_page_stands_alone_and_says_what_the_report_says() {
    let (page, report) = of("tiny-4");
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("</script>").count(), 2, "nothing ends a script early");
    assert!(page.contains(&format!("{:.1} %</b>MFU", report.mfu * 100.0)));
    let busy = 100.0 * report.mean.busy_s / report.run_time_s;
    assert!(page.contains(&format!("kernels {busy:.1} %")), "colours have names");
    let data = page.split("id=\"data\">").nth(1).and_then(|rest| rest.split("</script>").next()).unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["report"]["step_time_s"], json!(report.step_time_s));
    let rows = data["shown"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    // Six micro-batches, forward and backward.
    assert_eq!(rows[0]["passes"].as_array().unwrap().len(), 12 * 4);
    let stalled: u64 = rows[3]["stalls"].as_array().unwrap().chunks(4).map(|s| s[1].as_u64().unwrap()).sum();
    let said: f64 = report.ranks[3].time.stalls_s.values().sum();
    assert!((stalled as f64 * 1e-9 - said).abs() < 1e-7, "{stalled} ns, {said} s");
}
