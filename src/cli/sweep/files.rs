//! Files made of rows: tables, pictures, pages, one file of several.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use comfy_table::{Table, presets};
use serde_json::Value;

use super::super::command_line;
use super::super::outputs::WRITTEN;
use super::super::tables::right;
use super::super::{Failure, say};
use stepsim_measure::score::ranges::range_in_words;
use stepsim_simulate::page::sheet::quoted;
use stepsim_study::{FormulaMap, Plot, Row, of_one_term, page, read_rows, set_text, write_rows, write_text};

/// Pictures of rows.
#[derive(Debug, clap::Args)]
pub(super) struct PlotOptions {
    /// Draw two columns, coloured by a third (or several joined by `+`), as SVG beside the rows, with its figures as
    /// .csv: a field, `step_time_s`, `mfu`, `memory_peak_GiB`, `exposed_tp_s`, ...; repeatable
    #[arg(long, value_name = "X,Y[,COLOUR]", requires = "output")]
    plot: Vec<String>,
    /// Write a page: Pareto front of time and memory, plots, a table to sort, each point with its command
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    html: Option<PathBuf>,
}

impl PlotOptions {
    pub(super) fn html(&self) -> Option<&Path> {
        self.html.as_deref()
    }
    pub(super) fn plots(&self) -> Result<Vec<Plot>, Failure> {
        self.plot.iter().map(|text| Plot::parse(text).map_err(Failure::input)).collect()
    }

    /// Draws, and says what was written. `rows` stand in the file `output`; `command` is what runs a point once its own
    /// settings stand behind it.
    pub(super) fn write(
        &self,
        plots: &[Plot],
        rows: &[Row],
        output: Option<&Path>,
        command: &str,
    ) -> Result<String, Failure> {
        let mut text = draw(plots, rows, output.unwrap_or(Path::new("rows")))?;
        if let Some(path) = &self.html {
            let title = format!("Study of {}", command.split_whitespace().nth(2).unwrap_or("rows"));
            let html =
                page(&title, command, &command_line::command(), rows, plots).map_err(Failure::input)?;
            write_text(path, &html).map_err(Failure::run)?;
            text += &format!("page: {}\n", path.display());
        }
        Ok(text)
    }
}

/// Draws each plot beside the file of its rows, and says what was written.
fn draw(plots: &[Plot], rows: &[Row], beside: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    for plot in plots {
        let stem = format!("{}.{}-by-{}", beside.with_extension("").display(), plot.y, plot.x);
        let (svg, data) = (plot.svg(rows).map_err(Failure::input)?, plot.data(rows).map_err(Failure::input)?);
        write_text(Path::new(&format!("{stem}.svg")), &svg).map_err(Failure::run)?;
        write_text(Path::new(&format!("{stem}.csv")), &data).map_err(Failure::run)?;
        text += &format!("plot: {stem}.svg, its figures: {stem}.csv\n");
    }
    Ok(text)
}

/// Put parts of a study together.
#[derive(Debug, clap::Args)]
pub(super) struct Merge {
    /// Files that `sweep -o` wrote, whole or interrupted
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write all rows here in the order of the points: JSON lines, or comma-separated values where the name ends in
    /// .csv
    #[arg(short, long, value_name = "FILE", help_heading = WRITTEN)]
    output: PathBuf,
    #[command(flatten)]
    drawn: PlotOptions,
}

/// Show the best rows.
#[derive(Debug, clap::Args)]
pub(super) struct BestOptions {
    /// Files that `sweep -o` wrote, whole or interrupted
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Column that is best where it is least (of `mfu` and `tokens_per_s_per_device` most)
    #[arg(long, value_name = "COLUMN", default_value = "step_time_s")]
    by: String,
    /// How many
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = crate::asked::whole::<u32>(1..=u32::MAX.into()))]
    top: u32,
}

/// Runs `sweep merge`.
pub(super) fn merge(args: &Merge) -> Result<(), Failure> {
    let plots = args.drawn.plots()?;
    let (rows, missing) = read(&args.files)?;
    write_rows(&args.output, &rows).map_err(Failure::run)?;
    let mut text = format!("{} rows: {}\n", rows.len(), args.output.display());
    text += &args.drawn.write(&plots, &rows, Some(&args.output), "stepsim run WORKLOAD")?;
    say(&text)?;
    if missing.is_empty() {
        return Ok(());
    }
    let (count, which) = (missing.len(), ranges(&missing));
    Err(Failure::run(format!(
        "{count} points before the last one are in none of the files: {which}\n  \
         hint: go on with the parts that were interrupted (--resume), then merge again"
    )))
}

