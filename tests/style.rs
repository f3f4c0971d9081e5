//! Style with a ratchet: counts of what a reader stumbles over, held to `tests/data/style.json`.
//!
//! A count may fall, or rise with a sentence in the commit that says why.
//! `STEPSIM_RENEW=1 cargo test --test all style::` writes the counts of today, and the table of crates in
//! CONTRIBUTING.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::layers::files_ending;

/// The longest line of a source that is not counted, in columns.
const COLUMNS: usize = 120;

/// Sentences as no native speaker writes them, as words that stand in comments and messages.
const TRANSLATED: [&str; 8] = [
    " so many ",
    " that of ",
    " those of ",
    " of which ",
    " what is not ",
    " that are none",
    " of its own that ",
    " as far as they are ",
];

/// Endings of a question word as the subject of a sentence at the beginning of a comment.
const SUBJECTS: [&str; 4] = ["What ", "Which ", "Whether ", "Whatever "];

/// Participles without the usual ending.
const IRREGULAR: [&str; 22] = [
    "Built", "Cut", "Drawn", "Found", "Given", "Held", "Kept", "Known", "Laid", "Left", "Made", "Said",
    "Sent", "Set", "Shown", "Split", "Spent", "Taken", "Told", "Written", "Gone", "Done",
];

/// Folders whose code is counted.
const FOLDERS: [&str; 6] = ["src", "tests", "benches", "examples", "python", "web"];

/// A source file.
struct Source {
    /// Below the repository.
    path: PathBuf,
    text: String,
}

impl Source {
    /// All that end like this in all folders.
    fn all(extension: &str) -> Vec<Source> {
        let read = |path: PathBuf| {
            let text = fs::read_to_string(&path).unwrap();
            Source { path: path.strip_prefix(root()).unwrap().to_owned(), text }
        };
        FOLDERS.iter().flat_map(|folder| files_ending(&root().join(folder), extension)).map(read).collect()
    }

    /// Whether it is part of a crate, and no test of one.
    fn is_library(&self) -> bool {
        self.path.starts_with("src") && !self.path.iter().any(|part| part == "tests")
    }

    /// What its lines count for: its crate, tests, or all that stands around both.
    fn subject(&self) -> String {
        let parts: Vec<_> = self.path.iter().map(|part| part.to_string_lossy()).collect();
        match parts[..] {
            _ if parts.iter().any(|part| part == "tests") => "tests".into(),
            [ref first, ref second, _, ..] if first == "src" => second.clone().into_owned(),
            [ref first, _] if first == "src" => "stepsim".into(),
            _ => "benches, examples, Python and web".into(),
        }
    }

    /// Lines that are neither blank nor comment.
    fn code(&self, comment: &str) -> u64 {
        self.text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(comment)).count()
            as u64
    }

    /// Its comments and documentation, a line each.
    fn comments(&self) -> impl Iterator<Item = &str> {
        self.text.lines().filter_map(|line| line.trim_start().strip_prefix("//"))
    }

    /// The types that it defines, each with whether others can see it; a type within a trait's implementation has
    /// the trait's name for it, and is none.
    fn types(&self) -> impl Iterator<Item = (&str, bool)> {
        self.text.lines().filter_map(|line| {
            let mut words = line.split_whitespace().peekable();
            let shown = words.next_if(|word| word.starts_with("pub")).is_some();
            words.next_if(|word| word.ends_with(')'));
            let kind = words.next()?;
            let name = words.next()?.split(|c: char| !c.is_alphanumeric()).next()?;
            let is_type = ["struct", "enum", "trait", "type", "union"].contains(&kind);
            let within = kind == "type" && line.starts_with(' ') && !shown;
            (is_type && !within && name.starts_with(char::is_uppercase)).then_some((name, shown))
        })
    }

    /// Lines of its longest function.
    fn longest_function(&self) -> u64 {
        let (mut longest, mut open) = (0, None);
        for (at, line) in self.text.lines().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let head = line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
            let head = head.trim_start_matches("pub ").trim_start_matches("const ");
            if open.is_none() && head.starts_with("fn ") && !line.ends_with([';', '}']) {
                open = Some((at, indent));
            } else if let Some((start, depth)) = open
                && indent == depth
                && line.trim() == "}"
            {
                longest = longest.max((at - start + 1) as u64);
                open = None;
            }
        }
        longest
    }
}

