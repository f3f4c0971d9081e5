//! Arithmetic of a script: whole numbers, with the signs of C.

/// Operators by how tightly they bind, the loosest first.
const LEVELS: [&[&str]; 6] =
    [&["||"], &["&&"], &["==", "!="], &["<=", ">=", "<", ">"], &["+", "-"], &["*", "/", "%"]];

/// The value of a sum; `value_of` knows variables. `None` where it cannot be told.
pub(super) fn evaluate(text: &str, value_of: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
    let mut sum = Sum { rest: text, value_of };
    let value = sum.choice()?;
    sum.rest.trim().is_empty().then_some(value)
}

/// The variable that a sum sets (`i = 0`, `i++`, `i += 2`), and its value.
pub(super) fn assigned<'a>(text: &'a str, value_of: &dyn Fn(&str) -> Option<i64>) -> Option<(&'a str, i64)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let before = || value_of(name);
    let value = match rest.trim_start() {
        "++" => before()? + 1,
        "--" => before()? - 1,
        rest if rest.starts_with("+=") => before()? + evaluate(&rest[2..], value_of)?,
        rest if rest.starts_with('=') && !rest.starts_with("==") => evaluate(&rest[1..], value_of)?,
        _ => return None,
    };
    Some((name, value))
}

struct Sum<'a> {
    rest: &'a str,
    value_of: &'a dyn Fn(&str) -> Option<i64>,
}

impl Sum<'_> {
    fn take(&mut self, sign: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(sign) {
            Some(after) => {
                self.rest = after;
                true
            }
            None => false,
        }
    }

    /// `a ? b : c`.
    fn choice(&mut self) -> Option<i64> {
        let condition = self.level(0)?;
        if !self.take("?") {
            return Some(condition);
        }
        let (yes, no) = (self.choice()?, self.take(":").then(|| self.choice())??);
        Some(if condition != 0 { yes } else { no })
    }

    fn level(&mut self, level: usize) -> Option<i64> {
        let Some(signs) = LEVELS.get(level) else { return self.factor() };
        let mut left = self.level(level + 1)?;
        while let Some(sign) = signs.iter().find(|sign| self.take(sign)) {
            let right = self.level(level + 1)?;
            left = apply(sign, left, right)?;
        }
        Some(left)
    }

    fn factor(&mut self) -> Option<i64> {
        if self.take("(") {
            let value = self.choice()?;
            return self.take(")").then_some(value);
        }
        if self.take("-") {
            return self.factor()?.checked_neg();
        }
        if self.take("!") {
            return Some(i64::from(self.factor()? == 0));
        }
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        self.rest = after;
        word.parse().ok().or_else(|| (self.value_of)(word))
    }
}

fn apply(sign: &str, a: i64, b: i64) -> Option<i64> {
    let truth = |is: bool| Some(i64::from(is));
    match sign {
        "||" => truth(a != 0 || b != 0),
        "&&" => truth(a != 0 && b != 0),
        "==" => truth(a == b),
        "!=" => truth(a != b),
        "<=" => truth(a <= b),
        ">=" => truth(a >= b),
        "<" => truth(a < b),
        ">" => truth(a > b),
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "/" => a.checked_div(b),
        _ => a.checked_rem(b),
    }
}
