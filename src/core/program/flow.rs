//! A flow: what one transfer, or one phase of many, puts on a path.

use crate::units::Time;

/// One flow: first its latency, then its work at the rate that its path allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Paid before the flow occupies its path.
    pub latency: Time,
    /// Bytes per unit of path coefficient.
    pub bytes: f64,
    /// Upper limit of the rate in bytes per second (a protocol's or a channel's own limit); infinite if none.
    pub rate_limit: f64,
    /// The path of the communicator.
    pub path: u32,
}
