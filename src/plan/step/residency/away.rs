//! Shares of a class of bytes that live off the device.

/// A share of a class of bytes that lives off the device.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::step) struct Away {
    /// The tier where it lives, by its number on the device.
    pub tier: u8,
    /// Tiers on its way to the device, the farthest first.
    pub via: Vec<u8>,
    /// The share, 0 to 1.
    pub fraction: f64,
}

impl Away {
    /// The tier that the device copies from: the last on the way.
    pub fn near(&self) -> u8 {
        self.via.last().copied().unwrap_or(self.tier)
    }
    /// The hops towards the device, without the last one into it.
    pub fn hops(&self) -> Vec<(u8, u8)> {
        let stops: Vec<u8> = std::iter::once(self.tier).chain(self.via.iter().copied()).collect();
        stops.windows(2).map(|w| (w[0], w[1])).collect()
    }
    /// Its part of `bytes`.
    pub fn of(&self, bytes: u64) -> u64 {
        (bytes as f64 * self.fraction).round() as u64
    }
}

/// The shares of a class that are off the device, together.
pub(in crate::step) fn fraction_away(placed: &[Away]) -> f64 {
    // From a positive zero: the sum of nothing is a negative one.
    placed.iter().fold(0.0, |sum, a| sum + a.fraction)
}

/// The places of `bytes`: (tier, bytes).
pub(in crate::step) fn spread(bytes: f64, placed: &[Away]) -> Vec<(u8, f64)> {
    let here = (0, bytes * (1.0 - fraction_away(placed)));
    placed.iter().map(|a| (a.tier, bytes * a.fraction)).chain([here]).collect()
}
