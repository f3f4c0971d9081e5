//! Data flows one way: a module uses only modules that stand before it in the order of `src/lib.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pub fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The rooms in the order that the page of `lib.rs` states: each as its path below `crate`.
fn order() -> Vec<String> {
    let lib = fs::read_to_string(src().join("lib.rs")).unwrap();
    let stated = lib.lines().filter_map(|line| line.strip_prefix("//! - "));
    let words: Vec<Vec<&str>> = stated.map(|line| line.split('`').skip(1).step_by(2).collect()).collect();
    let mut order = Vec::new();
    for words in words {
        match words.split_first().expect("a floor") {
            (floor, []) => order.push((*floor).to_owned()),
            (floor, rooms) => order.extend(rooms.iter().map(|room| format!("{floor}::{room}"))),
        }
    }
    order
}

/// All Rust files below a path.
pub fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap().map(|e| e.unwrap().path());
    let mut all: Vec<PathBuf> = entries.flat_map(|p| files(&p)).collect();
    all.retain(|p| p.extension().is_some_and(|e| e == "rs"));
    all.sort();
    all
}

/// What a file below `src` builds into the library: unit tests may look at any module.
fn library_source(path: &Path) -> String {
    if path.iter().any(|part| part == "tests.rs" || part == "tests") {
        return String::new();
    }
    let source = fs::read_to_string(src().join(path)).unwrap();
    source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned()
}

/// The rooms of the paths that begin with `crate::` in a source text, comments left out: floor and room, or a floor alone
/// that is one room.
fn uses(source: &str) -> BTreeSet<String> {
    let code = without_comments(source);
    let mut found = BTreeSet::new();
    for (at, root) in code.match_indices("crate::") {
        if code[..at].ends_with(|c: char| c == '$' || c == '_' || c.is_alphanumeric()) {
            continue;
        }
        let rest = &code[at + root.len()..];
        let names = match rest.strip_prefix('{') {
            Some(list) => top_level(list),
            None => vec![rest],
        };
        found.extend(names.into_iter().map(room).filter(|name| !name.is_empty()));
    }
    found
}

