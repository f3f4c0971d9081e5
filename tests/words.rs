//! The words of the command line: their help, hints for words of other programs, completions, and what the screen shows.

use std::time::Duration;

use crate::command::{Folder, stepsim};
use stepsim::cli::progress::TerminalProgress;

fn answer(words: &[&str]) -> Result<String, stepsim::cli::Failure> {
    stepsim::cli::answer(&words.iter().map(Into::into).collect::<Vec<_>>())
}

/// clap checks names, conflicts and defaults of every argument.
#[test]
fn the_command_line_is_well_formed() {
    stepsim::cli::definition().debug_assert();
}

#[test]
fn a_command_is_answered_in_memory_and_its_failure_has_parts() {
    assert!(
        answer(&["stepsim", "list", "models", "--names"]).unwrap().lines().any(|name| name == "llama3-8b")
    );
    let report = answer(&["stepsim", "run", "tiny-4", "--report", "-"]).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).expect("the report alone");
    assert_eq!(report["run"]["command"][2], "tiny-4");
    assert!(answer(&["stepsim", "run", "--help"]).unwrap().contains("--trace-ranks"));
    let failure = answer(&["stepsim", "run", "tiny-4", "--samples", "0"]).unwrap_err();
    assert_eq!((failure.fault().file.as_str(), failure.fault().value.as_str()), ("--samples <N>", "0"));
    assert!(stepsim::cli::run_args(&["stepsim".into(), "list".into()]).is_err());
}

#[test]
fn completions_and_manual_pages_know_every_subcommand() {
    let folder = Folder::new();
    folder.stepsim("man -o .").ok();
    let shells = ["bash", "elvish", "fish", "powershell", "zsh"].map(|shell| {
        let text = stepsim(&format!("completions {shell}")).ok();
        (shell, text)
    });
    for subcommand in stepsim::cli::definition().get_subcommands() {
        let name = subcommand.get_name();
        assert!(folder.path(&format!("stepsim-{name}.1")).is_file(), "{name}");
        for (shell, text) in &shells {
            assert!(text.contains(name), "{shell}: {name}");
        }
    }
}

#[test]
fn every_subcommand_and_argument_is_explained() {
    for subcommand in stepsim::cli::definition().get_subcommands() {
        assert!(subcommand.get_about().is_some(), "{}", subcommand.get_name());
        for argument in subcommand.get_arguments() {
            assert!(argument.get_help().is_some(), "{} {}", subcommand.get_name(), argument.get_id());
        }
    }
}

/// Outputs stand under a heading of their own; inputs are kept from being written over by it.
#[test]
fn outputs_are_marked() {
    const OUTPUTS: [&str; 7] = ["output", "out", "report", "trace", "json", "html", "measured_steps"];
    fn look(command: &clap::Command) {
        for argument in command.get_arguments().filter(|a| !a.is_positional()) {
            if OUTPUTS.contains(&argument.get_id().as_str()) {
                let heading = argument.get_help_heading();
                assert_eq!(heading, Some("Output files"), "{} {argument}", command.get_name());
            }
        }
        command.get_subcommands().for_each(look);
    }
    look(&stepsim::cli::definition());
}

#[test]
fn every_command_stands_in_one_group() {
    let help = answer(&["stepsim", "--help"]).unwrap();
    assert!(!help.contains("Others:"), "{help}");
    for command in stepsim::cli::definition().get_subcommands() {
        let line = format!("  {} ", command.get_name());
        assert_eq!(help.lines().filter(|shown| shown.starts_with(&line)).count(), 1, "{line}");
    }
}

#[test]
fn short_help_is_short_and_long_help_begins_with_examples() {
    for command in stepsim::cli::definition().get_subcommands().filter(|c| !c.has_subcommands()) {
        let short = answer(&["stepsim", command.get_name(), "-h"]).unwrap();
        assert!(short.lines().count() <= 24, "{short}");
    }
    let run = answer(&["stepsim", "run", "--help"]).unwrap();
    assert!(run.starts_with("Examples:"), "{run}");
}

/// The words that people try first have a hint that can be pasted.
#[test]
fn options_and_commands_of_others_are_understood() {
    let rows: Vec<(String, String)> = serde_json::from_str(include_str!("data/hints.json")).expect("rows");
    for (line, hint) in rows {
        let said = stepsim(&line).refused();
        let shown =
            said.lines().find_map(|line| line.strip_prefix("  hint: ").filter(|said| said.contains(&hint)));
        assert!(shown.is_some() && !said.contains("tip:"), "{line}: {said}");
    }
    for line in ["run gpt3-175b --colour", "run gpt3-175b -t rtx4090x"] {
        let said = stepsim(line).refused();
        assert!(!said.contains("before the name") && !said.contains("--set"), "{line}: {said}");
    }
}

