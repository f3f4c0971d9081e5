//! Quantities with units, as people write them: `400 Gb/s`, `8x 50 GB/s InfiniBand`, `400G`, `80 GiB`, `3 us`.
//!
//! One reader for machine files, rows and the command line. A `B` is a byte and a `b` a bit where both are written
//! (`GB/s`, `Gb/s`); all in small letters, and `G` alone, is what networks are called by: bits.

/// A rate, and what it is said to be of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// In 10⁹ bytes a second.
    pub gbytes_per_s: f64,
    /// How many such links are counted beside it.
    pub count: Option<f64>,
}

/// Units of rates, and 10⁹ bytes a second: with letters as they stand, then in small letters; the longest first.
const RATES: [(&str, f64); 20] = [
    ("TBytes/s", 1000.0),
    ("TB/s", 1000.0),
    ("TBps", 1000.0),
    ("GBytes/s", 1.0),
    ("GiB/s", 1.073_741_824),
    ("GB/s", 1.0),
    ("GBps", 1.0),
    ("MB/s", 1e-3),
    ("MBps", 1e-3),
    ("tbit/s", 125.0),
    ("tb/s", 125.0),
    ("tbps", 125.0),
    ("gbit/s", 0.125),
    ("gbits/s", 0.125),
    ("gb/s", 0.125),
    ("gbps", 0.125),
    ("gbe", 0.125),
    ("gb", 0.125),
    ("g", 0.125),
    ("mb/s", 1.25e-4),
];

/// Rates of an adapter by the name of its generation, in Gb/s.
const GENERATIONS: [(&str, f64); 8] = [
    ("xdr", 800.0),
    ("ndr200", 200.0),
    ("ndr", 400.0),
    ("hdr", 200.0),
    ("slingshot", 200.0),
    ("edr", 100.0),
    ("omni-path", 100.0),
    ("fdr", 56.0),
];

/// The rate that a text says; of several the first with a unit.
pub fn rate(text: &str) -> Option<Rate> {
    let (gbytes_per_s, start, end) = figure(text).or_else(|| {
        let small = text.to_lowercase();
        let (name, gigabits) = GENERATIONS.iter().find(|(name, _)| small.contains(name))?;
        let at = small.find(name)?;
        Some((gigabits / 8.0, at, at + name.len()))
    })?;
    (gbytes_per_s > 0.0 && gbytes_per_s.is_finite())
        .then(|| Rate { gbytes_per_s, count: count(text, start, end) })
}

/// The first number with a unit of rates behind it: 10⁹ bytes a second, and where both stand.
fn figure(text: &str) -> Option<(f64, usize, usize)> {
    let mut at = 0;
    while let Some(start) = text[at..].find(|c: char| c.is_ascii_digit()).map(|i| at + i) {
        let end = text[start..]
            .find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',')
            .map_or(text.len(), |i| start + i);
        let number = text[start..end].trim_end_matches(['.', ',']);
        let blanks = text[end..].len() - text[end..].trim_start().len();
        let behind = &text[end + blanks..];
        let unit = RATES.iter().find(|(unit, _)| begins(behind, unit));
        if let (Some((unit, gbytes)), Ok(number)) = (unit, number.replace(',', "").parse::<f64>()) {
            return Some((number * gbytes, start, end + blanks + unit.len()));
        }
        at = end;
    }
    None
}

/// True if a text begins with a unit and no other word goes on from it. Units in capitals are taken as they stand.
fn begins(text: &str, unit: &str) -> bool {
    let Some(head) = text.get(..unit.len()) else { return false };
    let is = if unit.contains('B') { head == unit } else { head.eq_ignore_ascii_case(unit) };
    is && !text[unit.len()..].starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// How many links are counted: `8x` before the figure or at the start, `x8` or `8 adapters` anywhere.
fn count(text: &str, start: usize, end: usize) -> Option<f64> {
    let times = |c: char| matches!(c, 'x' | 'X' | '×' | '*');
    let before = text[..start].trim_end();
    let ends_with_times = before.strip_suffix(times).and_then(last_number);
    let begins_with_times = || {
        let text = text.trim_start();
        let digits = text.find(|c: char| !c.is_ascii_digit())?;
        let rest = text[digits..].trim_start();
        let word = rest.strip_prefix(times)?;
        text[..digits].parse().ok().filter(|_| !word.starts_with(|c: char| c.is_ascii_digit()))
    };
    let behind = || {
        let rest = text[end..].trim_start().strip_prefix(times)?.trim_start();
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok()
    };
    let named = || {
        let small = text.to_lowercase();
        let words = ["nics", "nic ", "adapters", "hcas", "ports", "rails", "cards"];
        words.iter().find_map(|word| last_number(small[..small.find(word)?].trim_end()))
    };
    ends_with_times.or_else(begins_with_times).or_else(behind).or_else(named).filter(|n| *n > 0.0)
}

/// The number that a text ends with, as a word of its own.
fn last_number(text: &str) -> Option<f64> {
    let text = text.trim_end();
    let start = text
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |i| i + text[i..].chars().next().map_or(1, char::len_utf8));
    let apart = !text[..start].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '.');
    text[start..].parse().ok().filter(|_| apart)
}
