//! `stepsim schedule`: a pipeline schedule on abstract durations, drawn as the papers draw it.
//!
//! The order, the programs and the engine are the same as in real steps; only the durations are given: of one rank's
//! whole share of the layers, in any unit of time (one unit is one simulated second). Results are rounded to 9
//! decimals, or to 6 where the number of chunks does not divide 10¹².

mod all;
mod args;
mod draw;
mod outcome;
mod page;
mod played;
pub use args::Args;

use std::io;
use std::io::{IsTerminal, Write};
use std::path::Path;

use super::screen::{note_order, say_in_colour};
use super::write::{write_file, write_report};
use super::{Failure, inputs};
use draw::Screen;
use played::ScheduleRun;
use stepsim_schedule as schedule;
use stepsim_schedule::Order;

/// Runs the subcommand.
///
/// # Errors
/// The schedule is not defined for these numbers, or a file or number cannot be used (status 2); it does not run, or
/// a file cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let stdout = io::stdout();
    let terminal = stdout.is_terminal();
    let of_terminal = || terminal_size::terminal_size_of(&stdout).map(|(width, _)| width.0);
    let width = of_terminal().unwrap_or(120);
    let screen = Screen { width: usize::from(width), color: terminal };
    let mut text = Vec::new();
    run_to(args, screen, &mut text)?;
    say_in_colour(&String::from_utf8_lossy(&text))
}

/// The order of a file.
fn own_order(args: &Args, file: &Path) -> Result<Order, Failure> {
    let order = schedule::order_from_json(&inputs::text(file)?)
        .map_err(|e| Failure::input(format!("{}: {e}", file.display())))?;
    args.check_length(&order)?;
    Ok(order)
}

fn run_to(args: &Args, screen: Screen, out: &mut Vec<u8>) -> Result<(), Failure> {
    let times = args.times()?;
    let own = args.order.as_deref().map(|file| own_order(args, file)).transpose()?;
    if args.all {
        return all::all(args, &times, own, out);
    }
    let run = match own {
        Some(order) => ScheduleRun::new(args, &times, None, order)?,
        None => {
            let kind = schedule::find(args.kind.as_deref().unwrap_or_default())?;
            let shape = args.shape(kind, true);
            note_order(shape.ranks.into(), shape.micro_batches.into());
            let order = match args.slow_order(kind, &shape)? {
                Some(order) => order,
                None => kind.order_for(&shape, &args.profile(&shape, &times))?,
            };
            args.check_length(&order)?;
            ScheduleRun::new(args, &times, Some((kind, shape)), order)?
        }
    };
    if let Some(file) = &args.trace {
        run.trace(file)?;
    }
    if let Some(file) = &args.html {
        write_file(file, page::page(&run).as_bytes())?;
    }
    write_report(args.report.as_deref(), &run.report())?;
    writeln!(out, "{}", run.headline())?;
    draw::draw(&run.order, &run.outcome, screen, out)?;
    run.summary(out)?;
    Ok(())
}