/// Whether a name is a participle: it says that something happened to a thing, and not what the thing is.
fn is_participle(name: &str) -> bool {
    let one_word = name.chars().skip(1).all(char::is_lowercase);
    one_word
        && (IRREGULAR.contains(&name) || (name.ends_with("ed") && !["Speed", "Seed", "Need"].contains(&name)))
}

/// The count that must fall, whatever moves from one subject to another.
const ALL: &str = "all code in Rust, tests included";

/// The counts of today, by name.
fn counts() -> BTreeMap<String, u64> {
    let sources = Source::all("rs");
    let mut counts = BTreeMap::new();
    for source in &sources {
        *counts.entry(format!("code of {}", source.subject())).or_default() += source.code("//");
        *counts.entry(ALL.into()).or_default() += source.code("//");
    }
    counts.insert("all code in Python".into(), Source::all("py").iter().map(|source| source.code("#")).sum());
    let mut homes: BTreeMap<&str, BTreeSet<&Path>> = BTreeMap::new();
    let (mut long, mut translated, mut participles, mut longest) = (0, 0, 0, 0);
    for source in sources.iter().filter(|source| source.is_library()) {
        long += source.text.lines().filter(|line| line.chars().count() > COLUMNS).count() as u64;
        longest = longest.max(source.longest_function());
        for comment in source.comments() {
            translated += TRANSLATED.iter().filter(|words| comment.contains(**words)).count() as u64;
            let text = comment.trim_start_matches(['/', '!']).trim_start();
            translated += u64::from(SUBJECTS.iter().any(|word| text.starts_with(word)));
        }
        for (name, shown) in source.types() {
            homes.entry(name).or_default().insert(&source.path);
            participles += u64::from(shown && is_participle(name));
        }
    }
    let shared = homes.iter().filter(|(name, homes)| homes.len() > 1 && **name != "Args").count() as u64;
    counts.insert("lines over 120 columns".into(), long);
    counts.insert("lines of the longest function".into(), longest);
    counts.insert("type names for several things".into(), shared);
    counts.insert("participles as names of types that leave their file".into(), participles);
    counts.insert("phrases that read like a translation".into(), translated);
    counts
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The table of crates in CONTRIBUTING.md.
fn table(counts: &BTreeMap<String, u64>) -> String {
    let mut table = String::from("| subject | lines of code |\n|--|--|\n");
    for (name, count) in
        counts.iter().filter_map(|(name, count)| Some((name.strip_prefix("code of ")?, count)))
    {
        table += &format!("| {name} | {count} |\n");
    }
    table + &format!("| all | {} |\n", counts[ALL])
}

#[test]
fn counts_only_fall() {
    let (path, counts) = (root().join("tests/data/style.json"), counts());
    if std::env::var_os("STEPSIM_RENEW").is_some() {
        fs::write(&path, serde_json::to_string_pretty(&counts).unwrap() + "\n").unwrap();
        return renew_table(&counts);
    }
    let kept: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let grown: Vec<String> = counts
        .iter()
        .filter_map(|(name, now)| {
            let most = kept[name].as_u64().unwrap_or(0);
            (*now > most).then(|| format!("{name}: {now}, at most {most}"))
        })
        .collect();
    assert!(
        grown.is_empty(),
        "say why in the commit, and renew tests/data/style.json:\n  {}",
        grown.join("\n  ")
    );
}

fn renew_table(counts: &BTreeMap<String, u64>) {
    let path = root().join("CONTRIBUTING.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once("<!-- crates -->\n").expect("the place of the table");
    let (_, after) = rest.split_once("<!-- end -->").expect("the end of the table");
    fs::write(path, format!("{before}<!-- crates -->\n{}<!-- end -->{after}", table(counts))).unwrap();
}

/// The counts see what they are for.
#[test]
fn a_planted_fault_is_counted() {
    let text = "/// What is that of a thing.\npub struct Asked;\nstruct Own;\n  type Item = Own;\nfn f() {\n    g();\n}\n";
    let source = Source { path: "src/core/x.rs".into(), text: text.into() };
    assert_eq!(source.types().collect::<Vec<_>>(), [("Asked", true), ("Own", false)]);
    assert!(
        is_participle("Asked") && is_participle("Found") && !is_participle("Speed") && !is_participle("Ring")
    );
    assert_eq!((source.longest_function(), source.subject().as_str(), source.code("//")), (3, "core", 6));
    assert_eq!(Source { path: "src/core/tests/x.rs".into(), text: String::new() }.subject(), "tests");
    assert_eq!(source.comments().filter(|c| c.contains(" that of ")).count(), 1);
}
