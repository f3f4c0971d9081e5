//! What the compiler cannot hold of the border between crates: which room of a crate knows which, what the closed form
//! knows, and where files are opened.

use std::fs;
use std::path::{Path, PathBuf};

pub fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// All Rust files below a path that are no tests.
pub fn files(path: &Path) -> Vec<PathBuf> {
    let mut all = files_ending(path, "rs");
    all.retain(|path| !path.strip_prefix(src()).is_ok_and(|below| below.iter().any(|part| part == "tests")));
    all
}

/// All files below a path that end like this; no build output.
pub fn files_ending(path: &Path, extension: &str) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries =
        fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).filter(|path| !path.ends_with("target"));
    let mut all: Vec<PathBuf> = entries.flat_map(|p| files_ending(&p, extension)).collect();
    all.retain(|p| p.extension().is_some_and(|e| e == extension));
    all.sort();
    all
}

/// The text of a file below `src`.
fn library_source(path: &Path) -> String {
    fs::read_to_string(src().join(path)).unwrap()
}

fn without_comments(source: &str) -> String {
    source.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// Files of a folder below `src` whose library sources name one of `forbidden`, a path as it stands in the text.
fn namers(folder: &str, forbidden: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for path in files(&src().join(folder)) {
        let source = without_comments(&library_source(path.strip_prefix(src()).unwrap()));
        let named = forbidden.iter().filter(|name| source.contains(**name));
        found.extend(named.map(|name| format!("{} names `{name}`", path.display())));
    }
    found
}

/// The rooms of a crate in the order that its page states: each uses only those before it.
#[test]
fn a_room_of_a_crate_uses_only_rooms_before_it() {
    for krate in ["price", "fabric"] {
        let page = fs::read_to_string(src().join(krate).join("lib.rs")).unwrap();
        let stated = page.lines().find(|line| line.contains("` → `")).expect("the order of its rooms");
        let order: Vec<&str> = stated.split('`').skip(1).step_by(2).collect();
        let declared = page.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
        assert!(
            declared.clone().all(|room| order.contains(&room)),
            "a room is missing in the order: {stated}"
        );
        for (here, room) in order.iter().enumerate() {
            let above: Vec<String> =
                order[here + 1..].iter().map(|above| format!("crate::{above}::")).collect();
            let above: Vec<&str> = above.iter().map(String::as_str).collect();
            assert_eq!(namers(&format!("{krate}/{room}"), &above), [""; 0]);
        }
    }
}

/// A changed figure of a shipped file compiles no crate: only the front hands these files in.
#[test]
fn no_crate_needs_the_shipped_files() {
    let manifests = fs::read_dir(src()).unwrap().map(|entry| entry.unwrap().path().join("Cargo.toml"));
    let needs = |path: &PathBuf| {
        fs::read_to_string(path).is_ok_and(|text| text.contains("stepsim-shipped.workspace"))
    };
    assert_eq!(manifests.filter(needs).collect::<Vec<_>>(), [""; 0].map(PathBuf::from));
}

/// The closed form must not agree with the engine by construction: it reads from the planner which layers a stage
/// holds, who communicates with whom, and a schedule's order and formulas, but no rank program.
#[test]
fn the_closed_form_knows_nothing_of_the_engine() {
    let played = ["stepsim_core::engine", "stepsim_core::fold", "stepsim_core::program"];
    let programs = ["plan::pipeline", "plan::step::plan", "step::Plan,", "step::Plan;"];
    assert_eq!(namers("form/analytic", &[&played, &programs[..]].concat()), [""; 0]);
}

/// The file of a module with files below it is its `mod.rs`.
#[test]
fn the_file_of_a_folder_lies_in_it() {
    let beside = |path: &PathBuf| path.with_extension("").is_dir();
    assert_eq!(files(&src()).into_iter().filter(beside).collect::<Vec<_>>(), [""; 0].map(PathBuf::from));
}

/// What is computed reads no file and writes none: loading is `spec::files`, foreign files have their readers,
/// outputs go through `trace`, and rows of studies and scores are files by nature.
#[test]
fn files_are_opened_where_files_are_the_subject() {
    let may = [
        "shipped/build.rs",
        "spec/files.rs",
        "bring/imports/syntax/python/library.rs",
        "measure/profile/reader/",
        "read/trace/",
        "measure/score/",
        "study/",
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
    assert!(found.iter().any(|path| path == "spec/files.rs"), "{found:?}");
    found.retain(|path| !may.iter().any(|place| path.starts_with(place)));
    assert_eq!(found, [""; 0]);
}

/// A crate that is not built for tests has none: they would never be compiled, and nothing would say so.
#[test]
fn a_crate_without_a_test_build_has_no_unit_tests() {
    let manifest = |krate: &Path| fs::read_to_string(krate.join("Cargo.toml")).unwrap_or_default();
    let untested = |krate: &PathBuf| manifest(krate).contains("\ntest = false\n");
    let crates: Vec<PathBuf> =
        fs::read_dir(src()).unwrap().map(|entry| entry.unwrap().path()).filter(untested).collect();
    assert!(crates.len() >= 8, "{crates:?}");
    let tests = |path: &PathBuf| {
        let source = without_comments(&fs::read_to_string(path).unwrap());
        source.contains("#[cfg(test)]") || source.contains("#[test]")
    };
    let found: Vec<PathBuf> = crates.iter().flat_map(|krate| files(krate)).filter(tests).collect();
    assert_eq!(found, [""; 0].map(PathBuf::from), "their place is the folder tests of the crate");
}
