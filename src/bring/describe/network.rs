//! The bandwidth that words like `8x HDR InfiniBand 200 Gb/s per node` mean.

use stepsim_spec::quantity::rate;

/// GB/s of one direction that a device has to other nodes, as a description says; `None` where it names no figure.
///
/// `Nx` beside the figure counts adapters of a node; `per node` or `per server` without it is the sum of a node; any
/// other figure is one adapter: a device has one up to 100 GB/s (800 Gb/s), and a node has one below 25 GB/s.
pub fn device_gbps(text: &str, devices_per_node: u64) -> Option<f64> {
    let read = rate(text)?;
    let small = text.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| small.contains(word));
    let node = devices_per_node.max(1) as f64;
    let per_device =
        ["per gpu", "/gpu", "a gpu", "each gpu", "per device", "per chip", "per accelerator", "per rank"];
    let per_node =
        ["per node", "/node", "a node", "each node", "per server", "per host", "aggregate", "total"];
    let gbps = match read.count {
        Some(adapters) if adapters > 1.0 => read.gbytes_per_s * adapters / node,
        _ if says(&per_device) => read.gbytes_per_s,
        _ if says(&per_node) || !(25.0..=100.0).contains(&read.gbytes_per_s) => read.gbytes_per_s / node,
        _ => read.gbytes_per_s,
    };
    Some(gbps).filter(|gbps| *gbps > 0.0 && gbps.is_finite())
}
