//! Expressions over named quantities: `parallelism.tensor * parallelism.pipeline.size`, `max(0, a - b)`.
//!
//! ```text
//! or:    and ("or" and)*          and:  not ("and" not)*         not: "not"? comparison
//! comparison: sum (("==" | "!=" | "<" | "<=" | ">" | ">=") sum)?
//! sum:   product (("+" | "-") product)*       product: atom (("*" | "/" | "%") atom)*
//! atom:  number | 'text' | true | false | null | name | "-" atom | "(" or ")" | function "(" or ("," or)* ")"
//! ```
//! Functions: `if(condition, yes, no)`, `min`, `max` (any number of values), `ceil`, `floor`, `sqrt`, `log2`, `exp`,
//! `pow(x, y)`.

use serde_json::Value;

/// An expression that has been read.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression(ExpressionNode);

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// In words, if it is none.
    pub fn parse(text: &str) -> Result<Expression, String> {
        let mut reader = Reader { rest: text, open: 0 };
        let root = reader.level(0)?;
        match reader.rest.trim_start() {
            "" => Ok(Expression(root)),
            rest => Err(format!("`{rest}` follows what is whole")),
        }
    }
    /// Its value; `named` gives the value of a name.
    ///
    /// # Errors
    /// In words: a name that has no value, or operands that do not go together.
    pub fn value(&self, named: &dyn Fn(&str) -> Option<Value>) -> Result<Value, String> {
        value(&self.0, named)
    }
}

impl Expression {
    /// The names in it, in the order in which they stand.
    pub fn names(&self) -> Vec<String> {
        let (mut names, mut open) = (Vec::new(), vec![&self.0]);
        while let Some(node) = open.pop() {
            match node {
                ExpressionNode::Path(name) => names.push(name.clone()),
                ExpressionNode::Negative(inner) | ExpressionNode::Not(inner) => open.push(inner),
                ExpressionNode::Pair(_, a, b) => open.extend([&**b, &**a]),
                ExpressionNode::Call(_, of) => open.extend(of.iter().rev()),
                ExpressionNode::Constant(_) => {}
            }
        }
        names
    }
}

