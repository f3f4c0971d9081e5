//! The frame of every page: head with colours, sections, tables, and the data at its end.

use std::fmt::Write;

use serde::Serialize;
use serde_json::{Value, json};

pub use super::bars::{bars, pairs};
use super::draw;
pub use super::draw::{gib, seconds};
use super::escaped::escaped;
use super::lane::{Looks, TimeRow};
pub use super::points::PlotPoint;
use super::points::points;

/// A place in the drawing over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SheetPlace {
    /// The row.
    pub row: usize,
    /// From when to when, in nanoseconds.
    pub span_ns: [u64; 2],
}

impl SheetPlace {
    /// How long, in nanoseconds.
    pub fn length(self) -> u64 {
        self.span_ns[1] - self.span_ns[0]
    }
}

/// A page that is being written, section by section.
#[derive(Debug)]
pub struct Sheet {
    pub(super) out: String,
    looks: Looks,
    /// Nanoseconds of the drawing over time, and its rows, if it has one.
    timeline: Option<(u64, Vec<TimeRow>)>,
    /// True if it has a table that headings sort.
    sorts: bool,
}

impl Sheet {
    /// A page with its head; classes of shapes get the colours of `looks` and those given by name.
    pub fn new(title: &str, looks: Looks, more: &[(String, &str)]) -> Sheet {
        let title = escaped(title);
        let mut out = String::with_capacity(1 << 18);
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
             content=\"width=device-width, initial-scale=1\"><link rel=\"icon\" href=\"data:,\"><title>{title}</title>\
             <style>\n{}",
            include_str!("style.css")
        );
        for (class, looks) in draw::CLASSES.into_iter().zip(looks.lanes()) {
            for (i, look) in looks.iter().enumerate() {
                let _ = writeln!(out, ".{class}{i} {{ fill: {} }}", look.colour);
            }
        }
        for (class, colour) in more {
            let _ = writeln!(out, ".{class} {{ fill: {colour} }}");
        }
        let _ = write!(out, "</style></head><body><h1>{title}</h1>");
        Sheet { out, looks, timeline: None, sorts: false }
    }

    /// The few numbers that one looks for first, each with what it is.
    pub fn facts(&mut self, facts: impl IntoIterator<Item = (String, String)>) {
        self.out.push_str("<div class=\"facts\">");
        for (value, what) in facts {
            let _ = write!(self.out, "<div><b>{}</b>{}</div>", escaped(&value), escaped(&what));
        }
        self.out.push_str("</div>");
    }

    /// The sentence that the page begins with, if there is one.
    pub fn lead(&mut self, sentence: &str) {
        if !sentence.is_empty() {
            let _ = write!(self.out, "<p class=\"lead\">{}</p>", escaped(sentence));
        }
    }

    /// A sentence below the lead, if there is one.
    pub fn remark(&mut self, sentence: &str) {
        if !sentence.is_empty() {
            let _ = write!(self.out, "<p>{}</p>", escaped(sentence));
        }
    }

    /// A section with a heading and a sentence.
    pub fn section(&mut self, title: &str, note: &str, inside: impl FnOnce(&mut String)) {
        let _ = write!(self.out, "<section><h2>{}</h2><p>{}</p>", escaped(title), escaped(note));
        inside(&mut self.out);
        self.out.push_str("</section>\n");
    }

    /// The section with the drawing over time.
    pub fn timeline(&mut self, title: &str, note: &str, end_ns: u64, rows: Vec<TimeRow>) {
        let drawing = draw::timeline(&rows, end_ns);
        let mut keys = String::new();
        let mut named = Vec::new();
        for ((class, looks), lane) in draw::CLASSES.into_iter().zip(self.looks.lanes()).zip(0..) {
            let mut used: Vec<usize> = rows.iter().flat_map(|row| row.kinds(lane)).collect();
            used.sort_unstable();
            used.dedup();
            // Looks that two lanes share have one key.
            used.retain(|i| !named.contains(&(&looks[*i].name, looks[*i].colour)));
            named.extend(used.iter().map(|i| (&looks[*i].name, looks[*i].colour)));
            if !used.is_empty() {
                key(&mut keys, used.into_iter().map(|i| (format!("{class}{i}"), looks[i].name.as_str())));
            }
        }
        self.section(title, note, |out| {
            out.push_str(
                "<div class=\"screen\"><button id=\"all\">whole</button> <button id=\"in\">closer</button> \
                 <button id=\"out\">wider</button> <button id=\"left\">earlier</button> \
                 <button id=\"right\">later</button> <button id=\"csv\">save as CSV</button></div>",
            );
            out.push_str(&keys);
            out.push_str(&drawing);
        });
        self.timeline = Some((end_ns, rows));
    }

    /// A section with a table that headings sort; each row holds its command.
    pub fn points(&mut self, title: &str, note: &str, heads: &[String], rows: &[PlotPoint]) {
        self.sorts = true;
        let note = format!("{note} A press on a heading sorts.");
        self.section(title, note.trim_start(), |out| points(out, heads, rows));
    }

    /// The exact command, and what else is to be known of the inputs.
    pub fn command(&mut self, words: &[String], head: &impl Serialize, notes: &[String]) {
        self.section("What was run", "The same command gives the same page.", |out| {
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            let _ = write!(out, "<pre>{}</pre>", escaped(&words.join(" ")));
            match stepsim_located::to_value(head) {
                Ok(Value::Null) | Err(_) => {}
                Ok(head) => {
                    let head = serde_json::to_string_pretty(&head).unwrap_or_default();
                    let _ = write!(out, "<pre>{}</pre>", escaped(&head));
                }
            }
            for note in notes {
                let _ = write!(out, "<p>{}</p>", escaped(note));
            }
        });
    }

    /// The whole page; `report` can be saved from it unless it is nothing, `shown` is what is drawn beside.
    ///
    /// # Errors
    /// If the report cannot be written as JSON.
    pub fn finish(self, shown: Value, report: &impl Serialize) -> serde_json::Result<String> {
        let mut out = self.out;
        let mut data = json!({ "shown": shown, "report": report });
        if !data["report"].is_null() {
            out.push_str("<p class=\"screen\"><button id=\"json\">save the report as JSON</button></p>");
        }
        let mut script = String::from(include_str!("save.js"));
        if let Some((end_ns, rows)) = self.timeline {
            let names =
                |looks: &[super::lane::ItemStyle]| looks.iter().map(|l| l.name.clone()).collect::<Vec<_>>();
            data["shown"]["step_ns"] = json!(end_ns);
            data["shown"]["rows"] = json!(rows);
            data["names"] = json!(self.looks.lanes().map(names));
            data["drawing"] = json!({
                "width": draw::WIDTH, "left": draw::LEFT, "row": draw::ROW, "lanes": draw::LANES,
                "classes": draw::CLASSES,
            });
            script.push_str(include_str!("timeline.js"));
        }
        if self.sorts {
            script.push_str(include_str!("points.js"));
        }
        // No text of the data may end the element that it stands in.
        let data = serde_json::to_string(&data)?.replace('<', "\\u003c");
        let _ = write!(
            out,
            "<div id=\"tip\"></div><script type=\"application/json\" \
             id=\"data\">{data}</script>\n<script>\n{script}</script></body></html>\n"
        );
        Ok(out)
    }
}

