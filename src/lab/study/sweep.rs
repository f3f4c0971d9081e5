//! Every point of a space, each a row.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::base::Base;
use super::columns::Columns;
use super::outcome::{How, Outcome};
use super::rows::{Journal, Row, StudyError, of_csv, present, read_csv, write_rows};
use super::space::Space;
use super::valued::{Valued, Valuer};
use crate::core::pool;
use crate::step::spec::SpecError;

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
    if let Some(path) =
        options.output.as_ref().filter(|path| options.resume && of_csv(path) && path.is_file())
        && journal_path.as_ref().is_some_and(|journal| !journal.is_file())
    {
        return finished(path, &Valuer { base, space, how, columns }, &points, threads);
    }
    let interrupted = options.resume && journal_path.as_ref().is_some_and(|path| path.is_file());
    if let Some(path) = options.output.as_ref().filter(|path| !interrupted && path.is_file()) {
        return Err(present(path).into());
    }
    let (mut journal, known) = match &journal_path {
        Some(path) => {
            let (journal, known) = Journal::open(path, options.resume)?;
            (Some(journal), known)
        }
        None => (None, HashMap::new()),
    };
    let valuer = Valuer { base, space, how, columns };
    let groups = valuer.groups(&points);
    if let Some(path) = journal_path.as_ref().filter(|_| !known.is_empty()) {
        let keys = keys(&valuer, &groups, threads);
        own(&known, &keys.iter().map(|(_, key)| key.as_str()).collect(), path)?;
    }
    let claimed: Mutex<HashSet<String>> = Mutex::new(known.keys().cloned().collect());
    let new = |key: &str| claimed.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_string());
    let (mut rows, mut repeated) = (BTreeMap::new(), Vec::new());
    let (mut failed, mut done, mut stopped) = (None, 0, false);
    let value = |i: usize| valuer.value(&groups[i], &new);
    pool::each(groups.len(), threads, &value, &mut |i, valued| {
        done += valued.len() as u64;
        let mut lines = String::new();
        for (&point, valued) in groups[i].iter().zip(valued) {
            let Valued { key, settings, outcome: Some(outcome) } = valued else {
                repeated.push((point, valued));
                continue;
            };
            let row = Row { key, point: point as u64, settings, outcome };
            lines += &row.line();
            rows.insert(point, row);
        }
        if let Some(Err(e)) = journal.as_mut().map(|journal| journal.append(&lines)) {
            failed = Some(e);
            return ControlFlow::Break(());
        }
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
    add_repeated(&mut rows, repeated, known);
    let rows: Vec<Row> = rows.into_values().collect();
    if let Some(path) = &options.output {
        write_rows(path, &rows)?;
        if let Some(journal) = journal_path.filter(|_| of_csv(path)) {
            // The rows are whole under their own name: a journal that stays does no harm.
            let _ = std::fs::remove_file(journal);
        }
    }
    Ok(rows)
}

/// The rows of a study whose file of comma-separated values is finished; such a file has no journal.
///
/// # Errors
/// It is another study's, or has not all points of this one.
fn finished(
    path: &Path,
    valuer: &Valuer<'_>,
    points: &[usize],
    threads: usize,
) -> Result<Vec<Row>, StudyError> {
    let rows = read_csv(path)?;
    let known = rows.iter().map(|row| (row.key.clone(), row.outcome.clone())).collect();
    let keys = keys(valuer, &valuer.groups(points), threads);
    own(&known, &keys.iter().map(|(_, key)| key.as_str()).collect(), path)?;
    if keys.iter().any(|(_, key)| !known.contains_key(key)) {
        return Err(present(path).into());
    }
    Ok(rows)
}

/// Adds the rows of points whose inputs have been valued before, by an interrupted sweep or for another point.
fn add_repeated(
    rows: &mut BTreeMap<usize, Row>,
    repeated: Vec<(usize, Valued)>,
    mut known: HashMap<String, Outcome>,
) {
    let keys: HashSet<&String> =
        repeated.iter().map(|(_, valued)| &valued.key).filter(|key| !known.contains_key(*key)).collect();
    let found: Vec<(String, Outcome)> = rows
        .values()
        .filter(|row| keys.contains(&row.key))
        .map(|row| (row.key.clone(), row.outcome.clone()))
        .collect();
    known.extend(found);
    for (point, Valued { key, settings, .. }) in repeated {
        let outcome = known.get(&key).cloned().unwrap_or_default();
        rows.insert(point, Row { key, point: point as u64, settings, outcome });
    }
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
    let all: Vec<usize> = (0..space.count()).collect();
    let valuer = Valuer { base, space, how, columns };
    let keys = keys(&valuer, &valuer.groups(&all), threads);
    own(&known, &keys.iter().map(|(_, key)| key.as_str()).collect(), path)?;
    let mut missing: Vec<usize> =
        keys.into_iter().filter(|(_, key)| !known.contains_key(key)).map(|(point, _)| point).collect();
    missing.sort_unstable();
    Ok(missing)
}

/// All points with their keys.
fn keys(valuer: &Valuer<'_>, groups: &[Vec<usize>], threads: usize) -> Vec<(usize, String)> {
    let of_group = pool::all(groups.len(), threads, &|i| valuer.value(&groups[i], &|_| false));
    let keys = of_group.into_iter().flatten().map(|valued| valued.key);
    groups.iter().flatten().copied().zip(keys).collect()
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
