//! Every point of a space, each a row.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::base::StudyBase;
use super::columns::ReportColumns;
use super::csv::of_csv;
use super::journal::Journal;
use super::outcome::How;
use super::rows::{Row, StudyError, finished, present};
use super::space::Space;
use super::valued::{ValuedPoint, Valuer};
use stepsim_core::pool;
use stepsim_spec::SpecError;

/// One of several parts of a sweep that need not know of each other: every `of`-th point from `number` on, counted
/// from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepShard {
    /// The part, 1 to `of`.
    pub number: usize,
    /// How many parts.
    pub of: usize,
}

impl SweepShard {
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
    /// The columns of rows from the report of their step; the closed form has none.
    pub columns: ReportColumns,
    /// The part of the points.
    pub shard: SweepShard,
    /// Threads; default: as many as processors.
    pub threads: Option<usize>,
    /// Where rows are kept: JSON lines, or comma-separated values where the name ends in `.csv` (the journal of these
    /// stands beside it until they are whole, its name with `.jsonl` behind).
    pub output: Option<PathBuf>,
    /// True to go on with the rows that are there.
    pub resume: bool,
}

/// Values every point and returns the rows in the order of the points, whatever the threads: [`sweep_each`], all of
/// them in memory.
///
/// # Errors
/// As [`sweep_each`].
pub fn sweep(
    base: &StudyBase,
    space: &Space,
    options: &SweepOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Vec<Row>, StudyError> {
    let mut rows = Vec::new();
    let _dropped = sweep_each(base, space, options, progress, &mut |row| rows.push(row))?;
    Ok(rows)
}

/// Values every point, and at the end shows each row in the order of the points. Points with equal inputs are played
/// once. Rows that are written to a file are not kept in memory. `progress` is told how many points are done, and may
/// stop the sweep: its result file can then be resumed. Returns how many bytes of broken lines were dropped from the
/// end of a file that was resumed.
///
/// # Errors
/// A result file that is another study's or cannot be written; the sweep was stopped.
pub fn sweep_each(
    base: &StudyBase,
    space: &Space,
    options: &SweepOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    see: &mut dyn FnMut(Row),
) -> Result<u64, StudyError> {
    let (how, columns) = (options.how, &options.columns);
    if how == How::ClosedForm && !columns.is_empty() {
        return Err(SpecError::file("--columns", "the closed form writes no report to take columns from")
            .hint("leave --closed-form or --columns out")
            .into());
    }
    let points = options.shard.points(space.count());
    let threads = pool::threads(options.threads);
    let valuer = Valuer { base, space, how, columns };
    let Some(output) = &options.output else {
        let mut rows = BTreeMap::new();
        let repeated = value_all(&valuer, &points, threads, &HashSet::new(), progress, &mut |some| {
            rows.extend(some.into_iter().map(|row| (row.point as usize, row)));
            Ok(())
        })?;
        add_repeated(&mut rows, repeated, space);
        rows.into_values().for_each(see);
        return Ok(0);
    };
    let journal_path =
        if of_csv(output) { PathBuf::from(format!("{}.jsonl", output.display())) } else { output.clone() };
    let (whole, begun) = (output.is_file(), journal_path.is_file());
    if whole && !(options.resume && begun) {
        let refused = if options.resume { finished(output) } else { present(output) };
        return Err(refused.into());
    }
    let mut journal = Journal::open(&journal_path, options.resume)?;
    let dropped = journal.dropped;
    let known: HashSet<String> = journal.keys().cloned().collect();
    if !known.is_empty() {
        own(&known, &keys(&valuer, &points, threads), &journal_path)?;
    }
    let repeated = value_all(&valuer, &points, threads, &known, progress, &mut |some| journal.append(some))?;
    journal.finish(output, &repeated, &|point, row| of_point(row, point, space), see)?;
    if of_csv(output) {
        // The rows are whole under their own name: a journal that stays does no harm.
        let _ = std::fs::remove_file(journal_path);
    }
    Ok(dropped)
}

/// Values points whose keys are not `known`, hands their rows over as they come, and returns those that need not be
/// valued: each with its key.
fn value_all(
    valuer: &Valuer<'_>,
    points: &[usize],
    threads: usize,
    known: &HashSet<String>,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    keep: &mut dyn FnMut(Vec<Row>) -> Result<(), StudyError>,
) -> Result<Vec<(usize, String)>, StudyError> {
    let groups = valuer.groups(points);
    let claimed = Mutex::new(HashSet::new());
    let new = |key: &str| {
        !known.contains(key) && claimed.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_string())
    };
    let value = |i: usize| valuer.value(&groups[i], &new);
    let (mut repeated, mut done) = (Vec::new(), 0);
    let mut end = Ok(());
    pool::each(groups.len(), threads, &value, &mut |i, valued| {
        done += valued.len();
        let mut rows = Vec::with_capacity(valued.len());
        for (&point, ValuedPoint { key, settings, outcome }) in groups[i].iter().zip(valued) {
            match outcome {
                Some(outcome) => rows.push(Row { key, point: point as u64, settings, outcome }),
                None => repeated.push((point, key)),
            }
        }
        end = keep(rows);
        if end.is_err() {
            return ControlFlow::Break(());
        }
        let next = progress(done as u64);
        if next.is_break() && done < points.len() {
            end = Err(StudyError::Stopped);
        }
        next
    });
    end.map(|()| repeated)
}

