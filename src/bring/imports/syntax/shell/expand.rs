//! Words of a script as the texts that they become.

use super::lexer::{Form, Part, Variable, Word, WordPiece};
use super::marks::{is_known, open_as, opens, unset, without_marks};
use super::pattern::{cut, replaced};
use super::player::{BESIDE, Player};

/// True if a name collects options.
fn collects(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["args", "arg", "opts", "opt", "options", "option", "params", "flags", "flag", "cmd", "extra", "extras"]
        .iter()
        .any(|end| name.ends_with(end))
}

/// The first part of a text between separators, and what is behind: blanks count together, any other sign once.
pub(super) fn part<'a>(text: &'a str, separators: &str) -> Option<(&'a str, &'a str)> {
    let is_blank = |c: char| c.is_whitespace() && separators.contains(c);
    let text = text.trim_start_matches(is_blank);
    let end = text.find(|c| separators.contains(c)).unwrap_or(text.len());
    let behind = text[end..].trim_start_matches(is_blank);
    let sign = behind.chars().next().filter(|c| separators.contains(*c)).map_or(0, char::len_utf8);
    (!text.is_empty()).then(|| (&text[..end], behind[sign..].trim_start_matches(is_blank)))
}

impl Player {
    /// A word as one text.
    pub(super) fn text(&mut self, word: &Word) -> String {
        let mut whole = String::new();
        for piece in word {
            let part = match piece {
                _ if self.is_spent() => open_as("the end of what is played"),
                WordPiece::Text(text, _) => text.clone(),
                WordPiece::Variable(variable, _) => self.value(variable).join(" "),
                WordPiece::Sum(sum) => self.sum(sum).map_or_else(|open| open_as(&open), |n| n.to_string()),
                WordPiece::Output(commands, _) => self.printed(commands).trim_end_matches('\n').to_string(),
                WordPiece::Blank(what) => open_as(what),
            };
            self.written += part.len();
            whole += &part;
        }
        whole
    }

    /// A word as the words that it becomes: what is put in without quotes comes apart at blanks.
    pub(super) fn fields(&mut self, word: &Word) -> Vec<String> {
        let mut fields = Vec::new();
        let mut open: Option<String> = None;
        let mut vanishes = false;
        for piece in word {
            let (parts, whole) = match piece {
                WordPiece::Variable(variable, is_quoted) => {
                    let values = self.value(variable);
                    let row = matches!(variable.part, Part::Row);
                    match (is_quoted, &variable.part) {
                        (true, Part::Each) => (values, true),
                        (true, _) => {
                            let between = self.separators().chars().next().filter(|_| row).unwrap_or(' ');
                            (vec![values.join(&between.to_string())], true)
                        }
                        (false, _) => (self.parts(&values.join(" ")), false),
                    }
                }
                WordPiece::Output(_, false) => {
                    let text = self.text(&vec![piece.clone()]);
                    (self.parts(&text), false)
                }
                WordPiece::Text(text, false) if word.len() == 1 => (braces(text), false),
                other => (vec![self.text(&vec![other.clone()])], true),
            };
            let empty = whole && parts.is_empty();
            vanishes |= empty;
            for (i, part) in parts.into_iter().enumerate() {
                if i > 0 {
                    fields.extend(open.take());
                }
                *open.get_or_insert_default() += &part;
            }
            if empty && word.len() == 1 {
                return fields;
            }
        }
        // Words of nothing but empty quotes around an array without values vanish.
        fields.extend(open.filter(|field| !(field.is_empty() && vanishes)));
        fields
    }

    /// The parts of a text between its separators.
    pub(super) fn parts(&self, text: &str) -> Vec<String> {
        let (separators, mut parts, mut rest) = (self.separators(), Vec::new(), text);
        while let Some((part, behind)) = part(rest, &separators) {
            parts.push(part.to_string());
            rest = behind;
        }
        parts
    }

    /// The values of a variable.
    fn value(&mut self, variable: &Variable) -> Vec<String> {
        let values = self.value_of(variable);
        self.written += values.iter().map(|value| value.len() + BESIDE).sum::<usize>();
        if self.is_spent() { vec![open_as("the end of what is played")] } else { values }
    }

    fn value_of(&mut self, variable: &Variable) -> Vec<String> {
        self.used.insert(variable.name.clone());
        let values = self.values(&variable.name, &variable.part);
        let is_unset = values.iter().any(|value| unset(value).is_some());
        let is_empty = values.iter().all(|value| is_known(value) && without_marks(value).is_empty());
        let lacks = |colon: bool| if colon { is_empty } else { is_unset };
        let each = |made: &dyn Fn(&str) -> String| {
            values
                .iter()
                .map(|value| if opens(value).next().is_some() { value.clone() } else { made(value) })
                .collect()
        };
        match &variable.form {
            Form::Plain | Form::Must => values,
            Form::Else(word, colon) | Form::Set(word, colon) if lacks(*colon) => {
                let text = self.text(word);
                if let Form::Set(..) = variable.form {
                    self.put(&variable.name, text.clone());
                }
                vec![text]
            }
            Form::Else(..) | Form::Set(..) => values,
            Form::Instead(word, colon) if !lacks(*colon) => vec![self.text(word)],
            Form::Instead(..) => vec![String::new()],
            Form::Lower => each(&|value| value.to_lowercase()),
            Form::Upper => each(&|value| value.to_uppercase()),
            Form::Length => vec![match variable.part {
                Part::Each | Part::Row => values.iter().filter(|v| unset(v).is_none()).count().to_string(),
                _ => match values.first() {
                    Some(value) if opens(value).next().is_some() => value.clone(),
                    value => value.map_or(0, |value| value.chars().count()).to_string(),
                },
            }],
            Form::Named => self.named(variable, &values),
            Form::Cut { end, longest, pattern } => {
                let pattern = self.text(pattern);
                each(&|value| cut(value, &pattern, *end, *longest))
            }
            Form::Replace { all, pattern, with } => {
                let (pattern, with) = (self.text(pattern), self.text(with));
                each(&|value| replaced(value, &pattern, &with, *all))
            }
            Form::Slice(from, length) => self.slice(variable, &values, from, length.as_deref()),
            Form::Other => vec![open_as(&variable.name)],
        }
    }

