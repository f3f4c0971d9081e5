//! The columns of a row: read leniently, filled by rules, and with a record of what was filled.

use serde::Serialize;
use serde_json::{Map, Value};

/// A field that no source printed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Assumed {
    /// Which column.
    pub column: String,
    /// What was taken.
    pub value: Value,
    /// Why.
    pub why: String,
}

/// Columns by name. Null and absent are the same.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    values: Map<String, Value>,
    /// What was filled in.
    pub assumed: Vec<Assumed>,
}

impl Columns {
    /// The columns of a row; what stands in its object `extra` are columns too.
    pub fn new(row: &Map<String, Value>) -> Columns {
        let mut columns = Columns::default();
        columns.take(row);
        columns
    }

    /// Takes what is still null here.
    pub fn take(&mut self, more: &Map<String, Value>) {
        let extra = more.get("extra").and_then(Value::as_object).into_iter().flatten();
        for (key, value) in more.iter().chain(extra).filter(|(key, v)| !v.is_null() && *key != "extra") {
            if !self.has(key) {
                self.values.insert(key.clone(), value.clone());
            }
        }
    }

    /// Whether a column holds anything.
    pub fn has(&self, column: &str) -> bool {
        !self.get(column).is_null()
    }

    /// The value of a column.
    pub fn get(&self, column: &str) -> &Value {
        self.values.get(column).unwrap_or(&Value::Null)
    }

    /// Its text as patterns see it: empty where it is null.
    pub fn text(&self, column: &str) -> String {
        match self.get(column) {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// A number above zero; a text that reads as one counts, with commas or as per cent too.
    pub fn number(&self, column: &str) -> Option<f64> {
        let value = match self.get(column) {
            Value::Number(n) => n.as_f64(),
            Value::String(text) => {
                let text = text.trim().replace(',', "");
                match text.strip_suffix('%') {
                    Some(percent) => percent.trim().parse::<f64>().ok().map(|x| x / 100.0),
                    None => text.parse().ok(),
                }
            }
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
        match self.get(column) {
            Value::Null => Err(format!("no {column}")),
            value => self.count(column).ok_or_else(|| format!("{column} is {value}")),
        }
    }

    /// Fills a column if it is null, and notes it. Whether it did.
    pub fn fill(&mut self, column: &str, value: Value, why: &str) -> bool {
        if value.is_null() || self.has(column) {
            return false;
        }
        self.assume(column, value, why);
        true
    }

    /// Puts another value in a column, and notes it.
    pub fn assume(&mut self, column: &str, value: Value, why: &str) {
        self.values.insert(column.to_string(), value.clone());
        self.assumed.push(Assumed { column: column.to_string(), value, why: why.to_string() });
    }

    /// The value that a rule gives: itself, or the product that a text beginning with `=` spells, if all its columns
    /// are there and it comes out whole.
    pub fn value(&self, given: &Value) -> Option<Value> {
        let Some(product) = given.as_str().and_then(|t| t.strip_prefix('=')) else {
            return Some(given.clone());
        };
        let (mut result, mut divide, mut word) = (1.0, false, String::new());
        for c in product.chars().chain(['*']) {
            if !matches!(c, '*' | '/') {
                word.push(c);
                continue;
            }
            let name = word.trim();
            let factor = name.parse().ok().or_else(|| self.number(name))?;
            result = if divide { result / factor } else { result * factor };
            (divide, word) = (c == '/', String::new());
        }
        let whole = result.round();
        ((result - whole).abs() < 1e-6 && whole >= 1.0).then(|| Value::from(whole as u64))
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
            other => other.clone(),
        }
    }

    /// Whether a column fits a pattern of a rule.
    pub fn fits(&self, column: &str, pattern: &str) -> bool {
        if let Some(body) = pattern.strip_prefix('!') {
            return !self.fits(column, body);
        }
        for (sign, holds) in COMPARISONS {
            if let Some(limit) = pattern.strip_prefix(sign).and_then(|n| n.trim().parse::<f64>().ok()) {
                return self.number(column).is_some_and(|x| holds(x, limit));
            }
        }
        let text = self.text(column).to_lowercase();
        pattern.to_lowercase().split('|').any(|p| glob(p.trim(), &text))
    }
}

type Holds = fn(f64, f64) -> bool;
const COMPARISONS: [(&str, Holds); 4] =
    [("<=", |x, y| x <= y), (">=", |x, y| x >= y), ("<", |x, y| x < y), (">", |x, y| x > y)];

/// Whether a text is what a pattern says; `*` stands for anything.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or_default();
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn columns(value: Value) -> Columns {
        Columns::new(value.as_object().unwrap())
    }

    #[test]
    fn patterns_are_texts_alternatives_negations_and_comparisons() {
        let row = columns(json!({"model": "Llama-3.1 70B", "tp": 8, "none": null}));
        for (column, pattern, fits) in [
            ("model", "llama*70b", true),
            ("model", "gpt*|*70b*", true),
            ("model", "llama", false),
            ("model", "!*gpt*", true),
            ("none", "", true),
            ("model", "", false),
            ("absent", "!", false),
            ("tp", "!", true),
            ("tp", ">4", true),
            ("tp", "<=7", false),
            ("tp", "8", true),
            ("absent", "<3", false),
        ] {
            assert_eq!(row.fits(column, pattern), fits, "{column} {pattern:?}");
        }
        assert!(glob("*a*b*", "xaxbx") && !glob("*a*b*", "xbxax") && glob("a*a", "aa") && !glob("a*a", "a"));
    }

    #[test]
    fn products_need_all_their_columns_and_come_out_whole() {
        let row = columns(json!({"n": 64, "tp": "8", "pp": 3}));
        assert_eq!(row.value(&json!("=n/tp")), Some(json!(8)));
        assert_eq!(row.value(&json!("=2*n/tp/4")), Some(json!(4)));
        assert_eq!(row.value(&json!("=n/pp")), None);
        assert_eq!(row.value(&json!("=n/dp")), None);
        assert_eq!(row.value(&json!("plain")), Some(json!("plain")));
        let fields = row.resolve(&json!({"a": "=n", "b": {"c": "=dp", "d": true}, "e": ["=tp"]}));
        assert_eq!(fields, json!({"a": 64, "b": {"d": true}, "e": ["=tp"]}));
    }

    #[test]
    fn what_cannot_be_a_count_is_none() {
        let row =
            columns(json!({"a": 2.5, "b": -1, "c": "1,024", "d": {"x": 1}, "e": 1e300, "extra": {"f": 7}}));
        let counts: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|c| row.count(c)).into();
        assert_eq!(counts, [None, None, Some(1024), None, None, Some(7)]);
        assert_eq!(row.needs("a"), Err("a is 2.5".to_string()));
    }
}
