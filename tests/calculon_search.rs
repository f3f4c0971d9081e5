//! The best execution by trying all of them, against Calculon's own search.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stepsim::form::calculon::closed_form::Quirks;
use stepsim::form::calculon::files::{Application, Datatype, FileNames, System};
use stepsim::form::calculon::search::{ExecutionRanking, ExecutionSpace, search};

use crate::command::Folder;

/// Searches that Calculon ran, and what it found best.
fn golden() -> Value {
    serde_json::from_str(include_str!("data/calculon-search.json")).expect("JSON")
}

/// Its models and machines.
fn files() -> Value {
    serde_json::from_str(include_str!("data/calculon.json")).expect("JSON")
}

fn space(case: &Value) -> ExecutionSpace {
    let files = files();
    let of = |kind: &str, name: &Value| files[kind][name.as_str().expect("a name")].clone();
    let number = |name: &str| case[name].as_u64().expect("a count");
    let only = case["only"].as_object().expect("fields").iter();
    let mut sys: System = serde_json::from_value(of("systems", &case["system"])).expect("a machine");
    sys.mem2.capacity_gib = case["mem2_GiB"].as_f64().unwrap_or(sys.mem2.capacity_gib);
    ExecutionSpace {
        app: serde_json::from_value::<Application>(case["shape"].clone()).expect("a model"),
        sys,
        names: FileNames::default(),
        processors: number("processors"),
        batch: number("batch"),
        datatype: Datatype::Float16,
        only: only.map(|(field, value)| (field.clone(), vec![value.clone()])).collect(),
    }
}

fn found(space: &ExecutionSpace, top: usize, threads: usize) -> ExecutionRanking {
    let mut told = (0, 0);
    let mut tell = |done, of| {
        assert!(done == told.0 + 1 && done <= of, "{done} of {of} after {told:?}");
        told = (done, of);
    };
    let found = search(space, Quirks::AS_PUBLISHED, top, threads, &mut tell).expect("a search");
    assert_eq!(told.0, told.1, "all was told");
    found
}

#[test]
fn calculons_own_search_finds_the_same() {
    let golden = golden();
    let cases = golden["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 3);
    for case in cases {
        let found = found(&space(case), 3, 2);
        let best = case["best"].as_array().expect("the best");
        assert_eq!(
            found.executions,
            case["executions"].as_u64().expect("a count"),
            "{}",
            case["application"]
        );
        assert_eq!(found.fit, case["fit"].as_u64().expect("a count"), "{}", case["application"]);
        assert_eq!(found.ranking.len(), best.len());
        for (ours, theirs) in found.ranking.iter().zip(best) {
            assert_eq!(json!(ours.execution), theirs["execution"], "{}", case["application"]);
            let rate = theirs["sample_rate"].as_f64().expect("a rate");
            assert!((ours.sample_rate / rate - 1.0).abs() < 1e-9, "{} {rate}", ours.sample_rate);
        }
    }
}

#[test]
fn the_ranking_does_not_depend_on_threads_and_fields_can_be_kept() {
    let golden = golden();
    let mut space = space(&golden["cases"][1]);
    let one = found(&space, 5, 1);
    assert_eq!(one, found(&space, 5, 4));
    assert!(one.ranking.windows(2).all(|w| w[0].sample_rate >= w[1].sample_rate));
    space.only.insert("tensor_par".into(), vec![json!(1)]);
    let kept = found(&space, 5, 1);
    assert!(
        kept.executions < one.executions && kept.ranking.iter().all(|best| best.execution.tensor_par == 1)
    );
    space.only = BTreeMap::from([("heads".to_string(), vec![json!(1)])]);
    let refused = search(&space, Quirks::AS_PUBLISHED, 1, 1, &mut |_, _| {});
    let refused = refused.expect_err("no such field").to_string();
    assert!(refused.contains("tensor_par_comm_type"), "{refused}");
}

/// The command on shipped files: a better tier is never worse, and the file written runs.
#[test]
fn the_command_varies_the_machine_and_writes_the_best() {
    let folder = Folder::new();
    let system =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/calculon/h100-offload-512.json");
    let search = format!("search --calculon scaled-0.9t {} --processors 512 --batch 64", system.display());
    let keep = "--fix tensor_par_comm_type=rs_ag --fix microbatch_size=1 --fix optimizer_sharding=true \
                --fix activation_recompute=attn_only --vary system.mem2.GBps=12.5,100 --top 1";
    let plot = "--plot system.mem2.GBps,mfu --report report.json -o best.json";
    folder.stepsim(&format!("{search} {keep} {plot}")).ok();
    let points = folder.json("report.json")["points"].clone();
    let rate = |i: usize| points[i]["ranking"][0]["sample_rate"].as_f64().expect("a rate");
    assert!(rate(0) < rate(1), "{} {}", rate(0), rate(1));
    assert!(folder.path("best.mfu-by-system.mem2.GBps.svg").exists());
    assert_eq!(folder.json("best.json"), points[1]["ranking"][0]["execution"]);
    let wrong = |more: &str| folder.stepsim(&format!("{search} {more}")).refused();
    assert!(wrong("--fix system.mem3.GBps=1").contains("mem2"));
    assert!(wrong("--datatype fp8").contains("float8"));
    assert!(wrong("--fix tensor_par=7").contains("no execution can be made"));
}
