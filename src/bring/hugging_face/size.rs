//! Parameters that were read against the size in the model's name: a key that was passed over shows there.

use stepsim_price::model::{ParameterCount, module_parameters};
use stepsim_spec::model::ModelSpec;
use stepsim_spec::{SpecError, names};

/// Names round, and count encoders and embeddings or not: gemma-7b has 8.5 B. Beyond it something was not read.
const ROUNDED: f64 = 1.5;

/// Words of models that are cut down, or that count otherwise.
const OTHERWISE: [&str; 8] = ["tiny", "random", "debug", "proxy", "truncated", "layers", "draft", "eagle"];

/// Refuses a model that is far from the size that one of its names says.
///
/// # Errors
/// Such a model.
pub(super) fn check(model: &ModelSpec, names: &[&str]) -> Result<(), SpecError> {
    let text = ParameterCount::of(model).total();
    let whole = text + model.modules.iter().map(module_parameters).sum::<u64>();
    let billions = [text, whole].map(|n| n as f64 / 1e9);
    for name in names {
        let lower = name.to_lowercase();
        let effective = lower.split(|c: char| !c.is_alphanumeric()).any(is_effective);
        // A hidden folder is called by chance.
        let Some(stated) = names::billions(name).filter(|_| !name.starts_with('.')) else { continue };
        if effective || OTHERWISE.iter().any(|word| lower.contains(word)) {
            continue;
        }
        if billions.iter().all(|b| (b / stated).max(stated / b) > ROUNDED) {
            let problem = format!(
                "the name {name} says {stated} B parameters, and {:.3} B were read: some size is not understood",
                billions[1]
            );
            return Err(SpecError::at("", problem).allowed("a configuration whose keys are all known").hint(
                "write a model file by hand: docs/start/model.md has examples (stepsim schema model)",
            ));
        }
    }
    Ok(())
}

/// True for sizes of a part: `E2B` is kept on a device, and the figure before `16E` is used by a token.
fn is_effective(word: &str) -> bool {
    let kept = word.strip_prefix('e').and_then(|rest| rest.strip_suffix('b'));
    let digits = kept.or_else(|| word.strip_suffix('e'));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()))
}
