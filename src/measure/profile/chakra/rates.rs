//! How fast a device is, for kernels that nobody measured.

/// What a device does in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceRates {
    /// Operations.
    pub flops: Option<f64>,
    /// Bytes of its memory.
    pub bytes: Option<f64>,
}
