//! A study as one HTML page: time against memory with their Pareto front, and a table to sort, each point with its
//! command.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::Value;

use super::formula_columns::{FARTHEST, OFF};
use super::formula_map::FormulaMap;
use super::plot::{Plot, short, text};
use super::rows::Row;
use super::space::set_text;
use stepsim_core::units::grouped;
use stepsim_simulate::page::lane::Looks;
use stepsim_simulate::page::sheet::{PlotPoint, Sheet, gib, quoted, seconds, table};
use stepsim_spec::SpecError;

/// Most rows of the table: the fastest.
const MOST_ROWS: usize = 5_000;

/// Rows without another that is both as fast and as small, fastest first.
pub fn front(rows: &[Row]) -> Vec<&Row> {
    let key = |row: &Row| Some((row.outcome.step_time_s?, row.outcome.memory_peak_bytes?));
    let mut ok: Vec<(&Row, (f64, u64))> = rows.iter().filter_map(|row| Some((row, key(row)?))).collect();
    ok.sort_by(|a, b| a.1.0.total_cmp(&b.1.0).then(a.1.1.cmp(&b.1.1)));
    let mut least = u64::MAX;
    ok.retain(|(_, (_, bytes))| {
        let smaller = *bytes < least;
        least = least.min(*bytes);
        smaller
    });
    ok.into_iter().map(|(row, _)| row).collect()
}

/// The page. `command` runs the workload that the points change: `stepsim run gpt2-8`; `typed` are the words of the
/// command that made it.
///
/// # Errors
/// The data cannot be plotted.
pub fn page(
    title: &str,
    command: &str,
    typed: &[String],
    rows: &[Row],
    plots: &[Plot],
) -> Result<String, SpecError> {
    let front = front(rows);
    let mut sheet = Sheet::new(title, Looks::default(), &[]);
    facts(&mut sheet, rows, &front);
    if let Some(plot) = axis(rows).filter(|plot| !plots.contains(plot)) {
        drawn(&mut sheet, &format!("Time by {}", plot.x), "", &plot.svg(rows)?);
    }
    if !front.is_empty() {
        let note = "On the front (joined): no other point is both as fast and as small.";
        drawn(&mut sheet, "Time and memory", note, &front_svg(rows, &front)?);
    }
    formula(&mut sheet, rows)?;
    for plot in plots {
        drawn(&mut sheet, &format!("{} by {}", plot.y, plot.x), "", &plot.svg(rows)?);
    }
    let note = match rows.len() > MOST_ROWS {
        true => format!("The fastest {} of {}.", grouped(MOST_ROWS as u64), grouped(rows.len() as u64)),
        false => "Fastest first.".to_owned(),
    };
    let (heads, points) = points(command, rows, &front);
    sheet.points("Points", &note, &heads, &points);
    sheet.command(typed, &Value::Null, &[]);
    sheet.finish(Value::Null, &Value::Null).map_err(|e| SpecError::file(title, e.to_string()))
}

/// The step over the one field that varies, if it is one.
fn axis(rows: &[Row]) -> Option<Plot> {
    let timed: Vec<&Row> = rows.iter().filter(|row| row.outcome.step_time_s.is_some()).collect();
    let paths: BTreeSet<&String> = timed.iter().flat_map(|row| row.settings.keys()).collect();
    let varies =
        |path: &&String| timed.iter().any(|row| row.settings.get(*path) != timed[0].settings.get(*path));
    let mut varied = paths.into_iter().filter(varies);
    let path = varied.next().filter(|_| varied.next().is_none())?;
    Some(Plot { x: path.clone(), y: "step_time_s".into(), colour: None })
}

/// The fastest point, and how many there are.
fn facts(sheet: &mut Sheet, rows: &[Row], front: &[&Row]) {
    let mut facts = Vec::new();
    if let Some(best) = front.first() {
        facts.extend(best.outcome.step_time_s.map(|s| (seconds(s), "a step of the fastest point")));
        facts.extend(best.outcome.mfu.map(|mfu| (format!("{:.1} %", 100.0 * mfu), "its MFU")));
        facts
            .extend(best.outcome.memory_peak_bytes.map(|b| (gib(b as f64), "its device memory at the peak")));
    }
    let with_result = rows.iter().filter(|row| row.outcome.step_time_s.is_some()).count();
    facts.push((grouped(rows.len() as u64), "points"));
    facts.push((grouped(with_result as u64), "with a result"));
    sheet.facts(facts.into_iter().map(|(value, what)| (value, what.to_owned())));
    if let Some(best) = front.first() {
        let settings: Vec<String> =
            best.settings.iter().map(|(path, value)| format!("{path} {}", text(value))).collect();
        sheet.lead(&format!("The fastest: {}", settings.join(", ")));
    }
}

