//! The command as it was typed.

/// What `stepsim run` simulates when it is given nothing.
pub const EXAMPLE: &str = "gpt3-175b";

/// The words of the command.
pub(super) fn command() -> Vec<String> {
    std::iter::once("stepsim".to_string()).chain(std::env::args().skip(1)).collect()
}