/// Adds the rows of points whose inputs were valued for another point.
fn add_repeated(rows: &mut BTreeMap<usize, Row>, repeated: Vec<(usize, String)>, space: &Space) {
    let keys: HashSet<&String> = repeated.iter().map(|(_, key)| key).collect();
    let known: HashMap<String, Row> = rows
        .values()
        .filter(|row| keys.contains(&row.key))
        .map(|row| (row.key.clone(), row.clone()))
        .collect();
    for (point, key) in &repeated {
        if let Some(mut row) = known.get(key).cloned() {
            of_point(&mut row, *point, space);
            rows.insert(*point, row);
        }
    }
}

/// Makes a row of equal inputs the point's own.
fn of_point(row: &mut Row, point: usize, space: &Space) {
    row.point = point as u64;
    row.settings = space.point(point);
}

/// The points of a study that have no row yet in a result file that was interrupted (or is not there); a line that
/// was cut off is taken out of it.
///
/// # Errors
/// A result file that is another study's or cannot be read.
pub fn missing(
    base: &StudyBase,
    space: &Space,
    (how, columns): (How, &ReportColumns),
    path: &Path,
) -> Result<Vec<usize>, StudyError> {
    let known: HashSet<String> = Journal::open(path, true)?.keys().cloned().collect();
    let all: Vec<usize> = (0..space.count()).collect();
    let keys = keys(&Valuer { base, space, how, columns }, &all, pool::threads(None));
    own(&known, &keys, path)?;
    let mut missing: Vec<usize> =
        keys.into_iter().filter(|(_, key)| !known.contains(key)).map(|(point, _)| point).collect();
    missing.sort_unstable();
    Ok(missing)
}

/// All points with their keys.
fn keys(valuer: &Valuer<'_>, points: &[usize], threads: usize) -> Vec<(usize, String)> {
    let groups = valuer.groups(points);
    let of_group = pool::all(groups.len(), threads, &|i| valuer.value(&groups[i], &|_| false));
    let keys = of_group.into_iter().flatten().map(|valued| valued.key);
    groups.iter().flatten().copied().zip(keys).collect()
}

/// Refuses rows that are no points of this study.
fn own(known: &HashSet<String>, keys: &[(usize, String)], path: &Path) -> Result<(), SpecError> {
    let keys: HashSet<&String> = keys.iter().map(|(_, key)| key).collect();
    let foreign = known.iter().filter(|key| !keys.contains(key)).count();
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
