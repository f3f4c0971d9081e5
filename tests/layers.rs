//! Data flows one way: a module uses only modules that stand before it in the order of `src/lib.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The names between backquotes in the paragraph of `lib.rs` that states the order.
fn order() -> Vec<String> {
    let lib = fs::read_to_string(src().join("lib.rs")).unwrap();
    let docs: Vec<&str> = lib.lines().map_while(|line| line.strip_prefix("//!")).collect();
    let text = docs.join(" ");
    let stated = text.split("it so):").nth(1).expect("the order of modules in the page of lib.rs");
    stated.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// All Rust files below a path.
fn files(path: &Path) -> Vec<PathBuf> {
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

/// First segments of the paths that begin with `crate::` in a source text, comments left out.
fn uses(source: &str) -> BTreeSet<String> {
    let code: Vec<&str> = source.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
    let code = code.join("\n");
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
        found.extend(names.into_iter().map(first_segment).filter(|name| !name.is_empty()));
    }
    found
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

fn first_segment(path: &str) -> String {
    path.trim_start().chars().take_while(|c| *c == '_' || c.is_alphanumeric()).collect()
}

#[test]
fn a_module_uses_only_modules_before_it() {
    let order = order();
    let place = |name: &str| order.iter().position(|m| m == name);
    let mut wrong = Vec::new();
    for (here, module) in order.iter().enumerate() {
        let (file, folder) = (src().join(format!("{module}.rs")), src().join(module));
        for path in files(if file.is_file() { &file } else { &folder }) {
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

/// The closed form must not agree with the engine by construction. That of our own workloads reads from the planner
/// which layers a stage holds, who communicates with whom, and a schedule's order and formulas, but no rank program.
#[test]
fn the_closed_form_knows_nothing_of_the_engine() {
    for path in files(&src().join("analytic")) {
        let source = library_source(path.strip_prefix(src()).unwrap());
        let used = uses(&source);
        let own = path.starts_with(src().join("analytic/own"));
        for forbidden in ["engine", "fold", "program"].into_iter().chain((!own).then_some("plan")) {
            assert!(!used.contains(forbidden), "{} uses `{forbidden}`", path.display());
        }
        for programs in ["plan::pipeline", "step::plan", "step::Plan,", "step::Plan;"] {
            assert!(!source.contains(programs), "{} uses `{programs}`", path.display());
        }
    }
}

#[test]
fn every_module_has_its_place() {
    let order = order();
    let lib = fs::read_to_string(src().join("lib.rs")).unwrap();
    let declared = lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    for module in declared {
        assert!(order.iter().any(|m| m == module), "`{module}` is missing in the order of src/lib.rs");
    }
}

#[test]
fn paths_are_read_from_lines_lists_and_expressions() {
    let source = "use crate::ids::{A, B};\nuse crate::{units::Time, plan::{x, y}, cost};\n// use crate::cli::Z;\n\
                  fn f() -> crate::spec::Q { $crate::trace::g(); other_crate::model::h() }";
    let expected = ["cost", "ids", "plan", "spec", "units"].map(String::from);
    assert_eq!(uses(source), BTreeSet::from(expected));
}
