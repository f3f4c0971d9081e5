//! Sweeps and searches: every point is a row, killed sweeps go on, and the search finds what a full simulation finds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use serde_json::Value;
use serde_json::json;
use stepsim::simulate::jump::glanced;
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::study::otherwise::{Depth, answer};
use stepsim::study::{
    How, RankedLayout, ReportColumns, SearchOptions, SearchReport, Space, StudyAxis, StudyBase, SweepOptions,
    SweepShard, fill, outcome, search, sweep_each,
};

use crate::answer::flat;
use crate::command::{self, Folder, Said, stepsim};

fn rows(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("rows");
    text.lines().map(|line| serde_json::from_str(line).expect("a row")).collect()
}

/// Eight devices: tensor 3 divides nothing, and micro-batches of 256 sequences fit into no memory.
const STUDY: &str =
    "sweep tests/data/study.json --vary parallelism.tensor=1,2,3 --vary batch.micro_batch=8,16,256";

fn study(path: &str, more: &str) -> Said {
    stepsim(&format!("{STUDY} -o {path} {more}"))
}

#[test]
fn a_dry_run_counts() {
    let count = |axes: &str| stepsim(&format!("sweep gpt2-8 --dry-run {axes}")).ok();
    let both = count("--vary batch.global=16:256:x2 --vary batch.micro_batch=1,2");
    assert_eq!(both, "10 points (5 × 2)\n");
    let zipped = count("--zip batch.global=16,32 --zip batch.micro_batch=1,2 --vary parallelism.tensor=1,5");
    assert_eq!(zipped, "4 points (2 × 2)\n");
    let part = count("--vary batch.global=8:80:+8 --shard 3/4");
    assert_eq!(part, "10 points (10), of which 2 in this part\n");
}

/// On several threads more is played at once, some of it ahead of its turn, and the same is said.
#[test]
fn what_is_said_does_not_depend_on_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plan.json");
    let lines = [
        "whatif straggler-64",
        "whatif tiny-4 --scale matrix=2 --scale scale-up=2 --without bubble",
        "knee gpt2-8 --field gradient_buckets.bucket_bytes=1e5:1e9 --until 'step<1.001x'",
        "knee llama3-70b-offload --field 'topology.node.memory[0].link.bandwidth_GBps_per_direction' --until 'stall<1%'",
        &format!("plan llama3-8b --on 8xh100 --batch 64 -o {}", file.display()),
    ];
    for line in lines {
        let on = |threads| stepsim(&format!("{line} --threads {threads}")).ok();
        assert_eq!(on(1), on(3), "{line}");
    }
    let inputs = Inputs::load("straggler-64", None, &[]).expect("a workload");
    let on = |threads| {
        let options = Options { threads: Some(threads), ..Options::default() };
        let report = glanced(&inputs, &options).expect("a step");
        answer(&inputs, &options, report, Depth::Tables).expect("an answer")
    };
    assert_eq!(on(1), on(3));
}

#[test]
fn what_cannot_run_is_a_row_and_rows_do_not_depend_on_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let (one, four, table) = (path("1.jsonl"), path("4.jsonl"), path("t.csv"));
    let said = study(&one, "--threads 1").ok();
    study(&four, "--threads 4").ok();
    assert_eq!(fs::read(&one).expect("rows"), fs::read(&four).expect("rows"));
    let rows = rows(Path::new(&one));
    let status: Vec<&str> = rows.iter().filter_map(|row| row["status"].as_str()).collect();
    let expected =
        ["ok", "ok", "out_of_memory", "ok", "ok", "out_of_memory", "invalid", "invalid", "invalid"];
    assert_eq!(status, expected, "{rows:#?}");
    assert!(said.contains("9 points") && said.contains("4 ok, 3 invalid, 2 out_of_memory"), "{said}");
    for row in &rows {
        let ok = row["status"] == "ok";
        for column in ["step_time_s", "mfu", "memory_peak_bytes", "tokens_per_s_per_device"] {
            assert_eq!(row[column].as_f64().is_some_and(|x| x > 0.0), ok, "{column} {row}");
        }
        assert_eq!(row["message"].is_string(), !ok, "{row}");
    }
    assert!(rows[3]["exposed_s"]["tp"].as_f64().is_some_and(|s| s > 0.0), "{}", rows[3]);
    study(&table, "--closed-form").ok();
    let text = fs::read_to_string(&table).expect("a table");
    assert_eq!(text.lines().count(), 10, "{text}");
    assert!(text.starts_with("key,point,parallelism.tensor,batch.micro_batch,status,step_time_s,"), "{text}");
    assert!(!Path::new(&(table + ".jsonl")).exists());
}

