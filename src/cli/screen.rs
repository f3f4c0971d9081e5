//! Text for people: on standard output, unless a document stands there.

use std::cell::{Cell, RefCell};
use std::io;
use std::io::{IsTerminal, Write};

use clap::ColorChoice;

use super::failure::Failure;
use super::outputs;

thread_local! {
    /// True if reports are coloured.
    static COLOURED: Cell<bool> = const { Cell::new(false) };
    /// The words of the command, where they are kept and not printed.
    static KEPT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Does work whose text for standard output is kept, and gives both.
pub(super) fn kept<T>(work: impl FnOnce() -> T) -> (T, String) {
    COLOURED.set(false);
    KEPT.set(Some(String::new()));
    let done = work();
    (done, KEPT.take().unwrap_or_default())
}

/// True if the words are kept: nobody looks on.
pub(super) fn keeps() -> bool {
    KEPT.with_borrow(Option::is_some)
}

/// Says what long work costs before it begins; nothing of what takes a moment and little memory.
pub(super) fn note_cost(what: &str, seconds: f64, bytes: f64) {
    let (long, large) = (seconds > LONG_S, bytes > LARGE_BYTES);
    if !keeps() && (long || large) {
        let memory = if large { format!(" and {:.1} GB", bytes / 1e9) } else { String::new() };
        eprintln!("note: {what} take about {seconds:.0} s{memory}; Ctrl-C ends them");
    }
}

/// Passes of a micro-batch on a rank, at most, and what one costs on a core of 2024, measured: `schedule --kind zb-auto
/// -p 8 -m 16384` takes 1.8 s and 340 MB.
const PASSES: f64 = 3.0;
const PASS_S: f64 = 4.5e-6;
const PASS_BYTES: f64 = 850.0;

/// Says what an order of so many ranks and micro-batches costs before it is made.
pub(super) fn note_order(ranks: u64, micro_batches: u64) {
    let passes = PASSES * ranks as f64 * micro_batches as f64;
    note_cost(&format!("{passes:.0} passes"), passes * PASS_S, passes * PASS_BYTES);
}

/// Longer work is announced.
const LONG_S: f64 = 5.0;
const LARGE_BYTES: f64 = 3e8;

/// Decides whether reports are coloured: as asked, else on a terminal, unless `NO_COLOR` is set.
pub(super) fn choose_colour(choice: ColorChoice) {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let coloured = match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => io::stdout().is_terminal() && !set("NO_COLOR") && !dumb,
    };
    COLOURED.set(coloured);
}

/// Prints a report as [`say`] does, with headings and bars in colour where that was decided.
///
/// # Errors
/// As `put`.
pub(super) fn say_report(text: &str) -> Result<(), Failure> {
    if COLOURED.get() { say_in_colour(&painted(&harmless(text))) } else { say(text) }
}

/// Headings bold, bars green, remarks dim.
fn painted(text: &str) -> String {
    let (mut out, mut first) = (String::new(), true);
    for line in text.lines() {
        let remark =
            ["note:", "accuracy:", "All tables:", "add `-o"].iter().any(|head| line.starts_with(head));
        let heading = first && !line.starts_with(' ') && !line.is_empty();
        match (remark, heading) {
            (true, _) => out += &format!("\x1b[2m{line}\x1b[0m"),
            (false, true) => out += &format!("\x1b[1m{line}\x1b[0m"),
            (false, false) => out += &green_bars(line),
        }
        out.push('\n');
        first = line.is_empty();
    }
    out
}

fn green_bars(line: &str) -> String {
    let is_bar = |c: char| ('▉'..='▏').contains(&c) || c == '█';
    let (mut out, mut inside) = (String::new(), false);
    for c in line.chars() {
        if is_bar(c) != inside {
            out += if inside { "\x1b[0m" } else { "\x1b[32m" };
            inside = !inside;
        }
        out.push(c);
    }
    out + if inside { "\x1b[0m" } else { "" }
}

/// Prints a table or a message to standard output, unless a document stands there: then nothing else does.
///
/// # Errors
/// As `put`.
pub fn say(text: &str) -> Result<(), Failure> {
    say_in_colour(&harmless(text))
}

/// The same of a text that has colours of ours, and no name from a file.
///
/// # Errors
/// As `put`.
pub(super) fn say_in_colour(text: &str) -> Result<(), Failure> {
    if outputs::document_on_stdout() { Ok(()) } else { put(text) }
}

/// Says beside the report, in one line, what has no effect.
pub(super) fn note_without_effect(inert: &[impl ToString]) {
    if !inert.is_empty() {
        let all: Vec<String> = inert.iter().map(ToString::to_string).collect();
        eprintln!("{}", harmless(&format!("note: no effect here: {}", all.join(", "))));
    }
}

/// A text in which nothing commands the terminal or turns the direction of reading: names from files may hold anything.
pub(super) fn harmless(text: &str) -> std::borrow::Cow<'_, str> {
    let marks =
        ['\u{61c}'..='\u{61c}', '\u{200e}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    let turns = |c: char| marks.iter().any(|marks| marks.contains(&c));
    let commands = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || turns(c);
    if !text.contains(commands) {
        return text.into();
    }
    let shown = |c: char| if commands(c) { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(shown).collect::<String>().into()
}

/// Writes to standard output. That its reader has gone (`| head`) is no failure.
///
/// # Errors
/// Standard output cannot be written, for example to a full disk (status 1).
pub(super) fn put(text: &str) -> Result<(), Failure> {
    if KEPT.with_borrow_mut(|kept| kept.as_mut().map(|kept| kept.push_str(text))).is_some() {
        return Ok(());
    }
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Failure::from(e)),
        _ => Ok(()),
    }
}

/// Columns of the terminal; 110 where standard output is none.
pub fn width() -> u16 {
    let said = || std::env::var("COLUMNS").ok()?.parse().ok();
    let columns = terminal_size::terminal_size().map(|(w, _)| w.0).or_else(said);
    columns.map_or(110, |columns| columns.clamp(60, 140))
}
