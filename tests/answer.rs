//! One step, one answer: every screen, page and file of a shipped workload names one first cause and one number.

use serde::Deserialize;
use serde_json::Value;
use stepsim::read::analysis::report::Report;
use stepsim::simulate::jump::{figures, glanced, reported};
use stepsim::simulate::{Inputs, Options};
use stepsim::spec::{Disk, Kind, catalog};
use stepsim::study::otherwise::{Depth, answer, answered};

use crate::command::Folder;
use crate::slow::{slow, turn};

/// Workloads whose candidates take minutes together.
const LONG: [&str; 7] =
    ["11t-offload", "95t-offload", "megatron-1t", "kimi-k2", "wan-72t", "deepseek-v3", "llama3-70b"];

fn names() -> impl Iterator<Item = &'static str> {
    catalog::names(Kind::Workload).filter(|name| slow() || !LONG.contains(name))
}

/// The screen, what Python's `run` reads, and the tables say what `whatif` finds among all candidates, or that it was
/// not asked.
#[test]
fn the_first_cause_is_that_of_all_candidates() {
    let mut asked = 0;
    for name in turn(names()) {
        let (inputs, options) = (Inputs::load(name, None, &[]).expect("a workload"), Options::default());
        let of = |report: &Report, depth| answer(&inputs, &options, report.clone(), depth).expect("runs");
        let told = |report: Report| (report.answer.step_time_s, report.hangs_on);
        let glance = glanced(&inputs, &options).expect("a run");
        let screen = of(&glance, Depth::Answer);
        let is_asked = screen.answer.not_asked.is_none();
        let screen = told(screen);
        println!("{name}: {}", screen.1);
        let whole = reported(&inputs, &options).expect("a run");
        for depth in [Depth::Answer, Depth::Tables] {
            assert_eq!(screen, told(of(&whole, depth)), "{name}");
        }
        if is_asked {
            assert_eq!(screen, told(of(&glance, Depth::All)), "{name}");
            asked += 1;
        }
    }
    assert!(asked >= if slow() { 15 } else { 4 }, "{asked} of the shipped workloads are asked whole");
}

/// Screens wrap and pages escape: words are compared without the white space between them.
pub fn flat(text: &str) -> String {
    text.replace("&gt;", ">").replace("&amp;", "&").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_screen_and_file_says_the_answer() {
    for name in turn(names().filter(|name| slow() || ["tiny-4", "gpt3-175b", "straggler-64"].contains(name)))
    {
        let folder = Folder::new();
        let run = folder.stepsim(&format!("run {name} --report r.json --html run.html")).ok();
        let report = folder.json("r.json");
        let sentence = report["hangs_on"].as_str().expect("a sentence");
        assert_eq!(report["answer"]["hangs_on"], sentence, "{name}");
        assert_eq!(report["answer"]["step_time_s"], report["step_time_s"], "{name}");
        if report["answer"]["not_asked"].is_null() {
            let whatif = folder.stepsim(&format!("whatif {name}")).ok();
            assert_eq!(whatif.lines().next(), Some(sentence), "{name}");
        }
        let why = folder.stepsim(&format!("run {name} --why")).ok();
        for file in ["step.json", "step.pftrace"] {
            folder.stepsim(&format!("run {name} --trace-ranks 0 -o {file}")).ok();
            let bytes = std::fs::read(folder.path(file)).expect("a timeline");
            assert!(memmem(&bytes, sentence), "{name}: no `{sentence}` in {file}");
        }
        for text in [run, why, folder.text("run.html")] {
            assert!(flat(&text).contains(sentence), "{name}: no `{sentence}` in\n{}", flat(&text));
        }
    }
}

fn memmem(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

/// `sweep` and `goodput` hold the answer of `run`: its step, MFU, range and sentence.
#[test]
fn studies_say_the_answer_of_their_best() {
    let folder = Folder::new();
    let name = "gpt2-8";
    let set = "batch.micro_batch=4";
    folder.stepsim(&format!("run {name} --set {set} --report r.json")).ok();
    let answer = &folder.json("r.json")["answer"];
    let sentence = answer["hangs_on"].as_str().expect("a sentence");
    let sweep = folder.stepsim(&format!("sweep {name} --vary {set} -o rows.jsonl")).ok();
    assert!(flat(&sweep).contains(sentence), "{sweep}");
    let row = folder.json("rows.jsonl");
    for field in ["step_time_s", "mfu", "range_s", "memory_peak_bytes"] {
        assert_eq!(row[field], answer[field], "{field}");
    }
    let goodput = folder.stepsim(&format!("goodput {name} --set {set} --runs 2 --report g.json")).ok();
    assert!(flat(&goodput).contains(sentence), "{goodput}");
    assert_eq!(&folder.json("g.json")["answer"], answer);
}

/// Recipes of fine-tuning, with the switches that somebody tries by hand: those of all, and those of each.
#[derive(Deserialize)]
struct Recipes {
    switches: Vec<Vec<String>>,
    recipes: Vec<Recipe>,
}

#[derive(Deserialize)]
struct Recipe {
    kind: String,
    switches: Vec<Vec<String>>,
    workload: Value,
}

/// Of ten recipes of fine-tuning the best switch that is found by hand, each played, is no better than what `run` and
/// `whatif` say to set, which stands first but behind a limit twice as dear.
#[test]
fn the_best_switch_by_hand_stands_first() {
    let Recipes { switches, recipes } =
        serde_json::from_str(include_str!("data/finetuning.json")).expect("recipes");
    for recipe in &recipes {
        let inputs = Inputs::from_json(&recipe.workload.to_string(), None, &[], &Disk).expect("a recipe");
        let step = |sets: &Vec<String>| {
            let step = figures(&inputs.again(sets).ok()?, &Options::default(), false).ok()?;
            Some((step.step_end.s(), sets.join(" ")))
        };
        let best = switches.iter().chain(&recipe.switches).filter_map(step);
        let (best_s, best) = best.min_by(|a, b| a.0.total_cmp(&b.0)).expect("a switch");
        let report = answered(&inputs).expect("runs");
        let said = format!("{}: {best} {best_s:.4} s; {}", recipe.kind, report.hangs_on);
        println!("{said}");
        let set = report.answer.set.as_ref().expect("a choice");
        let first = report.answer.halves().next().expect("a half");
        assert!(set.step_s <= best_s, "{said}");
        assert!(first == set || first.cost_s() > 2.0 * set.cost_s(), "{said}");
    }
}

/// Words that were not read go into the file of a plan, and take the range away from every later command.
#[test]
fn doubts_of_reading_reach_every_command() {
    let folder = Folder::new();
    folder.write(
        "pretrain.sh",
        "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 2048 --num-attention-heads 16 \
         --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 32 --bf16 \
         --flux-capacitor 88\n",
    );
    let plan = folder.stepsim("plan pretrain.sh --on 8xh100 -o p.json").ok();
    let file = folder.json("p.json");
    assert_eq!(file["reading"]["not_understood"][0], "flux_capacitor = 88", "{file}");
    let doubt = "not known: flux_capacitor = 88 may change the step and is not in it";
    let run = folder.stepsim("run p.json --report r.json --html r.html").ok();
    let again = folder.stepsim("plan p.json -o q.json").ok();
    for text in [plan, run, again, folder.text("r.html")] {
        assert!(flat(&text).contains(doubt), "{text}");
    }
    let answer = &folder.json("r.json")["answer"];
    assert!(
        answer["range_s"].is_null() && answer["doubts"].as_array().is_some_and(|d| d.len() == 1),
        "{answer}"
    );
}
