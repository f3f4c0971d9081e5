use proptest::prelude::*;
use stepsim_read::trace::writer::Value;
use stepsim_read::trace::writer::json::*;

proptest! {
    #[test]
    fn any_text_comes_back_from_json(text: String) {
        let mut out = Vec::new();
        push_string(&mut out, &text);
        prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
    }

    #[test]
    fn any_finite_number_comes_back_from_json(x in proptest::num::f64::NORMAL | proptest::num::f64::ZERO) {
        let mut out = Vec::new();
        push_value(&mut out, Value::Float(x));
        prop_assert_eq!(serde_json::from_slice::<f64>(&out).unwrap(), x);
    }
}

#[test]
fn thousandths_keep_three_decimals() {
    let text = |n| {
        let mut out = Vec::new();
        push_milli(&mut out, n);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(text(0), "0.000");
    assert_eq!(text(1_001), "1.001");
    assert_eq!(text(9_000_000_000_000_457), "9000000000000.457");
    assert_eq!(text(u64::MAX), "18446744073709551.615");
    for whole in [9, 10, 99, 100, 101, 999, 1_000, 10_090, 123_456] {
        assert_eq!(text(1_000 * whole + 70), format!("{whole}.070"));
    }
}

#[test]
fn numbers_that_json_lacks_are_null() {
    let mut out = Vec::new();
    push_members(&mut out, &[("a", Value::Float(f64::NAN)), ("b", Value::Float(f64::INFINITY))]);
    assert_eq!(out, br#""a":null,"b":null"#);
}
