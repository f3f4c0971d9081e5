//! Rows side by side on all processors, in the order in which they were read.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::outcome::{Outcome, outcome};
use super::rows::Row;
use crate::core::interrupt::{carried, check};
use crate::lab::describe::RuleBook;

/// The outcomes of all rows. `progress` is told how many are done.
pub fn outcomes(
    rows: &[Row],
    book: &RuleBook,
    sets: &[String],
    progress: &(dyn Fn(u64) + Sync),
) -> Vec<Outcome> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let found: Mutex<Vec<(usize, Outcome)>> = Mutex::new(Vec::with_capacity(rows.len()));
    let work = || {
        while let Some((i, row)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, rows.get(i)?)))
        {
            check();
            let one = outcome(row, book, sets);
            if let Ok(mut list) = found.lock() {
                list.push((i, one));
            }
            progress(done.fetch_add(1, Ordering::Relaxed) as u64 + 1);
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(rows.len().max(1));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(carried(work));
        }
    });
    check();
    let mut list = found.into_inner().unwrap_or_default();
    list.sort_by_key(|(i, _)| *i);
    list.into_iter().map(|(_, outcome)| outcome).collect()
}
