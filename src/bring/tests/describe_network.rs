use stepsim_bring::describe::network::device_gbps;

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
        ("8x 50 GB/s InfiniBand", 8, Some(50.0)),
        ("DCN between 2 slices", 64, None),
        ("RoCE RDMA", 8, None),
        ("", 8, None),
    ] {
        assert_eq!(device_gbps(text, node), gbps, "{text}");
    }
}

#[test]
fn one_network_in_sixteen_spellings() {
    const SPELT: &str = "8x 400G; 8x400G; 8 x 400 Gb/s; 8× 400 Gbit/s RoCE; 8x 50 GB/s InfiniBand; InfiniBand 8x50 GB/s; \
        400 GB/s per node; 3200 Gb/s per node; 3.2 Tb/s EFA; 400 Gb/s per GPU; 50 GB/s per GPU; 8x NDR InfiniBand; \
        NDR400, one a GPU; 400GbE x8; 8 NICs of 400 Gbps; 3,200 Gbps in total";
    for text in SPELT.split("; ") {
        assert_eq!(device_gbps(text, 8), Some(50.0), "{text}");
    }
}
