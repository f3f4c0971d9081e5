//! Expressions of Python as far as configurations use them: values, names, lists, calls, products and sums.

use serde_json::Value;

use super::tokens::PythonToken;
use stepsim_spec::json::whole;

/// How deep brackets may stand in one another.
const DEEPEST: usize = 64;

/// The value behind `=`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PythonExpression {
    Value(Value),
    /// `name.of.something`.
    Path(String),
    List(Vec<PythonExpression>),
    Call {
        path: String,
        arguments: Vec<(Option<String>, PythonExpression)>,
    },
    /// Two with a sign between them.
    Sum(Box<PythonExpression>, char, Box<PythonExpression>),
    /// Expressions that are not followed: conditions, comprehensions, maps.
    Other,
}

/// The value of an expression that nobody works out here.
pub(super) fn unknown() -> Value {
    UNKNOWN.into()
}

const UNKNOWN: &str = "an expression of the script";

/// True for the value of such an expression.
pub(in crate::imports) fn is_unknown(value: &Value) -> bool {
    value == UNKNOWN
}

/// All of some tokens as one expression.
pub(super) fn expression(tokens: &[PythonToken]) -> PythonExpression {
    let mut parser = PythonParser { tokens, at: 0, depth: 0 };
    let whole = parser.sum();
    if parser.at == tokens.len() { whole } else { PythonExpression::Other }
}

struct PythonParser<'a> {
    tokens: &'a [PythonToken],
    at: usize,
    depth: usize,
}

