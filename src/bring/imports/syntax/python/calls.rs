//! A script that trains with transformers' Trainer or TRL: the keywords of the constructors that it calls, as the
//! arguments that a command line would have. Nothing is executed; of a name that is set twice the last value counts.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::said::{Open, TextStatements};
use super::expression::{PythonExpression, expression};
use super::module::{Entries, Library, Module};
use super::player::{Scope, assignment, function, single};
use super::tokens::{PythonLine, PythonToken, lines};
use stepsim_spec::SpecError;

/// Packages whose constructors are read.
const PACKAGES: [&str; 4] = ["transformers", "trl", "peft", "unsloth"];
/// Before the keywords of adapters, whose names are short: `r`, `bias`.
const ADAPTER: &str = "lora_config";

/// True if a text imports such a package and calls a trainer or its arguments.
pub(in super::super) fn looks_like(text: &str) -> bool {
    let imports = |line: &str| {
        let package = line.trim_start().strip_prefix("from ").or(line.trim_start().strip_prefix("import "));
        package.is_some_and(|rest| PACKAGES.iter().any(|package| rest.starts_with(package)))
    };
    (text.contains("Trainer(") || text.contains("TrainingArguments(")) && text.lines().any(imports)
}

/// The keywords of all constructors of a text, and what the script leaves open.
///
/// # Errors
/// The text does too much to be followed.
pub(in super::super) fn read(text: &str) -> Result<TextStatements, SpecError> {
    let (library, module) = (Library::default(), Module::default());
    let mut reader = Reader {
        library: &library,
        scope: Scope::new(&library, &module, BTreeMap::new(), 0),
        flags: Vec::new(),
        said: TextStatements::default(),
    };
    for line in lines(text).iter().take_while(|_| !library.is_spent()) {
        reader.line(line);
    }
    library.check().map(|()| reader.said)
}

struct Reader<'a> {
    library: &'a Library,
    scope: Scope<'a>,
    /// Options of an argument parser with what they are unasked.
    flags: Vec<(String, Value)>,
    said: TextStatements,
}

impl Reader<'_> {
    fn line(&mut self, line: &PythonLine) {
        if let Some(function) = function(line) {
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
            None => (None, expression(&line.tokens[usize::from(returns)..])),
        };
        self.calls(&value);
        let Some(target) = target else { return };
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
            "add_argument" => self.flag(arguments),
            "gradient_checkpointing_enable" => self.put("gradient_checkpointing", true.into()),
            "get_peft_model" | "LoraConfig" => {
                self.put("use_peft", true.into());
                self.keywords(name, ADAPTER, arguments);
            }
            "from_pretrained" if of.contains("Model") || of.contains("LM") => {
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
        let found = single(self.value(value)).filter(|value| !value.is_null());
        match (found, value) {
            (Some(Value::String(text)), _) if text.contains('{') => self.open(name, &text),
            (Some(found), _) => self.put(name, found),
            // A model that is an object was made by a call of its own.
            (None, PythonExpression::Path(_)) if name == "model" => {}
            (None, PythonExpression::Path(path) | PythonExpression::Call { path, .. }) => {
                self.open(name, path)
            }
            (None, PythonExpression::Other | PythonExpression::Sum(..)) => self.open(name, "an expression"),
            (None, _) => {}
        }
    }

    /// The value of an expression; nothing is known of the result of a function, but of a question about the device.
    fn value(&self, value: &PythonExpression) -> Entries {
        let PythonExpression::Call { path, .. } = value else { return self.scope.entries(value) };
        match path.rsplit('.').next().unwrap_or_default() {
            "is_bf16_supported" | "is_bfloat16_supported" => vec![(String::new(), true.into())],
            "int" | "float" | "str" | "dict" => self.scope.entries(value),
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
