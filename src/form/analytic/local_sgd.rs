//! Local SGD and DiLoCo: sites train by themselves and exchange what they have changed every H steps.
//!
//! Each of k sites makes H steps of t seconds; then the differences of the P parameters, b bytes each, are summed
//! between sites, every device exchanging its own shard over the site's rate W: `T = 2(k−1)/k·b·P/W`, and the way of
//! light on top. Exchanged in F fragments in turn, the message at a time shrinks F times and the bytes stay; what a
//! fragment takes beyond the steps under which it may run is exposed (DiLoCo: arXiv 2311.08105; streaming and
//! overlapped: 2501.18512).
//!
//! The cost of H in loss is outside of this: a longer H is not free.

/// An exchange between sites at a regular distance of steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocalSgd {
    /// Sites.
    pub sites: u32,
    /// Bytes that are summed: parameters times bytes each as sent.
    pub bytes: f64,
    /// Bytes per second of one site, one direction, all its devices together.
    pub rate: f64,
    /// Seconds of the way, once for each message after another.
    pub latency_s: f64,
    /// Seconds of an inner step.
    pub step_s: f64,
    /// H: inner steps between two exchanges of the same parameters.
    pub inner_steps: u64,
    /// Steps under which an exchange may run.
    pub overlap_steps: u64,
    /// Fragments that are exchanged in turn.
    pub fragments: u64,
}

impl LocalSgd {
    /// Bytes that leave a site in an exchange.
    pub fn sent(&self) -> f64 {
        2.0 * f64::from(self.sites - 1) / f64::from(self.sites) * self.bytes
    }
    /// Seconds of all exchanges of a round, one after the other.
    pub fn outer_s(&self) -> f64 {
        self.fragments as f64 * self.latency_s + self.sent() / self.rate
    }
    /// Seconds of a round for which the sites wait.
    pub fn exposed_s(&self) -> f64 {
        let fragment = self.outer_s() / self.fragments as f64;
        self.fragments as f64 * (fragment - self.overlap_steps as f64 * self.step_s).max(0.0)
    }
    /// The same of the time.
    pub fn exposed_share(&self) -> f64 {
        self.exposed_s() / (self.inner_steps as f64 * self.step_s + self.exposed_s())
    }
    /// Seconds of a step, the exchange's share included.
    pub fn mean_step_s(&self) -> f64 {
        self.step_s + self.exposed_s() / self.inner_steps as f64
    }
    /// Bytes per second that would hide the exchange under all inner steps.
    pub fn rate_to_hide(&self) -> f64 {
        self.sent() / (self.inner_steps as f64 * self.step_s)
    }
}
