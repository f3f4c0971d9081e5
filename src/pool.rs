//! Independent pieces of work on several threads.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// So many threads as asked for, or as there are processors.
pub fn threads(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1)
}

/// Results of so long are handed over together.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Does pieces 0 to `count` − 1 and hands each result to `done` as it comes, in any order, on this thread. After a break
/// no further piece is begun.
pub fn each<T: Send>(
    count: usize,
    threads: usize,
    work: &(dyn Fn(usize) -> T + Sync),
    done: &mut dyn FnMut(usize, T) -> ControlFlow<()>,
) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (send, results) = mpsc::channel();
        for _ in 0..threads.min(count) {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                let mut sent = Instant::now();
                let mut made = Vec::new();
                loop {
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
                        sent = Instant::now();
                    }
                }
            });
        }
        drop(send);
        for (i, result) in results.into_iter().flatten() {
            if done(i, result).is_break() {
                break;
            }
        }
    });
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
