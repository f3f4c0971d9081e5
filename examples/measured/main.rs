//! Simulates published measurements and tells how far off the simulation is.
//!
//! ```sh
//! cargo run --release --example measured -- --steps PATH/steps.jsonl [--source NAME] [--rows] [--blocks]
//! ```
//! `--rows` prints every row, `--blocks` the relative throughput of the pipeline schedules of zero-bubble rows.

mod blocks;
mod describe;
mod rows;
mod table;

use rows::Row;
use table::{Outcome, outcome};

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        arguments.iter().position(|a| a == name).and_then(|i| arguments.get(i + 1)).map(String::as_str)
    };
    let flag = |name: &str| arguments.iter().any(|a| a == name);
    let path = match value("--steps") {
        Some(path) => std::path::PathBuf::from(path),
        None => rows::folder().ok_or("no measurements found: give --steps FILE")?.join("steps.jsonl"),
    };
    let every: usize = value("--every").and_then(|n| n.parse().ok()).unwrap_or(1);
    let wanted = |r: &Row| {
        value("--source").is_none_or(|s| r.source() == s)
            && value("--row").is_none_or(|id| r.id().ends_with(id))
    };
    let rows: Vec<Row> = Row::read(&path)?.into_iter().filter(wanted).step_by(every.max(1)).collect();
    let outcomes: Vec<(Row, Outcome)> = rows
        .into_iter()
        .map(|row| {
            let outcome = outcome(&row);
            if flag("--rows") {
                println!("{}", table::line(&row, &outcome));
            }
            (row, outcome)
        })
        .collect();
    println!("{}", table::by_source(&outcomes));
    if flag("--blocks") {
        println!("{}", blocks::table(&outcomes));
    }
    Ok(())
}
