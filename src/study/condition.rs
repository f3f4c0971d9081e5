//! Conditions on points: `parallelism.tensor * parallelism.pipeline.size <= 16`.
//!
//! ```text
//! or:    and ("or" and)*          and:  not ("and" not)*         not: "not"? comparison
//! comparison: sum (("==" | "!=" | "<" | "<=" | ">" | ">=") sum)?
//! sum:   product (("+" | "-") product)*       product: atom (("*" | "/" | "%") atom)*
//! atom:  number | 'text' | true | false | null | path | "-" atom | "(" or ")"
//! ```
//! A path is a field that the study varies, or else one of the workload.

use serde_json::Value;

use stepsim_step::spec::SpecError;

/// A condition that has been read.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    option: &'static str,
    text: String,
    root: Expression,
}

#[derive(Clone, Debug, PartialEq)]
enum Expression {
    Constant(Value),
    Path(String),
    Negative(Box<Expression>),
    Not(Box<Expression>),
    Pair(&'static str, Box<Expression>, Box<Expression>),
}

/// Operators, each level binding closer than the one before; longer ones stand before their beginnings.
const LEVELS: [&[&str]; 5] =
    [&["or", "||"], &["and", "&&"], &["==", "!=", "<=", ">=", "<", ">"], &["+", "-"], &["*", "/", "%"]];
/// The level of comparisons: `not` stands before one, and they do not chain.
const COMPARISON: usize = 2;

impl Condition {
    /// Reads a condition that a point must meet.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Condition, SpecError> {
        Condition::of("--where", text)
    }

    /// Reads a condition that was given to `option`.
    ///
    /// # Errors
    /// It is none.
    pub fn of(option: &'static str, text: &str) -> Result<Condition, SpecError> {
        let mut reader = Reader { rest: text, open: 0 };
        let wrong = |problem: String| {
            SpecError::file(format!("{option} {text}"), problem)
                .allowed("comparisons of numbers, texts in '' and fields, joined by + - * / % and or not ( )")
                .hint("for example --where 'parallelism.tensor * parallelism.pipeline.size <= 16'")
        };
        if text.len() > MOST_BYTES {
            let problem = format!("{} bytes are too many", text.len());
            return Err(SpecError::file(option, problem).allowed(format!("at most {MOST_BYTES}")));
        }
        let root = reader.level(0).map_err(wrong)?;
        match reader.rest.trim_start() {
            "" => Ok(Condition { option, text: text.to_string(), root }),
            rest => Err(wrong(format!("`{rest}` follows what is whole"))),
        }
    }

    /// The paths that it names.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        let mut open = vec![&self.root];
        while let Some(expression) = open.pop() {
            match expression {
                Expression::Path(path) => paths.push(path.clone()),
                Expression::Negative(inner) | Expression::Not(inner) => open.push(inner),
                Expression::Pair(_, a, b) => open.extend([&**b, &**a]),
                Expression::Constant(_) => {}
            }
        }
        paths
    }

    /// Whether it holds, where `field` gives the value of a path.
    ///
    /// # Errors
    /// A path that has no value, or operands that do not go together.
    pub fn holds(&self, field: &dyn Fn(&str) -> Option<Value>) -> Result<bool, SpecError> {
        let wrong = |problem| SpecError::file(format!("{} {}", self.option, self.text), problem);
        match value(&self.root, field).map_err(wrong)? {
            Value::Bool(holds) => Ok(holds),
            other => Err(wrong(format!("it gives {other}, not true or false"))
                .hint("compare it with something: `batch.global >= 64`")),
        }
    }
}

fn value(expression: &Expression, field: &dyn Fn(&str) -> Option<Value>) -> Result<Value, String> {
    let truth = |e: &Expression| match value(e, field)? {
        Value::Bool(truth) => Ok(truth),
        other => Err(format!("{other} is not true or false")),
    };
    Ok(match expression {
        Expression::Constant(constant) => constant.clone(),
        Expression::Path(path) => field(path).ok_or_else(|| format!("there is no field `{path}`"))?,
        Expression::Negative(inner) => number(&value(inner, field)?).map(|x| (-x).into())?,
        Expression::Not(inner) => (!truth(inner)?).into(),
        Expression::Pair("or" | "||", a, b) => (truth(a)? || truth(b)?).into(),
        Expression::Pair("and" | "&&", a, b) => (truth(a)? && truth(b)?).into(),
        Expression::Pair(operator, a, b) => pair(operator, &value(a, field)?, &value(b, field)?)?,
    })
}

fn pair(operator: &str, a: &Value, b: &Value) -> Result<Value, String> {
    if let "==" | "!=" = operator {
        let equal = match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => a == b,
            _ => a == b,
        };
        return Ok((equal == (operator == "==")).into());
    }
    let (a, b) = (number(a)?, number(b)?);
    Ok(match operator {
        "<" => (a < b).into(),
        "<=" => (a <= b).into(),
        ">" => (a > b).into(),
        ">=" => (a >= b).into(),
        "+" => (a + b).into(),
        "-" => (a - b).into(),
        "*" => (a * b).into(),
        "/" => (a / b).into(),
        _ => (a % b).into(),
    })
}

