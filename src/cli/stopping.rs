//! Ctrl-C: a command that can end with what it has so far is told to; any other ends, and so does one that is told
//! twice.

use std::sync::OnceLock;

use stepsim_core::interrupt::InterruptToken;

/// The token of the command that can end with what it has.
static TOKEN: OnceLock<InterruptToken> = OnceLock::new();

/// The token for a command that ends with the best so far.
pub(super) fn token() -> InterruptToken {
    TOKEN.get_or_init(InterruptToken::default).clone()
}

/// Has the first Ctrl-C pull that token, where a command has asked for it, and any other end the process. A handler
/// that cannot be set leaves what was: partial files then stay behind.
pub(super) fn listen() {
    let _ = ctrlc::set_handler(|| {
        if let Some(token) = TOKEN.get().filter(|token| !token.is_pulled()) {
            token.pull();
            eprintln!("stopping: the best so far comes (once more: at once, without)");
            return;
        }
        stepsim_read::trace::remove_partial_files();
        std::process::exit(130);
    });
}
