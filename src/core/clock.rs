//! The clock: how long work has taken.
//!
//! WebAssembly without a system has no clock; there all work takes no time, and nothing that is simulated hangs on it.

use std::time::Duration;

/// A moment from which time is counted.
#[derive(Clone, Copy, Debug)]
pub struct Clock(#[cfg(not(target_family = "wasm"))] std::time::Instant);

impl Clock {
    /// Starts counting now.
    pub fn start() -> Clock {
        Clock(
            #[cfg(not(target_family = "wasm"))]
            std::time::Instant::now(),
        )
    }

    /// The time since then.
    pub fn elapsed(self) -> Duration {
        #[cfg(not(target_family = "wasm"))]
        return self.0.elapsed();
        #[cfg(target_family = "wasm")]
        Duration::ZERO
    }
}
