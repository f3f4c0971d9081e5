//! The meaning of arguments: tables as data.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::syntax::Syntax;
use stepsim_spec::glob::fits;
use stepsim_spec::json::{self, whole};
use stepsim_spec::{SpecError, catalog};

/// The table of a format. Files: `workloads/imports/NAME.json`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FormatTable {
    /// Its subject, one sentence.
    pub description: String,
    /// One of its files, in the words of messages and help.
    pub words: String,
    /// Where the arguments are documented.
    #[serde(default)]
    #[serde(rename = "source")]
    _source: String,
    /// Tables whose arguments mean the same here, the first before the second.
    #[serde(default)]
    base: Vec<String>,
    /// Those tables and the ones that they lie over.
    #[serde(skip)]
    pub bases: Vec<String>,
    /// How arguments are written: the first that a text looks like.
    pub syntax: Vec<Syntax>,
    /// Names that files of this software have and others do not: by them a file is recognised. `@` stands before a
    /// program or script that a line of a shell runs.
    #[serde(default)]
    pub marks: Vec<String>,
    /// Those of them that only this software's files have, of which a file has at least one; empty: all.
    #[serde(default)]
    pub own: Vec<String>,
    /// How many marks a file has at least.
    #[serde(default)]
    pub least_marks: usize,
    /// How many marks of its own a script has at least that starts no program of this software.
    #[serde(default)]
    pub least_own: usize,
    /// Tables some of whose marks its files have, too: they give way.
    #[serde(default)]
    pub before: Vec<String>,
    /// Marks of a file that trains, which has at least one; empty: all files of this software train.
    #[serde(default)]
    pub trains: Vec<String>,
    /// Marks of files that are no language model's training, and why.
    #[serde(default)]
    pub refuses: BTreeMap<String, String>,
    /// The consequences of a mark in a text, mostly a program: a piece of a workload, or quantities.
    #[serde(default)]
    pub follows: BTreeMap<String, Map<String, Value>>,
    /// Programs by their marks, with the file of the software that says what their line leaves out: opened where it is
    /// beside.
    #[serde(default)]
    pub configurations: BTreeMap<String, String>,
    /// Heads of nested names that may be left out: `model` of `model.num_layers`.
    #[serde(default)]
    sections: Vec<String>,
    /// The software's defaults: a piece of a workload.
    #[serde(default)]
    pub workload: Map<String, Value>,
    /// Other releases of the stack in `workload`: files do not say which one runs them.
    #[serde(default)]
    pub releases: Vec<String>,
    /// Stacks of this software; `*` stands for anything.
    #[serde(default)]
    stacks: Vec<String>,
    /// Arguments that its users give nearly always, for a run whose model alone is known.
    #[serde(default)]
    pub usual: Map<String, Value>,
    /// Devices, as this software counts them, of one that is called so, where a chip holds several.
    #[serde(default)]
    pub devices_a_chip: BTreeMap<String, u64>,
    /// Quantities that hold where a file does not say them.
    #[serde(default)]
    pub quantities: BTreeMap<String, Value>,
    /// Where samples may be shorter than the sequence.
    #[serde(default)]
    pub(super) short: Option<Short>,
    /// Where a file of names and values leaves to its launcher's configuration how weights are cut.
    #[serde(default)]
    pub(super) launcher: Option<Short>,
    /// Fields whose defaults other releases have otherwise, and how: in doubt where a file does not say them.
    #[serde(default)]
    pub otherwise: BTreeMap<String, String>,
    /// The defaults of a model's parts, where a file has such a part.
    #[serde(default)]
    pub parts: Map<String, Value>,
    /// Names (dashes as underscores, lower case; `*` stands for anything) and their meaning.
    arguments: BTreeMap<String, Written>,
    /// Values of a quantity → fields: `$model_name $model_flavor` → a shipped model.
    #[serde(default)]
    pub(super) lookups: Vec<JointRule>,
}

/// Holds unless a file has one of these words, or one of them at a value (`stage=pt`): that samples have lengths of
/// their own and the sequence is the longest.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Short {
    /// Names, `name=value`, or `@` and a program that a text names.
    pub unless: Vec<String>,
    /// The meaning of the sequence then.
    why: String,
    /// Fields that are open then.
    #[serde(default)]
    pub open: BTreeMap<String, Vec<Value>>,
}

