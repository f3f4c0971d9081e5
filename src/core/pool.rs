//! Independent pieces of work on several threads.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::clock::Clock;
use super::interrupt::{carried, check};

/// So many threads as asked for, or as there are processors.
pub fn threads(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1)
}

/// A piece so large is kept by the allocator once it was given back, and so are all smaller ones: the most that glibc
/// allows is 32 MiB.
const KEPT_BYTES: usize = 31 << 20;

/// Has memory that one piece of work gives back serve the next. Large pieces otherwise return to the system, which
/// zeroes each page anew; pages given back here stay untouched.
fn keep_memory() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(KEPT_BYTES)));
}

/// Results of so long are handed over together.
pub const AT_ONCE: Duration = Duration::from_millis(1);

/// Does pieces 0 to `count` − 1 and hands each result to `done` as it comes, in any order, on this thread. After a
/// break no further piece is begun. One thread is this one: where there are no others, as in a browser, work goes on.
pub fn each<T: Send>(
    count: usize,
    threads: usize,
    work: &(dyn Fn(usize) -> T + Sync),
    done: &mut dyn FnMut(usize, T) -> ControlFlow<()>,
) {
    keep_memory();
    if threads.min(count) <= 1 {
        return alone(count, work, done);
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (send, results) = mpsc::channel();
        for _ in 0..threads.min(count) {
            let (send, next) = (send.clone(), &next);
            scope.spawn(carried(move || {
                let mut sent = Clock::start();
                let mut made = Vec::new();
                loop {
                    check();
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let last = i >= count;
                    if !last {
                        made.push((i, work(i)));
                    }
                    // Results that take less than waking the other thread up are handed over together.
                    if last || sent.elapsed() > AT_ONCE {
                        let closed = send.send(std::mem::take(&mut made)).is_err();
                        if last || closed {
                            break;
                        }
                        sent = Clock::start();
                    }
                }
            }));
        }
        drop(send);
        for (i, result) in results.into_iter().flatten() {
            if done(i, result).is_break() {
                break;
            }
        }
    });
    check();
}

/// Does the pieces in their order on this thread.
fn alone<T>(count: usize, work: &dyn Fn(usize) -> T, done: &mut dyn FnMut(usize, T) -> ControlFlow<()>) {
    for i in 0..count {
        check();
        if done(i, work(i)).is_break() {
            break;
        }
    }
    check();
}

/// The results of all pieces in their order.
pub fn all<T: Send>(count: usize, threads: usize, work: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
    let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
    each(count, threads, work, &mut |i, result| {
        results[i] = Some(result);
        ControlFlow::Continue(())
    });
    results.into_iter().flatten().collect()
}