/// Where and why a formula is off, if one was held to the points.
fn formula(sheet: &mut Sheet, rows: &[Row]) -> Result<(), SpecError> {
    let Some(map) = FormulaMap::of(rows) else { return Ok(()) };
    let plot = Plot { x: "step_time_s".into(), y: OFF.into(), colour: Some(FARTHEST.into()) };
    drawn(sheet, "How far the formula is off", &map.sentence(), &plot.svg(rows)?);
    for (title, note, (heads, cells)) in [
        (
            "The formula by term",
            "Formula less closed form, in percent of the closed form's step.",
            map.by_term(),
        ),
        ("The formula by setting", "Formula less the point's own step, in percent of it.", map.by_setting()),
    ] {
        sheet.section(title, note, |out| table(out, &heads, 2, cells));
    }
    Ok(())
}

fn drawn(sheet: &mut Sheet, title: &str, note: &str, svg: &str) {
    sheet.section(title, note, |out| {
        let _ = write!(out, "<div class=\"plot\">{svg}</div>");
    });
}

/// All points by memory and time, the front's in a colour of their own and joined.
fn front_svg(rows: &[Row], front: &[&Row]) -> Result<String, SpecError> {
    let is_front = |row: &Row| front.iter().any(|other| std::ptr::eq(*other, row));
    let marked: Vec<Row> = rows
        .iter()
        .map(|row| {
            let mut marked = row.clone();
            marked
                .settings
                .insert("front".into(), if is_front(row) { "front" } else { "other points" }.into());
            marked
        })
        .collect();
    Plot { x: "memory_peak_GiB".into(), y: "step_time_s".into(), colour: Some("front".into()) }.svg(&marked)
}

/// Headings and rows, fastest first: numbers, then a column for each setting.
fn points(command: &str, rows: &[Row], front: &[&Row]) -> (Vec<String>, Vec<PlotPoint>) {
    let mut paths: Vec<&String> = Vec::new();
    for path in rows.iter().flat_map(|row| row.settings.keys()) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    let heads = ["point", "step, s", "MFU, %", "memory, GiB", "front"].map(str::to_string).into_iter();
    let heads = heads.chain(paths.iter().map(|path| path.to_string())).chain(["status".to_string()]);
    let mut shown: Vec<&Row> = rows.iter().collect();
    let time = |row: &Row| row.outcome.step_time_s.unwrap_or(f64::INFINITY);
    shown.sort_by(|a, b| time(a).total_cmp(&time(b)));
    let point = |row: &&Row| point(command, row, &paths, front);
    (heads.collect(), shown.iter().take(MOST_ROWS).map(point).collect())
}

fn point(command: &str, row: &Row, paths: &[&String], front: &[&Row]) -> PlotPoint {
    let o = &row.outcome;
    let number = |x: Option<f64>| x.map(short).unwrap_or_default();
    let sets: Vec<String> = row
        .settings
        .iter()
        .map(|(path, value)| format!("--set {}", quoted(&set_text(path, value))))
        .collect();
    let on = front.iter().any(|other| std::ptr::eq(*other, row));
    let cells = [
        row.point.to_string(),
        number(o.step_time_s),
        number(o.mfu.map(|x| 100.0 * x)),
        number(o.memory_peak_bytes.map(|b| b as f64 / (1u64 << 30) as f64)),
        if on { "●" } else { "" }.to_string(),
    ];
    let of_paths = paths.iter().map(|path| row.settings.get(*path).map(text).unwrap_or_default());
    let status = row.column("status").map(|status| text(&status)).unwrap_or_default();
    PlotPoint {
        cells: cells.into_iter().chain(of_paths).chain([status]).collect(),
        command: format!("{command} {}", sets.join(" ")),
        message: o.message.clone().unwrap_or_default(),
    }
}
