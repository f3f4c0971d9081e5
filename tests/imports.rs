//! Argument and recipe files: real ones as workloads, with what became of each argument; wrong ones refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};
use stepsim::bring::import;
use stepsim::bring::imports::{
    Beside, FileKind, FormatTable, Import, Invocation, Status, configuration, recognise, syntax,
};
use stepsim::spec::catalog::FOLDER;
use stepsim::spec::{WorkloadSpec, from_value};

use crate::command::{self, Folder};
use crate::slow::slow;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/imports").join(name)
}

fn read(case: &Case, beside: &Beside) -> Import {
    let path = file(&case.file).display().to_string();
    let text = std::fs::read_to_string(Invocation::of(&path).file).unwrap();
    let text = case.replace.iter().fold(text, |text, (from, to)| text.replace(from, to));
    import(&case.format, &text, &path, beside).unwrap_or_else(|e| panic!("{}: {e}", case.file))
}

fn given(model: Option<&str>, devices: Option<u64>, sets: &[&str]) -> Beside {
    let sets = sets.iter().map(|s| (*s).to_string()).collect();
    Beside { model: model.map(Value::from), devices, sets, ..Beside::default() }
}

/// A file, what is given beside it, and what must come out.
#[derive(Deserialize)]
struct Case {
    format: String,
    file: String,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    devices: Option<u64>,
    #[serde(default)]
    sets: Vec<String>,
    /// Words of the file, and others in their place.
    #[serde(default)]
    replace: Vec<(String, String)>,
    /// Arguments that matter without a counterpart.
    matters: usize,
    /// Fields of the workload, by their pointer.
    workload: Value,
}

fn cases() -> impl Iterator<Item = (Case, Import)> {
    let cases: Vec<Case> = serde_json::from_str(include_str!("data/imports.json")).unwrap();
    assert_eq!(cases.len(), 40);
    cases.into_iter().map(|case| {
        let sets: Vec<&str> = case.sets.iter().map(String::as_str).collect();
        let made = read(&case, &given(case.model.as_deref(), case.devices, &sets));
        (case, made)
    })
}

/// Nothing of a file is unknown, and fields of the workload, by their pointer, are these; null: it has none.
fn holds(made: &Import, fields: &Value, what: &str) {
    let unknown: Vec<&str> = made.of(Status::Unknown).map(|a| a.name.as_str()).collect();
    assert!(unknown.is_empty(), "{what}: {unknown:?}");
    for (pointer, value) in fields.as_object().unwrap() {
        let found = made.workload.pointer(pointer).unwrap_or(&Value::Null);
        assert_eq!(found, value, "{what} {pointer}: {}", made.workload);
    }
}

#[test]
fn real_files_become_the_workloads_that_they_describe() {
    for (case, made) in cases() {
        holds(&made, &case.workload, &case.file);
        let matters: Vec<String> =
            made.of(Status::Matters).map(|a| format!("{}: {}", a.name, a.why)).collect();
        assert_eq!(matters.len(), case.matters, "{}: {matters:#?}", case.file);
        assert!(made.of(Status::Matters).all(|a| !a.why.is_empty()), "{}", case.file);
    }
}

/// A file of the field's cases, of whatever software.
#[derive(Deserialize)]
struct Sample {
    kind: String,
    files: std::collections::BTreeMap<String, String>,
}

/// Texts of every format, with the format and what stands beside.
fn samples() -> Vec<(String, String, String, Beside)> {
    let cases: Vec<Case> = serde_json::from_str(include_str!("data/imports.json")).unwrap();
    let written = cases.into_iter().map(|case| {
        let sets: Vec<&str> = case.sets.iter().map(String::as_str).collect();
        let beside = given(case.model.as_deref(), case.devices, &sets);
        {
            let path = Invocation::of(&case.file).file;
            (case.file, case.format, std::fs::read_to_string(file(&path)).unwrap(), beside)
        }
    });
    let field: Vec<Sample> = serde_json::from_str(include_str!("data/field.json")).unwrap();
    let alone = field.into_iter().filter(|sample| sample.files.len() == 1).filter_map(|sample| {
        let text = sample.files.into_values().next()?;
        let FileKind::Arguments(format) = recognise(text.as_bytes())? else { return None };
        let models = Some(stepsim::bring::describe::model_named as fn(&str) -> Option<Value>);
        Some((
            sample.kind,
            format.to_string(),
            text,
            Beside { devices: Some(8), models, ..Beside::default() },
        ))
    });
    written.chain(alone).collect()
}

