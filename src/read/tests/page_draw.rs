use stepsim_read::page::draw::ticks;

#[test]
fn scales_have_round_numbers() {
    let of = |end: f64| ticks(end).into_iter().map(|t| t.1).collect::<Vec<_>>();
    assert_eq!(of(167_902.0), ["0 us", "50 us", "100 us", "150 us"]);
    assert_eq!(of(129_012_000.0), ["0 ms", "50 ms", "100 ms"]);
    assert_eq!(of(2.6e9), ["0.0 s", "0.5 s", "1.0 s", "1.5 s", "2.0 s", "2.5 s"]);
    assert_eq!(of(26e9)[1], "5 s");
}
