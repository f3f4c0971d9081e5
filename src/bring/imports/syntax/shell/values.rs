//! Variables of a script: what sets them, and what stands in them.

use super::expand::part;
use super::grammar::Assignment;
use super::lexer::{self, Word, quoted};
use super::marks::{open_as, says_something, unset};
use super::player::{Player, SEPARATORS, Values};

impl Player {
    /// Options in variables that no program got: files that others read in hold nothing else.
    pub fn options_left(&self) -> Vec<Vec<String>> {
        let left = self.variables.iter().filter(|(name, _)| !self.used.contains(*name));
        left.map(|(_, values)| values.iter().map(|(_, value)| value.clone()).collect::<Vec<String>>())
            .filter(|values| values.iter().any(|v| v.contains("--")))
            .collect()
    }

    /// The values of variables that are called after a model, its checkpoint or its tokenizer.
    pub fn models_beside(&self) -> Vec<String> {
        let about = |name: &str| ["MODEL", "CKPT", "TOKENIZER", "HF_"].iter().any(|word| name.contains(word));
        let path = |text: &&String| {
            text.contains('/') && !text.contains(char::is_whitespace) && says_something(text)
        };
        let variables = self.variables.iter().filter(|(name, _)| about(&name.to_ascii_uppercase()));
        variables.flat_map(|(_, values)| values.iter().map(|(_, v)| v).filter(path).cloned()).collect()
    }

    /// `read -r A B`: parts of a line, the last name takes what is left; `-a` makes an array of all. Without a text
    /// nobody knows.
    pub(super) fn read(&mut self, words: &[String]) -> Option<bool> {
        let is_array = words.iter().any(|name| name.starts_with('-') && name.ends_with('a'));
        let names: Vec<&String> = words.iter().filter(|name| lexer::is_name(name)).collect();
        let Some(input) = self.input.take() else {
            names.iter().for_each(|name| self.put(name, open_as("read")));
            return None;
        };
        // `-d ''` reads to the end.
        let whole = words.iter().any(|word| word.starts_with('-') && word.ends_with('d'));
        let split = if whole { None } else { input.split_once('\n') };
        let (line, rest) = split.unwrap_or((input.trim_end_matches('\n'), ""));
        self.input = Some(rest.to_string());
        let separators = self.separators();
        let line = line.trim_matches(|c: char| c.is_whitespace() && separators.contains(c));
        if let (true, [name]) = (is_array, names.as_slice()) {
            let parts = self.parts(line);
            self.variables.insert((*name).clone(), numbered(parts.into_iter()));
            return Some(!input.is_empty());
        }
        let mut rest = line;
        for (i, name) in names.iter().enumerate() {
            let (value, behind) = match i + 1 == names.len() {
                true => (rest, ""),
                false => part(rest, &separators).unwrap_or_default(),
            };
            rest = behind;
            self.put(name, value.to_string());
        }
        Some(!input.is_empty())
    }

    /// `mapfile -t LINES`.
    pub(super) fn read_lines(&mut self, words: &[String]) {
        let input = self.input.take().unwrap_or_else(|| open_as("mapfile"));
        if let Some(name) = words.iter().rev().find(|word| lexer::is_name(word)) {
            self.variables.insert(name.clone(), numbered(input.lines().map(str::to_string)));
        }
    }

    pub(super) fn separators(&self) -> String {
        let set = self.variables.get(SEPARATORS).and_then(|values| values.first());
        set.map_or_else(|| " \t\n".to_string(), |(_, value)| value.clone())
    }

    pub(super) fn set(&mut self, set: &Assignment) {
        let mut values: Values = match set.is_array {
            true => self.array(&set.name, &set.values),
            false => {
                let key = set.key.as_ref().map_or_else(|| "0".to_string(), |key| self.key(&set.name, key));
                vec![(key, set.values.iter().map(|word| self.text(word)).collect())]
            }
        };
        // The line before the script counts where the script takes the value from its own line.
        if let ([(_, value)], true) = (values.as_slice(), self.is_set(&set.name))
            && unset(value).is_some()
        {
            return;
        }
        // A value that is still open is known by the name that it goes by last: `SIZE=$1`.
        if let [(_, value)] = values.as_mut_slice()
            && unset(value).is_some_and(|name| name.chars().all(|c| c.is_ascii_digit()))
        {
            *value = open_as(&set.name);
        }
        let before = self.variables.entry(set.name.clone()).or_default();
        if set.is_array {
            if !set.append {
                before.clear();
            }
            let last = before.iter().filter_map(|(key, _)| key.parse::<usize>().ok()).max();
            let mut next = last.map_or(0, |last| last + 1);
            for (key, value) in values {
                if key.is_empty() {
                    before.push((next.to_string(), value));
                    next += 1;
                } else {
                    next = key.parse().map_or(next, |key: usize| key.saturating_add(1));
                    put_at(before, key, value, false);
                }
            }
            return;
        }
        if set.key.is_none() && !set.append {
            before.clear();
        }
        for (key, value) in values {
            put_at(before, key, value, set.append);
        }
    }

    /// The values of an array, with their keys where they have some.
    fn array(&mut self, name: &str, words: &[Word]) -> Values {
        let mut values = Vec::new();
        for word in words {
            let fields = self.fields(word);
            let keyed =
                matches!(word.first(), Some(lexer::WordPiece::Text(text, false)) if text.starts_with('['));
            match fields.as_slice() {
                [field] if keyed => match field[1..].split_once("]=") {
                    Some((key, value)) => {
                        let key = self.key(name, &quoted(key));
                        values.push((key, value.to_string()));
                    }
                    None => values.push((String::new(), field.clone())),
                },
                _ => values.extend(fields.into_iter().map(|field| (String::new(), field))),
            }
        }
        values
    }
}

/// Values with their numbers.
pub(super) fn numbered(values: impl Iterator<Item = String>) -> Values {
    values.enumerate().map(|(i, value)| (i.to_string(), value)).collect()
}

/// Sets the value at a key, or adds to its end.
fn put_at(values: &mut Values, key: String, value: String, append: bool) {
    match values.iter_mut().find(|(other, _)| *other == key) {
        Some((_, before)) if append => *before += &value,
        Some((_, before)) => *before = value,
        None => values.push((key, value)),
    }
}