/// A text in which a word that stands by itself has more behind it; none where it does not stand there.
fn misspelt(text: &str, word: &str, more: &str) -> Option<String> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, behind) = (&rest[..at], &rest[at + word.len()..]);
        let alone = !before.trim_end_matches("--").ends_with(is_letter) && !behind.starts_with(is_letter);
        out.push_str(before);
        out.push_str(word);
        out.push_str(if alone { more } else { "" });
        rest = behind;
    }
    out.push_str(rest);
    (out != text).then_some(out)
}

/// A text without a word and its value: the line that it begins, with what is indented below it, or its part of a
/// shell's line; none where it does not stand so, or more than once.
fn without(text: &str, word: &str) -> Option<String> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.';
    let begins = |part: &str| {
        let rest = part.trim_start().trim_start_matches("--").trim_start_matches('"');
        rest.strip_prefix(word).is_some_and(|behind| !behind.starts_with(is_letter))
    };
    let indent = |line: &str| line.len() - line.trim_start().len();
    let (mut out, mut found, mut below) = (Vec::new(), 0, None);
    for line in text.lines() {
        if below.is_some_and(|above| indent(line) > above && !line.trim().is_empty()) {
            continue;
        }
        below = None;
        let parts: Vec<&str> = line.split(" --").collect();
        let of_it =
            parts.iter().enumerate().filter(|(i, part)| (*i > 0 || line.contains("--")) && begins(part));
        match of_it.map(|(i, _)| i).collect::<Vec<usize>>()[..] {
            [at] if parts.len() > 1 => {
                found += 1;
                let tail = if line.trim_end().ends_with('\\') { " \\" } else { "" };
                let kept = parts.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, part)| *part);
                out.push(
                    kept.collect::<Vec<&str>>().join(" --").trim_end_matches([' ', '\\']).to_owned() + tail,
                );
            }
            _ if begins(line) => {
                let open = |c: &[char]| line.matches(c).count();
                // One of several words of a line.
                if open(&['=']) > 1 {
                    return None;
                }
                if open(&['(', '[', '{']) != open(&[')', ']', '}']) {
                    return None;
                }
                found += 1;
                below = line.trim_end().ends_with(':').then(|| indent(line));
            }
            _ => out.push(line.to_owned()),
        }
    }
    (found == 1).then(|| out.join("\n") + "\n")
}

/// The law of a word that is dropped: one that is said to have no effect, or is listed, leaves the step and the list as
/// they are.
#[test]
fn words_without_effect_have_none() {
    let (mut words, mut tried, mut wrong) = (0, 0, Vec::new());
    for (name, format, text, beside) in samples() {
        let Ok(whole) = import(&format, &text, &name, &beside) else { continue };
        let listed = |made: &Import| -> Vec<String> {
            let all = [Status::Unknown, Status::Matters].into_iter().flat_map(|s| made.of(s));
            // Arguments that hang on one open thing are one entry of the list.
            all.flat_map(|a| a.name.split(", ")).map(str::to_owned).collect()
        };
        let before = listed(&whole);
        for argument in &whole.arguments {
            let word = argument.name.rsplit('.').next().unwrap_or_default();
            let spelled = [word.to_string(), word.replace('_', "-")];
            words += 1;
            if words % 6 > 0 && !slow() {
                continue;
            }
            let Some(less) = spelled.iter().find_map(|word| without(&text, word)) else { continue };
            // The name of a file that was read acts by what stands in it.
            let is_read = argument.why.starts_with("read from ");
            if is_read || matches!(argument.status, Status::Taken | Status::Assumed) {
                continue;
            }
            tried += 1;
            let Ok(made) = import(&format, &less, &name, &beside) else { continue };
            let new: Vec<String> = listed(&made).into_iter().filter(|a| !before.contains(a)).collect();
            if made.workload != whole.workload || !new.is_empty() {
                wrong.push(format!("{name}: {} ({:?}) {new:?}", argument.name, argument.status));
            }
        }
    }
    println!("{tried} words of {} files", samples().len());
    assert!(tried > 40, "{tried}");
    assert!(wrong.is_empty(), "{} of {tried} are wrong: {wrong:#?}", wrong.len());
}

