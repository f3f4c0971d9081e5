//! Conditions of a script: `[ ... ]`, `test ...` and `[[ ... ]]`. Their questions about a machine have no known answer,
//! nor those about a file that is not beside the script.

use super::marks::{is_known, opens, without_marks};
use super::pattern::matches;
use super::regular;

/// What became of a condition.
#[derive(Default)]
pub(super) struct Verdict {
    /// Whether it holds; none where it cannot be told.
    pub is: Option<bool>,
    /// The texts that it compares.
    pub compared: Vec<(String, String)>,
    /// The variables that nothing sets and whose numbers it asks for: a shell complains, and goes on.
    pub unset: Vec<String>,
}

/// Whether the words of a condition hold.
pub(super) fn holds(
    words: &[String],
    is_set: &dyn Fn(&str) -> bool,
    is_there: &dyn Fn(&str) -> bool,
) -> Verdict {
    let mut condition = Condition { words, at: 0, is_set, is_there, made: Verdict::default() };
    condition.made.is = condition.any();
    condition.made
}

struct Condition<'a> {
    words: &'a [String],
    at: usize,
    is_set: &'a dyn Fn(&str) -> bool,
    is_there: &'a dyn Fn(&str) -> bool,
    made: Verdict,
}

impl Condition<'_> {
    fn next(&self, ahead: usize) -> &str {
        self.words.get(self.at + ahead).map_or("", String::as_str)
    }
    fn take(&mut self, signs: [&str; 2]) -> bool {
        let is = self.at < self.words.len() && signs.contains(&self.next(0));
        self.at += usize::from(is);
        is
    }

    fn any(&mut self) -> Option<bool> {
        self.joined(["||", "-o"], true, Self::all)
    }
    fn all(&mut self) -> Option<bool> {
        self.joined(["&&", "-a"], false, Self::one)
    }
    /// The value of words joined by such signs, by `part`: `decides` where one says so, else known if all are.
    fn joined(
        &mut self,
        signs: [&str; 2],
        decides: bool,
        part: fn(&mut Self) -> Option<bool>,
    ) -> Option<bool> {
        let mut left = part(self);
        while self.take(signs) {
            let both = [left, part(self)];
            left = if both.contains(&Some(decides)) { Some(decides) } else { both[0].and(both[1]) };
        }
        left
    }
    fn one(&mut self) -> Option<bool> {
        if self.take(["!", "!"]) {
            return self.one().map(|is| !is);
        }
        if self.take(["(", "("]) {
            let inside = self.any();
            self.take([")", ")"]);
            return inside;
        }
        let is_pair = |sign: &str| {
            ["=", "==", "!=", "=~", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"].contains(&sign)
        };
        if is_pair(self.next(1)) {
            let (left, sign, right) =
                (self.next(0).to_string(), self.next(1).to_string(), self.next(2).to_string());
            self.at += 3;
            return self.compare(&left, &sign, &right);
        }
        let sign = self.next(0).to_string();
        if sign.len() == 2 && sign.starts_with('-') && self.words.len() > self.at + 1 {
            let value = self.next(1).to_string();
            self.at += 2;
            return match sign.as_str() {
                "-z" => is_known(&value).then(|| without_marks(&value).is_empty()),
                "-n" => is_known(&value).then(|| !without_marks(&value).is_empty()),
                "-v" => Some((self.is_set)(&value)),
                // One that is not beside the script may lie where it runs.
                "-f" | "-e" | "-s" | "-r" => (is_known(&value) && (self.is_there)(&value)).then_some(true),
                _ => None,
            };
        }
        self.at += 1;
        is_known(&sign).then(|| !without_marks(&sign).is_empty())
    }

    fn compare(&mut self, left: &str, sign: &str, right: &str) -> Option<bool> {
        self.made.compared.push((left.to_string(), right.to_string()));
        if !is_known(left) || !is_known(right) {
            return None;
        }
        if sign.len() == 3 {
            self.made.unset.extend([left, right].into_iter().flat_map(opens).map(str::to_string));
        }
        let (left, right) = (without_marks(left), without_marks(right));
        let number = |text: &str| text.trim().parse::<i64>().ok();
        let numbers = number(&left).zip(number(&right));
        match sign {
            "=" | "==" => Some(matches(&right, &left)),
            "!=" => Some(!matches(&right, &left)),
            "=~" => regular::finds(&right, &left),
            "-eq" => Some(numbers.map_or(left == right, |(a, b)| a == b)),
            "-ne" => Some(numbers.map_or(left != right, |(a, b)| a != b)),
            // Of what is no number, a shell complains and goes on.
            "-lt" => Some(numbers.is_some_and(|(a, b)| a < b)),
            "-le" => Some(numbers.is_some_and(|(a, b)| a <= b)),
            "-gt" => Some(numbers.is_some_and(|(a, b)| a > b)),
            "-ge" => Some(numbers.is_some_and(|(a, b)| a >= b)),
            "<" => Some(left < right),
            ">" => Some(left > right),
            _ => None,
        }
    }
}
