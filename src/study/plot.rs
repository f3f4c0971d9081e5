//! Rows as a picture: points of two columns, coloured by a third, as SVG; and the figures behind it.

use std::fmt::Write;

use serde_json::Value;

use super::csv::cell;
use super::rows::Row;
use stepsim_spec::SpecError;

/// The axes of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Column of the horizontal axis.
    pub x: String,
    /// Column of the vertical axis.
    pub y: String,
    /// Column that colours, or several joined by `+`.
    pub colour: Option<String>,
}

/// One row as it is drawn.
struct PlotMark {
    x: Value,
    y: f64,
    colour: String,
    point: u64,
}

/// Colours that are told apart, also by those who see few of them (Okabe and Ito, 2008, and two greys).
const COLOURS: [&str; 9] =
    ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#b8a800", "#555555", "#aaaaaa"];
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 60.0;
/// Words along an axis that have room side by side.
const FEW_WORDS: usize = 6;

impl Plot {
    /// The columns that colour.
    fn colours(&self) -> impl Iterator<Item = &str> {
        self.colour.iter().flat_map(|names| names.split('+'))
    }
    /// Reads `x,y` or `x,y,colour`.
    ///
    /// # Errors
    /// It has another form.
    pub fn parse(text: &str) -> Result<Plot, SpecError> {
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        match names[..] {
            [x, y] if !x.is_empty() && !y.is_empty() => Ok(Plot { x: x.into(), y: y.into(), colour: None }),
            [x, y, colour] if names.iter().all(|name| !name.is_empty()) => {
                Ok(Plot { x: x.into(), y: y.into(), colour: Some(colour.into()) })
            }
            _ => Err(SpecError::file(format!("--plot {text}"), "not of the form x,y or x,y,colour")
                .allowed("names of columns")
                .hint("for example --plot batch.global,step_time_s,parallelism.tensor")),
        }
    }

    /// Draws the rows that have both columns.
    ///
    /// # Errors
    /// No row has them, or the vertical one is no number.
    pub fn svg(&self, rows: &[Row]) -> Result<String, SpecError> {
        let marks = self.marks(rows)?;
        let numbers: Option<Vec<f64>> = marks.iter().map(|mark| mark.x.as_f64()).collect();
        let mut words: Vec<String> = Vec::new();
        let xs: Vec<f64> = numbers.clone().unwrap_or_else(|| {
            let place = |mark: &PlotMark| {
                let word = text(&mark.x);
                words.iter().position(|known| *known == word).unwrap_or_else(|| {
                    words.push(word);
                    words.len() - 1
                }) as f64
            };
            marks.iter().map(place).collect()
        });
        let ys: Vec<f64> = marks.iter().map(|mark| mark.y).collect();
        let horizontal = match numbers {
            Some(_) => PlotScale::of(&xs, LEFT, WIDTH - RIGHT),
            None => PlotScale::of_words(words.len(), LEFT, WIDTH - RIGHT),
        };
        let vertical = PlotScale::of(&ys, HEIGHT - BOTTOM, TOP);
        let mut colours: Vec<&str> = marks.iter().map(|mark| mark.colour.as_str()).collect();
        sort_naturally(&mut colours);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
             height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        self.axes(&mut svg, &horizontal, &vertical, &words);
        let at = |i: usize| (horizontal.at(xs[i]), vertical.at(ys[i]));
        for (c, colour) in colours.iter().enumerate() {
            let ink = COLOURS[c % COLOURS.len()];
            let mut members: Vec<usize> = (0..marks.len()).filter(|&i| marks[i].colour == *colour).collect();
            members.sort_by(|&a, &b| xs[a].total_cmp(&xs[b]).then(ys[a].total_cmp(&ys[b])));
            if line_of(&members, &xs) {
                let path: Vec<String> =
                    members.iter().map(|&i| format!("{:.1},{:.1}", at(i).0, at(i).1)).collect();
                let _ =
                    writeln!(svg, "<polyline points=\"{}\" fill=\"none\" stroke=\"{ink}\"/>", path.join(" "));
            }
            for &i in &members {
                let (x, y) = at(i);
                let tip = format!(
                    "point {}: {} {}, {} {}",
                    marks[i].point,
                    self.x,
                    text(&marks[i].x),
                    self.y,
                    short(ys[i])
                );
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{ink}\"><title>{}</title></circle>",
                    escape(&tip)
                );
            }
            if self.colour.is_some() {
                let (x, y) = (WIDTH - RIGHT + 20.0, TOP + 30.0 + 18.0 * c as f64);
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x}\" cy=\"{:.1}\" r=\"4\" fill=\"{ink}\"/><text x=\"{}\" y=\"{y}\">{}</text>",
                    y - 4.0,
                    x + 10.0,
                    escape(colour)
                );
            }
        }
        svg += "</svg>\n";
        Ok(svg)
    }

    /// The figures of the picture as comma-separated values.
    ///
    /// # Errors
    /// As [`Plot::svg`].
    pub fn data(&self, rows: &[Row]) -> Result<String, SpecError> {
        let colour = self.colour.as_deref();
        let header = ["point", &self.x, &self.y].into_iter().chain(colour).map(cell).collect::<Vec<_>>();
        let mut all = header.join(",") + "\n";
        for mark in self.marks(rows)? {
            let _ = write!(all, "{},{},{}", mark.point, cell(&text(&mark.x)), mark.y);
            if colour.is_some() {
                let _ = write!(all, ",{}", cell(&mark.colour));
            }
            all.push('\n');
        }
        Ok(all)
    }

    fn marks(&self, rows: &[Row]) -> Result<Vec<PlotMark>, SpecError> {
        for name in [self.x.as_str(), &self.y].into_iter().chain(self.colours()) {
            if !rows.iter().any(|row| row.column(name).is_some()) {
                let mut allowed: Vec<String> =
                    rows.iter().flat_map(|row| row.settings.keys().cloned()).collect();
                allowed.sort_unstable();
                allowed.dedup();
                allowed.extend(Row::columns());
                return Err(SpecError::file("--plot", format!("no row has a column `{name}`"))
                    .value(name)
                    .allowed(allowed.join(", ")));
            }
        }
        let mark = |row: &Row| {
            let y = row.column(&self.y)?.as_f64()?;
            let words: Option<Vec<String>> = self.colours().map(|c| Some(text(&row.column(c)?))).collect();
            let colour = words?.join(" ");
            Some(PlotMark { x: row.column(&self.x)?, y, colour, point: row.point })
        };
        let marks: Vec<PlotMark> = rows.iter().filter_map(mark).collect();
        if marks.is_empty() {
            return Err(SpecError::file(
                "--plot",
                format!("no row has {} and a number as {}", self.x, self.y),
            ));
        }
        Ok(marks)
    }

    fn axes(&self, svg: &mut String, horizontal: &PlotScale, vertical: &PlotScale, words: &[String]) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for (i, tick) in horizontal.ticks.iter().enumerate() {
            let x = horizontal.at(*tick);
            // Many words stand in two rows, so that neighbours do not run into one another.
            let row = if words.len() > FEW_WORDS { (i % 2) as f64 } else { 0.0 };
            let label = words.get(*tick as usize).cloned().unwrap_or_else(|| short(*tick));
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#ddd\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 18.0 + 14.0 * row,
                escape(&label)
            );
        }
        for tick in &vertical.ticks {
            let y = vertical.at(*tick);
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                short(*tick)
            );
        }
        let (middle, centre) = ((LEFT + right) / 2.0, (TOP + bottom) / 2.0);
        let _ = writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#555\"/>\n\
             <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}{}</text>\n\
             <text transform=\"translate(16 {centre}) rotate(-90)\" text-anchor=\"middle\">{}{}</text>",
            right - LEFT,
            bottom - TOP,
            bottom + 50.0,
            escape(&self.x),
            horizontal.note(),
            escape(&self.y),
            vertical.note()
        );
        if let Some(colour) = &self.colour {
            let _ =
                writeln!(svg, "<text x=\"{}\" y=\"{}\">{}</text>", right + 12.0, TOP + 10.0, escape(colour));
        }
    }
}