/// Ascending numbers in few words, `0-2, 7`, at most `RANGES` of them.
fn ranges(numbers: &[u64]) -> String {
    const RANGES: usize = 8;
    let of: Vec<&[u64]> = numbers.chunk_by(|a, b| a + 1 == *b).collect();
    let word = |range: &&[u64]| match range {
        [first, .., last] => format!("{first}-{last}"),
        one => one.iter().map(u64::to_string).collect(),
    };
    let more = if of.len() > RANGES { ", …" } else { "" };
    of.iter().take(RANGES).map(word).collect::<Vec<_>>().join(", ") + more
}

/// Runs `sweep best`.
pub(super) fn best(args: &BestOptions) -> Result<(), Failure> {
    let (rows, _) = read(&args.files)?;
    let most = matches!(args.by.as_str(), "mfu" | "tokens_per_s_per_device");
    let value = |row: &Row| row.column(&args.by).and_then(|v| v.as_f64()).map(|v| if most { -v } else { v });
    let mut best: Vec<(f64, &Row)> = rows
        .iter()
        .filter(|r| r.outcome.step_time_s.is_some())
        .filter_map(|r| Some((value(r)?, r)))
        .collect();
    if best.is_empty() {
        let columns = Row::columns().join(", ");
        return Err(Failure::input(format!(
            "--by {}: no row with a result has a number here\n  allowed: {columns}, and what the points set",
            args.by
        )));
    }
    best.sort_by(|a, b| a.0.total_cmp(&b.0));
    let shown: Vec<&Row> = best.iter().take(args.top as usize).map(|(_, row)| *row).collect();
    let order = format!("settings, by {}", args.by);
    let sets: Vec<String> =
        shown[0].settings.iter().map(|(p, v)| format!("  --set {}\n", quoted(&set_text(p, v)))).collect();
    say(&format!("{}\n\nthe best:\n{}", table(&shown, &order), sets.concat()))
}

/// Rows of several files in the order of the points, and the points that are missing.
fn read(files: &[PathBuf]) -> Result<(Vec<Row>, Vec<u64>), Failure> {
    let part = |path: &PathBuf| Ok((path.display().to_string(), read_rows(path)?));
    let parts = files.iter().map(part).collect::<Result<Vec<_>, stepsim_spec::SpecError>>();
    stepsim_study::merge(parts.map_err(Failure::input)?).map_err(Failure::input)
}

/// A value of a report with as many digits as can be compared at a glance.
fn short(value: &Value) -> String {
    match (value, value.as_f64()) {
        (Value::String(text), _) => text.clone(),
        (Value::Number(n), Some(x)) if n.is_f64() && (1e-3..1e6).contains(&x.abs()) => format!("{x:.4}"),
        (Value::Number(n), Some(x)) if n.is_f64() && x != 0.0 => format!("{x:.3e}"),
        _ => value.to_string(),
    }
}

/// Where and why a formula is off over rows, if one was held to them.
pub(super) fn map(rows: &[Row]) -> String {
    let Some(map) = FormulaMap::of(rows) else { return String::new() };
    let tables = [map.by_term(), map.by_setting()].map(|(heads, cells)| {
        let mut table = Table::new();
        let numbers = 2..heads.len();
        table.load_preset(presets::NOTHING).set_header(heads).add_rows(cells);
        right(&mut table, numbers);
        table.trim_fmt()
    });
    format!("{}\n\n{}\n\n", map.sentence(), tables.join("\n\n"))
}

/// Rows as a table; `order` says how they are sorted.
pub(super) fn table(rows: &[&Row], order: &str) -> Table {
    let mut table = Table::new();
    let asked = rows.iter().flat_map(|row| row.outcome.columns.keys());
    let asked: BTreeSet<&String> = asked.filter(|path| !of_one_term(path)).collect();
    let heads = ["step", "four in five, s", "MFU", "memory"].into_iter();
    let heads = heads.chain(asked.iter().map(|path| path.as_str()));
    table.load_preset(presets::NOTHING).set_header(heads.chain([order]));
    for row in rows {
        let outcome = &row.outcome;
        let settings: Vec<String> = row.settings.iter().map(|(path, value)| set_text(path, value)).collect();
        let own = [
            format!("{:.4} s", outcome.step_time_s.unwrap_or_default()),
            outcome.range_s.map_or(String::new(), range_in_words),
            format!("{:.1} %", 100.0 * outcome.mfu.unwrap_or_default()),
            format!("{:.1} GiB", outcome.memory_peak_bytes.unwrap_or_default() as f64 / (1u64 << 30) as f64),
        ];
        let asked = asked.iter().map(|path| outcome.columns.get(*path).map_or(String::new(), short));
        table.add_row(own.into_iter().chain(asked).chain([settings.join(" ")]));
    }
    right(&mut table, 0..4 + asked.len());
    table
}
