//! Recipes that begin with recipes of other files: those files, where they lie beside the one that was asked for as the packages
//! say (`.../megatron/bridge/recipes/llama/llama3.py` for `from megatron.bridge.recipes.llama.llama3 import ...`).
//!
//! Only recipes are followed, not the software that they configure: what that makes is known by the name of the call.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::player::{Function, Module};
use super::tokens::{self, Token};

/// The most files that one recipe may lead to.
const MOST: usize = 300;
/// How often a name may be handed on.
const FURTHEST: usize = 8;

/// Where a name comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    /// `torchtitan.models.qwen3`.
    package: String,
    /// What it is called there.
    name: String,
}

impl Import {
    /// The last word of the package.
    pub fn family(&self) -> &str {
        self.package.rsplit('.').next().unwrap_or_default()
    }
    /// Whether the package holds recipes: `..._recipes` or `recipes`, but not what they share with the software.
    fn is_recipe(&self) -> bool {
        let mut words = self.package.split('.');
        words.any(|word| word.ends_with("recipes")) && words.all(|word| word != "utils")
    }
}

/// Files of recipes by their packages.
#[derive(Debug, Default)]
pub(super) struct Library {
    modules: BTreeMap<String, Module>,
}

impl Library {
    /// All that a module of a file leads to.
    pub fn of(module: &Module, file: &str) -> Library {
        let mut library = Library::default();
        let Some(file) = std::fs::canonicalize(file).ok() else { return library };
        let mut open: Vec<String> = packages(module);
        while let Some(package) = open.pop() {
            if library.modules.contains_key(&package) || library.modules.len() >= MOST {
                continue;
            }
            let text = place(&file, &package).and_then(|path| std::fs::read_to_string(path).ok());
            let module = Module::of(&tokens::lines(&text.unwrap_or_default()));
            open.extend(packages(&module));
            library.modules.insert(package, module);
        }
        library
    }

    /// The function of a name as a module sees it, and the module that holds it.
    pub fn function<'a>(&'a self, module: &'a Module, name: &str) -> Option<(&'a Module, &'a Function)> {
        let (mut module, mut name) = (module, name);
        for _ in 0..FURTHEST {
            if let Some(function) = module.function(name) {
                return Some((module, function));
            }
            let import = module.imports.get(name)?;
            (module, name) = (self.modules.get(&import.package)?, import.name.as_str());
        }
        None
    }
}

fn packages(module: &Module) -> Vec<String> {
    module.imports.values().filter(|import| import.is_recipe()).map(|import| import.package.clone()).collect()
}

/// The file of a package, from the folder that a file of the same software lies in.
fn place(file: &Path, package: &str) -> Option<PathBuf> {
    let path = package.replace('.', "/");
    file.ancestors().skip(1).find_map(|root| {
        let whole = root.join(&path);
        [whole.with_extension("py"), whole.join("__init__.py")].into_iter().find(|path| path.is_file())
    })
}

/// `from a.b.c import d, e as f`: where each name comes from.
pub(super) fn imports(tokens: &[Token]) -> Vec<(String, Import)> {
    let name = |token: &Token| if let Token::Name(name) = token { Some(name.clone()) } else { None };
    let names: Vec<String> = tokens.iter().filter_map(name).collect();
    let Some(at) = names.iter().position(|name| name == "import") else { return Vec::new() };
    if names[0] != "from" || at < 2 {
        return Vec::new();
    }
    let package = names[1..at].join(".");
    let mut imports: Vec<(String, Import)> = Vec::new();
    let mut rest = names[at + 1..].iter();
    while let Some(name) = rest.next() {
        match (name.as_str(), imports.last_mut()) {
            ("as", Some(last)) => last.0 = rest.next().cloned().unwrap_or_default(),
            _ => imports.push((name.clone(), Import { package: package.clone(), name: name.clone() })),
        }
    }
    imports
}
