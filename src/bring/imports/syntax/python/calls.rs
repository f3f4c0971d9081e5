//! A script that trains with transformers' Trainer or TRL: the keywords of the constructors that it calls, as the
//! arguments that a command line would have. Nothing is executed; of a name that is set twice the last value counts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::said::{Open, TextStatements};
use super::expression::{PythonExpression, expression, is_unknown};
use super::module::{Entries, Library, Module};
use super::player::{Scope, assignment, function, single};
use super::tokens::{PythonLine, PythonToken, lines};
use stepsim_spec::SpecError;

/// Packages whose constructors are read.
const PACKAGES: [&str; 4] = ["transformers", "trl", "peft", "unsloth"];
/// Before the keywords of adapters, whose names are short: `r`, `bias`.
const ADAPTER: &str = "lora_config";

/// Says that values are what a script takes where the line that runs it says nothing.
const DEFAULTS: &str = "script.defaults";
/// Parsers that give the fields of classes.
const PARSERS: [&str; 3] = ["parse_args_into_dataclasses", "parse_args_and_config", "parse_dict"];

/// Where the value begins in `model, tokenizer = load(...)`; 0 in other lines.
fn behind_names(tokens: &[PythonToken]) -> usize {
    let at = tokens.iter().position(|token| *token == PythonToken::Sign('='));
    let is_name = |token: &PythonToken| matches!(token, PythonToken::Name(_) | PythonToken::Sign(','));
    at.filter(|at| tokens[..*at].iter().all(is_name)).map_or(0, |at| at + 1)
}

/// The packages whose constructors are read and that a text imports, as marks: `@import_trl`.
pub(in super::super) fn packages(text: &str) -> impl Iterator<Item = String> {
    let package = |line: &str| {
        let rest = line.trim_start().strip_prefix("from ").or(line.trim_start().strip_prefix("import "))?;
        PACKAGES.iter().find(|package| rest.starts_with(*package)).map(|package| format!("@import_{package}"))
    };
    text.lines().filter_map(package)
}

/// True if a text imports such a package and calls a trainer or its arguments.
pub(in super::super) fn looks_like(text: &str) -> bool {
    (text.contains("Trainer(") || text.contains("TrainingArguments(")) && packages(text).next().is_some()
}

/// The keywords of all constructors of a text, and what the script leaves open.
///
/// # Errors
/// The text does too much to be followed.
pub(in super::super) fn read(text: &str) -> Result<TextStatements, SpecError> {
    let (library, module) = (Library::default(), Module::default());
    let mut reader = Reader {
        library: &library,
        trained: false,
        scope: Scope::new(&library, &module, BTreeMap::new(), 0),
        flags: Vec::new(),
        class: None,
        nones: BTreeSet::new(),
        fields: Entries::new(),
        said: TextStatements::default(),
    };
    for line in lines(text).iter().take_while(|_| !library.is_spent()) {
        if reader.trained {
            break;
        }
        reader.line(line);
    }
    library.check().map(|()| reader.said)
}

struct Reader<'a> {
    library: &'a Library,
    /// True behind the call that trains: what is loaded then is used.
    trained: bool,
    scope: Scope<'a>,
    /// Options of an argument parser with what they are unasked.
    flags: Vec<(String, Value)>,
    /// The class whose body is read, and its depth.
    class: Option<(String, usize)>,
    /// Variables that are `None`.
    nones: BTreeSet<String>,
    /// Fields of all classes with what they are unasked.
    fields: Entries,
    said: TextStatements,
}

