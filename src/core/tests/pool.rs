use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use stepsim_core::clock::Clock;
use stepsim_core::pool::*;

/// Pieces wait for the result of the first, which took longer than results are kept back.
#[test]
fn a_result_is_handed_over_while_the_next_piece_is_worked_on() {
    let seen = AtomicBool::new(false);
    let work = |i: usize| {
        if i == 0 {
            std::thread::sleep(2 * AT_ONCE);
            return true;
        }
        let started = Clock::start();
        while !seen.load(Ordering::Relaxed) && started.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        seen.load(Ordering::Relaxed)
    };
    let mut in_time = Vec::new();
    each(3, 2, &work, &mut |_, result| {
        seen.store(true, Ordering::Relaxed);
        in_time.push(result);
        ControlFlow::Continue(())
    });
    assert_eq!(in_time, [true; 3]);
}

/// Quick pieces are handed over together, each once; after a break nothing more comes.
#[test]
fn every_result_comes_once_until_a_break() {
    let mut sum = 0;
    each(10_000, 3, &|i| i, &mut |i, result| {
        assert_eq!(i, result);
        sum += result;
        ControlFlow::Continue(())
    });
    assert_eq!(sum, 9_999 * 5_000);
    let mut count = 0;
    each(10_000, 3, &|i| i, &mut |_, _| {
        count += 1;
        if count == 7 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(count, 7);
}

/// Where there is no other thread, pieces are done on this one, in their order.
#[test]
fn one_thread_is_this_one() {
    let (here, mut order) = (std::thread::current().id(), Vec::new());
    each(5, 1, &|i| (i, std::thread::current().id()), &mut |_, (i, on)| {
        assert_eq!(on, here);
        order.push(i);
        if i == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(order, [0, 1, 2, 3]);
}

/// Two threads of pieces that are handed over one by one end soon after the break.
#[test]
fn no_piece_is_begun_after_a_break() {
    let begun = AtomicUsize::new(0);
    let work = |_| {
        begun.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(2 * AT_ONCE);
    };
    each(1000, 2, &work, &mut |_, ()| ControlFlow::Break(()));
    assert!(begun.into_inner() < 500);
}
