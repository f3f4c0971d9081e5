//! All ranks in one picture: a row a rank, or one for those that do the same, a column a stretch of time, a colour for
//! what took most of it.

use std::fmt::Write;

use super::escaped::escaped;
use super::png::{base64, png};
use crate::palette::rgb;
use stepsim_core::units::Time;

/// A name and a colour for each number of a [`RankMap`].
pub type MapKinds<'a> = [(&'a str, &'static str)];

/// Columns of a map.
pub const COLUMNS: usize = 2000;

/// Ranks over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankMap {
    /// The step.
    pub step: Time,
    /// A row's name: `rank 0017 · stage 3 · 128 alike`.
    pub names: Vec<String>,
    /// The ranks that a row stands for.
    pub ranks: Vec<u32>,
    /// Row by row, [`COLUMNS`] numbers of what took most of each stretch of time: 0 for nothing, else the place among
    /// the kinds plus 1.
    pub cells: Vec<u8>,
}

/// Cells of one row, filled in the order of time.
pub struct MapRow<'m> {
    cells: &'m mut Vec<u8>,
    step: u64,
    column: u64,
    /// When the column at hand ends.
    next: u64,
    /// Time of the column at hand by kind.
    times: Vec<u64>,
    until: usize,
}

impl<'m> MapRow<'m> {
    /// A new row at the end of a map, for so many ranks; there are so many kinds.
    pub fn new(map: &'m mut RankMap, (name, ranks): (String, u32), kinds: usize) -> MapRow<'m> {
        map.names.push(name);
        map.ranks.push(ranks);
        let until = map.names.len() * COLUMNS;
        let step = map.step.0.max(1);
        let next = edge(step, 1);
        MapRow { cells: &mut map.cells, step, column: 0, next, times: vec![0; kinds + 1], until }
    }

    /// Adds a kind from `start` to `end`, which does not begin before what was added before.
    pub fn add(&mut self, kind: usize, start: Time, end: Time) {
        let mut at = start.0;
        while at >= self.next || at < end.0 {
            if at >= self.next {
                self.close();
                self.column += 1;
                let is_last = self.column >= COLUMNS as u64;
                self.next = if is_last { u64::MAX } else { edge(self.step, self.column + 1) };
                continue;
            }
            let to = self.next.min(end.0);
            self.times[kind + 1] += to - at;
            at = to;
        }
    }

    /// Ends a column: with what took most of it.
    fn close(&mut self) {
        let longest = (0..self.times.len()).max_by_key(|kind| (self.times[*kind], std::cmp::Reverse(*kind)));
        self.cells.push(longest.unwrap_or(0) as u8);
        self.times.fill(0);
    }

    /// Ends the row.
    pub fn finish(mut self) {
        if self.cells.len() < self.until {
            self.close();
        }
        self.cells.resize(self.until, 0);
    }
}

/// When a column begins.
fn edge(step: u64, column: u64) -> u64 {
    (u128::from(step) * u128::from(column) / COLUMNS as u128) as u64
}

/// Width and height of the drawing, its margin for names, and the least height of a row that has a name.
const WIDTH: usize = 1400;
const HEIGHT: usize = 900;
const MARGIN: usize = 300;
const NAMED: usize = 11;

impl RankMap {
    /// By kind that is there, how many ranks it takes from when on.
    pub fn counted(&self, kinds: &MapKinds) -> Vec<(String, Vec<(Time, u64)>)> {
        let mut counts = vec![[0u64; COLUMNS]; kinds.len() + 1];
        for (row, ranks) in self.cells.chunks(COLUMNS).zip(&self.ranks) {
            row.iter()
                .enumerate()
                .for_each(|(column, kind)| counts[*kind as usize][column] += u64::from(*ranks));
        }
        let points = |counts: &[u64; COLUMNS]| {
            let mut before = None;
            let at = |column: usize| Time(edge(self.step.0, column as u64));
            let changes =
                counts.iter().enumerate().filter(|(_, count)| before.replace(**count) != Some(**count));
            changes.map(|(column, count)| (at(column), *count)).collect()
        };
        let there =
            kinds.iter().zip(&counts[1..]).filter(|(_, counts)| counts.iter().any(|count| *count > 0));
        there.map(|((name, _), counts)| ((*name).to_owned(), points(counts))).collect()
    }

    /// The map as SVG that stands alone.
    pub fn file(&self, title: &str, kinds: &MapKinds) -> String {
        let named = "<svg xmlns=\"http://www.w3.org/2000/svg\" ";
        let on_white = "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/><text";
        self.svg(title, kinds).replacen("<svg ", named, 1).replacen("<text", on_white, 1)
    }

    /// The map as SVG inside a page.
    pub fn svg(&self, title: &str, kinds: &MapKinds) -> String {
        let rows = self.names.len().max(1);
        let palette: Vec<[u8; 3]> =
            std::iter::once([255; 3]).chain(kinds.iter().map(|(_, colour)| rgb(colour))).collect();
        let picture = png(COLUMNS, &self.cells, &palette).map(|bytes| base64(&bytes)).unwrap_or_default();
        let height = (rows * 26).clamp(60, HEIGHT);
        let used: Vec<_> = (1..).zip(kinds).filter(|(number, _)| self.cells.contains(number)).collect();
        let lines = used.len().div_ceil(6);
        let (top, whole) = (50 + 18 * lines, 50 + 18 * lines + height + 30);
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {whole}\" width=\"100%\" \
             font-family=\"sans-serif\" font-size=\"12\"><text x=\"10\" y=\"22\" font-size=\"16\">{}</text>",
            escaped(title)
        );
        for (place, (_, (name, colour))) in used.iter().enumerate() {
            let (x, y) = (10 + place % 6 * 230, 34 + place / 6 * 18);
            let _ = write!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
                 <text x=\"{}\" y=\"{}\">{}</text>",
                x + 17,
                y + 11,
                escaped(name)
            );
        }
        let _ = write!(
            out,
            "<image x=\"{MARGIN}\" y=\"{top}\" width=\"{}\" height=\"{height}\" preserveAspectRatio=\"none\" \
             style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{picture}\"/>",
            WIDTH - MARGIN - 10
        );
        // As many names as there is room for.
        let every = rows.div_ceil(height / NAMED);
        for (row, name) in self.names.iter().enumerate().step_by(every) {
            let y = top as f64 + (row as f64 + 0.5) * height as f64 / rows as f64 + 4.0;
            let _ = write!(
                out,
                "<text x=\"{}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>",
                MARGIN - 6,
                escaped(name)
            );
        }
        for part in 0..=4u64 {
            let (x, at) = (MARGIN + (WIDTH - MARGIN - 10) * part as usize / 4, Time(self.step.0 / 4 * part));
            let anchor = if part == 4 { "end" } else { "start" };
            let _ = write!(
                out,
                "<text x=\"{x}\" y=\"{}\" text-anchor=\"{anchor}\">{at}</text>",
                top + height + 18
            );
        }
        out.push_str("</svg>\n");
        out
    }
}
