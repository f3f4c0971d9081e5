//! The configuration that a function of Python puts together, as paths and values. Nothing is executed: functions of
//! the same text, and of the recipes that it imports ([`Library`]), are followed where they are called. Where a
//! condition is known to hold or to fail only the right branch is taken; behind any other all branches are, in order.

use std::collections::BTreeMap;

use serde_json::Value;

use super::condition;
use super::expression::{PythonExpression, calculated, expression, is_unknown, unknown};
use super::module::{Entries, Function, Library, Module, imports};
use super::tokens::{PythonLine, PythonToken};

/// How deep functions may call one another.
const DEEPEST: usize = 16;
/// The most entries of a configuration.
const MOST: usize = 20_000;

/// The function of torchtitan's models that gives one of a size, and what the family is called then.
const REGISTRY: &str = "model_registry";
const PACKAGE: &str = "package";

/// The functions, constants and imports of a text.
pub(super) fn module(lines: &[PythonLine]) -> Module {
    let mut module = Module::default();
    let nothing = Library::default();
    let mut in_function = false;
    for line in lines {
        if line.indent == 0 {
            in_function = false;
            module.imports.extend(imports(&line.tokens));
            if let Some(function) = function(line) {
                module.functions.push(function);
                in_function = true;
            } else if let Some((target, value)) = assignment(&line.tokens) {
                let entries = Scope::new(&nothing, &module, BTreeMap::new(), 0).entries(&value);
                module.constants.insert(target, entries);
            }
        } else if in_function && let Some(function) = module.functions.last_mut() {
            function.body.push(line.clone());
        }
    }
    module
}

/// The result of a function.
pub(super) fn play(library: &Library, module: &Module, function: &Function) -> Entries {
    Scope::new(library, module, BTreeMap::new(), 0).called(module, function, &[])
}

/// `def NAME(a, b: int = 1):`.
pub(super) fn function(line: &PythonLine) -> Option<Function> {
    let [PythonToken::Name(def), PythonToken::Name(name), PythonToken::Sign('('), rest @ ..] =
        line.tokens.as_slice()
    else {
        return None;
    };
    if def != "def" {
        return None;
    }
    let mut parameters = Vec::new();
    for part in parts(rest) {
        let Some(PythonToken::Name(name)) = part.first() else { continue };
        let usual = part.iter().position(|token| *token == PythonToken::Sign('='));
        parameters.push((name.clone(), usual.map(|at| expression(&part[at + 1..]))));
    }
    Some(Function { name: name.clone(), parameters, body: Vec::new() })
}

