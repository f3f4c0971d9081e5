//! Recipes that begin with recipes of other files: those files, where they lie beside the one that was asked for as
//! the packages say (`.../megatron/bridge/recipes/llama/llama3.py` for
//! `from megatron.bridge.recipes.llama.llama3 import ...`).
//!
//! Only recipes are followed, not the software that they configure: what that makes is known by the name of the call.

use std::path::{Path, PathBuf};

use super::module::{Library, Module};
use super::player::module;
use super::tokens;

/// The most files that one recipe may lead to.
const MOST: usize = 300;

/// All that a module of a file leads to.
pub(super) fn library(of: &Module, file: &str) -> Library {
    let mut library = Library::default();
    let Some(file) = std::fs::canonicalize(file).ok() else { return library };
    let mut open: Vec<String> = of.packages();
    while let Some(package) = open.pop() {
        if library.modules.contains_key(&package) || library.modules.len() >= MOST {
            continue;
        }
        let text = place(&file, &package).and_then(|path| std::fs::read_to_string(path).ok());
        let module = module(&tokens::lines(&text.unwrap_or_default()));
        open.extend(module.packages());
        library.modules.insert(package, module);
    }
    library
}

/// The name of the folder that a file lies in.
pub(super) fn folder(file: &str) -> Option<String> {
    let path = std::fs::canonicalize(file).ok()?;
    Some(path.parent()?.file_name()?.to_string_lossy().into_owned())
}

/// The file of a package, from the folder that a file of the same software lies in.
fn place(file: &Path, package: &str) -> Option<PathBuf> {
    let path = package.replace('.', "/");
    file.ancestors().skip(1).find_map(|root| {
        let whole = root.join(&path);
        [whole.with_extension("py"), whole.join("__init__.py")].into_iter().find(|path| path.is_file())
    })
}