/// True if points are joined: one for each place of the horizontal axis, and more than one.
fn line_of(members: &[usize], xs: &[f64]) -> bool {
    members.len() > 1 && members.windows(2).all(|pair| xs[pair[0]] < xs[pair[1]])
}

/// From values to places on the paper.
struct PlotScale {
    from: f64,
    to: f64,
    low: f64,
    high: f64,
    logarithmic: bool,
    ticks: Vec<f64>,
}

impl PlotScale {
    /// Values that span more than this are drawn by their logarithms.
    const LINEAR: f64 = 20.0;

    fn of(values: &[f64], from: f64, to: f64) -> PlotScale {
        let (low, high) =
            values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
        let logarithmic = low > 0.0 && high / low > PlotScale::LINEAR;
        let (low, high) = match (logarithmic, high > low) {
            (true, _) => (low / 1.15, high * 1.15),
            (_, true) => (low - 0.06 * (high - low), high + 0.06 * (high - low)),
            _ => (low - 0.5 * low.abs().max(1e-12), high + 0.5 * high.abs().max(1e-12)),
        };
        let ticks = if logarithmic { logarithmic_ticks(low, high) } else { ticks(low, high) };
        PlotScale { from, to, low, high, logarithmic, ticks }
    }
    /// Places for words, in a row.
    fn of_words(count: usize, from: f64, to: f64) -> PlotScale {
        let ticks = (0..count).map(|i| i as f64).collect();
        PlotScale { from, to, low: -0.5, high: count as f64 - 0.5, logarithmic: false, ticks }
    }
    fn at(&self, value: f64) -> f64 {
        let part = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + part * (self.to - self.from)
    }
    fn note(&self) -> &'static str {
        if self.logarithmic { " (logarithmic)" } else { "" }
    }
}

/// About six round numbers between two.
pub fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough).unwrap_or(power);
    let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
    (first..=last).map(|n| n as f64 * step).collect()
}

/// 1, 2 and 5 of each power of ten, or the powers alone where those are many.
pub fn logarithmic_ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let parts = if last - first > 4 { &[1.0][..] } else { &[1.0, 2.0, 5.0] };
    let all = (first..=last).flat_map(|power| parts.iter().map(move |m| m * 10f64.powi(power)));
    all.filter(|tick| (low..=high).contains(tick)).collect()
}

/// Numbers by size, before texts.
fn sort_naturally(texts: &mut Vec<&str>) {
    texts.sort_by(|a, b| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(x), Ok(y)) => x.total_cmp(&y),
        (Ok(_), Err(_)) => std::cmp::Ordering::Less,
        (Err(_), Ok(_)) => std::cmp::Ordering::Greater,
        _ => a.cmp(b),
    });
    texts.dedup();
}

/// A value in words: parts with a kind by that.
pub(super) fn text(value: &Value) -> String {
    let named = value.as_object().and_then(|map| map.get("kind").or(map.get("granularity"))).unwrap_or(value);
    named.as_str().map_or_else(|| named.to_string(), str::to_string)
}

/// A number in at most five digits.
pub fn short(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e6).contains(&size) {
        return format!("{value:.2e}");
    }
    let digits = if size >= 1.0 { 4 - (size.log10().floor() as usize).min(4) } else { 4 };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// A text inside of XML.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
