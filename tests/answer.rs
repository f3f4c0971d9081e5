//! One step, one answer: every screen, page and file of a shipped workload names one first cause and one number.

use stepsim::read::analysis::report::Report;
use stepsim::simulate::jump::{glanced, reported};
use stepsim::simulate::{Inputs, Options};
use stepsim::spec::{Kind, catalog};
use stepsim::study::otherwise::{Depth, answer};

use crate::command::Folder;
use crate::slow::slow;

/// Workloads whose candidates take minutes together.
const LONG: [&str; 7] =
    ["11t-offload", "95t-offload", "megatron-1t", "kimi-k2", "wan-72t", "deepseek-v3", "llama3-70b"];

/// The reports of the screen, of the tables and of `whatif`.
fn answers(name: &str) -> [Report; 3] {
    let (inputs, options) = (Inputs::load(name, None, &[]).expect("a workload"), Options::default());
    let of = |report: Report, depth| answer(&inputs, &options, report, depth).expect("runs");
    let screen = glanced(&inputs, &options).expect("a run");
    let whole = reported(&inputs, &options).expect("a run");
    [of(screen.clone(), Depth::Answer), of(whole, Depth::Tables), of(screen, Depth::All)]
}

#[test]
fn the_first_cause_is_that_of_all_candidates() {
    let names = catalog::names(Kind::Workload).filter(|name| slow() || !LONG.contains(name));
    let mut asked = 0;
    for name in names {
        let [screen, tables, all] = answers(name);
        let told = |report: &Report| (report.answer.step_time_s, report.hangs_on.clone());
        assert_eq!(told(&screen), told(&tables), "{name}");
        if screen.answer.not_asked.is_none() {
            assert_eq!(told(&screen), told(&all), "{name}");
            asked += 1;
        }
        println!("{name}: {}", screen.hangs_on);
    }
    assert!(asked >= 15, "{asked} of the shipped workloads are asked whole");
}

/// Screens wrap and pages escape: words are compared without the white space between them.
fn flat(text: &str) -> String {
    text.replace("&gt;", ">").replace("&amp;", "&").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_screen_and_file_says_the_answer() {
    for name in ["tiny-4", "gpt2-8", "llama3-8b-fsdp", "straggler-64"] {
        let folder = Folder::new();
        let files = "--report r.json --html run.html -o step.json";
        let run = folder.stepsim(&format!("run {name} {files}")).ok();
        let report = folder.json("r.json");
        let sentence = report["hangs_on"].as_str().expect("a sentence");
        assert_eq!(report["answer"]["hangs_on"], sentence, "{name}");
        assert_eq!(report["answer"]["step_time_s"], report["step_time_s"], "{name}");
        let whatif = folder.stepsim(&format!("whatif {name}")).ok();
        assert_eq!(whatif.lines().next(), Some(sentence), "{name}");
        let why = folder.stepsim(&format!("run {name} --why")).ok();
        let plan = folder.stepsim(&format!("plan {name} -o p.json --html plan.html")).ok();
        let again = folder.stepsim("run p.json").ok();
        let pages = [folder.text("run.html"), folder.text("plan.html"), folder.text("step.json")];
        for text in [run, why, plan.clone(), again.clone()].iter().chain(&pages) {
            assert!(flat(text).contains(sentence), "{name}: no `{sentence}` in\n{}", flat(text));
        }
        let range = |text: &str| {
            let text = flat(text);
            let words = text.split_once("range ").map(|(_, behind)| behind.to_owned());
            words.and_then(|behind| Some(behind.split_once(" s (")?.0.to_owned()))
        };
        assert_eq!(range(&plan), range(&again), "{name}");
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