impl Short {
    /// Why the sequence is only the longest sample of a file with these words; `None` where samples fill it.
    pub fn why<'a>(&self, mut said: impl Iterator<Item = (&'a str, &'a Value)>) -> Option<&str> {
        let fills = |name: &str, value: &Value, word: &str| match word.split_once('=') {
            Some((word, at)) => fits(word, name) && fits(at, &words(value)),
            None => fits(word, name) && truth(value),
        };
        let filled = said.any(|(name, value)| self.unless.iter().any(|word| fills(name, value, word)));
        (!filled).then_some(self.why.as_str())
    }
}

/// A rule as tables write it: a path alone, or all of it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Written {
    /// The field, or quantity with `$`, that takes the value.
    Path(String),
    /// More than that.
    Rule(Box<ArgumentRule>),
}

impl Written {
    fn rule(&self) -> ArgumentRule {
        match self {
            Written::Path(to) => ArgumentRule { to: Some(to.clone()), ..ArgumentRule::default() },
            Written::Rule(rule) => (**rule).clone(),
        }
    }
}

/// The meaning of an argument.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ArgumentRule {
    /// The field, or quantity with `$`, that takes its value.
    to: Option<String>,
    /// Its value is multiplied by this first.
    times: Option<f64>,
    /// Its value is a list of these words; each stands for these values of the list at `to`.
    each: BTreeMap<String, Vec<Value>>,
    /// The consequences where it is true, a number other than zero, or given at all; beside `to`, in addition.
    on: Option<Map<String, Value>>,
    /// The consequences where it is false or zero.
    off: Option<Map<String, Value>>,
    /// The consequences by value; `*` in a value stands for anything.
    values: BTreeMap<String, Map<String, Value>>,
    /// It does not change the time or memory of a step.
    pub no_effect: bool,
    /// It changes the sizes of the model, and nothing is planned without it.
    pub size: bool,
    /// Its value is taken, and is only a limit of what happens: why says of what.
    pub at_most: bool,
    /// Fields that it leaves open where it is on, each with what they may be beside the usual: a range covers that.
    pub open: BTreeMap<String, Vec<Value>>,
    /// Its value may be the name of a file, and what follows from a name is assumed.
    pub of_file: bool,
    /// Its value names a file (or a list of them) of further arguments, and this stands before their names.
    pub opens: Option<String>,
    /// Why it has no counterpart, and what that means.
    pub why: String,
}

/// Fields that follow from quantities together.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JointRule {
    /// Their names, without `$`.
    pub of: Vec<String>,
    /// Their values with a space between → fields.
    pub values: BTreeMap<String, Map<String, Value>>,
}

impl FormatTable {
    /// The table of a format, laid over its base.
    pub fn load(format: &str) -> Result<FormatTable, SpecError> {
        let file = format!("workloads/imports/{format}.json");
        let text = catalog::file(&file).ok_or_else(|| {
            let names: Vec<&str> = FormatTable::all().keys().copied().collect();
            SpecError::file(format, "is no format that can be imported").allowed(names.join(", "))
        })?;
        let read = json::read(&file, text)?;
        let mut table: FormatTable = json::typed(&read).map_err(|e| e.in_file(&file))?;
        for name in std::mem::take(&mut table.base) {
            let base = FormatTable::load(&name)?;
            under(&mut table.arguments, base.arguments);
            under(&mut table.refuses, base.refuses);
            under(&mut table.follows, base.follows);
            for (own, base) in [(&mut table.workload, base.workload), (&mut table.parts, base.parts)] {
                for (key, value) in base {
                    own.entry(key).or_insert(value);
                }
            }
            table.short = table.short.or(base.short);
            if table.releases.is_empty() {
                table.releases = base.releases;
            }
            table.lookups.splice(0..0, base.lookups);
            table.bases.extend(base.bases);
            table.bases.push(name);
        }
        Ok(table)
    }

    /// Every table by its format, read once: the files of the folder that say how arguments are written.
    pub fn all() -> &'static BTreeMap<&'static str, FormatTable> {
        static TABLES: LazyLock<BTreeMap<&str, FormatTable>> = LazyLock::new(|| {
            let tables =
                catalog::folder("workloads/imports/").filter(|(_, text)| text.contains("\"syntax\":"));
            let load = |name| FormatTable::load(name).unwrap_or_else(|e| panic!("{e}"));
            tables.map(|(name, _)| (name, load(name))).collect()
        });
        &TABLES
    }