/// Columns that are asked for are those of the report that `run` writes; a row without one of them is of another study.
#[test]
fn rows_have_columns_of_the_report() {
    const BUBBLE: &str = "mean.stalls_s.pipeline_bubble";
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let (lines, table, report) = (path("rows.jsonl"), path("rows.csv"), path("report.json"));
    let asked = format!("{BUBBLE},stages.1.busy_s,mean.stalls_s.tensor_parallel");
    let study = format!("sweep tiny-4 --vary batch.global=8 --columns {asked} -o");
    let said = stepsim(&format!("{study} {lines}")).ok();
    assert!(said.contains(BUBBLE), "{said}");
    stepsim(&format!("{study} {table}")).ok();
    stepsim(&format!("run tiny-4 --set batch.global=8 -q --report {report}")).ok();
    let report = command::json(&report);
    let columns = &rows(Path::new(&lines))[0]["columns"];
    assert_eq!(columns[BUBBLE], report["mean"]["stalls_s"]["pipeline_bubble"]);
    assert_eq!(columns["stages.1.busy_s"], report["stages"][1]["busy_s"]);
    assert_eq!(columns.as_object().expect("columns").len(), 2, "no rank waits for tensor parallelism");
    let text = fs::read_to_string(&table).expect("a table");
    assert!(text.lines().next().expect("a head").ends_with(&format!(",{BUBBLE},stages.1.busy_s,message")));
    let best = stepsim(&format!("sweep best {lines} --by {BUBBLE}")).ok();
    assert!(best.contains("--set batch.global=8"), "{best}");

    let other = stepsim(&format!("sweep tiny-4 --vary batch.global=8 --resume -o {lines}")).refused();
    assert!(other.contains("no points of this study"));
    let whole = stepsim(&format!("sweep tiny-4 --vary batch.global=8,16 --resume -o {table}")).refused();
    assert!(whole.contains("came to its end") && whole.contains(".jsonl"), "{whole}");
}

/// Killed anywhere, a sweep goes on: cut at every twentieth byte, nothing is lost and nothing doubled.
#[test]
fn a_cut_file_is_resumed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.jsonl");
    let name = path.to_str().expect("UTF-8");
    study(name, "").ok();
    let whole = fs::read(&path).expect("rows");
    study(name, "").refused();
    assert_eq!(fs::read(&path).expect("rows"), whole, "a file that is there was touched");
    for part in [0, 1, 3, 7, 11, 19] {
        fs::write(&path, &whole[..whole.len() * part / 20]).expect("a shorter file");
        study(name, "--resume").ok();
        assert!(fs::read(&path).expect("rows") == whole, "{name} cut at {part}/20");
    }
    // Rows in the order in which they finished, as a killed sweep leaves them.
    let mut lines: Vec<&[u8]> = whole.split_inclusive(|b| *b == b'\n').collect();
    lines.reverse();
    let mut torn = lines[..6].concat();
    torn.extend(&lines[6][..10]);
    fs::write(&path, torn).expect("a torn file");
    study(name, "--resume").ok();
    assert!(fs::read(&path).expect("rows") == whole, "reversed");
}

/// A machine that lost power leaves broken lines at the end: they are dropped with a note, and the rows are whole
/// again.
#[test]
fn broken_last_lines_are_dropped_with_a_note() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.jsonl");
    let name = path.to_str().expect("UTF-8");
    study(name, "").ok();
    let whole = fs::read(&path).expect("rows");
    let two = whole.split_inclusive(|b| *b == b'\n').take(2).collect::<Vec<_>>().concat();
    for tail in [&b"{\"key\":\"1234\n"[..], &[0; 300], b"\0\0\0\n{\"key\n", b"}}\n{\"key\":\"12"] {
        fs::write(&path, [&two[..], tail].concat()).expect("a broken file");
        let said = study(name, "--resume");
        assert!(said.error.contains("were dropped"), "{}", said.error);
        assert!(fs::read(&path).expect("rows") == whole, "{tail:?}");
    }
    assert!(!study(name, "--resume").error.contains("dropped"));
    // Rows behind what is broken: nobody knows what the file is.
    let rest = whole.split_inclusive(|b| *b == b'\n').nth(3).expect("a row");
    let odd = [&two[..], &b"{\"key\":\"1234\n"[..], rest].concat();
    fs::write(&path, &odd).expect("an odd file");
    assert!(study(name, "--resume").refused().contains("line 3 is no row"));
    assert!(fs::read(&path).expect("rows") == odd);
}

/// One process at a time writes a file: another is refused, and the file stays as it is.
#[test]
fn a_file_that_another_process_writes_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.jsonl");
    let name = path.to_str().expect("UTF-8");
    study(name, "").ok();
    let whole = fs::read(&path).expect("rows");
    let file = fs::File::open(&path).expect("a file");
    file.lock().expect("a lock");
    let message = study(name, "--resume").refused();
    assert!(message.contains("another process writes this file") && message.contains("--shard"), "{message}");
    assert!(fs::read(&path).expect("rows") == whole);
    drop(file);
    study(name, "--resume").ok();
}

#[test]
fn foreign_and_broken_files_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.jsonl");
    let name = path.to_str().expect("UTF-8");
    stepsim(&format!("sweep tiny-4 --vary batch.global=4,8 -o {name}")).ok();
    let other = fs::read_to_string(&path).expect("rows");
    let message = study(name, "--resume").refused();
    assert!(message.contains("2 of its 2 rows are no points of this study"), "{message}");
    for broken in ["{\"a\": 1}\n", "hello, world", &other.replacen("status", "stat", 1)] {
        fs::write(&path, broken).expect("a broken file");
        let message = study(name, "--resume").refused();
        assert!(message.contains("no row") && message.contains("hint"), "{message}");
        assert_eq!(fs::read_to_string(&path).expect("a file"), broken);
    }
}