    fn named(&mut self, variable: &Variable, values: &[String]) -> Vec<String> {
        if matches!(variable.part, Part::Each | Part::Row) {
            let keys = self.variables.get(&variable.name);
            return keys.into_iter().flatten().map(|(key, _)| key.clone()).collect();
        }
        let name = values.concat();
        if opens(&name).next().is_some() { vec![name] } else { self.values(&name, &Part::First) }
    }

    fn slice(
        &mut self,
        variable: &Variable,
        values: &[String],
        from: &str,
        length: Option<&str>,
    ) -> Vec<String> {
        let from = self.sum(from);
        let length = length.map(|length| self.sum(length)).transpose();
        let (from, length) = match (from, length) {
            (Ok(from), Ok(length)) => (from, length),
            (Err(open), _) | (_, Err(open)) => return vec![open_as(&open)],
        };
        let of_line = ["@", "*"].contains(&variable.name.as_str());
        let range = |size: usize| {
            let size = i64::try_from(size).unwrap_or(i64::MAX);
            let begin = if from < 0 { size + from } else { from }.clamp(0, size);
            let end = match length {
                None => size,
                Some(n) if n < 0 => (size + n).max(begin),
                Some(n) => begin.saturating_add(n).min(size),
            };
            usize::try_from(begin).unwrap_or(0)..usize::try_from(end).unwrap_or(0)
        };
        if matches!(variable.part, Part::Each | Part::Row) {
            let first = vec![String::new(); usize::from(of_line)];
            let all = [&first, values].concat();
            return all[range(all.len())].to_vec();
        }
        let cut = |value: &String| {
            let chars: Vec<char> = value.chars().collect();
            chars[range(chars.len())].iter().collect()
        };
        values
            .iter()
            .map(|value| if opens(value).next().is_some() { value.clone() } else { cut(value) })
            .collect()
    }

    /// The key that a text is in an array: a word, or the value of a sum.
    pub(super) fn key(&mut self, name: &str, word: &Word) -> String {
        let text = self.text(word);
        let text = text.trim_matches(['"', '\'']).to_string();
        if self.by_name.contains(name) {
            return text;
        }
        self.sum(&text).map_or(text, |at| at.to_string())
    }

    fn values(&mut self, name: &str, part: &Part) -> Vec<String> {
        match name {
            "@" | "*" => return self.line.clone(),
            "#" => return vec![self.line.len().to_string()],
            "?" | "$" | "!" | "-" => return vec![open_as(&format!("${name}"))],
            _ => {}
        }
        let at = name.parse::<usize>().ok().and_then(|n| self.line.get(n.checked_sub(1)?));
        if let Some(value) = at {
            return vec![value.clone()];
        }
        if !self.variables.contains_key(name) {
            return if collects(name) || matches!(part, Part::Each | Part::Row) {
                Vec::new()
            } else {
                vec![open_as(name)]
            };
        }
        let key = match part {
            Part::At(word) => self.key(name, word),
            _ => "0".to_string(),
        };
        let Some(values) = self.variables.get(name) else { return Vec::new() };
        if let Part::Each | Part::Row = part {
            return values.iter().map(|(_, value)| value.clone()).collect();
        }
        let last = key.strip_prefix('-').and_then(|n| values.len().checked_sub(n.parse().ok()?));
        let found =
            last.and_then(|at| values.get(at)).or_else(|| values.iter().find(|(other, _)| *other == key));
        match (found, part) {
            (Some((_, value)), _) => vec![value.clone()],
            // An open key hangs on what it is open for.
            (None, Part::At(_)) => vec![opens(&key).next().map_or_else(String::new, open_as)],
            (None, _) => vec![values.first().map_or_else(String::new, |(_, value)| value.clone())],
        }
    }
}

/// `a{1,2}`, `{1..4}`: the words that braces stand for.
fn braces(text: &str) -> Vec<String> {
    let plain = || vec![text.to_string()];
    let Some((head, rest)) = text.split_once('{') else { return plain() };
    let Some((inside, tail)) = rest.split_once('}') else { return plain() };
    if inside.contains('{') || inside.is_empty() {
        return plain();
    }
    let choices: Vec<String> = match inside.split_once("..") {
        Some((from, to)) => match (from.parse::<i64>(), to.parse::<i64>()) {
            (Ok(from), Ok(to)) if from <= to => (from..=to).take(1000).map(|n| n.to_string()).collect(),
            (Ok(from), Ok(to)) => (to..=from).rev().take(1000).map(|n| n.to_string()).collect(),
            _ => return plain(),
        },
        None if inside.contains(',') => inside.split(',').map(str::to_string).collect(),
        None => return plain(),
    };
    choices.iter().map(|choice| format!("{head}{choice}{tail}")).collect()
}
