//! Columns of words: read leniently, filled by rules, and with a record of what was filled and what was made of each
//! word.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value};

use super::origin::ValueOrigin;
use stepsim_spec::words::{Text, fits};

/// A field that no source printed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AssumedField {
    /// The column.
    pub column: String,
    /// The value taken.
    pub value: Value,
    /// Where from, and why.
    #[serde(flatten)]
    pub origin: ValueOrigin,
}

/// Columns by name. Null and absent are the same.
#[derive(Clone, Debug, Default)]
pub struct DescribedColumns {
    values: Map<String, Value>,
    /// Values that were filled in.
    pub assumed: Vec<AssumedField>,
    /// Columns that the mapping has made something of, and which of their letters a rule knew.
    heeded: RefCell<BTreeMap<String, Heed>>,
    /// Names under which a description has columns.
    renamed: BTreeMap<String, String>,
    /// Texts as patterns see them.
    texts: RefCell<BTreeMap<String, Text>>,
}

/// The use of a column.
#[derive(Clone, Debug)]
enum Heed {
    /// Its value was read.
    Whole,
    /// Rules knew these parts of its text.
    Parts(Vec<(usize, usize)>),
}

impl DescribedColumns {
    /// The columns of a row; what stands in its object `extra` are columns too.
    pub fn new(row: &Map<String, Value>) -> DescribedColumns {
        let mut columns = DescribedColumns::default();
        columns.take(row);
        columns
    }

    /// Takes what is still null here.
    pub fn take(&mut self, more: &Map<String, Value>) {
        let extra = more.get("extra").and_then(Value::as_object).into_iter().flatten();
        for (key, value) in more.iter().chain(extra).filter(|(key, v)| !v.is_null() && *key != "extra") {
            if !self.has(key) {
                self.put(key, value.clone());
            }
        }
    }

    fn put(&mut self, column: &str, value: Value) {
        self.texts.borrow_mut().remove(column);
        self.values.insert(column.to_string(), value);
    }

    /// Reads a column under another name.
    pub fn rename(&mut self, name: &str, column: &str) {
        self.put(column, self.peek(name).clone());
        self.renamed.insert(name.to_string(), column.to_string());
    }

    /// True if a column holds anything.
    pub fn has(&self, column: &str) -> bool {
        !self.peek(column).is_null()
    }

    /// The value of a column, without a note that it was read.
    pub fn peek(&self, column: &str) -> &Value {
        self.values.get(column).unwrap_or(&Value::Null)
    }

    /// Takes back that anything was made of a column.
    pub fn unheed(&self, column: &str) {
        self.heeded.borrow_mut().remove(column);
    }

    /// Notes that the mapping has made something of a column.
    pub fn heed(&self, column: &str) {
        self.heeded.borrow_mut().insert(column.to_string(), Heed::Whole);
    }

    /// Notes which parts of a column's text a rule knew.
    fn heed_parts(&self, column: &str, parts: Vec<(usize, usize)>) {
        let mut heeded = self.heeded.borrow_mut();
        match heeded.entry(column.to_string()).or_insert_with(|| Heed::Parts(Vec::new())) {
            Heed::Whole => {}
            Heed::Parts(known) => known.extend(parts),
        }
    }

    /// The words without any use, by the mapping or by a rule that held: whole columns, and single phrases of columns
    /// that are lists. Columns that say nothing of how a step is run are left out.
    pub fn unheeded(
        &self,
        row: &Map<String, Value>,
        silent: &BTreeSet<String>,
        lists: &BTreeSet<String>,
    ) -> BTreeMap<String, Value> {
        let heeded = self.heeded.borrow();
        let said = |value: &Value| !value.is_null() && *value != Value::Array(Vec::new());
        let mut gaps = BTreeMap::new();
        for (key, value) in row.iter().filter(|(key, value)| *key != "extra" && said(value)) {
            let column = self.renamed.get(key).unwrap_or(key);
            if silent.contains(key) || silent.contains(column) {
                continue;
            }
            match heeded.get(column) {
                None => drop(gaps.insert(key.clone(), value.clone())),
                Some(Heed::Parts(known)) if lists.contains(column) => {
                    let left = Text::of(value).unknown(known);
                    if !left.is_empty() {
                        gaps.insert(key.clone(), left.join(", ").into());
                    }
                }
                Some(_) => {}
            }
        }
        gaps
    }

