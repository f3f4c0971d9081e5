//! The bandwidth that words like `8x HDR InfiniBand 200 Gb/s per node` mean.

/// GB/s of one direction that a device has to other nodes, as a description says; `None` where it names no figure.
///
/// `Nx` before the figure counts adapters of a node; `per node` or `per server` without it is the sum of a node; any
/// other figure is one adapter, of which a device has one up to 800 Gb/s and a node one below 200 Gb/s.
pub fn device_gbps(text: &str, devices_per_node: u64) -> Option<f64> {
    let text = text.to_lowercase().replace("tbps", "tb/s").replace("gbps", "gb/s").replace("gbit/s", "gb/s");
    let (figure, unit) = figure(&text).or_else(|| generation(&text))?;
    let gigabits = figure * unit;
    let node = devices_per_node.max(1) as f64;
    let per_device = if let Some(adapters) = adapters(&text) {
        gigabits * adapters / node
    } else if text.contains("per gpu") || text.contains("per device") || text.contains("per chip") {
        gigabits
    } else if text.contains("per node") || text.contains("per server") || !(200.0..=800.0).contains(&gigabits)
    {
        gigabits / node
    } else {
        gigabits
    };
    Some(per_device / 8.0).filter(|x| *x > 0.0 && x.is_finite())
}

/// The number before the unit, and the unit in Gb/s.
fn figure(text: &str) -> Option<(f64, f64)> {
    let units = [
        ("tb/s", 1000.0),
        ("gb/s", 1.0),
        (" gb ", 1.0),
        ("g ib", 1.0),
        ("g rdma", 1.0),
        ("g roce", 1.0),
        ("g ethernet", 1.0),
    ];
    units.iter().find_map(|(name, unit)| {
        let before = text[..text.find(name)?].trim_end();
        let start = before.rfind(|c: char| !c.is_ascii_digit() && c != '.').map_or(0, |i| i + 1);
        Some((before[start..].parse().ok()?, *unit))
    })
}

/// Gb/s of an adapter by the name of its generation.
fn generation(text: &str) -> Option<(f64, f64)> {
    let named = [
        ("xdr", 800.0),
        ("ndr", 400.0),
        ("hdr", 200.0),
        ("slingshot", 200.0),
        ("edr", 100.0),
        ("omni-path", 100.0),
        ("fdr", 56.0),
    ];
    named.iter().find(|(name, _)| text.contains(name)).map(|(_, gigabits)| (*gigabits, 1.0))
}

/// Adapters of a node: the number before an `x` that stands by itself at the start of a word (`8x HDR`, `4 x 200`).
fn adapters(text: &str) -> Option<f64> {
    let digits: String = text.trim_start().chars().take_while(char::is_ascii_digit).collect();
    let rest = text.trim_start()[digits.len()..].trim_start();
    rest.starts_with(['x', '×']).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::device_gbps;

    #[test]
    fn words_for_networks() {
        for (text, node, gbps) in [
            ("8x HDR InfiniBand 200 Gb/s per node (compute)", 8, Some(25.0)),
            ("1600 Gb/s per node RoCE", 8, Some(25.0)),
            ("800 Gb/s per node (inter_node_bandwidth in the matching configs)", 8, Some(12.5)),
            ("4 x 200 Gbps HDR", 8, Some(12.5)),
            ("NDR InfiniBand", 8, Some(50.0)),
            ("400 Gb/s InfiniBand", 8, Some(50.0)),
            ("3.2 Tb/s EFA", 8, Some(50.0)),
            ("100 Gb/s Ethernet", 8, Some(1.5625)),
            ("400Gbps per GPU", 8, Some(50.0)),
            ("DCN between 2 slices", 64, None),
            ("RoCE RDMA", 8, None),
            ("", 8, None),
        ] {
            assert_eq!(device_gbps(text, node), gbps, "{text}");
        }
    }
}