#[test]
fn parts_make_the_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let (whole, first, second) = (path("whole"), path("first"), path("second"));
    study(&whole, "").ok();
    study(&first, "--shard 1/2").ok();
    study(&second, "--shard 2/2").ok();
    let read = |path: &str| rows(Path::new(path));
    let (first, second) = (read(&first), read(&second));
    assert_eq!((first.len(), second.len()), (5, 4));
    for (i, row) in read(&whole).iter().enumerate() {
        assert_eq!(row, if i % 2 == 0 { &first[i / 2] } else { &second[i / 2] });
    }
    let merged = path("merged");
    let merge = |of: &[&str]| stepsim(&format!("sweep merge {} -o {merged}", of.join(" ")));
    let (first, second) = (path("first"), path("second"));
    merge(&[&second, &first, &second]).ok();
    assert!(fs::read(&merged).expect("rows") == fs::read(&whole).expect("rows"), "merged rows differ");
    let part = merge(&[&second]);
    assert_eq!(part.status, Some(1), "{}", part.out);
    assert!(
        part.error.contains("4 points before the last one are in none of the files: 0, 2, 4, 6"),
        "{}",
        part.error
    );
    assert_eq!(read(&merged).len(), 4, "what is there is written");
    let other = path("other");
    stepsim(&format!("sweep tiny-4 --vary batch.global=4,8 -o {other}")).ok();
    let message = merge(&[&first, &other]).refused();
    assert!(message.contains("its point 0 is another"), "{message}");
    let said = stepsim(&format!("sweep best {second} {first} --by memory_peak_bytes --top 1")).ok();
    assert!(said.contains("--set parallelism.tensor=2") && said.lines().count() < 8, "{said}");
    let message = stepsim(&format!("sweep best {first} --by step")).refused();
    assert!(message.contains("step_time_s"), "{message}");
}

/// Conditions leave points out, samples draw some of them, and both are counted before anything runs.
#[test]
fn points_are_chosen() {
    let base = "sweep gpt2-8 --dry-run --vary batch.global=8:80:+8 --vary parallelism.tensor=1,2,4,8";
    let many = "--vary model.ffn=1:300:+1 --vary model.vocabulary=1:300:+1";
    for (more, said) in [
        ("--where 'batch.global / 8 >= parallelism.tensor'", "29 points (chosen of 10 × 4)\n"),
        ("--where 'batch.micro_batch > 0' --sample 7", "7 points (chosen of 10 × 4)\n"),
        ("--sample 100", "40 points (10 × 4)\n"),
        (
            &format!("{many} --sample 50 --where 'model.ffn % 2 == 0'"),
            "50 points (chosen of 10 × 4 × 300 × 300)\n",
        ),
    ] {
        assert_eq!(stepsim(&format!("{base} {more}")).ok(), said);
    }
    // The same seed draws the same points, another one others.
    let folder = tempfile::tempdir().expect("a folder");
    let drawn = |name: &str, seed: &str| {
        let path = folder.path().join(name);
        let sweep = "sweep tiny-4 --vary batch.global=4:400:+4 --closed-form --sample 10";
        stepsim(&format!("{sweep} --seed {seed} -o {}", path.display())).ok();
        fs::read(path).expect("rows")
    };
    assert!(drawn("a", "1") == drawn("b", "1") && drawn("c", "1") != drawn("d", "2"));
}

#[test]
fn rows_are_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let (rows, html) = (path("rows.jsonl"), path("rows.html"));
    let plot = format!("--plot batch.micro_batch,step_time_s,parallelism.tensor --html {html}");
    let said = study(&rows, &plot).ok();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("a file");
    let svg = read("rows.step_time_s-by-batch.micro_batch.svg");
    assert_eq!(svg.matches("<title>").count(), 4, "{svg}");
    let data = read("rows.step_time_s-by-batch.micro_batch.csv");
    assert_eq!(data.lines().next(), Some("point,batch.micro_batch,step_time_s,parallelism.tensor"));
    assert_eq!(data.lines().count(), 5);
    let page = read("rows.html");
    assert_eq!(page.matches("<summary>command").count(), 9);
    let command =
        "stepsim run tests/data/study.json --set parallelism.tensor=1 --set batch.micro_batch=8</code>";
    assert!(page.contains(command) && said.contains("page: "), "{said}");
    let joined = "batch.micro_batch,step_time_s,parallelism.tensor+batch.micro_batch";
    study(&path("y.jsonl"), &format!("--plot {joined}")).ok();
    let svg = read("y.step_time_s-by-batch.micro_batch.svg");
    assert_eq!(svg.matches("r=\"4\"").count(), 4, "a colour for each pair: {svg}");
    let wrong = study(&path("x.jsonl"), "--plot batch.micro_batch,steptime").refused();
    assert!(wrong.contains("no row has a column `steptime`"), "{wrong}");
}

