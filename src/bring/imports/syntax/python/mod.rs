//! A function of Python that puts a configuration together: attributes that are set (`cfg.model.num_layers = 4`),
//! calls with names (`Trainer.Config(training=TrainingConfig(steps=10))`), functions of the same file, or of recipes
//! beside it, that it begins with.
//!
//! Nothing is executed (`player.rs`). The name of a function, and the one it begins with, are the argument
//! `recipe`; what a name says of the job (`..._64gpu_h100_...`) are `recipe.devices` and `recipe.device`.

pub(super) mod calls;
pub mod condition;
pub(in super::super) mod expression;
mod library;
mod module;
mod player;
pub mod tokens;

use serde_json::Value;

use library::{folder, library};
use module::{Entries, Function, Library, Module};
use player::{module, play};
use stepsim_spec::SpecError;

/// Names of functions that make a configuration in other files: `llama3_8b_pretrain_config`.
const RECIPE: &str = "_config";

/// True if a text is of this kind.
pub(super) fn looks_like(text: &str) -> bool {
    let begins =
        |line: &str| line.starts_with("def ") || line.starts_with("from ") && line.contains(" import ");
    text.lines().any(begins)
}

/// The arguments of one function, by its name where there are several. `file` is where the text comes from.
pub(super) fn read(text: &str, file: &str, function: Option<&str>) -> Result<Entries, SpecError> {
    let mut module = module(&tokens::lines(text));
    module.lies_in(folder(file).as_deref().unwrap_or_default());
    let library = library(&module, file);
    let alone = Library::default();
    let names = recipes(&alone, &module);
    alone.check()?;
    let name = match (function, names.as_slice()) {
        (Some(name), _) => name,
        (None, [name]) => *name,
        (None, []) => {
            return Err(SpecError::at("", "holds no function that makes a configuration")
                .allowed("a function that sets a configuration's parts, or calls their constructors")
                .hint("give the script that starts the training, or a model by its name"));
        }
        (None, names) => {
            let usual = names.iter().find(|name| name.contains("pretrain")).or(names.first());
            return Err(SpecError::at("", format!("holds {} recipes: which?", names.len()))
                .allowed(names.join(", "))
                .hint(format!("name one behind the file: `FILE.py:{}`", usual.unwrap_or(&"NAME"))));
        }
    };
    let (module, function) = library.function(&module, name).ok_or_else(|| {
        SpecError::at("", format!("has no function `{name}`"))
            .allowed(names.join(", "))
            .hint("`def NAME():` at the start of a line")
    })?;
    let arguments = arguments(&library, module, function);
    library.check().map(|()| arguments)
}

/// The names of all arguments, and behind `@` the modules that the text takes in, and `recipe.py` where it has one.
pub(super) fn names(text: &str) -> Vec<String> {
    let mut names: Vec<String> = all(text).into_iter().map(|(name, _)| name).collect();
    let module = module(&tokens::lines(text));
    let alone = Library::default();
    let is_recipe = |function: &&Function| {
        let made = arguments(&alone, &module, function);
        let recipe = made.iter().find(|(name, _)| name == "recipe").and_then(|(_, value)| value.as_str());
        function.is_alone() && recipe.is_some_and(is_called_so)
    };
    names.extend(module.functions.iter().find(is_recipe).map(|_| "@recipe.py".to_string()));
    let taken_in =
        text.lines().filter_map(|line| line.strip_prefix("from ").or(line.strip_prefix("import ")));
    names.extend(taken_in.filter_map(|rest| Some(format!("@{}", rest.split_whitespace().next()?))));
    names
}

/// The arguments of all functions.
pub(super) fn all(text: &str) -> Entries {
    let module = module(&tokens::lines(text));
    let alone = Library::default();
    module.functions.iter().flat_map(|function| arguments(&alone, &module, function)).collect()
}

/// Functions that make a configuration and are no helpers of others.
fn recipes<'a>(alone: &Library, module: &'a Module) -> Vec<&'a str> {
    let makes = |function: &&Function| {
        let own = of_name(&function.name).len() + 1;
        !function.name.starts_with('_')
            && function.is_alone()
            && arguments(alone, module, function).len() > own
    };
    module.functions.iter().filter(makes).map(|function| function.name.as_str()).collect()
}

/// The configuration that a function puts together, with the facts in its name. A function is a recipe where it sets
/// parts of a configuration, or is called as recipes are.
fn arguments(library: &Library, module: &Module, function: &Function) -> Entries {
    let mut entries = of_name(&function.name);
    let (mut recipe, mut made) = (function.name.clone(), Entries::new());
    for (path, value) in play(library, module, function) {
        match value.as_str() {
            // A configuration that another file begins.
            Some(name) if path.is_empty() && name.ends_with(RECIPE) => recipe = name.to_string(),
            _ if path.is_empty() => {}
            _ => made.push((path, value)),
        }
    }
    if is_called_so(&recipe) || made.iter().any(|(path, _)| path.contains('.')) {
        entries.push(("recipe".into(), recipe.into()));
    }
    entries.extend(made);
    entries
}

/// True for a name that recipes have.
fn is_called_so(name: &str) -> bool {
    name.ends_with(RECIPE) || name.ends_with("_recipe")
}

/// The facts in a recipe's name: `llama3_70b_pretrain_64gpu_h100_bf16_config`.
fn of_name(name: &str) -> Entries {
    let mut said = Entries::new();
    if let Some((devices, device)) = job(name) {
        said.push(("recipe.devices".into(), devices.into()));
        said.push(("recipe.device".into(), Value::from(device)));
    }
    said
}

/// The number and kind of devices in a recipe's name.
pub(in crate::imports) fn job(name: &str) -> Option<(u64, &str)> {
    let words: Vec<&str> = name.split('_').collect();
    let count = |word: &&str| word.strip_suffix("gpu").and_then(|n| n.parse::<u64>().ok());
    let at = words.iter().position(|word| count(word).is_some())?;
    Some((count(&words[at])?, words.get(at + 1)?))
}