#[derive(Clone, Debug, PartialEq)]
enum ExpressionNode {
    Constant(Value),
    Path(String),
    Negative(Box<ExpressionNode>),
    Not(Box<ExpressionNode>),
    Pair(&'static str, Box<ExpressionNode>, Box<ExpressionNode>),
    Call(&'static str, Vec<ExpressionNode>),
}

/// Operators, each level binding closer than the one before; longer ones stand before their beginnings.
const LEVELS: [&[&str]; 5] =
    [&["or", "||"], &["and", "&&"], &["==", "!=", "<=", ">=", "<", ">"], &["+", "-"], &["*", "/", "%"]];
/// The level of comparisons: `not` stands before one, and they do not chain.
const COMPARISON: usize = 2;

/// Functions that can be called.
const FUNCTIONS: [&str; 9] = ["if", "min", "max", "ceil", "floor", "sqrt", "log2", "exp", "pow"];

fn value(expression: &ExpressionNode, field: &dyn Fn(&str) -> Option<Value>) -> Result<Value, String> {
    let truth = |e: &ExpressionNode| match value(e, field)? {
        Value::Bool(truth) => Ok(truth),
        other => Err(format!("{other} is not true or false")),
    };
    Ok(match expression {
        ExpressionNode::Constant(constant) => constant.clone(),
        ExpressionNode::Path(path) => field(path).ok_or_else(|| format!("there is no field `{path}`"))?,
        ExpressionNode::Negative(inner) => number(&value(inner, field)?).map(|x| (-x).into())?,
        ExpressionNode::Not(inner) => (!truth(inner)?).into(),
        ExpressionNode::Pair("or" | "||", a, b) => (truth(a)? || truth(b)?).into(),
        ExpressionNode::Pair("and" | "&&", a, b) => (truth(a)? && truth(b)?).into(),
        ExpressionNode::Pair(operator, a, b) => pair(operator, &value(a, field)?, &value(b, field)?)?,
        ExpressionNode::Call("if", of) => match of.as_slice() {
            [condition, yes, no] => value(if truth(condition)? { yes } else { no }, field)?,
            of => return Err(format!("`if` takes a condition and two values, not {}", of.len())),
        },
        ExpressionNode::Call(name, of) => {
            let of = of.iter().map(|e| number(&value(e, field)?)).collect::<Result<Vec<f64>, String>>()?;
            called(name, &of)?.into()
        }
    })
}

/// A function of numbers.
fn called(name: &str, of: &[f64]) -> Result<f64, String> {
    Ok(match (name, of) {
        ("min", [first, rest @ ..]) => rest.iter().copied().fold(*first, f64::min),
        ("max", [first, rest @ ..]) => rest.iter().copied().fold(*first, f64::max),
        ("ceil", [x]) => x.ceil(),
        ("floor", [x]) => x.floor(),
        ("sqrt", [x]) => x.sqrt(),
        ("log2", [x]) => x.log2(),
        ("exp", [x]) => x.exp(),
        ("pow", [x, y]) => x.powf(*y),
        (name, of) => return Err(format!("`{name}` does not take {} numbers", of.len())),
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

/// Levels of brackets and signs that stand in one another.
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

    fn level(&mut self, level: usize) -> Result<ExpressionNode, String> {
        self.open += 1;
        if self.open > MOST_OPEN {
            return Err("too many levels stand in one another".into());
        }
        let expression = self.at_level(level);
        self.open -= 1;
        expression
    }

    fn at_level(&mut self, level: usize) -> Result<ExpressionNode, String> {
        if level == LEVELS.len() {
            return self.atom();
        }
        if level == COMPARISON && self.word("not") {
            return Ok(ExpressionNode::Not(Box::new(self.level(COMPARISON)?)));
        }
        let mut left = self.level(level + 1)?;
        while let Some(operator) = self.operator(level) {
            let right = self.level(level + 1)?;
            left = ExpressionNode::Pair(operator, Box::new(left), Box::new(right));
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

    /// The arguments of a function, up to its `)`.
    fn call(&mut self, name: &'static str) -> Result<ExpressionNode, String> {
        let mut of = vec![self.level(0)?];
        loop {
            self.rest = self.rest.trim_start();
            if let Some(after) = self.rest.strip_prefix(',') {
                self.rest = after;
                of.push(self.level(0)?);
            } else {
                self.rest =
                    self.rest.strip_prefix(')').ok_or_else(|| format!("a `)` is missing after {name}("))?;
                return Ok(ExpressionNode::Call(name, of));
            }
        }
    }

    fn atom(&mut self) -> Result<ExpressionNode, String> {
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
            return Ok(ExpressionNode::Negative(Box::new(self.atom()?)));
        }
        if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '\'' | '"')) {
            let (text, after) = rest[1..].split_once(quote).ok_or("a text without its end")?;
            self.rest = after;
            return Ok(ExpressionNode::Constant(text.into()));
        }
        let end = rest.find(|c| !in_path(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        self.rest = after;
        if let Some(name) = FUNCTIONS.iter().find(|name| **name == word)
            && let Some(after) = after.trim_start().strip_prefix('(')
        {
            self.rest = after;
            return self.call(name);
        }
        match word {
            "" => Err(format!("a value is missing before `{after}`")),
            word if word.starts_with(|c: char| c.is_ascii_digit()) => {
                let number: f64 = word.parse().map_err(|_| format!("`{word}` is no number"))?;
                Ok(ExpressionNode::Constant(number.into()))
            }
            "true" | "false" => Ok(ExpressionNode::Constant((word == "true").into())),
            "null" => Ok(ExpressionNode::Constant(Value::Null)),
            path => Ok(ExpressionNode::Path(path.to_string())),
        }
    }
}

/// True for a character of a path or a number.
fn in_path(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.')
}
