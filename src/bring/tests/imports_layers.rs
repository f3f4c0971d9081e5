use stepsim_bring::imports::layers::{regular, sum_of_lists};

#[test]
fn lists_of_layers_with_experts_are_read() {
    let of = |text| sum_of_lists(text).as_deref().and_then(regular);
    assert_eq!(of("[0]*3+[1]*58"), Some((3, 1)));
    assert_eq!(of("'([0] * 1 + [1] * 26)'"), Some((1, 1)));
    assert_eq!(of("[0,1]*24"), Some((1, 2)));
    assert_eq!(of("[1]*1+[0]*5"), None, "experts in the first layer alone");
    assert_eq!(of("every second"), None);
}