/// The law of every word: one that is misspelt (its last letter twice) or renamed leaves the step as it is, or is
/// listed, or stops the import; one with dashes instead of underscores is the same word to a shell.
#[test]
fn words_of_other_names_are_never_dropped_in_silence() {
    let (mut words, mut tried, mut dropped) = (0, 0, Vec::new());
    for (name, format, text, beside) in samples() {
        let Ok(whole) = import(&format, &text, &name, &beside) else { continue };
        for taken in whole.of(Status::Taken) {
            let word = taken.name.rsplit('.').next().unwrap_or_default();
            let last: String = word.chars().last().into_iter().collect();
            for more in [last.as_str(), "_of_mine"] {
                words += 1;
                if words % 15 > 0 && !slow() {
                    continue;
                }
                let spelled = [word.to_string(), word.replace('_', "-")];
                let Some(wrong) = spelled.iter().find_map(|word| misspelt(&text, word, more)) else {
                    continue;
                };
                tried += 1;
                let Ok(made) = import(&format, &wrong, &name, &beside) else { continue };
                let told = format!("{word}{more}").replace('-', "_");
                let listed = [Status::Unknown, Status::Matters]
                    .iter()
                    .any(|status| made.of(*status).any(|a| a.name.replace('-', "_").contains(&told)));
                if !listed && made.workload != whole.workload {
                    dropped.push(format!("{name}: {}{more}", taken.name));
                }
            }
        }
    }
    println!("{tried} words of {} files", samples().len());
    assert!(tried > 65, "{tried}");
    assert!(dropped.is_empty(), "{} of {tried} are dropped: {dropped:#?}", dropped.len());
}

/// The law of the reader: without a name that is its own no software takes a file, whatever others the file has.
#[test]
fn names_that_many_have_make_no_reader() {
    const MANY: &str = "model batch_size micro_batch_size num_layers hidden_size num_attention_heads seq_length lr \
        optimizer.lr train.steps data.path output_dir bf16 gradient_accumulation_steps seed dtype";
    let mut tried = 0;
    for table in FormatTable::all().values().filter(|table| !table.own.is_empty()) {
        let is_plain = |mark: &&String| !mark.starts_with(['@', '=']) && !table.own.contains(mark);
        let plain = table.marks.iter().filter(is_plain).map(|mark| mark.replace('*', "x"));
        let names: Vec<String> = plain.chain(MANY.split_whitespace().map(str::to_string)).collect();
        for draw in 0..20 {
            let drawn = names.iter().enumerate().filter(|(i, _)| (i * 7 + draw * 5) % 20 < 4 + draw);
            let drawn: Vec<&String> = drawn.map(|(_, name)| name).collect();
            let yaml: String = drawn.iter().map(|name| format!("{name}: 8\n")).collect();
            let words: String = drawn.iter().map(|name| format!(" --{name} 8")).collect();
            for text in [yaml, format!("torchrun train.py{words}\n")] {
                let taken = recognise(text.as_bytes());
                assert!(!matches!(taken, Some(FileKind::Arguments(_))), "{taken:?} takes\n{text}");
                tried += 1;
            }
        }
    }
    assert!(tried > 800, "{tried}");
}

