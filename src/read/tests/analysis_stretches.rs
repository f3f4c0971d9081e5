use stepsim_core::units::Time;
use stepsim_read::analysis::stretches::*;

#[test]
fn an_amount_is_spread_over_the_stretches_that_it_touches() {
    let mut flops = Stretches::new(Time(5120));
    flops.add(Time(5), Time(25), 20.0);
    flops.add(Time(5100), Time(5120), 40.0);
    assert_eq!(flops.amounts[..4], [5.0, 10.0, 5.0, 0.0]);
    assert_eq!(flops.amounts[510..], [20.0, 20.0]);
    assert_eq!(flops.shares(2.0).take(2).collect::<Vec<_>>(), [(Time(0), 0.25), (Time(10), 0.5)]);
    assert_eq!(flops.amounts.iter().sum::<f64>(), 60.0);
}
