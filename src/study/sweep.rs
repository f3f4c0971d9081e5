//! Every point of a space, each a row.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::base::Base;
use super::columns::Columns;
use super::outcome::{How, Outcome, reported};
use super::rows::{Journal, Row, StudyError, of_csv, present, write_rows};
use super::space::{Space, set_text};
use crate::pool;
use crate::simulate::Inputs;
use crate::spec::{SpecError, hash};

/// One of several parts of a sweep that need not know of each other: every `of`-th point from `number` on, counted
/// from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which part, 1 to `of`.
    pub number: usize,
    /// How many parts.
    pub of: usize,
}

impl Shard {
    /// The points of this part of `count`.
    pub fn points(self, count: usize) -> Vec<usize> {
        (self.number - 1..count).step_by(self.of).collect()
    }
}

/// How to sweep.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// How points are valued.
    pub how: How,
    /// What rows have of the report of their step; the closed form has none.
    pub columns: Columns,
    /// Which of them.
    pub shard: Shard,
    /// Threads; default: as many as processors.
    pub threads: Option<usize>,
    /// Where rows are kept: JSON lines, or comma-separated values where the name ends in `.csv` (the journal of these
    /// stands beside it until they are whole, its name with `.jsonl` behind).
    pub output: Option<PathBuf>,
    /// Whether to go on with the rows that are there.
    pub resume: bool,
}

/// Values every point and returns the rows in the order of the points, whatever the threads. Points with equal inputs are
/// played once. `progress` is told how many are done, and may stop the sweep: its result file can then be resumed.
///
/// # Errors
/// A result file that is another study's or cannot be written; the sweep was stopped.
pub fn sweep(
    base: &Base,
    space: &Space,
    options: &SweepOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Vec<Row>, StudyError> {
    let (how, columns) = (options.how, &options.columns);
    if how == How::ClosedForm && !columns.is_empty() {
        return Err(SpecError::file("--columns", "the closed form writes no report to take columns from")
            .hint("leave --closed-form or --columns out")
            .into());
    }
    let points = options.shard.points(space.count());
    let threads = pool::threads(options.threads);
    let journal_path = options.output.as_ref().map(|path| {
        if of_csv(path) { PathBuf::from(format!("{}.jsonl", path.display())) } else { path.clone() }
    });
    let interrupted = options.resume && journal_path.as_ref().is_some_and(|path| path.is_file());
    if let Some(path) = options.output.as_ref().filter(|path| !interrupted && path.is_file()) {
        return Err(present(path).into());
    }
    let (mut journal, mut known) = match &journal_path {
        Some(path) => {
            let (journal, known) = Journal::open(path, options.resume)?;
            (Some(journal), known)
        }
        None => (None, HashMap::new()),
    };
    let prepare = |i: usize| Prepared::of(base, space.point(points[i]), how, columns);
    if let Some(path) = journal_path.as_ref().filter(|_| !known.is_empty()) {
        let keys = pool::all(points.len(), threads, &|i| prepare(i).key);
        own(&known, &keys.iter().map(String::as_str).collect(), path)?;
    }
    let claimed: Mutex<HashSet<String>> = Mutex::new(known.keys().cloned().collect());
    let value = |i: usize| {
        let prepared = prepare(i);
        let new = claimed.lock().unwrap_or_else(PoisonError::into_inner).insert(prepared.key.clone());
        let (key, settings) = (prepared.key.clone(), prepared.settings.clone());
        (key, settings, new.then(|| prepared.outcome(how, columns)))
    };
    let mut rows: Vec<Option<(String, _)>> = (0..points.len()).map(|_| None).collect();
    let (mut failed, mut done, mut stopped) = (None, 0, false);
    pool::each(points.len(), threads, &value, &mut |i, (key, settings, found)| {
        if let Some(outcome) = found {
            known.insert(key.clone(), outcome.clone());
            let point = points[i] as u64;
            let row = Row { key: key.clone(), point, settings: settings.clone(), outcome };
            if let Some(Err(e)) = journal.as_mut().map(|journal| journal.append(&row)) {
                failed = Some(e);
                return ControlFlow::Break(());
            }
        }
        rows[i] = Some((key, settings));
        done += 1;
        let next = progress(done);
        stopped = next.is_break() && (done as usize) < points.len();
        next
    });
    if let Some(e) = failed {
        return Err(e);
    }
    if stopped {
        return Err(StudyError::Stopped);
    }
    let whole = |(point, (key, settings)): (usize, (String, _))| {
        let outcome = known.get(&key).cloned().unwrap_or_default();
        Row { key, point: point as u64, settings, outcome }
    };
    let rows: Vec<Row> = points.iter().copied().zip(rows.into_iter().flatten()).map(whole).collect();
    if let Some(path) = &options.output {
        write_rows(path, &rows)?;
        if let Some(journal) = journal_path.filter(|_| of_csv(path)) {
            // The rows are whole under their own name: a journal that stays does no harm.
            let _ = std::fs::remove_file(journal);
        }
    }
    Ok(rows)
}

/// The points of a study that have no row yet in a result file that was interrupted (or is not there); a line that was cut
/// off is taken out of it.
///
/// # Errors
/// A result file that is another study's or cannot be read.
pub fn missing(
    base: &Base,
    space: &Space,
    (how, columns): (How, &Columns),
    path: &Path,
) -> Result<Vec<usize>, StudyError> {
    let (_, known) = Journal::open(path, true)?;
    let threads = pool::threads(None);
    let keys = pool::all(space.count(), threads, &|i| Prepared::of(base, space.point(i), how, columns).key);
    own(&known, &keys.iter().map(String::as_str).collect(), path)?;
    Ok((0..keys.len()).filter(|i| !known.contains_key(&keys[*i])).collect())
}

/// Refuses rows that are no points of this study.
fn own(known: &HashMap<String, Outcome>, keys: &HashSet<&str>, path: &Path) -> Result<(), SpecError> {
    let foreign = known.keys().filter(|key| !keys.contains(key.as_str())).count();
    if foreign == 0 {
        return Ok(());
    }
    let problem = format!("{foreign} of its {} rows are no points of this study", known.len());
    Err(SpecError::file(path.display().to_string(), problem)
        .allowed(
            "rows of the same workload, machine, settings, columns, shard and way of valuing, by the same version",
        )
        .hint("give the study that wrote the file, or another name after -o"))
}

/// A point before it is valued.
struct Prepared {
    key: String,
    settings: serde_json::Map<String, serde_json::Value>,
    inputs: Result<Box<Inputs>, SpecError>,
}

impl Prepared {
    fn of(
        base: &Base,
        settings: serde_json::Map<String, serde_json::Value>,
        how: How,
        columns: &Columns,
    ) -> Prepared {
        let sets: Vec<String> = settings.iter().map(|(path, value)| set_text(path, value)).collect();
        let inputs = base.inputs(&sets);
        let content = match &inputs {
            Ok(inputs) => format!("{} {}", inputs.workload.hash, inputs.topology.hash),
            // What cannot be resolved has no inputs: the message stands for them.
            Err(e) => format!("{} {e}", sets.join(" ")),
        };
        let key = hash(&format!("{} {how:?}{} {content}", env!("CARGO_PKG_VERSION"), columns.key()));
        Prepared { key, settings, inputs: inputs.map(Box::new) }
    }
    fn outcome(&self, how: How, columns: &Columns) -> Outcome {
        match &self.inputs {
            Ok(inputs) => reported(inputs, how, columns),
            Err(e) => Outcome::of_fault(e.into()),
        }
    }
}