/// On a space that is simulated whole, the search finds the best (regret at most 0.5 %), and the closed form is never
/// too long by more than the margin that pruning relies on, in time and in memory.
#[test]
fn the_search_finds_what_simulating_everything_finds() {
    let fix = ["batch.global=16"].map(String::from);
    let options = SearchOptions { fix: fix.to_vec(), ..SearchOptions::default() };
    let of = |options: &SearchOptions| {
        search("tests/data/study.json", None, options, &mut |_| ControlFlow::Continue(())).expect("a search")
    };
    let all = of(&SearchOptions { prove: true, top: usize::MAX, ..options.clone() }).report;
    let found = of(&SearchOptions { top: usize::MAX, ..options.clone() });
    let few = of(&options).report;
    let time = |report: &stepsim::study::SearchReport| report.ranking[0].outcome.step_time_s.expect("a time");
    let regret = time(&found.report) / time(&all) - 1.0;
    let proof = all.proof.as_ref().expect("a proof");
    println!(
        "{} layouts, closed form longer by {:.3} at most, {proof:?}",
        all.points, all.closed_form_longest
    );
    assert!(all.points > 100 && found.report.simulated < all.simulated, "{} {}", all.points, all.simulated);
    assert_eq!((proof.simulated, proof.searched), (all.simulated, found.report.simulated));
    assert_eq!(proof.counted as usize, all.ranking.len());
    assert_eq!(proof.regret, regret);
    assert!(regret <= 0.005, "{regret}");
    assert!(proof.kendall_tau.is_some_and(|tau| tau > 0.8), "{:?}", proof.kendall_tau);
    assert!(found.report.proof.is_none());
    assert!(all.closed_form_longest <= options.margin, "{}", all.closed_form_longest);
    for ranked in &all.ranking {
        let peak = ranked.outcome.memory_peak_bytes.expect("a peak") as f64;
        let least = ranked.least_memory_bytes;
        assert!(peak >= least, "{:?}: {peak} < {least}", ranked.sets);
    }
    let pruned: u64 = few.pruned.values().sum();
    assert_eq!(pruned + few.simulated, few.points);
    // What is left out for certain is none of those that are ranked.
    assert!(few.pruned["floor"] > 0, "{:?}", few.pruned);
    // With a margin that more than one batch of layouts is within, fewer are simulated where fewer are ranked.
    let wide = SearchOptions { margin: 0.3, ..options.clone() };
    let [ten, every] =
        [wide.top, usize::MAX].map(|top| of(&SearchOptions { top, ..wide.clone() }).report.simulated);
    assert!(ten < every, "{ten} {every}");
    let settings = |report: &SearchReport| {
        report.ranking.iter().take(10).map(|r| r.settings.clone()).collect::<Vec<_>>()
    };
    assert_eq!(settings(&few), settings(&all));
    assert_eq!(all.floor_longest, 0.0);
}

/// A sweep shows the same rows whether it keeps them in memory, in lines or in a table, in one go or stopped after
/// any point and gone on with; points with equal inputs have each a row of their own.
#[test]
fn rows_are_the_same_wherever_they_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let base = StudyBase::load("tiny-4", None, &[]).expect("a base");
    let axis = |text: &str| StudyAxis::parse("--vary", text).expect("an axis");
    // One value twice; 3 divides nothing.
    let axes = || vec![axis("batch.global=8,16,8"), axis("parallelism.tensor=1,3")];
    let space = Space::new(axes(), &base).expect("a space");
    let seen = |how, threads, output: Option<&Path>, resume, stop_at: Option<u64>| {
        let options = SweepOptions {
            how,
            columns: ReportColumns::default(),
            shard: SweepShard { number: 1, of: 1 },
            threads: Some(threads),
            output: output.map(Path::to_owned),
            resume,
        };
        let mut progress = |done| match stop_at == Some(done) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let mut rows = Vec::new();
        let end = sweep_each(&base, &space, &options, &mut progress, &mut |row| rows.push(row));
        assert_eq!(end.is_err(), stop_at.is_some(), "{how:?} {stop_at:?}");
        rows
    };
    for how in [How::Simulated, How::ClosedForm] {
        let memory = seen(how, 1, None, false, None);
        assert_eq!(memory.iter().map(|row| row.point).collect::<Vec<_>>(), (0..6).collect::<Vec<_>>());
        assert_eq!(memory[0].key, memory[4].key);
        for (at, name) in ["a.jsonl", "a.csv", "b.jsonl", "b.csv"].iter().enumerate() {
            let path = folder.path().join(format!("{how:?}-{name}"));
            let stopped = at >= 2;
            if stopped {
                let first = 3;
                assert_eq!(seen(how, 1, Some(&path), false, Some(first)), []);
            }
            assert_eq!(seen(how, 2, Some(&path), stopped, None), memory, "{how:?} {name}");
            let folder: Vec<_> = fs::read_dir(folder.path()).expect("a folder").collect();
            assert_eq!(folder.len(), if how == How::Simulated { at + 1 } else { at + 5 });
            if name.ends_with("jsonl") {
                assert_eq!(stepsim::study::read_rows(&path).expect("rows"), memory);
            }
        }
    }
}

