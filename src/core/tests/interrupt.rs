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
fn a_token_ends_with_its_time_and_with_those_around_it() {
    let whole = InterruptToken::default();
    let (timed, untimed) = (whole.within(Some(0.0)), whole.within(None));
    assert!(!untimed.is_pulled() && until(&whole.within(Some(1e9)), check).is_some());
    std::thread::sleep(std::time::Duration::from_millis(1));
    assert!(timed.is_pulled() && until(&timed, check).is_none());
    // Work inside other work ends with it, and the other then at its own next check.
    let inner = || {
        whole.pull();
        until(&InterruptToken::default(), check)
    };
    assert_eq!(until(&whole, || (inner(), check())), None);
    assert!(untimed.is_pulled());
}

#[test]
#[should_panic(expected = "a defect")]
fn a_panic_stays_a_panic() {
    until(&InterruptToken::default(), || panic!("a defect"));
}
