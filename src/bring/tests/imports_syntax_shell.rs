//! The words of the programs that a script runs, beside those that bash gives them.

use std::collections::BTreeMap;
use std::process::Command;

use stepsim_bring::imports::Invocation;
use stepsim_bring::imports::syntax::shell::{Counts, programs};

/// Programs that stand for those of a job: each writes down its words, a NUL behind each.
const STUBS: [&str; 5] = ["torchrun", "srun", "deepspeed", "accelerate", "python"];
/// The machine: two nodes of eight.
const COUNTS: Counts = Counts { nodes: 2, devices_per_node: 8 };

/// The words of each stub that bash runs, in a folder with nothing else.
fn of_bash(script: &str, words: &[String]) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let stub = |name: &str, text: &str| {
        std::fs::write(path(name), format!("#!/bin/bash\n{text}\n")).expect("a stub");
        let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        std::fs::set_permissions(path(name), mode).expect("a program");
    };
    let log = path("log");
    for name in STUBS {
        stub(name, &format!("printf '%s\\0' {name} \"$@\" >> {0}; printf '\\n\\0' >> {0}", log.display()));
    }
    stub("nvidia-smi", "for i in 0 1 2 3 4 5 6 7; do echo \"GPU $i: a device\"; done");
    stub("scontrol", "echo node0; echo node1");
    std::fs::write(path("common.sh"), COMMON).expect("a script");
    std::fs::write(path("run.sh"), script).expect("a script");
    let place = format!("{}:/usr/bin:/bin", folder.path().display());
    let mut line = Command::new("bash");
    line.arg("run.sh").args(words).current_dir(folder.path()).env_clear().env("PATH", place);
    for (name, value) in [("SLURM_NNODES", "2"), ("SLURM_GPUS_PER_NODE", "8"), ("SLURM_NODEID", "0")] {
        line.env(name, value);
    }
    line.output().expect("bash runs");
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let mut all = vec![Vec::new()];
    for word in text.split_terminator('\0') {
        match word {
            "\n" => all.push(Vec::new()),
            word => all.last_mut().expect("one").push(word.to_string()),
        }
    }
    all.pop();
    all
}

/// The same by the program; what it does not know stands as it is.
fn of_ours(script: &str, words: &[String]) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("common.sh"), COMMON).expect("a script");
    let file = folder.path().join("run.sh").display().to_string();
    let typed = Invocation { file, words: words.to_vec(), counts: Some(COUNTS), ..Invocation::default() };
    let mut all = programs(script, &typed).expect("a script");
    all.retain(|words| STUBS.contains(&words[0].as_str()));
    all
}

/// What scripts take in.
const COMMON: &str = "LAYERS=32\nwide() { echo $((64 * $1)); }\n";

/// Scripts in the ways in which launch scripts are written.
const SCRIPTS: &str = include_str!("imports-syntax-shell.json");

#[test]
fn programs_get_the_words_that_bash_gives_them() {
    let words: Vec<String> = ["train", "xy", "--size", "8B"].map(str::to_string).to_vec();
    if Command::new("bash").arg("--version").output().is_err() {
        return eprintln!("SKIPPED: no bash");
    }
    let mut seen = 0;
    let scripts: Vec<String> = serde_json::from_str(SCRIPTS).expect("scripts");
    for script in &scripts {
        let words = if script.contains("while [ $#") { &words[2..] } else { &words[..2] };
        let words = if script.contains("${1:-") { &[] } else { words };
        let (bash, ours) = (of_bash(script, words), of_ours(script, words));
        assert_eq!(ours, bash, "{script}");
        seen += bash.len();
    }
    assert!(seen > 55, "{seen} programs");
}

/// Numbers that look drawn, the same each time.
struct Draw {
    last: u64,
    /// Forms of statements, flat and with others inside, and names and values of variables.
    forms: BTreeMap<String, Vec<String>>,
}

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.last = self.last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.last >> 33) as usize % n
    }
    fn of(&mut self, kind: &str) -> String {
        let at = self.below(self.forms[kind].len());
        self.forms[kind][at].clone()
    }
    /// A form with a variable for `§`, a number for `№`, its level for `¤`, and statements of the next for `¶`.
    fn filled(&mut self, form: &str, depth: usize) -> String {
        let mut out = String::new();
        for c in form.chars() {
            match c {
                '§' => out += &self.of("names"),
                '¤' => out += &depth.to_string(),
                '№' => out += &self.below(9).to_string(),
                '¶' => out += &self.statements(depth + 1),
                c => out.push(c),
            }
        }
        out
    }
    fn statements(&mut self, depth: usize) -> String {
        let mut text = String::new();
        for _ in 0..1 + self.below(3) {
            let kind = if depth < 2 && self.below(5) == 0 { "deep" } else { "flat" };
            let form = self.of(kind);
            text += &(self.filled(&form, depth) + "\n");
        }
        text
    }
    /// Every variable set, some statements, and a program with all that came of them.
    fn script(&mut self) -> String {
        let names = self.forms["names"].clone();
        let set: String = names.iter().map(|name| format!("{name}={}\n", self.of("values"))).collect();
        let body: String = (0..4).map(|_| self.statements(0)).collect();
        let words: String = names.iter().map(|name| format!(" --{name} \"${name}\"")).collect();
        let list = "${LIST[@]} \"${LIST[@]}\" ${#LIST[@]}";
        format!("source common.sh\n{set}LIST=(1 \"two three\")\n{body}torchrun t.py{words} {list} $A\n")
    }
}

/// Scripts drawn from a grammar: what bash and the player start is the same, word by word.
#[test]
fn drawn_scripts_start_what_bash_starts() {
    if Command::new("bash").arg("--version").output().is_err() {
        return eprintln!("SKIPPED: no bash");
    }
    let tries: usize = std::env::var("STEPSIM_LAW_STEPS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    let forms = serde_json::from_str(include_str!("imports-syntax-shell-forms.json")).expect("forms");
    let mut draw = Draw { last: 20_261_129, forms };
    let mut seen = 0;
    for _ in 0..tries {
        let script = draw.script();
        let (bash, ours) = (of_bash(&script, &[]), of_ours(&script, &[]));
        assert_eq!(ours, bash, "{script}");
        seen += bash.len();
    }
    assert!(seen > tries, "{seen} programs");
}