fn number(value: &Value) -> Result<f64, String> {
    value.as_f64().ok_or_else(|| format!("{value} is no number"))
}

struct Reader<'a> {
    rest: &'a str,
    /// Levels of the expression that are open.
    open: usize,
}

/// Bytes of a condition, and levels of brackets and signs that stand in one another.
const MOST_BYTES: usize = 4096;
const MOST_OPEN: usize = 1024;

impl Reader<'_> {
    /// Takes an operator of a level, if one follows.
    fn operator(&mut self, level: usize) -> Option<&'static str> {
        let rest = self.rest.trim_start();
        let found = LEVELS[level].iter().find(|operator| {
            let after = rest.strip_prefix(**operator);
            // A word ends where no letter follows.
            after.is_some_and(|after| {
                !operator.starts_with(char::is_alphabetic) || !after.starts_with(in_path)
            })
        })?;
        self.rest = &rest[found.len()..];
        Some(found)
    }

    fn level(&mut self, level: usize) -> Result<Expression, String> {
        self.open += 1;
        if self.open > MOST_OPEN {
            return Err("too many levels stand in one another".into());
        }
        let expression = self.at_level(level);
        self.open -= 1;
        expression
    }

    fn at_level(&mut self, level: usize) -> Result<Expression, String> {
        if level == LEVELS.len() {
            return self.atom();
        }
        if level == COMPARISON && self.word("not") {
            return Ok(Expression::Not(Box::new(self.level(COMPARISON)?)));
        }
        let mut left = self.level(level + 1)?;
        while let Some(operator) = self.operator(level) {
            let right = self.level(level + 1)?;
            left = Expression::Pair(operator, Box::new(left), Box::new(right));
            if level == COMPARISON {
                break;
            }
        }
        Ok(left)
    }

    /// Takes a word, if it follows.
    fn word(&mut self, word: &str) -> bool {
        let after = self.rest.trim_start().strip_prefix(word).filter(|after| !after.starts_with(in_path));
        if let Some(after) = after {
            self.rest = after;
        }
        after.is_some()
    }

    fn atom(&mut self) -> Result<Expression, String> {
        self.rest = self.rest.trim_start();
        let rest = self.rest;
        if let Some(after) = rest.strip_prefix('(') {
            self.rest = after;
            let inner = self.level(0)?;
            self.rest = self.rest.trim_start().strip_prefix(')').ok_or("a `)` is missing")?;
            return Ok(inner);
        }
        if let Some(after) = rest.strip_prefix('-') {
            self.rest = after;
            return Ok(Expression::Negative(Box::new(self.atom()?)));
        }
        if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '\'' | '"')) {
            let (text, after) = rest[1..].split_once(quote).ok_or("a text without its end")?;
            self.rest = after;
            return Ok(Expression::Constant(text.into()));
        }
        let end = rest.find(|c| !in_path(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        self.rest = after;
        match word {
            "" => Err(format!("a value is missing before `{after}`")),
            word if word.starts_with(|c: char| c.is_ascii_digit()) => {
                let number: f64 = word.parse().map_err(|_| format!("`{word}` is no number"))?;
                Ok(Expression::Constant(number.into()))
            }
            "true" | "false" => Ok(Expression::Constant((word == "true").into())),
            "null" => Ok(Expression::Constant(Value::Null)),
            path => Ok(Expression::Path(path.to_string())),
        }
    }
}

/// What a path or a number is made of.
fn in_path(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(text: &str) -> Result<bool, String> {
        let point = json!({"a": 4, "b.size": 8, "kind": "1f1b", "order": true, "none": null});
        let condition = Condition::parse(text).map_err(|e| e.to_string())?;
        condition.holds(&|path| point.get(path).cloned()).map_err(|e| e.to_string())
    }

    #[test]
    fn operators_bind_as_usual() {
        for text in [
            "a * b.size == 32",
            "a + b.size * 2 == 20 and not a > 4",
            "(a + b.size) * 2 == 24",
            "a - 1 - 1 == 2",
            "-a < 0 or nothing == 1",
            "kind == '1f1b' && b.size % a == 0",
            "order and none == null",
            "order or false and false",
            "not kind == \"gpipe\"",
        ] {
            assert_eq!(holds(text), Ok(true), "{text}");
        }
        assert_eq!(holds("a / b.size >= 1"), Ok(false));
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for (text, part) in [
            ("", "a value is missing"),
            ("a *", "a value is missing"),
            ("(a == 4", "a `)` is missing"),
            ("a == 4 b", "`b` follows"),
            ("a < b.size < 9", "`< 9` follows"),
            ("a + 1", "not true or false"),
            ("c == 1", "no field `c`"),
            ("kind > 3", "is no number"),
            ("1x == 3", "`1x` is no number"),
            ("kind == 'open", "a text without its end"),
        ] {
            let message = holds(text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