/// What Megatron shards beside a pipeline is the optimizer state alone: a search proposes no more, nor do choices.
#[test]
fn a_search_shards_as_the_software_can() {
    let kinds = |more: &str| {
        let line = format!(
            "search tests/data/study.json -t h100-superpod-8 --fix batch.global=64 --fix parallelism.tensor=1 \
             --fix recompute.granularity=none --fix batch.micro_batch=1 --top 1000 --margin 1 --report - {more}"
        );
        let report = stepsim(&line).json();
        let of = |ranked: &Value| {
            let settings = &ranked["settings"];
            let piped = settings["parallelism.pipeline.size"].as_u64().expect("stages") > 1;
            (piped, settings["parallelism.sharding"]["kind"].as_str().expect("a kind").to_owned())
        };
        report["ranking"].as_array().expect("a ranking").iter().map(of).collect::<BTreeSet<(bool, String)>>()
    };
    let has = |of: &BTreeSet<(bool, String)>, piped: bool, kind: &str| of.contains(&(piped, kind.to_owned()));
    let any = kinds("");
    assert!(has(&any, true, "zero2") && has(&any, false, "zero2"), "{any:?}");
    let megatron = kinds("--fix stack=megatron-bridge-2026-08");
    assert!(!has(&megatron, true, "zero2") && has(&megatron, false, "zero2"), "{megatron:?}");
    assert!(has(&megatron, true, "zero1"), "{megatron:?}");
    let offers = |stack: &str, split: &str, choice: &str| {
        let line = format!(
            "whatif tests/data/study.json -t h100-superpod-8 --set batch.global=64 --choices --json \
             --set parallelism.{split}=2 --set stack={stack}"
        );
        stepsim(&line).json()["candidates"].to_string().contains(&format!("parallelism.{choice}\""))
    };
    let offered = |stack: &str| {
        [("tensor", "pipeline.size=2"), ("pipeline.size", "sharding.kind=zero2")]
            .map(|(split, choice)| offers(stack, split, choice))
    };
    // Nanotron has no ZeRO-2 beside stages, the trainer no stages.
    assert_eq!([offered("nanotron"), offered("hf-trainer")], [[true, false], [false, true]]);
}

/// Fewest devices for a deadline, cheapest and thriftiest tokens; the differences of those behind the best sum to
/// what they are slower by.
#[test]
fn searches_have_objectives_and_reasons() {
    let of = |objective: &str, more: &str| {
        let fixed = "--fix batch.global=64 --fix batch.micro_batch=1 --fix parallelism.tensor=1 \
                     --fix recompute.granularity=none";
        let search = "search tests/data/study.json -t h100-superpod-8 --devices 8..32 --top 1000 --report -";
        stepsim(&format!("{search} {fixed} --objective {objective} {more}")).json()
    };
    let time = |ranked: &Value| ranked["step_time_s"].as_f64().expect("a time");
    let fastest = of("time", "--margin 1 --most-simulated 10000");
    let best = &fastest["ranking"][0];
    assert_eq!(best["devices"], 32);
    let second = &fastest["ranking"][1];
    let more: Vec<f64> = second["slower_by"]
        .as_array()
        .expect("reasons")
        .iter()
        .map(|r| r["more_s"].as_f64().expect("s"))
        .collect();
    let slower = time(second) - time(best);
    assert!((more.iter().sum::<f64>() - slower).abs() < 1e-9 * time(best), "{more:?} {slower}");
    assert!(best["waterfall"]["bars"].as_array().is_some_and(|bars| bars.len() > 3));

    // A step that 8 devices cannot make, and 16 can.
    let at = |devices: u64| {
        let of_size =
            fastest["ranking"].as_array().expect("a ranking").iter().filter(|r| r["devices"] == devices);
        of_size.map(time).fold(f64::INFINITY, f64::min)
    };
    assert!(at(32) < at(16) && at(16) < at(8), "{} {} {}", at(32), at(16), at(8));
    let fewest = of("devices", &format!("--deadline-s {}", 0.5 * (at(8) + at(16))));
    assert_eq!(fewest["ranking"][0]["devices"], 16);
    assert_eq!(time(&fewest["ranking"][0]), at(16));

    let thrifty = of("energy", "");
    assert!(thrifty["ranking"][0]["energy_J_per_token"].as_f64() <= best["energy_J_per_token"].as_f64());
    let cheap = of("cost", "--fix topology.device.price_USD_per_h=2");
    let [cheap, dear] =
        [&cheap["ranking"][0], &cheap["ranking"][1]].map(|r| r["cost_USD_per_million_tokens"].as_f64());
    assert!(cheap.is_some() && cheap <= dear);
    let refused = stepsim("search tests/data/study.json --objective cost").refused();
    assert!(refused.contains("price_USD_per_h"), "{refused}");
    let refused = stepsim("search tests/data/study.json --devices 9..15").refused();
    assert!(refused.contains("no machine between"), "{refused}");
}