impl PythonParser<'_> {
    fn sign(&self) -> Option<char> {
        match self.tokens.get(self.at) {
            Some(PythonToken::Sign(sign)) => Some(*sign),
            _ => None,
        }
    }
    fn take(&mut self, wanted: char) -> bool {
        let is = self.sign() == Some(wanted);
        self.at += usize::from(is);
        is
    }

    fn sum(&mut self) -> PythonExpression {
        let mut left = self.product();
        while let Some(sign @ ('+' | '-')) = self.sign() {
            self.at += 1;
            left = PythonExpression::Sum(Box::new(left), sign, Box::new(self.product()));
        }
        left
    }
    fn product(&mut self) -> PythonExpression {
        let mut left = self.one();
        while let Some(sign @ ('*' | '/')) = self.sign() {
            self.at += 1;
            self.take('/');
            left = PythonExpression::Sum(Box::new(left), sign, Box::new(self.one()));
        }
        left
    }

    fn one(&mut self) -> PythonExpression {
        let Some(token) = self.tokens.get(self.at).cloned() else { return PythonExpression::Other };
        if self.depth > DEEPEST {
            return PythonExpression::Other;
        }
        self.at += 1;
        self.depth += 1;
        let one = match token {
            PythonToken::Text(text) => self.joined(text),
            PythonToken::Number(digits) => number(&digits),
            PythonToken::Sign('-') => match self.one() {
                PythonExpression::Value(value) => {
                    value.as_f64().map_or(PythonExpression::Other, |n| PythonExpression::Value(whole(-n)))
                }
                _ => PythonExpression::Other,
            },
            PythonToken::Sign('(') => self.in_brackets(')', false),
            PythonToken::Sign('[') => self.in_brackets(']', true),
            PythonToken::Sign('{') => {
                self.skip('{', '}');
                PythonExpression::Other
            }
            PythonToken::Name(name) => self.named(name),
            PythonToken::Sign(_) => PythonExpression::Other,
        };
        self.depth -= 1;
        one
    }

    /// Texts that stand behind one another are one.
    fn joined(&mut self, mut text: String) -> PythonExpression {
        while let Some(PythonToken::Text(more)) = self.tokens.get(self.at) {
            text += more;
            self.at += 1;
        }
        PythonExpression::Value(text.into())
    }

    /// A list, a tuple, or an expression in brackets of its own.
    fn in_brackets(&mut self, end: char, is_list: bool) -> PythonExpression {
        let (mut list, mut commas) = (Vec::new(), 0);
        while !self.take(end) {
            if self.at >= self.tokens.len() {
                return PythonExpression::Other;
            }
            list.push(self.part());
            commas += usize::from(self.take(','));
        }
        match list.len() {
            1 if !is_list && commas == 0 => list.remove(0),
            _ => PythonExpression::List(list),
        }
    }

    /// An expression to the next comma or closing bracket; `Other` where more stands there than is followed.
    fn part(&mut self) -> PythonExpression {
        let part = self.sum();
        let mut more = false;
        while self.at < self.tokens.len() && !matches!(self.sign(), Some(',' | ')' | ']' | '}')) {
            more = true;
            match self.sign() {
                Some('(') => self.skip_next('(', ')'),
                Some('[') => self.skip_next('[', ']'),
                Some('{') => self.skip_next('{', '}'),
                _ => self.at += 1,
            }
        }
        if more { PythonExpression::Other } else { part }
    }

    /// `name`, `name.of.it`, `call(...)`, `call(...).of_it(...)`: of the last the first call counts.
    fn named(&mut self, name: String) -> PythonExpression {
        match name.as_str() {
            "True" => return PythonExpression::Value(true.into()),
            "False" => return PythonExpression::Value(false.into()),
            "None" => return PythonExpression::Value(Value::Null),
            _ => {}
        }
        let mut path = name;
        let mut call: Option<PythonExpression> = None;
        loop {
            match (self.sign(), self.tokens.get(self.at + 1)) {
                (Some('.'), Some(PythonToken::Name(next))) => {
                    if call.is_none() {
                        path.push('.');
                        path.push_str(next);
                    }
                    self.at += 2;
                }
                (Some('('), _) if call.is_none() => {
                    self.at += 1;
                    call = Some(PythonExpression::Call { path: path.clone(), arguments: self.arguments() });
                }
                (Some('('), _) => self.skip_next('(', ')'),
                (Some('['), _) => {
                    self.skip_next('[', ']');
                    call = Some(PythonExpression::Other);
                }
                _ => return call.unwrap_or(PythonExpression::Path(path)),
            }
        }
    }

    fn arguments(&mut self) -> Vec<(Option<String>, PythonExpression)> {
        let mut arguments = Vec::new();
        while self.at < self.tokens.len() && !self.take(')') {
            let named = match (self.tokens.get(self.at), self.tokens.get(self.at + 1)) {
                (Some(PythonToken::Name(name)), Some(PythonToken::Sign('='))) => Some(name.clone()),
                _ => None,
            };
            self.at += if named.is_some() { 2 } else { 0 };
            arguments.push((named, self.part()));
            self.take(',');
        }
        arguments
    }

    fn skip_next(&mut self, open: char, close: char) {
        self.at += 1;
        self.skip(open, close);
    }
    /// Behind the bracket that closes the one before.
    fn skip(&mut self, open: char, close: char) {
        let mut depth = 1;
        while depth > 0 && self.at < self.tokens.len() {
            match self.sign() {
                Some(sign) if sign == open => depth += 1,
                Some(sign) if sign == close => depth -= 1,
                _ => {}
            }
            self.at += 1;
        }
    }
}

fn number(digits: &str) -> PythonExpression {
    match digits.parse::<f64>() {
        Ok(number) if number.is_finite() => PythonExpression::Value(whole(number)),
        _ => PythonExpression::Other,
    }
}

/// Two numbers with a sign between them.
pub(super) fn calculated(left: &Value, sign: char, right: &Value) -> Option<Value> {
    let (a, b) = (left.as_f64()?, right.as_f64()?);
    let number = match sign {
        '+' => a + b,
        '-' => a - b,
        '*' => a * b,
        _ if b == 0.0 => return None,
        _ => a / b,
    };
    number.is_finite().then(|| whole(number))
}
