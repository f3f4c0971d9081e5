//! The power draw of devices, and the price of their hour.

/// Power draw and price of devices: the mean of all of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PowerAndPrice {
    /// Watts under matrix products, under memory-bound kernels, and otherwise; nothing where a device does not state
    /// its power.
    pub watts: Option<[f64; 3]>,
    /// Dollars an hour; nothing where a device has no price.
    pub usd_per_h: Option<f64>,
}

/// Dollars for some seconds of a device.
pub fn usd(device_seconds: f64, usd_per_h: f64) -> f64 {
    device_seconds / 3600.0 * usd_per_h
}