/// The settings of the winner, and the file of the best workload, give the step that the report says.
#[test]
fn the_best_layout_runs_as_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let (report, best, a, b) = (path("report.json"), path("best.json"), path("a.json"), path("b.json"));
    let input = "tests/data/study.json";
    let layouts = "--vary parallelism.tensor=1,2 --fix batch.micro_batch=2 --fix batch.global=32 --top 3";
    let said = stepsim(&format!("search {input} {layouts} --report {report} -o {best}")).ok();
    assert!(said.contains("the best:") && said.contains("simulated"), "{said}");
    let report = command::json(&report);
    let first = &report["ranking"][0];
    assert!(report["ranking"].as_array().is_some_and(|list| list.len() == 3));
    assert_eq!(first["settings"]["batch.micro_batch"], 2);
    let sets = first["sets"].as_array().expect("settings").iter();
    let sets: String = sets.map(|set| format!(" --set '{}'", set.as_str().expect("a text"))).collect();
    stepsim(&format!("run {input} --report {a}{sets}")).ok();
    stepsim(&format!("run {best} -q --report {b}")).ok();
    for path in [&a, &b] {
        assert_eq!(command::json(path)["step_time_s"], first["step_time_s"]);
    }
    // The best holds the answer of its run, and the screen says it.
    let answer = &command::json(&a)["answer"];
    assert_eq!(&first["advice"]["answer"], answer);
    for field in ["mfu", "range_s", "memory_peak_bytes"] {
        assert_eq!(first[field], answer[field], "{field}");
    }
    assert!(flat(&said).contains(answer["hangs_on"].as_str().expect("a sentence")), "{said}");
    let tight = stepsim(&format!("search {input} --max-memory 0.001 --fix batch.global=32")).refused();
    assert!(tight.contains("no layout fits"), "{tight}");
    assert!(stepsim(&format!("search {input} --fix parallelism.tensr=1")).refused().contains("tensor"));
}

/// An optimizer that runs on the host keeps its state there, whatever else is given up.
#[test]
fn what_fits_leaves_an_optimizer_where_it_runs() {
    let text = json!({
        "base": "gpt2-8",
        "parallelism": {"sharding": {"kind": "zero3"}},
        "offload": {"optimizer": [{"tier": "host", "fraction": 1.0}], "optimizer_on": "host"},
    });
    let mut fitted = 0;
    for gb in [1, 2, 4, 8] {
        let fix = vec![format!("topology.device.hbm.GB={gb}")];
        let options = SearchOptions { fix, ..SearchOptions::default() };
        let (_, best) =
            fill(&text.to_string(), None, &options, &mut |_| ControlFlow::Continue(())).expect("a report");
        let Some(best) = best else { continue };
        let offload = serde_json::to_value(&best).expect("a workload")["offload"].clone();
        assert_eq!(
            (&offload["optimizer_on"], &offload["optimizer"][0]["fraction"]),
            (&json!("host"), &json!(1.0))
        );
        fitted += 1;
    }
    assert!(fitted > 1, "{fitted}");
}

/// Where a step does not fit, `fill` turns every dial as little as will do: as all notches played one by one say, for
/// every micro-batch. What it writes runs.
#[test]
fn fill_gives_up_the_least_that_will_do() {
    let fix = ["model.layers=4", "parallelism.context.size=1", "batch.global=64"].map(String::from);
    let options = |gib: f64| SearchOptions {
        fix: fix.to_vec(),
        max_memory_bytes: Some(gib * f64::from(1 << 30)),
        ..SearchOptions::default()
    };
    let none = ["recompute={\"granularity\":\"none\"}", "offload.activations=[]", "offload.optimizer=[]"];
    let always: Vec<String> = none.iter().map(ToString::to_string).chain(fix.iter().cloned()).collect();
    let base = StudyBase::load("gpt2-8", None, &always).expect("a workload");
    let mut memory: BTreeMap<String, Option<u64>> = BTreeMap::new();
    let mut bytes = |sets: &[String]| {
        *memory.entry(sets.join(" ")).or_insert_with(|| {
            let played = base.inputs(sets).ok().map(|inputs| outcome(&inputs, How::TimeAndMemory));
            played.and_then(|outcome| outcome.memory_peak_bytes)
        })
    };
    let (mut given_up, mut of_two) = (0, 0);
    for gib in [1.0, 2.5, 4.2, 6.0, 9.0] {
        let (report, best) =
            fill("gpt2-8", None, &options(gib), &mut |_| ControlFlow::Continue(())).expect("a report");
        let limit = options(gib).max_memory_bytes.expect("a limit");
        let mut fits = |sets: &[String]| bytes(sets).is_some_and(|bytes| bytes as f64 <= limit);
        let mut expected = Vec::new();
        for micro_batch in [1, 2, 4, 8] {
            let size = format!("batch.micro_batch={micro_batch}");
            if fits(std::slice::from_ref(&size)) {
                expected.push((micro_batch, Vec::new()));
                continue;
            }
            let layers = (1..=4).map(|n| format!("recompute={{\"granularity\":\"full\",\"layers\":{n}}}"));
            let mut dials =
                vec![vec!["recompute={\"granularity\":\"selective\"}".to_string()], layers.collect()];
            let classes = ["activations", "optimizer"];
            for (class, tier) in classes.iter().flat_map(|class| ["host", "nvme"].map(|tier| (class, tier))) {
                let notch = |n: u32| match n {
                    8 => format!("offload.{class}=[{{\"fraction\":1.0,\"tier\":\"{tier}\"}}]"),
                    n => format!(
                        "offload.{class}=[{{\"fraction\":{},\"tier\":\"{tier}\"}},{{\"fraction\":{},\"tier\":\"hbm\"}}]",
                        f64::from(n) / 8.0,
                        1.0 - f64::from(n) / 8.0
                    ),
                };
                dials.push((1..=8).map(notch).collect());
            }
            let alone = expected.len();
            for dial in &dials {
                let least = dial.iter().find(|notch| fits(&[size.clone(), (*notch).clone()]));
                expected.extend(least.map(|notch| (micro_batch, vec![notch.clone()])));
            }
            // Where none is enough: one whole, and another as little as will do.
            let path = |dial: &Vec<String>| dial[0].split('=').next().map(str::to_string);
            let pairs = dials.iter().flat_map(|a| dials.iter().map(move |b| (a, b)));
            let pairs = pairs.filter(|(a, b)| expected.len() == alone && path(a) != path(b));
            for (whole, dial) in pairs.collect::<Vec<_>>() {
                let with = |notch: &String| [size.clone(), whole[whole.len() - 1].clone(), notch.clone()];
                let least = dial.iter().find(|notch| fits(&with(notch)));
                let mut both = least.map(|notch| vec![whole[whole.len() - 1].clone(), notch.clone()]);
                both.iter_mut().for_each(|sets| sets.sort());
                of_two += usize::from(both.is_some());
                expected.extend(both.map(|sets| (micro_batch, sets)));
            }
        }
        let mut found: Vec<(u64, Vec<String>)> = report
            .fits
            .iter()
            .map(|filled| {
                let rest = filled.settings.iter().filter(|(path, _)| *path != "batch.micro_batch");
                let mut sets: Vec<String> = rest.map(|(path, value)| format!("{path}={value}")).collect();
                sets.sort();
                (filled.micro_batch, sets)
            })
            .collect();
        given_up += found.iter().filter(|(_, sets)| !sets.is_empty()).count();
        found.sort();
        expected.sort();
        expected.dedup();
        assert_eq!(found, expected, "{gib} GiB");
        assert_eq!(report.largest_micro_batch, expected.iter().map(|(size, _)| *size).max());
        assert_eq!(best.is_some(), !expected.is_empty());
        let seconds: Vec<f64> = report.fits.iter().filter_map(|filled| filled.outcome.step_time_s).collect();
        assert!(seconds.is_sorted());
    }
    assert!(given_up >= 6 && of_two > 0, "{given_up} {of_two}");
}