/// One run spelt as a command line, as YAML and as JSON is one step.
#[test]
fn a_command_line_and_a_file_of_the_same_words_are_one_step() {
    let mut tried = BTreeMap::new();
    for (name, format, text, beside) in samples() {
        let program = match format.as_str() {
            "llama-factory" => "llamafactory-cli train",
            "hf-trainer" => "torchrun train.py",
            "ms-swift" if text.contains("megatron sft") => continue,
            "ms-swift" => "swift sft",
            "axolotl" => "axolotl train run.yaml",
            _ => continue,
        };
        let Ok(whole) = import(&format, &text, &name, &beside) else { continue };
        let table = FormatTable::load(&format).unwrap();
        let Ok(said) = syntax::read(&table.syntax, &text, &Invocation::of(&name)) else { continue };
        let is_flat =
            |(name, value): &(String, Value)| !name.contains('.') && !value.is_array() && !value.is_null();
        let is_other =
            |(name, _): &(String, Value)| name.starts_with("script.") || name.starts_with("environment.");
        let is_idle = |(name, _): &(String, Value)| table.rule(name).is_none_or(|rule| rule.no_effect);
        let kept = |pair: &(String, Value)| !is_other(pair) && (is_flat(pair) || !is_idle(pair));
        let said: Vec<(String, Value)> = said.arguments.into_iter().filter(kept).collect();
        // A file that a script writes is part of no other spelling.
        if !said.iter().all(is_flat) || text.contains("deepspeed ") || text.contains("<<") {
            continue;
        }
        let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let words: String = said.iter().map(|(key, value)| format!(" --{key} '{}'", plain(value))).collect();
        let json = Value::Object(said.iter().cloned().collect()).to_string();
        let yaml: String = said.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
        let folder = Folder::new();
        folder.write("run.yaml", "strict: false\n");
        let line = format!("{program}{words}\n");
        let of_line = configuration(&line, &folder.path("run.sh").display().to_string(), None);
        let spelt = of_line.into_iter().map(|(.., text)| text).chain([line, yaml, json]);
        for spelling in spelt
            .filter(|text| recognise(text.as_bytes()).and_then(FileKind::import) == Some(format.as_str()))
        {
            let made = import(&format, &spelling, &name, &beside)
                .unwrap_or_else(|e| panic!("{name}: {e}\n{spelling}"));
            assert_eq!(made.workload, whole.workload, "{spelling}");
            *tried.entry(format.clone()).or_insert(0) += 1;
        }
    }
    let few = |format: &str| tried.get(format).is_none_or(|n| *n < 2);
    assert!(!["llama-factory", "hf-trainer", "ms-swift", "axolotl"].into_iter().any(few), "{tried:?}");
}

/// What is written loads as what was made, and as itself after that.
#[test]
fn imports_go_round() {
    for (Case { file, .. }, made) in cases() {
        let load = |value: Value| {
            from_value::<WorkloadSpec>(value, "w".into(), "w.json".into(), &[])
                .unwrap_or_else(|e| panic!("{file}: {e}"))
        };
        let once = load(serde_json::from_str(&made.workload.to_string()).unwrap());
        let again = load(serde_json::to_value(&once.value).unwrap());
        assert_eq!(once.value, again.value, "{file}");
        assert_eq!(once.hash, again.hash, "{file}");
    }
}

/// A script that takes its sizes from the line that runs it.
#[test]
fn a_script_is_played_as_the_line_that_runs_it_says() {
    let text = std::fs::read_to_string(file("megatron-sized.sh")).unwrap();
    let of = |typed: &str| import("megatron", &text, typed, &Beside::default());
    let made = of("SEQ_LEN=8192 SLURM_NNODES=16 bash x.sh 1B 2 512 1 4 full").unwrap();
    let fields = json!({
        "/model/layers": 16, "/sequence": 8192, "/parallelism/data": 32, "/recompute/granularity": "full",
    });
    holds(&made, &fields, "1B");
    // Variables may be set before the line where the script takes them from its own words.
    let open = of("SIZE=1B TP=1 PP=1 x.sh").unwrap_err().to_string();
    assert!(open.contains("GLOBAL_BATCH (--global-batch-size)") && !open.contains("SIZE ("), "{open}");
    let error = of("x.sh").unwrap_err().to_string();
    for says in [
        "hangs on what nothing sets",
        "SIZE (1B or 8B)",
        "GLOBAL_BATCH (--global-batch-size)",
        "'SIZE=... x.sh ...'",
    ] {
        assert!(error.contains(says), "{error}");
    }
    assert!(!error.contains("LAYERS (") && !error.contains("EXTRA_OPTIONS"), "{error}");
}

