//! Arithmetic of a script: whole numbers, with the signs of C.

/// Operators by how tightly they bind, the loosest first; of those that begin alike the longest first.
const LEVELS: [&str; 10] = ["||", "&&", "|", "^", "&", "== !=", "<= >= < >", "<< >>", "+ -", "* / %"];

/// Signs that another begins with and that mean something else there.
const LONGER: [(&str, &[&str]); 6] =
    [("|", &["||"]), ("&", &["&&"]), ("<", &["<<"]), (">", &[">>"]), ("*", &["**"]), ("=", &["=="])];

/// Characters of a sum at most.
const LONGEST: usize = 1000;

/// The variables of a sum.
pub(super) trait Variables {
    /// The value of one, or what it is open for.
    fn get(&self, name: &str) -> Result<i64, String>;
    /// Sets one.
    fn set(&mut self, name: &str, value: i64);
}

/// The value of sums behind one another, the last one's; what it hangs on where it cannot be told.
pub(super) fn evaluate(text: &str, variables: &mut dyn Variables) -> Result<i64, String> {
    if text.len() > LONGEST {
        return Err("a long sum".into());
    }
    let mut sum = Sum { rest: text, variables };
    let mut value = sum.choice()?;
    while sum.take(",") {
        value = sum.choice()?;
    }
    if sum.rest.trim().is_empty() { Ok(value) } else { Err(format!("$(({text}))")) }
}

struct Sum<'a, 'v> {
    rest: &'a str,
    variables: &'v mut dyn Variables,
}

impl<'a> Sum<'a, '_> {
    fn take(&mut self, sign: &str) -> bool {
        let rest = self.rest.trim_start();
        let longer = LONGER.iter().find(|(short, _)| *short == sign).map_or(&[][..], |(_, longer)| *longer);
        match rest.strip_prefix(sign).filter(|_| !longer.iter().any(|sign| rest.starts_with(sign))) {
            Some(after) => {
                self.rest = after;
                true
            }
            None => false,
        }
    }

    /// `a ? b : c`.
    fn choice(&mut self) -> Result<i64, String> {
        let condition = self.level(0)?;
        if !self.take("?") {
            return Ok(condition);
        }
        let yes = self.choice();
        let no = if self.take(":") { self.choice() } else { Err("a choice without another".into()) };
        if condition != 0 { yes } else { no }
    }

    fn level(&mut self, level: usize) -> Result<i64, String> {
        let Some(signs) = LEVELS.get(level) else { return self.power() };
        let mut left = self.level(level + 1)?;
        while let Some(sign) = signs.split(' ').find(|sign| self.take(sign)) {
            let right = self.level(level + 1)?;
            left = apply(sign, left, right).ok_or_else(|| format!("{left} {sign} {right}"))?;
        }
        Ok(left)
    }

    fn power(&mut self) -> Result<i64, String> {
        let base = self.factor()?;
        if !self.take("**") {
            return Ok(base);
        }
        let power = self.power()?;
        let value = u32::try_from(power).ok().and_then(|power| base.checked_pow(power));
        value.ok_or_else(|| format!("{base} ** {power}"))
    }

    fn factor(&mut self) -> Result<i64, String> {
        if self.take("(") {
            let value = self.choice();
            return if self.take(")") { value } else { Err("a parenthesis that is not closed".into()) };
        }
        for (sign, by) in [("++", 1), ("--", -1)] {
            if self.take(sign) {
                let name = self.word();
                return self.assign(name, |before| before.checked_add(by));
            }
        }
        if self.take("-") {
            let value = self.factor()?;
            return value.checked_neg().ok_or_else(|| format!("-({value})"));
        }
        if self.take("!") {
            return self.factor().map(|value| i64::from(value == 0));
        }
        if self.take("+") {
            return self.factor();
        }
        let word = self.word();
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            let hex = word.strip_prefix("0x").map(|hex| i64::from_str_radix(hex, 16));
            return hex.unwrap_or_else(|| word.parse()).map_err(|_| word.to_string());
        }
        self.variable(word)
    }

    /// A variable, and what is done to it.
    fn variable(&mut self, name: &'a str) -> Result<i64, String> {
        if name.is_empty() {
            return Err("a sum without a number".into());
        }
        for (sign, by) in [("++", 1), ("--", -1)] {
            if self.take(sign) {
                return self.assign(name, |before| before.checked_add(by)).map(|after| after - by);
            }
        }
        for sign in ["+", "-", "*", "/", "%"] {
            let rest = self.rest.trim_start();
            if rest.strip_prefix(sign).is_some_and(|rest| rest.starts_with('=')) {
                self.rest = &rest[2..];
                let right = self.choice()?;
                return self.assign(name, |before| apply(sign, before, right));
            }
        }
        if self.take("=") {
            let value = self.choice()?;
            self.variables.set(name, value);
            return Ok(value);
        }
        self.variables.get(name)
    }

    fn assign(&mut self, name: &str, made: impl Fn(i64) -> Option<i64>) -> Result<i64, String> {
        let value = made(self.variables.get(name)?).ok_or_else(|| name.to_string())?;
        self.variables.set(name, value);
        Ok(value)
    }

    /// A name, with the key of an array, or a number.
    fn word(&mut self) -> &'a str {
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let key = rest[end..].strip_prefix('[').filter(|_| end > 0).and_then(|inside| inside.find(']'));
        let (word, after) = rest.split_at(end + key.map_or(0, |key| key + 2));
        self.rest = after;
        word
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
        "|" => Some(a | b),
        "^" => Some(a ^ b),
        "&" => Some(a & b),
        "<<" => a.checked_shl(u32::try_from(b).ok()?),
        ">>" => a.checked_shr(u32::try_from(b).ok()?),
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "/" => a.checked_div(b),
        _ => a.checked_rem(b),
    }
}