    /// Where the value of a column comes from.
    pub fn origin(&self, column: &str) -> Option<ValueOrigin> {
        let filled = self.assumed.iter().rev().find(|a| a.column == column);
        filled.map(|a| a.origin.clone()).or_else(|| {
            self.has(column).then(|| ValueOrigin::stated(format!("{column} = {}", self.pattern_text(column))))
        })
    }

    /// The names of all columns that hold anything.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.values.keys()
    }

    /// The value of a column.
    pub fn get(&self, column: &str) -> &Value {
        self.heed(column);
        self.peek(column)
    }

    /// Its text; empty where it is null.
    pub fn text(&self, column: &str) -> String {
        self.heed(column);
        self.pattern_text(column)
    }

    /// Its text as patterns see it.
    fn pattern_text(&self, column: &str) -> String {
        match self.peek(column) {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// A number above zero; a text that reads as one counts, as `amount` says. Another text is not understood by that.
    pub fn number(&self, column: &str) -> Option<f64> {
        let found = self.amount(column);
        if found.is_some() || !self.peek(column).is_string() {
            self.heed(column);
        }
        found
    }

    /// True if a column holds this number, to one in a thousand; without a note that it was read.
    pub fn amount_is(&self, column: &str, number: u64) -> bool {
        self.amount(column).is_some_and(|x| (x - number as f64).abs() <= 1e-3 * number as f64)
    }

    fn amount(&self, column: &str) -> Option<f64> {
        let value = match self.peek(column) {
            Value::Number(n) => n.as_f64(),
            Value::String(text) => amount(text, TOKENS.contains(&column)),
            _ => None,
        };
        value.filter(|x: &f64| x.is_finite() && *x > 0.0)
    }

    /// A count from 1 to 10^12; a number with a fraction is none.
    pub fn count(&self, column: &str) -> Option<u64> {
        self.number(column).filter(|x| x.fract() == 0.0 && *x <= 1e12).map(|x| x as u64)
    }

    /// A degree of parallelism: 1 where nothing is said.
    pub fn degree(&self, column: &str) -> u64 {
        self.count(column).unwrap_or(1)
    }

    /// A count that the mapping cannot do without.
    pub fn needs(&self, column: &str) -> Result<u64, String> {
        match self.peek(column) {
            Value::Null => Err(format!("no {column}")),
            value => self.count(column).ok_or_else(|| format!("{column} is {value}")),
        }
    }

    /// Fills a column if it is null, and notes it; returns true if it did.
    pub fn fill(&mut self, column: &str, value: Value, origin: ValueOrigin) -> bool {
        if value.is_null() || self.has(column) {
            return false;
        }
        self.put(column, value.clone());
        self.assumed.push(AssumedField { column: column.to_string(), value, origin });
        true
    }

    /// Puts another value in a column, and notes it as assumed.
    pub fn assume(&mut self, column: &str, value: Value, why: &str) {
        self.put(column, value.clone());
        let (column, origin) = (column.to_string(), ValueOrigin::assumed(why));
        self.assumed.push(AssumedField { column, value, origin });
    }

    /// The value that a rule gives: itself, or the products that a text beginning with `=` adds, if all their columns
    /// are there and it comes out whole; one behind `=~` is rounded.
    pub fn value(&self, given: &Value) -> Option<Value> {
        let Some(sum) = given.as_str().and_then(|t| t.strip_prefix('=')) else {
            return Some(given.clone());
        };
        let rounds = sum.starts_with('~');
        let factor = |word: &str| word.trim().parse::<f64>().ok().or_else(|| self.number(word.trim()));
        let over = |text: &str| text.split('/').map(factor).reduce(|a, b| Some(a? / b?))?;
        let product = |text: &str| text.split('*').map(over).product::<Option<f64>>();
        let result: f64 = sum.trim_start_matches('~').split('+').map(product).sum::<Option<f64>>()?;
        let whole = if rounds { result.round().max(1.0) } else { result.round() };
        ((rounds || (result - whole).abs() < 1e-6) && whole >= 1.0).then(|| Value::from(whole as u64))
    }

    /// The same for every text inside a value; one that cannot be told is left out.
    pub fn resolve(&self, given: &Value) -> Value {
        match given {
            Value::Object(map) => {
                let entries = map.iter().filter_map(|(k, v)| match v {
                    Value::String(_) => Some((k.clone(), self.value(v)?)),
                    other => Some((k.clone(), self.resolve(other))),
                });
                Value::Object(entries.collect())
            }
            Value::Array(list) => Value::Array(list.iter().map(|v| self.resolve(v)).collect()),
            Value::String(_) => self.value(given).unwrap_or_default(),
            other => other.clone(),
        }
    }

    /// True if a column fits a pattern of a rule.
    pub fn fits(&self, column: &str, pattern: &str) -> bool {
        self.fitting(column, pattern).is_some()
    }

    /// Notes what a pattern that fits knows of a column.
    pub fn heed_pattern(&self, column: &str, pattern: &str) {
        if let Some(parts) = self.fitting(column, pattern) {
            self.heed_parts(column, parts);
        }
    }

    /// The parts of a column's text that a pattern knows; `None` if it does not fit.
    fn fitting(&self, column: &str, pattern: &str) -> Option<Vec<(usize, usize)>> {
        if let Some(body) = pattern.strip_prefix('!') {
            return (!self.fits(column, body)).then(Vec::new);
        }
        for (sign, holds) in COMPARISONS {
            if let Some(limit) = pattern.strip_prefix(sign).and_then(|n| n.trim().parse::<f64>().ok()) {
                return self.amount(column).is_some_and(|x| holds(x, limit)).then(|| vec![(0, usize::MAX)]);
            }
        }
        let mut texts = self.texts.borrow_mut();
        let text = match texts.get(column) {
            Some(text) => text,
            None => texts.entry(column.to_string()).or_insert(Text::of(self.peek(column))),
        };
        fits(pattern, text)
    }
}

/// Columns in which K and M are powers of 1,024: lengths and batches in tokens.
const TOKENS: [&str; 3] = ["seq", "vocab", "gbs_tokens"];

/// A number with what is written behind it: `1,024`, `45 %`, `8K` tokens, `2.5 s`, `640 ms`, `64 GPUs`, `1.2M`.
pub fn amount(text: &str, binary: bool) -> Option<f64> {
    let text = text.trim().trim_start_matches(['~', '≈', 'x', '×']).trim_start().replace(',', "");
    let number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '+' | '-');
    // An exponent belongs to the number.
    let end = text.find(|c: char| !number(c)).unwrap_or(text.len());
    let exponent = text[end..].strip_prefix(['e', 'E']).filter(|rest| rest.starts_with(number));
    let end = exponent.map_or(end, |rest| {
        let behind = rest.find(|c: char| !number(c)).unwrap_or(rest.len());
        text.len() - rest.len() + behind
    });
    let value: f64 = text[..end].parse().ok()?;
    let unit = text[end..].trim_start();
    let kilo = if binary { 1024.0 } else { 1000.0 };
    let times = match unit.split(|c: char| c.is_whitespace() || c == '/').next().unwrap_or_default() {
        "K" | "k" => kilo,
        "M" | "million" => kilo * kilo,
        "B" | "G" | "billion" => kilo * kilo * kilo,
        "T" | "trillion" => kilo * kilo * kilo * kilo,
        "%" => 0.01,
        "ms" | "msec" | "milliseconds" => 1e-3,
        "us" | "µs" => 1e-6,
        "min" | "minutes" => 60.0,
        "h" | "hours" => 3600.0,
        "" | "s" | "sec" | "seconds" | "secs" | "x" | "way" | "-way" | "tokens" | "tok" | "layers"
        | "samples" | "sequences" | "seqs" | "TFLOPS" | "TFLOP" | "TFLOPs" | "Tflops" | "tflops" | "GiB"
        | "GB" | "GPUs" | "GPU" | "gpus" | "devices" | "chips" | "nodes" => 1.0,
        _ => return None,
    };
    Some(value * times)
}

type Holds = fn(f64, f64) -> bool;
const COMPARISONS: [(&str, Holds); 4] =
    [("<=", |x, y| x <= y), (">=", |x, y| x >= y), ("<", |x, y| x < y), (">", |x, y| x > y)];
