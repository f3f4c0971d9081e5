//! One door for files: whatever a command reads, under whatever argument, it does not write over; and what is no
//! input is not taken for one.

use std::fs;

use clap::builder::ValueParser;
use clap::{Arg, Command as Definition};
use stepsim::cli::{check_files, definition};

use crate::command::Folder;

const WRITTEN: &str = "Output files";

/// The command line with its arguments numbered.
fn built() -> Definition {
    let mut command = definition();
    command.build();
    command
}

fn is_path(argument: &Arg) -> bool {
    argument.get_value_parser().type_id() == ValueParser::path_buf().type_id()
}
/// Whether an argument takes any text; one that takes words of a list names no file.
fn is_text(argument: &Arg) -> bool {
    argument.get_value_parser().type_id() == ValueParser::string().type_id()
        && argument.get_possible_values().is_empty()
}

/// The words that give an argument a value; of one that takes several, as often.
fn given(argument: &Arg, value: &str) -> Vec<String> {
    let times = argument.get_num_args().map_or(1, |n| n.min_values().max(1));
    let name = argument.get_long().map(|long| format!("--{long}"));
    name.into_iter().chain((0..times).map(|_| value.to_string())).collect()
}

/// Every pair of what a command reads and what it writes, as words of a command line with these values.
fn pairs(
    command: &Definition,
    words: &[String],
    values: [&str; 2],
    call: &mut dyn FnMut(&Arg, &Arg, &[&str]),
) {
    for next in command.get_subcommands().filter(|next| next.get_name() != "help") {
        pairs(next, &[words, &[next.get_name().to_string()]].concat(), values, call);
    }
    let of = |written: bool| {
        let wanted = move |a: &&Arg| (a.get_help_heading() == Some(WRITTEN)) == written && !a.is_global_set();
        let values = command.get_arguments().filter(|a| a.get_action().takes_values());
        values.filter(wanted).filter(|a| is_path(a) || is_text(a))
    };
    for (read, write) in of(false).flat_map(|read| of(true).filter(|w| is_path(w)).map(move |w| (read, w))) {
        let input = match read.is_positional() {
            true => {
                let until = read.get_index().unwrap_or(1);
                let before = command.get_positionals().filter(|p| p.get_index().unwrap_or(1) <= until);
                before.flat_map(|p| given(p, values[0])).collect()
            }
            false => given(read, values[0]),
        };
        let all = [words.to_vec(), given(write, values[1]), input].concat();
        call(read, write, &all.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn no_argument_is_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("input");
    fs::write(&file, "kept").unwrap();
    let name = file.to_str().unwrap();
    let mut seen = 0;
    pairs(&built(), &["stepsim".into()], [name, name], &mut |read, write, words| {
        let refused = check_files(words)
            .err()
            .unwrap_or_else(|| panic!("{read} is written over by {write}: {words:?}"));
        assert!(refused.to_string().contains("names the same file"), "{words:?}: {refused}");
        seen += 1;
    });
    assert!(seen > 60, "{seen} pairs");
}

/// A folder that has the name of a value (a number, a workload) is no input.
#[test]
fn what_is_no_path_is_no_input() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("written"), "before").unwrap();
    let (name, written) = (folder.path().to_str().unwrap(), folder.path().join("written"));
    let mut seen = 0;
    pairs(
        &definition(),
        &["stepsim".into()],
        [name, written.to_str().unwrap()],
        &mut |read, write, words| {
            if is_text(read) && !is_path(read) {
                let refused = check_files(words).err().map(|e| e.to_string());
                assert_eq!(refused, None, "{read} and {write}: {words:?}");
                seen += 1;
            }
        },
    );
    assert!(seen > 30, "{seen} pairs");
}

/// The workload of a job, and a model file that only the workload names.
#[test]
fn files_that_inputs_name_are_not_written_over() {
    let folder = Folder::new();
    let model = r#"{"base": "gpt2-1.5b", "layers": 2}"#;
    let workload = r#"{"topology": "switch:8,400,1", "model": "./model.json", "batch": {"global": 8}}"#;
    folder.write("model.json", model);
    folder.write("me.json", workload);
    for report in ["me.json", "./model.json"] {
        let share = "share ./me.json@0-3 ./me.json@4-7 -t switch:8,400,1";
        for command in [share, "run ./me.json", "whatif ./me.json"] {
            folder.stepsim(&format!("{command} --report {report}")).refused();
        }
    }
    assert_eq!((folder.text("model.json"), folder.text("me.json")), (model.into(), workload.into()));
}

/// A second run writes where the first one did, whatever the folder is called.
#[test]
fn folders_may_be_called_like_values() {
    let folder = Folder::new();
    for name in ["1", "tiny-4", "0", "16"] {
        fs::create_dir(folder.path(name)).unwrap();
        for _ in 0..2 {
            folder.stepsim(&format!("run tiny-4 --seed 1 -q --report {name}/r.json")).ok();
        }
    }
}

#[test]
fn names_mean_what_is_written() {
    let folder = Folder::new();
    for line in [
        "run tiny-4 --html o.pdf",
        "run tiny-4 --report r.csv",
        "run tiny-4 --format kineto -o x.json.gz",
        "sweep tiny-4 --vary batch.micro_batch=1,2 -o rows.parquet",
        "run tiny-4 -o o.html",
    ] {
        let said = folder.stepsim(line).refused();
        assert!(said.contains("the name means"), "{line}: {said}");
    }
    assert_eq!(fs::read_dir(folder.path("")).unwrap().count(), 0);
}

/// A few packed kilobytes of nothing are no trace, and names from files do not command the terminal.
#[test]
fn what_files_hold_harms_nobody() {
    let folder = Folder::new();
    let mut pack = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut pack, &vec![0; 64 << 20]).unwrap();
    folder.write("zeros.json.gz", pack.finish().unwrap());
    folder.stepsim("analyze zeros.json.gz --report step.json").refused();
    folder.write("w.json", "{\"model\": \"gpt2-1.5b\", \"\\u001b[2Jx\": 1}");
    let said = folder.stepsim("run ./w.json").refused();
    assert!(!said.contains('\u{1b}') && said.contains("u{1b}"), "{said:?}");
}
