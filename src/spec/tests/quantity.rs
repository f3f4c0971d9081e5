use stepsim_spec::quantity::rate;

#[test]
fn bytes_and_bits_are_told_apart() {
    let rows: Vec<(String, f64, Option<f64>)> =
        serde_json::from_str(include_str!("quantity.json")).expect("rows");
    for (text, gbytes, count) in rows {
        let read = rate(&text).unwrap_or_else(|| panic!("{text}"));
        assert_eq!((read.gbytes_per_s, read.count), (gbytes, count), "{text}");
    }
    for text in ["", "RoCE RDMA", "DCN between 2 slices", "80 GPUs"] {
        assert_eq!(rate(text), None, "{text}");
    }
}