#[test]
fn packed_and_plain_files_are_read_alike_and_refusals_name_the_file() {
    let folder = Folder::new();
    let order = r#"{"ranks": ["F0 F1 B0 B1", "F0 B0 F1 B1"]}"#;
    folder.write("order.json", order);
    let mut pack = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut pack, order.as_bytes()).unwrap();
    folder.write("order.json.gz", pack.finish().unwrap());
    let drawn = |name: &str| folder.stepsim(&format!("schedule --order {name}"));
    assert_eq!(drawn("order.json").ok(), drawn("order.json.gz").ok());
    let refused = drawn("none").refused();
    assert!(refused.contains("none") && refused.contains("cannot be read"), "{refused}");
}

#[test]
fn files_are_compared_and_not_spellings() {
    let folder = Folder::new();
    folder.write("in.json", r#"{"base": "tiny-4"}"#);
    let run = |words: &str| folder.stepsim(&format!("run in.json -q {words}"));
    run("--report a.json -o b.json").ok();
    let twice = run("--report a.json -o ./a.json").refused();
    assert!(twice.contains("--output") && twice.contains("--report"), "{twice}");
    let destroyed = run("--report ./in.json").refused();
    assert!(destroyed.contains("input"), "{destroyed}");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path("in.json"), folder.path("link.json")).unwrap();
        run("--report link.json").refused();
        run("--report /dev/null").ok();
    }
}

#[test]
fn without_its_colours_a_report_is_what_it_was() {
    let plain = stepsim("run tiny-4 --full").ok();
    let colours = stepsim("run tiny-4 --full --color always").ok();
    assert!(colours.contains("\x1b[1m") && colours.contains("\x1b[32m"), "{colours}");
    let stripped =
        ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[32m"].iter().fold(colours, |t, c| t.replace(c, ""));
    assert_eq!(stripped, plain);
}

#[test]
fn nothing_from_a_file_commands_the_terminal() {
    let said = stepsim("run '\u{1b}]0;title\u{7}gpt\u{202e}4xt.json'").refused();
    assert!(said.contains("\\u{1b}]0;title\\u{7}gpt\\u{202e}4xt"), "{said}");
}

const STEP: &str = "gpt2-8 -t switch:8,450,1 --set stack=simple --set parallelism.data=2 \
    --set parallelism.pipeline.size=4 --set batch.global=64";

#[test]
fn a_rank_is_in_its_own_groups() {
    let step = stepsim(&format!("inspect {STEP} --rank 3 --report -")).json()["step"].clone();
    assert_eq!(step["layout"], serde_json::json!([["dp", 2], ["pp", 4]]));
    // Rank 3 is the second replica of stage 1: it sends gradients to rank 1 and activations to rank 5.
    let groups = step["groups"].as_array().unwrap();
    let of = |stream: &str| -> Vec<serde_json::Value> {
        groups.iter().filter(|g| g["stream"] == stream).map(|g| g["members"].clone()).collect()
    };
    assert_eq!(of("dp"), [serde_json::json!([2, 3])]);
    assert_eq!(of("pp send"), [serde_json::json!([3, 1]), serde_json::json!([3, 5])]);
    assert_eq!(of("pp recv"), [serde_json::json!([1, 3]), serde_json::json!([5, 3])]);
    stepsim(&format!("inspect {STEP} --rank 8")).refused();
}

/// The counts equal the run's. Peaks in program order equal the run's where one stream does all of the work on the
/// memory (here: no copies, no sharding).
#[test]
fn counts_and_peaks_are_those_of_the_run() {
    let step = stepsim(&format!("inspect {STEP} --report -")).json()["step"].clone();
    let report = stepsim(&format!("run {STEP} --no-fold --report -")).json();
    assert_eq!(step["ops"], report["ops"]);
    let (programs, stages) = (step["programs"].as_array().unwrap(), report["stages"].as_array().unwrap());
    assert_eq!((programs.len(), stages.len()), (4, 4));
    for (program, stage) in programs.iter().zip(stages) {
        assert_eq!(
            program["memory"][0]["peak_bytes"], stage["memory"]["hbm"]["peak_bytes"],
            "{}",
            stage["stage"]
        );
    }
}

/// Ranks in a row or with one step are said short.
#[test]
fn ranks_in_a_row_are_said_short() {
    let text = stepsim(&format!("inspect {STEP} --rank 3")).ok();
    assert!(text.contains("2–3"), "{text}");
}

#[test]
fn a_line_says_how_far_it_is() {
    let (all, some) = (TerminalProgress::new("layouts"), TerminalProgress::of("rows", 2_000));
    all.at(15_648);
    some.at(1_999);
    assert_eq!(all.line(Duration::from_millis(20_700)), "layouts: 15,648 after 20 s");
    assert_eq!(some.line(Duration::from_secs(30)), "rows: 1,999 of 2,000 after 30 s");
}
