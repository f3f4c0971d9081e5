use stepsim_spec::read_json;

#[test]
fn what_nests_too_deep_is_refused_at_once() {
    let deep = |open: &str, inner: &str, close: &str, n: usize| open.repeat(n) + inner + &close.repeat(n);
    assert!(read_json("f", &deep("[", "1", "]", 100)).is_ok());
    let error = read_json("f", &deep("[", "1", "]", 129)).unwrap_err().to_string();
    assert!(error.contains("128 levels") && error.len() < 300, "{error}");
    // In a text they nest nothing, and an escaped quote ends none.
    assert!(read_json("f", &format!("[\"\\\"{}\"]", "[".repeat(1000))).is_ok());
    assert!(
        read_json("f", &format!("[\"\\\\\", {}", "[".repeat(1000)))
            .unwrap_err()
            .to_string()
            .contains("128 levels")
    );
}