/// A search that chooses the encoder's place finds no worse than one that keeps it, and what it found runs as it said.
#[test]
fn places_of_encoders_are_searched() {
    let fix = [
        "parallelism.tensor=4",
        "parallelism.context.size=1",
        "parallelism.pipeline.size=2,3,4",
        "parallelism.pipeline.schedule=1f1b",
        "parallelism.sharding.kind=zero1",
        "recompute.granularity=none",
        "batch.micro_batch=1",
        "batch.global=32",
    ];
    let (vary, fix): (Vec<&str>, Vec<&str>) = fix.iter().partition(|text| text.contains(','));
    let options = |placement| SearchOptions {
        fix: fix.iter().map(ToString::to_string).collect(),
        vary: vary.iter().map(|text| StudyAxis::parse("--vary", text).expect("an axis")).collect(),
        placement,
        ..SearchOptions::default()
    };
    let best = |placement| {
        let found = search("qwen-vl-7b", None, &options(placement), &mut |_| ControlFlow::Continue(()));
        found.expect("a search").report
    };
    let (kept, chosen) = (best(false), best(true));
    let seconds = |report: &SearchReport| report.ranking[0].outcome.step_time_s.expect("a time");
    assert!(chosen.points > 5 * kept.points, "{} {}", chosen.points, kept.points);
    assert!(seconds(&chosen) < seconds(&kept), "{} {}", seconds(&chosen), seconds(&kept));
    let apart = |ranked: &RankedLayout| !ranked.settings["modules.vision.devices"].is_null();
    let ranked = chosen.ranking.iter().find(|ranked| apart(ranked)).expect("one on devices of its own");
    let inputs = Inputs::load("qwen-vl-7b", None, &ranked.sets).expect("its settings");
    let run = Simulation::run(&inputs, &Options::default()).expect("its step").report(false);
    assert_eq!(Some(run.step_time_s), ranked.outcome.step_time_s);
    assert!(chosen.assumed.last().is_some_and(|words| words.starts_with("encoders")));
}