/// Tokens to the closing bracket, cut at commas outside of brackets.
fn parts(tokens: &[PythonToken]) -> Vec<&[PythonToken]> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0, 0);
    for (at, token) in tokens.iter().enumerate() {
        match token {
            PythonToken::Sign(')') if depth == 0 => {
                parts.push(&tokens[from..at]);
                break;
            }
            PythonToken::Sign('(' | '[' | '{') => depth += 1,
            PythonToken::Sign(')' | ']' | '}') => depth -= 1,
            PythonToken::Sign(',') if depth == 0 => {
                parts.push(&tokens[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts
}

/// `a.b.c = value`, with or without a type behind a colon.
pub(super) fn assignment(tokens: &[PythonToken]) -> Option<(String, PythonExpression)> {
    let mut depth = 0;
    let at = tokens.iter().position(|token| {
        match token {
            PythonToken::Sign('(' | '[' | '{') => depth += 1,
            PythonToken::Sign(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        depth == 0 && *token == PythonToken::Sign('=')
    })?;
    let mut path = String::new();
    for token in &tokens[..at] {
        match token {
            PythonToken::Name(name) => path += name,
            PythonToken::Sign('.') => path.push('.'),
            PythonToken::Sign(':') if !path.is_empty() => break,
            _ => return None,
        }
    }
    let is_equal = tokens.get(at + 1) == Some(&PythonToken::Sign('='));
    (!path.is_empty() && !is_equal).then(|| (path, expression(&tokens[at + 1..])))
}

/// The lines that a function takes: branches whose condition is known to fail, or that stand behind one that is known
/// to hold, are passed over.
#[derive(Default)]
struct Branches {
    /// Lines deeper than this are passed over.
    passed: Option<usize>,
    /// Conditions of the branches that are open, by their depth.
    conditions: BTreeMap<usize, Option<bool>>,
}

impl Branches {
    fn takes(&mut self, line: &PythonLine, truth: impl Fn(&[PythonToken]) -> Option<bool>) -> bool {
        if self.passed.is_some_and(|depth| line.indent > depth) {
            return false;
        }
        self.passed = None;
        let word = match line.tokens.first() {
            Some(PythonToken::Name(word)) => word.as_str(),
            _ => "",
        };
        let before = self.conditions.get(&line.indent).copied().flatten();
        let condition = match word {
            "if" | "elif" => truth(line.tokens.get(1..line.tokens.len() - 1).unwrap_or_default()),
            _ => None,
        };
        let holds = match word {
            "if" => condition,
            "elif" if before == Some(true) => Some(false),
            "elif" => condition,
            "else" => before.map(|is| !is),
            _ => {
                self.conditions.retain(|depth, _| *depth < line.indent);
                return true;
            }
        };
        let decided = if word == "if" { condition } else { before.filter(|is| *is).or(condition) };
        self.conditions.insert(line.indent, decided);
        if holds == Some(false) {
            self.passed = Some(line.indent);
        }
        false
    }

    /// True if the last line taken stands behind conditions that are known to hold, or behind none.
    fn surely(&self) -> bool {
        self.conditions.values().all(|condition| *condition == Some(true))
    }
}

/// The names that a function sees while it runs.
pub(super) struct Scope<'a> {
    library: &'a Library,
    module: &'a Module,
    variables: BTreeMap<String, Entries>,
    depth: usize,
}

impl<'a> Scope<'a> {
    pub(super) fn new(
        library: &'a Library,
        module: &'a Module,
        variables: BTreeMap<String, Entries>,
        depth: usize,
    ) -> Scope<'a> {
        Scope { library, module, variables, depth }
    }

    /// The result of a function for arguments.
    fn called(
        &self,
        module: &Module,
        function: &Function,
        arguments: &[(Option<String>, PythonExpression)],
    ) -> Entries {
        self.run(module, function, arguments).0
    }

    /// The result of a function, and its parameters at its end.
    fn run(
        &self,
        module: &Module,
        function: &Function,
        arguments: &[(Option<String>, PythonExpression)],
    ) -> (Entries, BTreeMap<String, Entries>) {
        if self.depth >= DEEPEST {
            return Default::default();
        }
        let mut inside = Scope::new(self.library, module, BTreeMap::new(), self.depth + 1);
        for (at, (name, usual)) in function.parameters.iter().enumerate() {
            let named = arguments.iter().find(|(given, _)| given.as_ref() == Some(name));
            let given = named.or(arguments.get(at).filter(|(name, _)| name.is_none()));
            let value = given.map(|(_, value)| self.entries(value));
            let value = value.or_else(|| usual.as_ref().map(|usual| inside.entries(usual)));
            inside.variables.insert(name.clone(), value.unwrap_or_default());
        }
        let mut returned = Entries::new();
        let mut branches = Branches::default();
        for line in &function.body {
            if !self.library.spends(line.tokens.len()) {
                break;
            }
            if branches.takes(line, |tokens| condition::holds(tokens, &|value| inside.known(value))) {
                let ends = inside.statement(&line.tokens, &mut returned);
                if ends && branches.surely() {
                    break;
                }
            }
        }
        (returned, inside.variables)
    }

    /// A value that is known: written out, or of a variable that has one.
    fn known(&self, tokens: &[PythonToken]) -> Option<Value> {
        let expression = expression(tokens);
        if let PythonExpression::Path(path) = &expression {
            let name = path.split('.').next().unwrap_or_default();
            if !self.variables.contains_key(name) && !self.module.constants.contains_key(name) {
                return None;
            }
        }
        single(self.entries(&expression)).filter(|value| !value.is_null() && !is_unknown(value))
    }

    /// Takes a statement up; whether it returns.
    fn statement(&mut self, tokens: &[PythonToken], returned: &mut Entries) -> bool {
        if let [PythonToken::Name(word), rest @ ..] = tokens
            && word == "return"
        {
            let entries = self.entries(&expression(rest));
            if !entries.is_empty() {
                *returned = entries;
            }
            return true;
        }
        match assignment(tokens) {
            Some((target, value)) => {
                let entries = self.entries(&value);
                self.put(&target, entries);
            }
            None => self.helper(tokens),
        }
        false
    }

    pub(super) fn put(&mut self, target: &str, entries: Entries) {
        let before = target.split('.').next().and_then(|name| self.variables.get(name));
        if !self.library.spends(before.map_or(0, Vec::len)) {
            return;
        }
        match target.split_once('.') {
            None => drop(self.variables.insert(target.to_string(), entries)),
            Some((name, path)) => put(self.variables.entry(name.to_string()).or_default(), path, entries),
        }
    }

    /// `helper(cfg)`: a function that is followed sets something of what it is given. Of one that is not,
    /// `set_NAME(cfg.model, value)` and `apply_NAME(cfg.model, value)` set what they are called after.
    fn helper(&mut self, tokens: &[PythonToken]) {
        let PythonExpression::Call { path, arguments } = expression(tokens) else { return };
        let Some((module, function)) = self.library.function(self.module, &path) else {
            let name = path.strip_prefix("set_").or(path.strip_prefix("apply_"));
            if let (Some(name), [(None, PythonExpression::Path(target)), (_, value), ..]) =
                (name, arguments.as_slice())
            {
                let entries = self.entries(value);
                self.put(&format!("{target}.{name}"), entries);
            }
            return;
        };
        let (_, after) = self.run(module, function, &arguments);
        for (at, (name, value)) in arguments.iter().enumerate() {
            let parameter = match name {
                Some(name) => Some(name),
                None => function.parameters.get(at).map(|(name, _)| name),
            };
            if let (PythonExpression::Path(variable), Some(entries)) =
                (value, parameter.and_then(|p| after.get(p)))
                && self.variables.contains_key(variable.split('.').next().unwrap_or_default())
            {
                self.put(variable, entries.clone());
            }
        }
    }

    /// An expression as paths and values.
    pub(super) fn entries(&self, expression: &PythonExpression) -> Entries {
        match expression {
            PythonExpression::Value(value) => vec![(String::new(), value.clone())],
            PythonExpression::Path(path) => self.path(path),
            PythonExpression::List(list) => vec![(String::new(), self.list(list))],
            PythonExpression::Call { path, arguments } => self.call(path, arguments),
            PythonExpression::Sum(left, sign, right) => {
                let value = |side: &PythonExpression| single(self.entries(side));
                let sum =
                    value(left).zip(value(right)).and_then(|(left, right)| calculated(&left, *sign, &right));
                vec![(String::new(), sum.unwrap_or_else(unknown))]
            }
            PythonExpression::Other => vec![(String::new(), unknown())],
        }
    }

    /// A variable, or a part of one; of a name that is defined elsewhere its last word, where it names a class or a
    /// format.
    fn path(&self, path: &str) -> Entries {
        let (name, part) = path.split_once('.').unwrap_or((path, ""));
        let known = self.variables.get(name).or_else(|| self.module.constants.get(name));
        if let Some(entries) = known {
            return if self.library.spends(entries.len()) { below(entries, part) } else { Entries::new() };
        }
        let word = path.rsplit('.').next().unwrap_or_default();
        let is_class = word.starts_with(|c: char| c.is_ascii_uppercase())
            && word.contains(|c: char| c.is_ascii_lowercase());
        let says = path.starts_with("torch.") || is_class;
        vec![(String::new(), if says { word.into() } else { unknown() })]
    }

    fn list(&self, list: &[PythonExpression]) -> Value {
        let one = |expression: &PythonExpression| match expression {
            PythonExpression::Call { path, .. } => class(path).into(),
            other => single(self.entries(other)).unwrap_or_default(),
        };
        list.iter().map(one).collect()
    }

    /// A function of the text is followed; of any other call the arguments are what it makes, by their names, and
    /// what stands first without a name is the whole. A class that is given nothing is known by its name.
    fn call(&self, path: &str, arguments: &[(Option<String>, PythonExpression)]) -> Entries {
        if let Some((module, function)) = self.library.function(self.module, path) {
            return self.called(module, function, arguments);
        }
        // `getattr(cfg.model, "name", None)`.
        if let (
            "getattr",
            [(None, PythonExpression::Path(of)), (None, PythonExpression::Value(Value::String(name))), ..],
        ) = (path, arguments)
        {
            return self.path(&format!("{of}.{name}"));
        }
        if ["os.getenv", "getenv", "os.environ.get", "environ.get"].contains(&path) {
            let usual = arguments.get(1).map(|(_, usual)| self.entries(usual));
            return usual.unwrap_or_else(|| vec![(String::new(), unknown())]);
        }
        let mut entries = Entries::new();
        let first = arguments.first().filter(|(name, _)| name.is_none());
        let mut whole = first.map(|(_, value)| self.entries(value)).unwrap_or_default();
        if let ("int" | "float", Some((_, value))) = (path, whole.first_mut())
            && let Some(number) = value.as_str().and_then(|text| text.trim().parse::<f64>().ok())
        {
            *value = stepsim_spec::json::whole(number);
        }
        put(&mut entries, "", whole);
        // The family of a registry stands in its package alone.
        if let Some(import) = self.module.imports.get(path).filter(|_| path == REGISTRY) {
            entries.push((PACKAGE.to_string(), import.family().into()));
        }
        if entries.is_empty() && (arguments.is_empty() || path.ends_with(".Config")) {
            entries.push((String::new(), class(path).into()));
        }
        for (name, value) in arguments {
            if let Some(name) = name
                && self.library.spends(entries.len())
            {
                put(&mut entries, name, self.entries(value));
            }
        }
        entries
    }
}

/// `FullAC` of `FullAC.Config`.
fn class(path: &str) -> &str {
    let path = path.strip_suffix(".Config").unwrap_or(path);
    path.rsplit('.').next().unwrap_or_default()
}

/// The value of what is one value.
pub(super) fn single(entries: Entries) -> Option<Value> {
    entries.into_iter().find(|(path, _)| path.is_empty()).map(|(_, value)| value)
}

/// The entries below a path.
fn below(entries: &Entries, path: &str) -> Entries {
    let inside = |(name, value): &(String, Value)| {
        let rest = name.strip_prefix(path)?;
        match (path.is_empty(), rest.strip_prefix('.')) {
            (true, _) => Some((name.clone(), value.clone())),
            (false, Some(rest)) => Some((rest.to_string(), value.clone())),
            (false, None) => rest.is_empty().then(|| (String::new(), value.clone())),
        }
    };
    entries.iter().filter_map(inside).collect()
}

/// Puts entries at a path, in place of what stood there.
fn put(entries: &mut Entries, path: &str, new: Entries) {
    let inside = |name: &str| name == path || name.strip_prefix(path).is_some_and(|r| r.starts_with('.'));
    entries.retain(|(name, _)| path.is_empty() || !inside(name));
    for (name, value) in new {
        let whole = match (path.is_empty(), name.is_empty()) {
            (true, _) => name,
            (false, true) => path.to_string(),
            (false, false) => format!("{path}.{name}"),
        };
        if entries.len() < MOST {
            entries.push((whole, value));
        }
    }
}
