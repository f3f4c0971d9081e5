use stepsim_form::analytic::least::Least;
use stepsim_form::analytic::pass_time::*;

#[test]
fn a_pass_twice_is_twice_each_part_of_it() {
    let once =
        PassTime { compute: 1.0, tensor: 2.0, context: 3.0, expert: 4.0, host: 5.0, least: Least::default() };
    let mut sum = once;
    sum += once;
    assert_eq!(once.times(2.0), sum);
    assert_eq!(sum.total(), 30.0);
}
