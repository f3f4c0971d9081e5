use stepsim_read::page::signed::*;

#[test]
fn gains_lie_left_of_zero_and_losses_right() {
    let line = |value| SignedBar { name: "nic × 2".into(), value, note: String::new() };
    let drawn = signed("what if", &[line(-0.5), line(1.0)]);
    // From −0.5 to 1: zero is a third from the left.
    assert!(drawn.contains("class=\"gain\" x=\"0.00%\" y=\"2\" width=\"33.33%\""), "{drawn}");
    assert!(drawn.contains("class=\"loss\" x=\"33.33%\" y=\"2\" width=\"66.67%\""), "{drawn}");
}