#[test]
fn offload_is_searched_and_nothing_better_is_missed() {
    let fix = [
        "model.layers=4",
        "parallelism.context.size=1",
        "parallelism.pipeline.size=1",
        "parallelism.tensor=1",
    ];
    let fix = [&fix[..], &["recompute.granularity=none", "parallelism.sharding.kind=none"]].concat();
    let options = |more: &[&str]| SearchOptions {
        fix: fix.iter().chain(more).map(ToString::to_string).collect(),
        max_memory_bytes: Some(3.5 * f64::from(1 << 30)),
        offload: true,
        prove: true,
        ..SearchOptions::default()
    };
    let of = |more: &[&str]| {
        let found = search("gpt2-8", None, &options(more), &mut |_| ControlFlow::Continue(()));
        found.expect("a search").report
    };
    let report = of(&[]);
    let proof = report.proof.expect("a proof");
    assert!(proof.regret == 0.0 && proof.simulated > 20, "{proof:?}");
    let best = &report.ranking[0].settings;
    let away = ["offload.optimizer", "offload.activations"].map(|path| best[path] != serde_json::json!([]));
    assert!(away.contains(&true), "{best:?}");
    assert!(report.assumed.last().is_some_and(|words| words.starts_with("offload")));
    let held = of(&["offload.activations=[]", "offload.prefetch.depth=2"]);
    assert!(held.points < report.points);
    for path in ["offload.activations", "offload.prefetch.depth"] {
        assert!(
            held.ranking.iter().all(|layout| !layout.settings.contains_key(path)),
            "{path} is not chosen"
        );
    }
}

/// One layout is simulated whatever the time, and those that were not are told.
#[test]
fn a_search_ends_with_its_time() {
    let options = SearchOptions { budget_s: Some(0.0), ..SearchOptions::default() };
    let found = search("gpt2-8", None, &options, &mut |_| ControlFlow::Continue(())).expect("a search");
    assert_eq!(found.report.simulated, 1);
    assert!(found.best.is_some() && found.report.pruned["limit"] > 0, "{:?}", found.report.pruned);
    let stopped = found.report.stopped.expect("it says how far it came");
    assert!(stopped.bounded < stopped.points && stopped.simulated == 1, "{stopped:?}");
    // So does who stops it; and a budget that is not used up changes nothing.
    let options = SearchOptions::default();
    options.stop.pull();
    let pulled = search("gpt2-8", None, &options, &mut |_| ControlFlow::Continue(())).expect("a search");
    assert!(pulled.report.stopped.is_some_and(|stopped| stopped.simulated == 1));
    let of = |budget_s| {
        let fix = vec!["parallelism.context.size=1".into(), "parallelism.sharding.kind=zero1".into()];
        let options = SearchOptions { budget_s, fix, top: 2, ..SearchOptions::default() };
        search("gpt2-8", None, &options, &mut |_| ControlFlow::Continue(())).expect("a search").report
    };
    assert_eq!(of(Some(1e6)), of(None));
}

/// A search that is stopped early has climbed from the first layouts to a good one.
#[test]
fn a_search_that_is_stopped_early_is_near_its_end() {
    let until = |most: u64| {
        let fix = vec!["stack=simple".into()];
        let options = SearchOptions { fix, top: 1, most_simulated: 8, ..SearchOptions::default() };
        let stop = options.stop.clone();
        let mut tell = |done| {
            if done >= most {
                stop.pull();
            }
            ControlFlow::Continue(())
        };
        search("mixtral-8x7b", None, &options, &mut tell).expect("a search").report
    };
    let (early, whole) = (until(300), until(u64::MAX));
    let seconds = |report: &SearchReport| report.ranking[0].outcome.step_time_s.expect("a step");
    let bounded = early.stopped.expect("it was stopped").bounded;
    assert!(80 * bounded < whole.points, "{bounded} of {}", whole.points);
    assert!(seconds(&early) < 1.05 * seconds(&whole), "{} of {} s", seconds(&early), seconds(&whole));
}

/// A plan whose search is stopped has a step that was played, and says how far it came.
#[test]
fn a_plan_ends_with_its_time() {
    let folder = Folder::new();
    let plan = |more: &str| folder.stepsim(&format!("plan gpt2 --on 8xh100 --batch 64 {more}")).ok();
    let said = plan("--budget 0.000001");
    assert!(said.contains("stopped before its end: of ") && said.contains("MFU"), "{said}");
    assert!(!plan("").contains("stopped"), "without a budget none is");
}

/// Eight per cent of the device memory stay free, unless nothing fits so.
#[test]
fn a_search_leaves_head_room() {
    let at = |more: &str| {
        let report = stepsim(&format!("search gpt2-8 --fix parallelism.tensor=1 {more} --report -")).json();
        let best = &report["ranking"][0];
        (
            best["memory_peak_bytes"].as_f64().expect("bytes") / (1u64 << 30) as f64,
            report["assumed"].to_string(),
        )
    };
    let (free, said) = at("");
    assert!(said.contains("8 % of the device memory stays free"), "{said}");
    // A device that holds the best layout with 4 % left: it is chosen only where all else is left out.
    let small = format!("--fix topology.device.hbm.GB={}", free * 1.0737 / 0.96);
    let (less, said) = at(&small);
    assert!(less < 0.93 * free / 0.96 && said.contains("8 %"), "{less} GiB of {}: {said}", free / 0.96);
    let fixed = "--fix batch.micro_batch=1 --fix recompute.granularity=full --fix parallelism.pipeline.size=1 \
                 --fix parallelism.context.size=1 --fix parallelism.sharding.kind=zero3";
    let (least, _) = at(fixed);
    let (full, said) = at(&format!("{fixed} --fix topology.device.hbm.GB={}", least * 1.0737 / 0.97));
    assert!(full > 0.96 * least && said.contains("no device memory stays free"), "{full} GiB: {said}");
}
