//! Conventions of each source that its rows are read by, and the device of the catalogue that each name means.

/// How a source measured and writes.
#[derive(Default)]
pub(super) struct MeasurementSource {
    /// Long series on a hot device, rather than short benchmarks.
    pub(super) sustained: bool,
    /// A training step, rather than one kernel after another.
    pub(super) in_step: bool,
    /// Shapes of gradients are given as the shapes of the forward pass.
    pub(super) forward_shapes: bool,
    /// Causal attention is counted as if it were not masked.
    pub(super) masked_counted: bool,
    /// Compute units that communication held.
    pub(super) taken: u32,
    /// Products in 8 bits with one scale a tensor look for the largest element first (amax), in the same time.
    pub(super) dynamic_scales: bool,
}

/// A source by its name; an unknown one is taken for short benchmarks with shapes as they run.
pub(super) fn source(name: &str) -> MeasurementSource {
    let plain = MeasurementSource::default();
    match name {
        // simu_tools/efficency_test: series of all shapes of a model, one after the other.
        "simumax-kernels" => {
            MeasurementSource { sustained: true, forward_shapes: true, masked_counted: true, ..plain }
        }
        // TensorRT-LLM's linear layers, called with activations in 16 bits.
        "aiconfigurator" => MeasurementSource { dynamic_scales: true, ..plain },
        // A profiler that runs the layers of a model at all token counts, one after the other.
        "vidur" => MeasurementSource { sustained: true, ..plain },
        // A training step; dispatch and combine hold 20 of 132 units.
        "deepseek-v3-profile" => MeasurementSource { sustained: true, in_step: true, taken: 20, ..plain },
        _ => plain,
    }
}

/// Words that a device's name holds → its name in the catalogue; the first that fits counts. An empty name: a device
/// that the catalogue does not have.
const DEVICES: &[(&[&str], &str)] = &[
    (&["500w"], ""),
    (&["nvl"], ""),
    (&["a100", "pcie"], "a100-pcie-80"),
    (&["a100", "40"], "a100-sxm-40"),
    (&["a100"], "a100-sxm-80"),
    (&["h100", "pcie"], "h100-pcie"),
    (&["h100"], "h100-sxm"),
    (&["h800"], "h800"),
    (&["gh200"], ""),
    (&["h200"], "h200-sxm"),
    (&["h20"], "h20"),
    (&["gb200"], "gb200"),
    (&["gb300"], "gb300"),
    (&["b200"], "b200-sxm"),
    (&["b300"], "b300-sxm"),
    (&["mi300x"], "mi300x"),
    (&["mi355x"], "mi355x"),
    (&["gaudi 3"], "gaudi3"),
];

/// The name in the catalogue of a device by a name that sources use; of one it does not have, the name itself.
pub fn catalogue_name(name: &str) -> &str {
    device(name).unwrap_or(name)
}

/// The catalogue's name of a device.
pub(super) fn device(name: &str) -> Option<&'static str> {
    let lower = name.to_lowercase();
    let fits = |words: &&[&str]| words.iter().all(|w| lower.contains(w));
    DEVICES.iter().find(|(words, _)| fits(words)).map(|&(_, name)| name).filter(|n| !n.is_empty())
}
