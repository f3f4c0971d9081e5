//! How fast a device is, for kernels that nobody measured.

/// The rates of a device, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceRates {
    /// Operations.
    pub flops: Option<f64>,
    /// Bytes of its memory.
    pub bytes: Option<f64>,
}