fn without_comments(source: &str) -> String {
    source.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// The items of a brace list whose opening brace has been read, nested lists skipped.
fn top_level(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut items) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                items.push(&list[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items
}

fn room(path: &str) -> String {
    let floor = first_segment(path);
    let rest = path.trim_start()[floor.len()..].strip_prefix("::").map(first_segment).unwrap_or_default();
    if src().join(&floor).join("mod.rs").is_file() && floor != "cli" {
        format!("{floor}::{rest}")
    } else {
        floor
    }
}

fn first_segment(path: &str) -> String {
    path.trim_start().chars().take_while(|c| *c == '_' || c.is_alphanumeric()).collect()
}

#[test]
fn a_module_uses_only_modules_before_it() {
    let order = order();
    let place = |name: &str| order.iter().position(|m| m == name);
    let mut wrong = Vec::new();
    for (here, module) in order.iter().enumerate() {
        for path in files(&home(module)) {
            for used in uses(&library_source(path.strip_prefix(src()).unwrap())) {
                match place(&used) {
                    Some(there) if there <= here => {}
                    Some(_) => wrong.push(format!("{}: `{used}` stands after `{module}`", path.display())),
                    None => wrong.push(format!("{}: `{used}` is no module of the order", path.display())),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "data flows one way (src/lib.rs):\n{}", wrong.join("\n"));
}

/// The file or folder of a module.
fn home(module: &str) -> PathBuf {
    let path = module.replace("::", "/");
    let file = src().join(format!("{path}.rs"));
    if file.is_file() { file } else { src().join(path) }
}

/// Files of a module that name one of `forbidden`: a module, or a path as it stands in the text.
fn namers(module: &str, forbidden: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for path in files(&home(module)) {
        let source = without_comments(&library_source(path.strip_prefix(src()).unwrap()));
        let used = uses(&source);
        let wrong = |name: &&&str| used.contains(**name) || (name.contains("::") && source.contains(**name));
        found.extend(forbidden.iter().filter(wrong).map(|name| format!("{} uses `{name}`", path.display())));
    }
    found
}

/// The closed form must not agree with the engine by construction: it reads from the planner which layers a stage
/// holds, who communicates with whom, and a schedule's order and formulas, but no rank program. Calculon's knows not
/// even that.
#[test]
fn the_closed_forms_know_nothing_of_the_engine() {
    let programs = ["plan::pipeline", "plan::step::plan", "step::Plan,", "step::Plan;"];
    let played = ["core::engine", "core::fold", "core::program"];
    assert_eq!(namers("read::analytic", &[&played, &programs[..]].concat()), [""; 0]);
    let known = ["step::plan", "read::analytic"];
    assert_eq!(namers("lab::calculon::closed_form", &[&played, &known[..]].concat()), [""; 0]);
}

/// Calculon's folder has floors of its own, in the order that its page states.
#[test]
fn calculons_files_lead_to_its_closed_form_and_on_to_events() {
    let page = fs::read_to_string(src().join("lab/calculon/mod.rs")).unwrap();
    let stated = page.lines().find(|line| line.contains("` → `")).expect("the order of its modules");
    let order: Vec<&str> = stated.split('`').skip(1).step_by(2).collect();
    assert!(order.len() > 3, "{stated}");
    for (here, floor) in order.iter().enumerate() {
        let above: Vec<String> = order[here + 1..].iter().map(|m| format!("calculon::{m}")).collect();
        let above: Vec<&str> = above.iter().map(String::as_str).collect();
        assert_eq!(namers(&format!("lab::calculon::{floor}"), &above), [""; 0]);
    }
}

/// The simulator does not know that Calculon exists.
#[test]
fn only_the_command_line_knows_calculon() {
    for module in order().iter().filter(|m| !["lab::calculon", "cli"].contains(&m.as_str())) {
        assert_eq!(namers(module, &["lab::calculon"]), [""; 0]);
    }
}

/// The file of a module with files below it is its `mod.rs`.
#[test]
fn the_file_of_a_folder_lies_in_it() {
    let beside = |path: &PathBuf| path.with_extension("").is_dir();
    assert_eq!(files(&src()).into_iter().filter(beside).collect::<Vec<_>>(), [""; 0].map(PathBuf::from));
}

/// The words that readers meet everywhere name one type each.
#[test]
fn a_word_names_one_thing() {
    for word in ["Unit", "Plan", "Stage", "Step", "Trace"] {
        let defines = |line: &str| {
            let mut words = line.split_whitespace().skip_while(|w| w.starts_with("pub"));
            let kind = words.find(|w| !w.starts_with("crate")).unwrap_or_default();
            let name = words.next().unwrap_or_default();
            ["struct", "enum", "trait", "type"].contains(&kind) && first_segment(name) == word
        };
        let in_source =
            |path: &PathBuf| library_source(path.strip_prefix(src()).unwrap()).lines().any(defines);
        let named: Vec<PathBuf> = files(&src()).into_iter().filter(in_source).collect();
        assert!(named.len() < 2, "`{word}` is several things: {named:?}");
    }
}

#[test]
fn every_module_has_its_place() {
    let order = order();
    let declared = |file: &str| -> Vec<String> {
        let source = fs::read_to_string(src().join(file)).unwrap();
        source
            .lines()
            .filter_map(|line| Some(line.strip_prefix("pub mod ")?.strip_suffix(';')?.to_owned()))
            .collect()
    };
    for floor in declared("lib.rs") {
        let rooms = if floor == "cli" {
            vec![floor.clone()]
        } else {
            declared(&format!("{floor}/mod.rs")).iter().map(|room| format!("{floor}::{room}")).collect()
        };
        for room in rooms {
            assert!(order.contains(&room), "`{room}` is missing in the order of src/lib.rs");
        }
    }
}

/// What is computed reads no file and writes none: loading is `spec::files`, foreign files have their readers, outputs go
/// through `trace`, and rows of studies and scores are files by nature.
#[test]
fn files_are_opened_where_files_are_the_subject() {
    let may = [
        "step/spec/files.rs",
        "read/profile/reader/",
        "read/trace/",
        "lab/calculon/files/",
        "lab/score/",
        "lab/study/",
        "cli/",
    ];
    let opens = |path: &Path| {
        let source = library_source(path);
        without_comments(&source).lines().any(|line| line.contains("std::fs") || line.contains("File::open"))
    };
    let mut found: Vec<String> = files(&src())
        .iter()
        .map(|path| path.strip_prefix(src()).unwrap())
        .filter(|path| opens(path))
        .map(|path| path.display().to_string())
        .collect();
    assert!(found.iter().any(|path| path == "step/spec/files.rs"), "{found:?}");
    found.retain(|path| !may.iter().any(|place| path.starts_with(place)));
    assert_eq!(found, [""; 0]);
}

#[test]
fn paths_are_read_from_lines_lists_and_expressions() {
    let source = "use crate::core::ids::{A, B};\nuse crate::{core::units::Time, step::plan::{x, y}, cli};\n// use crate::cli::Z;\n\
                  fn f() -> crate::step::spec::Q { crate::read::trace::g(); other_crate::model::h() }";
    let expected =
        ["cli", "core::ids", "core::units", "read::trace", "step::plan", "step::spec"].map(String::from);
    assert_eq!(uses(source), BTreeSet::from(expected));
}