/// The meaning of colours.
pub fn key<'n>(out: &mut String, entries: impl Iterator<Item = (String, &'n str)>) {
    out.push_str("<div class=\"key\">");
    for (class, name) in entries {
        let square = "<rect width=\"12\" height=\"12\"";
        let _ = write!(
            out,
            "<span><svg viewBox=\"0 0 12 12\">{square} class=\"{class}\"/></svg>{}</span>",
            escaped(name)
        );
    }
    out.push_str("</div>");
}

/// A table; columns from the `words`-th on hold numbers.
pub fn table(out: &mut String, heads: &[&str], words: usize, rows: impl IntoIterator<Item = Vec<String>>) {
    places(out, heads, words, rows.into_iter().map(|cells| (None, cells)));
}

/// A cell of numbers with more characters is a sentence, which may take lines.
const LONG: usize = 32;

/// A table; a press on the first cell of a row shows its place in the drawing over time, where it has one.
pub(crate) fn places(
    out: &mut String,
    heads: &[&str],
    words: usize,
    rows: impl IntoIterator<Item = (Option<SheetPlace>, Vec<String>)>,
) {
    let class = |i: usize| if i >= words { " class=\"n\"" } else { "" };
    out.push_str("<table><tr>");
    for (i, head) in heads.iter().enumerate() {
        let _ = write!(out, "<th{}>{}</th>", class(i), escaped(head));
    }
    out.push_str("</tr>");
    for (place, cells) in rows {
        out.push_str("<tr>");
        for (i, cell) in cells.iter().enumerate() {
            let cell = escaped(cell);
            match place.filter(|_| i == 0) {
                Some(SheetPlace { row, span_ns: [start, end] }) => {
                    let name = if cell.is_empty() { "nothing" } else { &cell };
                    let at = format!("{row},{start},{end}");
                    let _ = write!(out, "<td><button class=\"go\" data-at=\"{at}\">{name}</button></td>");
                }
                None => {
                    let wraps =
                        if i >= words && cell.len() > LONG { " style=\"white-space: normal\"" } else { "" };
                    let _ = write!(out, "<td{}{wraps}>{cell}</td>", class(i));
                }
            }
        }
        out.push_str("</tr>");
    }
    out.push_str("</table>");
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