    /// One of a format's files, in words.
    pub fn words_of(format: &str) -> &str {
        FormatTable::all().get(format).map_or(format, |table| &table.words)
    }

    /// True if a stack is of this software.
    pub fn has_stack(&self, name: &str) -> bool {
        self.stacks.iter().any(|pattern| fits(pattern, name))
    }

    /// The meaning of an argument.
    pub fn rule(&self, name: &str) -> Option<ArgumentRule> {
        self.found(name).map(|(_, written)| written.rule())
    }

    /// True if an argument is known as harmless only since it stands in a section (`model.*`) that has other words,
    /// too, which change a step.
    pub fn sweeps(&self, name: &str) -> bool {
        let Some((pattern, written)) = self.found(name).filter(|(pattern, _)| pattern.ends_with(".*")) else {
            return false;
        };
        let section = pattern.trim_end_matches('*');
        let others = self.arguments.iter().filter(|(name, _)| name.starts_with(section));
        written.rule().no_effect && others.into_iter().any(|(_, other)| other.rule().changes_a_step())
    }

    /// The rule of an argument and its name: by its whole name, then without its sections; names with `*` last, the
    /// longest first.
    fn found(&self, name: &str) -> Option<(&str, &Written)> {
        let name = spelled(name);
        let mut names = vec![name.as_str()];
        names.extend(self.inside(&name));
        let exact = names.iter().find_map(|name| self.arguments.get_key_value(*name));
        let fitting =
            |pattern: &&String| pattern.contains('*') && names.iter().any(|name| fits(pattern, name));
        let by_pattern = || {
            let patterns = self.arguments.keys().filter(fitting);
            self.arguments.get_key_value(patterns.rev().max_by_key(|pattern| pattern.len())?)
        };
        exact.or_else(by_pattern).map(|(name, written)| (name.as_str(), written))
    }

    /// The name without each section that it stands in and that may be left out.
    fn inside<'a>(&self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.sections.iter().filter_map(move |section| name.strip_prefix(section.as_str())?.strip_prefix('.'))
    }

    /// The names of its arguments that stand for themselves.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.arguments.keys().map(String::as_str).filter(|name| !name.contains('*'))
    }

    /// The argument that changes a step and that a name is one letter off, or begins with; none where the table has the
    /// name itself.
    pub fn meant(&self, name: &str) -> Option<&str> {
        let name = spelled(name);
        let inside: Vec<&str> = self.inside(&name).collect();
        let said = if inside.is_empty() { vec![name.as_str()] } else { inside };
        if said.iter().chain([&name.as_str()]).any(|name| self.arguments.contains_key(*name)) {
            return None;
        }
        let changes = |known: &&str| match self.arguments.get(*known) {
            Some(Written::Rule(rule)) => !rule.no_effect,
            other => other.is_some(),
        };
        let longer =
            |name: &str, known: &str| name.strip_prefix(known).is_some_and(|rest| rest.starts_with('_'));
        let near = |name: &str, known: &str| one_letter_off(name, known) || longer(name, known);
        let is_near = |known: &&str| said.iter().any(|name| near(name, known));
        let mut candidates = self.names().filter(is_near).filter(changes).peekable();
        candidates.peek()?;
        // A pattern that says more of the name than a near word does knows it.
        let fitting =
            |pattern: &&String| pattern.contains('*') && said.iter().any(|name| fits(pattern, name));
        let known_to =
            self.arguments.keys().filter(fitting).map(|pattern| pattern.len() - 1).max().unwrap_or(0);
        candidates.find(|known| known.len() >= known_to)
    }

    /// The meaning of an argument of exactly this name, or of one whose last part it is.
    pub fn exact(&self, name: &str) -> Option<ArgumentRule> {
        let name = spelled(name);
        let last = |of: &&String| of.rsplit('.').next() == Some(&name);
        let key = self.arguments.get_key_value(&name).map(|(key, _)| key);
        let key = key.or_else(|| self.arguments.keys().find(last))?;
        self.arguments.get(key).map(Written::rule)
    }
}

