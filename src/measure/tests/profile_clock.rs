use stepsim_measure::profile::clock::ns;

#[test]
fn microseconds_become_nanoseconds_without_a_double() {
    assert_eq!(ns("1712195496004644.183"), Some(1_712_195_496_004_644_183));
    assert_eq!(ns("4458676522690.655"), Some(4_458_676_522_690_655));
    assert_eq!(ns("844662.6224613283"), Some(844_662_622));
    assert_eq!(ns("17"), Some(17_000));
    assert_eq!(ns("\"17.5\""), Some(17_500));
    assert_eq!(ns("-0.25"), Some(-250));
    assert_eq!(ns("1.5e3"), Some(1_500_000));
    assert_eq!(ns("25e-5"), Some(0));
    assert_eq!(ns("0e99999"), Some(0));
}

#[test]
fn halves_go_to_the_even_one() {
    for n in 0..100 {
        assert_eq!(ns(&format!("0.{n:03}5")), Some(n + n % 2), "{n}");
    }
    assert_eq!(ns("0.00250001"), Some(3));
    assert_eq!(ns("0.00249999"), Some(2));
    assert_eq!(ns("0.0026"), Some(3));
}

#[test]
fn what_is_no_number_is_none() {
    for text in ["", "-", ".", "1.2.3", "abc", "NaN", "1e", "99999999999999999999", "1e40"] {
        assert_eq!(ns(text), None, "{text}");
    }
}
