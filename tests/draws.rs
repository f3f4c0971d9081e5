//! How much is drawn: everything with `STEPSIM_SLOW=1` (`.ci/run --slow`), less on every change.

/// Draws of a random test: all, or a twelfth.
pub fn draws(all: u32) -> u32 {
    if std::env::var_os("STEPSIM_SLOW").is_some() { all } else { all.div_ceil(12) }
}
