//! Expressions of Python as far as configurations use them: values, names, lists, calls, products and sums.

use serde_json::Value;

use super::tokens::Token;
use stepsim_step::spec::json::whole;

/// How deep brackets may stand in one another.
const DEEPEST: usize = 64;

/// The value behind `=`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Value(Value),
    /// `name.of.something`.
    Path(String),
    List(Vec<Expression>),
    Call {
        path: String,
        arguments: Vec<(Option<String>, Expression)>,
    },
    /// Two with a sign between them.
    Sum(Box<Expression>, char, Box<Expression>),
    /// Expressions that are not followed: conditions, comprehensions, maps.
    Other,
}

/// All of some tokens as one expression.
pub(super) fn expression(tokens: &[Token]) -> Expression {
    let mut parser = Parser { tokens, at: 0, depth: 0 };
    let whole = parser.sum();
    if parser.at == tokens.len() { whole } else { Expression::Other }
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn sign(&self) -> Option<char> {
        match self.tokens.get(self.at) {
            Some(Token::Sign(sign)) => Some(*sign),
            _ => None,
        }
    }
    fn take(&mut self, wanted: char) -> bool {
        let is = self.sign() == Some(wanted);
        self.at += usize::from(is);
        is
    }

    fn sum(&mut self) -> Expression {
        let mut left = self.product();
        while let Some(sign @ ('+' | '-')) = self.sign() {
            self.at += 1;
            left = Expression::Sum(Box::new(left), sign, Box::new(self.product()));
        }
        left
    }
    fn product(&mut self) -> Expression {
        let mut left = self.one();
        while let Some(sign @ ('*' | '/')) = self.sign() {
            self.at += 1;
            self.take('/');
            left = Expression::Sum(Box::new(left), sign, Box::new(self.one()));
        }
        left
    }

    fn one(&mut self) -> Expression {
        let Some(token) = self.tokens.get(self.at).cloned() else { return Expression::Other };
        if self.depth > DEEPEST {
            return Expression::Other;
        }
        self.at += 1;
        self.depth += 1;
        let one = match token {
            Token::Text(text) => self.joined(text),
            Token::Number(digits) => number(&digits),
            Token::Sign('-') => match self.one() {
                Expression::Value(value) => {
                    value.as_f64().map_or(Expression::Other, |n| Expression::Value(whole(-n)))
                }
                _ => Expression::Other,
            },
            Token::Sign('(') => self.in_brackets(')', false),
            Token::Sign('[') => self.in_brackets(']', true),
            Token::Sign('{') => {
                self.skip('{', '}');
                Expression::Other
            }
            Token::Name(name) => self.named(name),
            Token::Sign(_) => Expression::Other,
        };
        self.depth -= 1;
        one
    }

    /// Texts that stand behind one another are one.
    fn joined(&mut self, mut text: String) -> Expression {
        while let Some(Token::Text(more)) = self.tokens.get(self.at) {
            text += more;
            self.at += 1;
        }
        Expression::Value(text.into())
    }

    /// A list, a tuple, or an expression in brackets of its own.
    fn in_brackets(&mut self, end: char, is_list: bool) -> Expression {
        let (mut list, mut commas) = (Vec::new(), 0);
        while !self.take(end) {
            if self.at >= self.tokens.len() {
                return Expression::Other;
            }
            list.push(self.part());
            commas += usize::from(self.take(','));
        }
        match list.len() {
            1 if !is_list && commas == 0 => list.remove(0),
            _ => Expression::List(list),
        }
    }

    /// An expression to the next comma or closing bracket; `Other` where more stands there than is followed.
    fn part(&mut self) -> Expression {
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
        if more { Expression::Other } else { part }
    }

    /// `name`, `name.of.it`, `call(...)`, `call(...).of_it(...)`: of the last the first call counts.
    fn named(&mut self, name: String) -> Expression {
        match name.as_str() {
            "True" => return Expression::Value(true.into()),
            "False" => return Expression::Value(false.into()),
            "None" => return Expression::Value(Value::Null),
            _ => {}
        }
        let mut path = name;
        let mut call: Option<Expression> = None;
        loop {
            match (self.sign(), self.tokens.get(self.at + 1)) {
                (Some('.'), Some(Token::Name(next))) => {
                    if call.is_none() {
                        path = format!("{path}.{next}");
                    }
                    self.at += 2;
                }
                (Some('('), _) if call.is_none() => {
                    self.at += 1;
                    call = Some(Expression::Call { path: path.clone(), arguments: self.arguments() });
                }
                (Some('('), _) => self.skip_next('(', ')'),
                (Some('['), _) => {
                    self.skip_next('[', ']');
                    call = Some(Expression::Other);
                }
                _ => return call.unwrap_or(Expression::Path(path)),
            }
        }
    }

    fn arguments(&mut self) -> Vec<(Option<String>, Expression)> {
        let mut arguments = Vec::new();
        while self.at < self.tokens.len() && !self.take(')') {
            let named = match (self.tokens.get(self.at), self.tokens.get(self.at + 1)) {
                (Some(Token::Name(name)), Some(Token::Sign('='))) => Some(name.clone()),
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

fn number(digits: &str) -> Expression {
    match digits.parse::<f64>() {
        Ok(number) if number.is_finite() => Expression::Value(whole(number)),
        _ => Expression::Other,
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