/// What `nvidia-smi topo -m`, `rocm-smi --showtopo` and NCCL's topology file say of a node becomes a machine: switches,
/// meshes, pairs, trays that meet in the switches of their rack; or it is said what is missing.
#[test]
fn what_tools_say_of_a_node_becomes_a_machine() {
    use stepsim::bring::nvidia_smi::{NodeRates, machine};
    let cases: Vec<Value> = serde_json::from_str(include_str!("data/nodes.json")).unwrap();
    for case in cases {
        let of = |field: &str| case[field].as_str();
        let (text, device) = (of("text").unwrap(), of("device").unwrap());
        let (nodes, nvlink_gbps) = (case["nodes"].as_u64().unwrap() as u32, case["nvlink"].as_f64());
        let rates = NodeRates { nvlink_gbps, pcie_gbps: 20.0, nic_gbps: 50.0, nodes };
        let made = machine(text, "topo.txt", device, &rates);
        if let Some(says) = of("says") {
            let error = made.unwrap_err().to_string();
            assert!(error.contains("topo.txt") && error.contains(says), "{says}: {error}");
            continue;
        }
        let (made, assumed) = made.unwrap_or_else(|e| panic!("{e}: {text}"));
        let marked = text.starts_with(['=', '<']);
        assert!(!marked || recognise(text.as_bytes()) == Some(FileKind::NvidiaSmi), "{text}");
        for (pointer, value) in case["fields"].as_object().into_iter().flatten() {
            assert_eq!(made.pointer(pointer).unwrap_or(&Value::Null), value, "{device} {pointer}: {made}");
        }
        let count = |list: &str, is: &dyn Fn(&Value) -> bool| {
            made["graph"][list].as_array().map_or(0, |list| list.iter().filter(|one| is(one)).count())
        };
        for (gbps, links) in case["links"].as_object().into_iter().flatten() {
            let rate = json!(gbps.parse::<f64>().unwrap());
            let has_rate = |link: &Value| link["link"]["bandwidth_GBps_per_direction"] == rate;
            assert_eq!(json!(count("links", &has_rate)), *links, "{device}: {made}");
        }
        for (kind, vertices) in case["vertices"].as_object().into_iter().flatten() {
            assert_eq!(
                json!(count("vertices", &|vertex| vertex["kind"] == *kind)),
                *vertices,
                "{kind}: {made}"
            );
        }
        let says = of("assumed").unwrap_or_default();
        assert!(says.is_empty() || assumed.iter().any(|what| what.contains(says)), "{says}: {assumed:?}");
        let loaded = from_value::<stepsim::spec::Topology>(made, "machine".into(), "topo.txt".into(), &[]);
        stepsim::fabric::topology::Machine::build(&loaded.unwrap_or_else(|e| panic!("{e}")).value).unwrap();
    }
    let folder = crate::command::Folder::new();
    let from = file("nvidia-smi-hgx-h100.txt").display().to_string();
    folder.stepsim(&format!("import nvidia-smi {from} --device h100-sxm --nodes 2 -o machine.json")).ok();
    folder.stepsim("inspect -t ./machine.json").ok();
}

