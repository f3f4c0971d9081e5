//! A text of Python as it stands: functions, constants, and where each other name comes from.

use std::cell::Cell;
use std::collections::BTreeMap;

use serde_json::Value;

use super::expression::PythonExpression;
use super::tokens::{PythonLine, PythonToken};
use stepsim_spec::SpecError;

/// How often a name may be handed on.
const FURTHEST: usize = 8;
/// Entries of configurations that are looked at, each as often as it is.
const MOST_WORK: usize = 4_000_000;

/// Paths and values, each path once; the value of the whole has the path "".
pub(super) type Entries = Vec<(String, Value)>;

/// A function: its parameters with what they are unasked, and its statements.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub name: String,
    pub parameters: Vec<(String, Option<PythonExpression>)>,
    pub body: Vec<PythonLine>,
}

impl Function {
    /// True if it can be called without arguments.
    pub fn is_alone(&self) -> bool {
        self.parameters.iter().all(|(_, usual)| usual.is_some())
    }
}

/// A text: its functions, and the constants beside them.
#[derive(Debug, Default)]
pub(super) struct Module {
    pub functions: Vec<Function>,
    pub constants: BTreeMap<String, Entries>,
    /// Where a name comes from: `from torchtitan.models.qwen3 import model_registry`.
    pub imports: BTreeMap<String, ImportedName>,
}

impl Module {
    /// The function of a name.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|function| function.name == name)
    }
    /// Says which package `from . import` means: the folder that the text lies in.
    pub fn lies_in(&mut self, folder: &str) {
        let here = self.imports.values_mut().filter(|import| import.package.is_empty());
        here.for_each(|import| import.package = folder.to_string());
    }
    /// Packages of recipes that it imports from.
    pub fn packages(&self) -> Vec<String> {
        self.imports
            .values()
            .filter(|import| import.is_recipe())
            .map(|import| import.package.clone())
            .collect()
    }
}

/// Where a name comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImportedName {
    /// `torchtitan.models.qwen3`.
    pub package: String,
    /// Its name there.
    pub name: String,
}

impl ImportedName {
    /// The last word of the package.
    pub fn family(&self) -> &str {
        self.package.rsplit('.').next().unwrap_or_default()
    }
    /// True if the package holds recipes: `..._recipes` or `recipes`, but not the part shared with the software.
    fn is_recipe(&self) -> bool {
        let mut words = self.package.split('.');
        words.any(|word| word.ends_with("recipes")) && words.all(|word| word != "utils")
    }
}

/// Files of recipes by their packages, and the work that has gone into following them.
#[derive(Debug, Default)]
pub(super) struct Library {
    pub modules: BTreeMap<String, Module>,
    work: Cell<usize>,
}

impl Library {
    /// Looks at so many entries; false where that is more than a text may ask for altogether.
    pub fn spends(&self, entries: usize) -> bool {
        self.work.set(self.work.get().saturating_add(entries + 1));
        !self.is_spent()
    }
    pub fn is_spent(&self) -> bool {
        self.work.get() > MOST_WORK
    }
    /// # Errors
    /// A text asked for too much.
    pub fn check(&self) -> Result<(), SpecError> {
        if !self.is_spent() {
            return Ok(());
        }
        Err(SpecError::at("", "the script does too much to be followed")
            .allowed("a few thousand statements that set a configuration's values")
            .hint("give the function that makes the configuration by itself"))
    }
    /// The function of a name as a module sees it, and the module that holds it.
    pub fn function<'a>(&'a self, module: &'a Module, name: &str) -> Option<(&'a Module, &'a Function)> {
        let (mut module, mut name) = (module, name);
        for _ in 0..FURTHEST {
            if !self.spends(module.functions.len()) {
                return None;
            }
            if let Some(function) = module.function(name) {
                return Some((module, function));
            }
            let import = module.imports.get(name)?;
            (module, name) = (self.modules.get(&import.package)?, import.name.as_str());
        }
        None
    }
}

/// `from a.b.c import d, e as f`: where each name comes from.
pub(super) fn imports(tokens: &[PythonToken]) -> Vec<(String, ImportedName)> {
    let name =
        |token: &PythonToken| if let PythonToken::Name(name) = token { Some(name.clone()) } else { None };
    let names: Vec<String> = tokens.iter().filter_map(name).collect();
    let Some(at) = names.iter().position(|name| name == "import") else { return Vec::new() };
    if names[0] != "from" {
        return Vec::new();
    }
    let package = names[1..at].join(".");
    let mut imports: Vec<(String, ImportedName)> = Vec::new();
    let mut rest = names[at + 1..].iter();
    while let Some(name) = rest.next() {
        match (name.as_str(), imports.last_mut()) {
            ("as", Some(last)) => last.0 = rest.next().cloned().unwrap_or_default(),
            _ => imports.push((name.clone(), ImportedName { package: package.clone(), name: name.clone() })),
        }
    }
    imports
}
