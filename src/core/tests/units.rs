use stepsim_core::units::*;

#[test]
fn conversions_round_to_the_nearest_picosecond() {
    assert_eq!(Time::from_s(1.0), Time(1_000_000_000_000));
    assert_eq!(Time::from_us(0.000_000_6), Time(1));
    assert_eq!(Time::from_s(-1.0), Time::ZERO);
    assert_eq!(Bytes(1_000) / Bandwidth(3.0), Time(333_333_333_333_333));
    assert_eq!(Time(1_499).round_ns(), 1);
    assert_eq!(Time(1_500).round_ns(), 2);
}

#[test]
fn rounding_is_that_of_the_library() {
    let edges = [-1.5, -0.5, 0.0, 0.499_999_999_999_999_94, 0.5, 1.5, 2.5, 1e15 + 0.5, 1e19, 1e300];
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, (1u64 << 53) as f64];
    let many = (0..100_000u64).map(|i| f64::from_bits(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1));
    for x in edges.into_iter().chain(special).chain(many) {
        assert_eq!(round(x), x.round() as u64, "{x}");
    }
}

#[test]
fn display_names_the_unit() {
    assert_eq!(Time(1_234_567_890).to_string(), "1.235 ms");
    assert_eq!(Bytes(3 << 29).to_string(), "1.50 GiB");
    assert_eq!(Bytes(17).to_string(), "17 B");
    for (power, text) in [(40, "1.00 TiB"), (50, "1.00 PiB"), (60, "1.00 EiB")] {
        assert_eq!(Bytes(1 << power).to_string(), text);
    }
    assert_eq!(Bytes((1 << 50) - (1 << 40)).to_string(), "1023.00 TiB");
    assert_eq!(Bandwidth(63e9 * 0.8).gbps().to_string(), "50.4");
    assert_eq!(Bandwidth(f64::INFINITY).gbps(), f64::INFINITY);
}

#[test]
fn thousands_are_apart() {
    assert_eq!(grouped(1_234_567), "1,234,567");
    assert_eq!(grouped(999), "999");
}
