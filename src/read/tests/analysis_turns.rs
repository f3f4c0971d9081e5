use stepsim_core::units::Time;
use stepsim_read::analysis::turns::*;

/// 3 to 5 comes twice more: of 4 to 8 the first unit does, what happens at 7 happens at 11.
#[test]
fn what_lies_in_a_turn_counts_as_often_as_it_comes() {
    let turn = Recurring { more: 2, within: (Time(3), Time(5)), ..Recurring::default() };
    assert_eq!(turn.longer(), Time(4));
    assert_eq!((turn.time(Time(4), Time(8)), turn.time(Time(5), Time(8))), (Time(6), Time(3)));
    assert_eq!((turn.moment(Time(5)), turn.moment(Time(7))), (Time(5), Time(11)));
    let none = Recurring::default();
    assert_eq!((none.time(Time(4), Time(8)), none.moment(Time(7))), (Time(4), Time(7)));
}