impl Reader<'_> {
    /// `batch: int = field(default=4)` of a class: what its parser or its constructor gives unasked.
    fn field(&mut self, class: &str, target: &str, value: &PythonExpression) {
        let usual = match value {
            PythonExpression::Call { path, arguments } if path.ends_with("ield") => {
                let usual = arguments.iter().find(|(name, _)| name.as_deref() == Some("default"));
                usual.map_or(&PythonExpression::Value(Value::Null), |(_, usual)| usual)
            }
            value => value,
        };
        let entries = self.value(usual);
        self.fields.retain(|(name, _)| name != target);
        self.fields.extend(single(entries.clone()).map(|value| (target.to_string(), value)));
        self.scope.put(&format!("{class}.{target}"), entries);
    }

    /// `a, b = parser.parse_args_into_dataclasses()`: each may have any field.
    fn parsed(&mut self, line: &PythonLine) -> bool {
        let name = |token: &PythonToken| match token {
            PythonToken::Name(name) => Some(name.clone()),
            _ => None,
        };
        let names: Vec<String> = line.tokens.iter().filter_map(name).collect();
        let Some(at) = line.tokens.iter().position(|token| *token == PythonToken::Sign('=')) else {
            return false;
        };
        if !names.iter().any(|name| PARSERS.contains(&name.as_str())) {
            return false;
        }
        if !self.fields.is_empty() {
            self.put(DEFAULTS, "its classes' own".into());
        }
        for (name, value) in self.fields.clone() {
            if !value.is_null() && !is_unknown(&value) {
                self.put(&name, value);
            }
        }
        let targets: Vec<String> = line.tokens[..at].iter().filter_map(name).collect();
        targets.iter().for_each(|target| self.scope.put(target, self.fields.clone()));
        true
    }

    fn line(&mut self, line: &PythonLine) {
        self.class = self.class.take().filter(|(_, indent)| line.indent > *indent);
        if let [PythonToken::Name(word), PythonToken::Name(name), ..] = line.tokens.as_slice()
            && word == "class"
        {
            self.class = Some((name.clone(), line.indent));
            return;
        }
        if let (Some((class, _)), Some((target, value))) = (self.class.clone(), assignment(&line.tokens))
            && !target.contains('.')
        {
            return self.field(&class, &target, &value);
        }
        if self.parsed(line) {
            return;
        }
        if let Some(function) = function(line) {
            self.class = None;
            for (name, usual) in function.parameters {
                if let Some(usual) = usual {
                    self.scope.put(&name, self.scope.entries(&usual));
                }
            }
            return;
        }
        let returns = matches!(line.tokens.first(), Some(PythonToken::Name(word)) if word == "return");
        let (target, value) = match assignment(&line.tokens) {
            Some((target, value)) => (Some(target), value),
            None => (
                None,
                expression(&line.tokens[usize::max(usize::from(returns), behind_names(&line.tokens))..]),
            ),
        };
        self.calls(&value);
        let Some(target) = target else { return };
        match value == PythonExpression::Value(Value::Null) {
            true => drop(self.nones.insert(target.clone())),
            false => drop(self.nones.remove(&target)),
        }
        let is_parsed = matches!(&value, PythonExpression::Call { path, .. } if path.ends_with("parse_args"));
        let entries = if is_parsed { self.flags.clone() } else { self.value(&value) };
        self.scope.put(&target, entries);
    }

    /// Takes up the calls in an expression, the inner ones first.
    fn calls(&mut self, value: &PythonExpression) {
        let PythonExpression::Call { path, arguments } = value else { return };
        arguments.iter().for_each(|(_, value)| self.calls(value));
        let (of, name) = path.rsplit_once('.').unwrap_or(("", path));
        match name {
            "train" if of.to_lowercase().contains("trainer") => self.trained = true,
            "add_argument" => self.flag(arguments),
            "gradient_checkpointing_enable" => self.put("gradient_checkpointing", true.into()),
            "get_peft_model" | "LoraConfig" => {
                self.put("use_peft", true.into());
                self.keywords(name, ADAPTER, arguments);
            }
            "from_pretrained" if ["Model", "LM", "For"].iter().any(|part| of.contains(part)) => {
                if let Some((None, model)) = arguments.first() {
                    self.keyword("model_name_or_path", model);
                }
                if of.starts_with("Fast") {
                    self.put("unsloth", true.into());
                }
                self.keywords(name, "", arguments);
            }
            _ if name.ends_with("Config")
                || name.ends_with("TrainingArguments")
                || name.ends_with("Trainer") =>
            {
                self.keywords(name, "", arguments);
            }
            _ => {}
        }
    }

    /// `parser.add_argument("--batch_size", default=4)`.
    fn flag(&mut self, arguments: &[(Option<String>, PythonExpression)]) {
        let Some((None, PythonExpression::Value(Value::String(name)))) = arguments.first() else { return };
        let usual = arguments.iter().find(|(name, _)| name.as_deref() == Some("default"));
        if let Some(value) = usual.and_then(|(_, usual)| single(self.scope.entries(usual))) {
            self.flags.push((name.trim_start_matches('-').replace('-', "_"), value));
        }
    }

    /// The keywords of a call; what it takes from a map (`**values`) is told by the call's name.
    fn keywords(&mut self, call: &str, section: &str, arguments: &[(Option<String>, PythonExpression)]) {
        for (name, value) in arguments {
            match (name, value) {
                (Some(name), value) if section.is_empty() => self.keyword(name, value),
                (Some(name), value) => self.keyword(&format!("{section}.{name}"), value),
                (None, PythonExpression::Other) => self.put(&format!("{call}(**)"), "a map".into()),
                (None, _) => {}
            }
        }
    }

    fn keyword(&mut self, name: &str, value: &PythonExpression) {
        let found = single(self.value(value)).filter(|value| !value.is_null() && !is_unknown(value));
        match (found, value) {
            (Some(Value::String(text)), _) if text.contains('{') => self.open(name, &text),
            (Some(found), _) => self.put(name, found),
            (None, PythonExpression::Path(path)) if self.is_none(path) => {}
            // A model that is an object was made by a call of its own.
            (None, PythonExpression::Path(_)) if name == "model" => {}
            (None, PythonExpression::Path(path) | PythonExpression::Call { path, .. }) => {
                self.open(name, path)
            }
            (None, PythonExpression::Other | PythonExpression::Sum(..)) => self.open(name, "an expression"),
            (None, _) => {}
        }
    }

    /// True for a variable that is `None`, or a part of a parsed class that is so unasked.
    fn is_none(&self, path: &str) -> bool {
        if self.nones.contains(path) {
            return true;
        }
        let last = path.rsplit_once('.').map(|(_, last)| last);
        last.is_some_and(|last| self.fields.iter().any(|(name, value)| name == last && value.is_null()))
    }

    /// The value of an expression; nothing is known of the result of a function, but of a question about the device.
    fn value(&self, value: &PythonExpression) -> Entries {
        let PythonExpression::Call { path, .. } = value else { return self.scope.entries(value) };
        match path.rsplit('.').next().unwrap_or_default() {
            "is_bf16_supported" | "is_bfloat16_supported" => vec![(String::new(), true.into())],
            "int" | "float" | "str" | "dict" => self.scope.entries(value),
            "getenv" | "get" if path.contains("env") => self.scope.entries(value),
            name if name.starts_with(|c: char| c.is_lowercase()) => vec![(String::new(), Value::Null)],
            _ => self.scope.entries(value),
        }
    }

    fn open(&mut self, name: &str, variable: &str) {
        let (variable, arguments) = (variable.to_string(), vec![name.to_string()]);
        self.said.open.push(Open { is_variable: true, variable, arguments, choices: Vec::new() });
    }

    fn put(&mut self, name: &str, value: Value) {
        if !self.library.spends(self.said.arguments.len() + self.said.open.len()) {
            return;
        }
        self.said.arguments.retain(|(other, _)| other != name);
        self.said.open.retain(|open| open.arguments.iter().all(|other| other != name));
        self.said.arguments.push((name.to_string(), value));
    }
}
