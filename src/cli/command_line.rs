//! The command as it was typed.

use std::cell::RefCell;
use std::ffi::OsString;

/// The workload that is simulated or estimated when nothing is named.
pub const EXAMPLE: &str = "gpt3-175b";

thread_local! {
    /// The words of the command that runs.
    static WORDS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Takes the words of a command that is to run, behind the name under which the program was called.
pub(super) fn typed(words: &[OsString]) {
    let texts = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned());
    WORDS.set(std::iter::once("stepsim".to_string()).chain(texts).collect());
}

/// The words of the command.
pub(super) fn command() -> Vec<String> {
    WORDS.with_borrow(Vec::clone)
}