/// A name as tables write it.
fn spelled(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

/// Takes up what a base has and its table has not.
fn under<V>(own: &mut BTreeMap<String, V>, base: BTreeMap<String, V>) {
    for (key, value) in base {
        own.entry(key).or_insert(value);
    }
}

/// Quantities that say how long a run is or what it is called, and change no step.
pub(super) const LENGTHS: [&str; 6] =
    ["$steps", "$samples", "$epochs", "$run_name", "$beside_words", "$tokenizer"];

impl ArgumentRule {
    /// True if nothing follows from any value of it.
    pub fn says_why_alone(&self) -> bool {
        !self.no_effect && self.targets().next().is_none() && self.on.is_none() && self.values.is_empty()
    }

    /// True if some value of it may change a step.
    pub fn changes_a_step(&self) -> bool {
        let mut targets = self.targets().peekable();
        !self.no_effect && (targets.peek().is_none() || targets.any(|to| !LENGTHS.contains(&to)))
    }

    /// All fields and quantities that it may set.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        let maps = self.on.iter().chain(&self.off).chain(self.values.values());
        self.to.iter().chain(maps.flat_map(Map::keys)).map(String::as_str)
    }

    /// True if any value has consequences, whatever it is.
    pub fn takes_any(&self) -> bool {
        self.values.contains_key("*")
    }

    /// The fields that a value sets; `None` where it has no counterpart.
    pub fn puts(&self, value: &Value) -> Option<Vec<(String, Value)>> {
        let all = |map: &Map<String, Value>| -> Vec<(String, Value)> {
            map.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
        };
        if !self.values.is_empty() {
            let text = words(value);
            let exact = self.values.get(&text);
            let by_pattern = || {
                self.values
                    .iter()
                    .filter(|(pattern, _)| pattern.contains('*') && fits(pattern, &text))
                    .max_by_key(|(pattern, _)| pattern.len())
                    .map(|found| found.1)
            };
            let found = exact.or_else(by_pattern).map(all);
            if found.is_some() || self.to.is_none() {
                return found;
            }
        }
        if let Some(to) = &self.to {
            let value = match (self.times, value.as_f64()) {
                (Some(times), Some(number)) => whole(number * times),
                (Some(_), None) => return None,
                _ if !self.each.is_empty() => self.list(value)?,
                _ => value.clone(),
            };
            let beside = self.on.iter().filter(|_| truth(&value)).flat_map(all);
            return Some(beside.chain([(to.clone(), value.clone())]).collect());
        }
        if self.on.is_none() && self.off.is_none() {
            return None;
        }
        match if truth(value) { &self.on } else { &self.off } {
            Some(map) => Some(all(map)),
            // Where only the other value is spoken of, this one is the usual, unless there is a word on it.
            None => self.why.is_empty().then(Vec::new),
        }
    }

    /// The values of a list's words; `None` where one is unknown.
    fn list(&self, value: &Value) -> Option<Value> {
        let mut list: Vec<Value> = Vec::new();
        for word in words(value).split([' ', ',', '+']).filter(|word| !word.is_empty()) {
            let new = self.each.get(word)?.iter().filter(|value| !list.contains(value));
            list.extend(new.cloned().collect::<Vec<Value>>());
        }
        Some(list.into())
    }
}

/// True if two words differ by a letter: another, one more, one less, or two that changed places.
fn one_letter_off(one: &str, other: &str) -> bool {
    if one.len().abs_diff(other.len()) > 1 {
        return false;
    }
    let head = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one.as_bytes()[head..], &other.as_bytes()[head..]);
    let tail = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    match (&one[..one.len() - tail], &other[..other.len() - tail]) {
        ([], [_]) | ([_], []) => true,
        // Figures and dots of a name count: stage2 is no stage3.
        ([a], [b]) => a.is_ascii_alphabetic() && b.is_ascii_alphabetic(),
        ([a, b], [c, d]) => a == d && b == c,
        _ => false,
    }
}

/// A value without the quotes of JSON.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A value as text in lower case; a list as its values with a space between.
fn words(value: &Value) -> String {
    let texts = match value {
        Value::Array(list) => list.iter().map(plain).collect::<Vec<String>>().join(" "),
        other => plain(other),
    };
    texts.to_ascii_lowercase()
}

/// True for a value that switches something on.
pub(super) fn truth(value: &Value) -> bool {
    match value {
        Value::Bool(b) => *b,
        Value::Number(n) => n.as_f64() != Some(0.0),
        Value::String(text) => {
            !matches!(text.to_ascii_lowercase().as_str(), "false" | "no" | "off" | "disabled")
        }
        Value::Array(list) => !list.is_empty(),
        Value::Null => false,
        Value::Object(map) => !map.is_empty(),
    }
}
