use stepsim_spec::quantity::rate;

#[test]
fn bytes_and_bits_are_told_apart() {
    for (text, gbytes, count) in [
        ("400 Gb/s", 50.0, None),
        ("400Gbps", 50.0, None),
        ("50 GB/s", 50.0, None),
        ("50GBps", 50.0, None),
        ("400G", 50.0, None),
        ("400GbE", 50.0, None),
        ("3.2 Tb/s", 400.0, None),
        ("3,200 Gbit/s", 400.0, None),
        ("1.8 TB/s", 1800.0, None),
        ("8x 400G", 50.0, Some(8.0)),
        ("InfiniBand 8x50 GB/s", 50.0, Some(8.0)),
        ("NDR400", 50.0, None),
        ("8x HDR InfiniBand", 25.0, Some(8.0)),
        ("400G x8", 50.0, Some(8.0)),
        ("4 NICs of 100 Gb/s", 12.5, Some(4.0)),
        ("10 GB", 1.25, None),
    ] {
        let read = rate(text).unwrap_or_else(|| panic!("{text}"));
        assert_eq!((read.gbytes_per_s, read.count), (gbytes, count), "{text}");
    }
    for text in ["", "RoCE RDMA", "DCN between 2 slices", "80 GPUs"] {
        assert_eq!(rate(text), None, "{text}");
    }
}
