use std::sync::Arc;

use stepsim_core::interrupt::*;
use stepsim_core::pool;

#[test]
fn work_ends_at_the_next_check_and_drops_what_it_had() {
    let (token, held) = (InterruptToken::default(), Arc::new(()));
    let work = || {
        let _kept = Arc::clone(&held);
        check();
        token.pull();
        check();
        unreachable!("called off")
    };
    assert_eq!(until(&token, work), None::<()>);
    assert_eq!(Arc::strong_count(&held), 1);
    check();
}

#[test]
fn threads_of_the_work_end_too() {
    let token = InterruptToken::default();
    let work = |i| {
        if i == 5 {
            token.pull();
        }
        check();
    };
    assert_eq!(until(&token, || pool::all(1000, 3, &work).len()), None);
    assert_eq!(until(&InterruptToken::default(), || pool::all(4, 2, &|i| i).len()), Some(4));
}

#[test]
#[should_panic(expected = "a defect")]
fn a_panic_stays_a_panic() {
    until(&InterruptToken::default(), || panic!("a defect"));
}
