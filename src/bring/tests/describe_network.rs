use stepsim_bring::describe::network::device_gbps;

#[test]
fn words_for_networks() {
    let rows: Vec<(String, u64, Option<f64>)> =
        serde_json::from_str(include_str!("describe-network.json")).expect("rows");
    for (text, node, gbps) in rows {
        assert_eq!(device_gbps(&text, node), gbps, "{text}");
    }
}

#[test]
fn one_network_in_twelve_spellings() {
    let rows: Vec<String> = serde_json::from_str(include_str!("describe-one-network.json")).expect("rows");
    for text in rows {
        assert_eq!(device_gbps(&text, 8), Some(50.0), "{text}");
    }
}
