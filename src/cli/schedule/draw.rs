//! A schedule as the papers draw it: a row per rank, time to the right, a box per pass with its micro-batch.

use std::io::{self, Write};

use super::outcome::ScheduleOutcome;
use stepsim_core::units::Time;
use stepsim_plan::pipeline::phase;
use stepsim_read::palette;
use stepsim_schedule::{Order, Pass, Slot, SlotPass};

/// Where the drawing goes.
#[derive(Clone, Copy)]
pub(super) struct Screen {
    /// Columns.
    pub width: usize,
    /// True if boxes are coloured; else they are letters.
    pub color: bool,
}

/// One character of a row.
#[derive(Clone, Copy, PartialEq)]
struct RowCell {
    text: char,
    look: CellColour,
}

/// The pass and chunk whose colour a cell has, and a bit that changes from box to box; `None` for no colour.
type CellColour = Option<(Pass, u16, bool)>;

const IDLE: RowCell = RowCell { text: '.', look: None };

/// Draws all ranks.
pub(super) fn draw(
    order: &Order,
    outcome: &ScheduleOutcome,
    screen: Screen,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let label = format!("rank {} ", order.ranks.len() - 1).len();
    let columns = screen.width.saturating_sub(label).max(8).min(natural_width(order, outcome));
    let mut hidden = 0;
    for (r, slots) in order.ranks.iter().enumerate() {
        let mut row = vec![IDLE; columns];
        for (i, (slot, span)) in slots.iter().zip(&outcome.spans[r]).enumerate() {
            let (from, to) =
                (column(span.0, outcome.makespan, columns), column(span.1, outcome.makespan, columns));
            hidden += usize::from(from == to);
            fill(&mut row[from..to], slot, i % 2 == 1, screen.color);
        }
        write!(out, "{:<label$}", format!("rank {r}"))?;
        paint(&row, screen.color, out)?;
        writeln!(out)?;
    }
    legend(order, screen.color, out)?;
    if hidden > 0 {
        writeln!(out, "{hidden} slots are too short for this width; see more with --width")?;
    }
    Ok(())
}

/// The column of a time, rounded half up, so that boxes of equal slots touch without overlapping.
fn column(t: Time, makespan: Time, columns: usize) -> usize {
    ((u128::from(t.0) * columns as u128 * 2 + u128::from(makespan.0)) / (2 * u128::from(makespan.0.max(1))))
        as usize
}

/// Columns at which every box holds its label and a blank.
fn natural_width(order: &Order, outcome: &ScheduleOutcome) -> usize {
    let boxes = order.ranks.iter().flatten().zip(outcome.spans.iter().flatten());
    let need = |(slot, span): (&Slot, &(Time, Time))| {
        let label = labels(slot)[0].len() as u128 + 1;
        (label * u128::from(outcome.makespan.0)).div_ceil(u128::from((span.1 - span.0).0).max(1))
    };
    let longest = boxes.filter(|(_, s)| s.0 < s.1).map(need).max().unwrap_or(1);
    longest.min(100_000) as usize
}

/// The labels for a box of letters, the first that fits: `F3`, then `F`; `F3&b5`, then `Fb`, then `&`.
fn labels(slot: &Slot) -> Vec<String> {
    let letter = |p: &SlotPass| match p.pass.letter() {
        letter if p.chunk % 2 == 1 => letter.to_ascii_lowercase(),
        letter => letter,
    };
    let full: Vec<String> = slot.parts().map(|p| format!("{}{}", letter(&p), p.micro_batch)).collect();
    let letters: String = slot.parts().map(|p| letter(&p)).collect();
    vec![full.join("&"), letters, "&".to_owned()]
}

/// Fills a box: letters stand alone and run out in dashes, colours hold the digits only, a pair side by side.
fn fill(cells: &mut [RowCell], slot: &Slot, odd: bool, color: bool) {
    let parts: Vec<SlotPass> = slot.parts().collect();
    let half = cells.len().div_ceil(parts.len()).max(1);
    for (piece, part) in cells.chunks_mut(half).zip(&parts) {
        let digits = part.micro_batch.to_string();
        let text = if digits.len() <= piece.len() { digits.as_str() } else { "" };
        write_into(piece, text, ' ', Some((part.pass, part.chunk, odd)));
    }
    if !color {
        let label = labels(slot).into_iter().find(|label| label.len() <= cells.len()).unwrap_or_default();
        write_into(cells, &label, '-', None);
    }
}

fn write_into(cells: &mut [RowCell], text: &str, padding: char, look: CellColour) {
    for (cell, text) in cells.iter_mut().zip(text.chars().chain(std::iter::repeat(padding))) {
        *cell = RowCell { text, look };
    }
}

/// Background of a pass: the colour that it has on pages, of the 256 of terminals the nearest; lighter on odd chunks,
/// and darker on every other box so that neighbours stay apart.
fn background((pass, chunk, odd): (Pass, u16, bool)) -> u8 {
    let light = if chunk % 2 == 1 { 0.5 } else { 0.0 };
    let dark = if odd { 0.8 } else { 1.0 };
    let rgb = palette::rgb(palette::pass(phase(pass))).map(|part| {
        let part = f64::from(part);
        (part + (255.0 - part) * light) * dark
    });
    // The cube of 6 x 6 x 6 colours, whose levels lie at 0, 95, 135, ... 255.
    let level =
        |part: f64| if part < 47.5 { 0 } else { ((part - 55.0) / 40.0).round().clamp(1.0, 5.0) as u8 };
    16 + 36 * level(rgb[0]) + 6 * level(rgb[1]) + level(rgb[2])
}

fn paint(row: &[RowCell], color: bool, out: &mut Vec<u8>) -> io::Result<()> {
    for run in row.chunk_by(|a, b| a.look == b.look) {
        let text: String = run.iter().map(|c| c.text).collect();
        match run[0].look {
            _ if !color => write!(out, "{text}")?,
            None => write!(out, "{:1$}", "", run.len())?,
            Some(look) => write!(out, "\x1b[48;5;{}m\x1b[38;5;16m{text}\x1b[0m", background(look))?,
        }
    }
    Ok(())
}

fn legend(order: &Order, color: bool, out: &mut Vec<u8>) -> io::Result<()> {
    let names = [
        (Pass::Forward, "forward"),
        (Pass::Backward, "backward"),
        (Pass::InputGrad, "input gradient"),
        (Pass::WeightGrad, "weight gradient"),
    ];
    let used = |pass| order.ranks.iter().flatten().flat_map(Slot::parts).any(|p| p.pass == pass);
    for (pass, name) in names.into_iter().filter(|(pass, _)| used(*pass)) {
        if color {
            let (dark, light) = (background((pass, 0, false)), background((pass, 1, false)));
            write!(out, "\x1b[48;5;{dark}m  \x1b[48;5;{light}m  \x1b[0m {name}  ")?;
        } else {
            write!(out, "{} {name}  ", pass.letter())?;
        }
    }
    let chunks = order.placement.chunks(0);
    let how = if color { "light" } else { "small letters" };
    if chunks > 1 {
        write!(out, "{how}: chunk 1{}  ", if chunks > 2 { ", 3, ..." } else { "" })?;
    }
    writeln!(out, "{}", if color { "" } else { ". idle" })
}
