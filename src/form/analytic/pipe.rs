//! Ways of messages and copies on an idle machine.

/// One copy or one hop: latency in seconds, bandwidth in B/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pipe {
    /// Paid once.
    pub latency: f64,
    /// Rate on an idle machine.
    pub bandwidth: f64,
}

impl Pipe {
    /// Seconds for `bytes`; none for none.
    pub fn time(&self, bytes: f64) -> f64 {
        if bytes > 0.0 { self.latency + bytes / self.bandwidth } else { 0.0 }
    }
}