/// Whose file it is, is told by its content; the table of another is refused by name, with a command that works.
#[test]
fn files_are_recognised_by_their_content() {
    let mut seen = 0;
    for entry in std::fs::read_dir(file("")).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let formats = FormatTable::all().keys().copied().filter(|format| name.starts_with(format));
        let Some(format) = formats.max_by_key(|format| format.len()) else { continue };
        let text = std::fs::read_to_string(entry.path()).unwrap();
        assert_eq!(recognise(text.as_bytes()), Some(FileKind::Arguments(format)), "{name}");
        let other = if format == "torchtitan" { "maxtext" } else { "torchtitan" };
        let error = import(other, &text, &name, &Beside::default()).unwrap_err().to_string();
        let words = FileKind::Arguments(format).words();
        assert!(
            error.contains(words) && error.contains(&format!("stepsim import {name}")),
            "{name}: {error}"
        );
        seen += 1;
    }
    assert!(seen > 10, "{seen}");
    let kinds: [(&[u8], Option<FileKind>); 7] = [
        (br#"{"model_type": "llama", "hidden_size": 64}"#, Some(FileKind::HuggingFace)),
        (br#"{"model": "llama3-8b", "batch": {"global": 8}}"#, Some(FileKind::Workload)),
        (br#"{"name": "m", "layers": 2, "hidden": 64}"#, Some(FileKind::Model)),
        (br#"{"device": "h100-sxm", "node": {"devices": 8}}"#, Some(FileKind::Machine)),
        (br#"{"schemaVersion": 1, "traceEvents": []}"#, Some(FileKind::Kineto)),
        (b"[project]\nname = \"x\"\n", None),
        (b"to be or not to be", None),
    ];
    for (bytes, kind) in kinds {
        assert_eq!(recognise(bytes), kind, "{}", String::from_utf8_lossy(bytes));
    }
}

/// A table of architectures with an entry that cannot be read ends with file and place: no model is made without it.
#[test]
fn a_broken_architecture_is_named_with_its_place() {
    const TABLE: &str = "workloads/imports/hugging-face.json";
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("workloads/imports")).expect("a folder");
    let mut table = command::json(TABLE);
    table["architectures"]["apertus"]["heeds"] = json!([1]);
    folder.write(TABLE, table.to_string());
    folder.write("config.json", r#"{"model_type": "llama"}"#);
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepsim"));
    command.args(["import", "hf", "config.json"]).current_dir(folder.path("")).env(FOLDER, folder.path(""));
    let done = command.output().expect("a run");
    let error = String::from_utf8_lossy(&done.stderr);
    let place = format!("{TABLE}: architectures.apertus.heeds[0]");
    assert!(!done.status.success() && error.contains(&place), "{error}");
}

/// Where a number of a file counts, a word in its place is refused, named, or stays for the workload's own check: no
/// default takes its place.
#[test]
fn no_number_that_cannot_be_read_becomes_a_default() {
    let (mut counting, mut lost) = (0, Vec::new());
    for (name, format, text, beside) in samples() {
        let imported = |text: &str| import(&format, text, &name, &beside).ok();
        let Some(as_it_is) = imported(&text) else { continue };
        for (at, digits) in numbers(&text) {
            let with = |word: &str| imported(&format!("{}{word}{}", &text[..at], &text[at + digits..]));
            let twice = text[at..at + digits].parse::<u64>().unwrap_or(0).saturating_mul(2).to_string();
            let counts = with(&twice).is_some_and(|other| other.workload != as_it_is.workload);
            let line = text[..at + digits].lines().last().unwrap_or_default();
            // A job's own words for nodes may be ranges.
            let counts = counts && !line.starts_with("#SBATCH");
            let Some(unread) = with("qqq").filter(|_| counts) else { continue };
            counting += 1;
            let doubts = |made: &Import| made.of(Status::Matters).count() + made.of(Status::Unknown).count();
            if !unread.workload.to_string().contains("qqq") && doubts(&unread) == doubts(&as_it_is) {
                lost.push(format!("{name}: {line}"));
            }
        }
    }
    assert!(counting > 20, "{counting} numbers are read although they are none");
    assert!(lost.is_empty(), "{lost:#?}");
}

/// The places of whole numbers that stand by themselves, and how long each is.
fn numbers(text: &str) -> Vec<(usize, usize)> {
    let ends = |c: Option<char>| c.is_none_or(|c| c.is_whitespace() || "=:'\",[](){}".contains(c));
    let mut found = Vec::new();
    for (at, _) in text.match_indices(|c: char| c.is_ascii_digit()) {
        let digits = text[at..].bytes().take_while(u8::is_ascii_digit).count();
        if ends(text[..at].chars().last()) && ends(text[at + digits..].chars().next()) {
            found.push((at, digits));
        }
    }
    found
}
