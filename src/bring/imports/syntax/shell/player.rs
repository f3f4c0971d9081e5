//! A script played without executing anything: variables get their values, branches are chosen where their conditions
//! can be told, and the words of each program that would be run are written down.
//!
//! Hazards:
//! * A variable that nothing sets is empty where a condition asks for it, as in a shell, and says nothing where it is
//!   the value of an argument. Words that only collect options (`$EXTRA_ARGS`) vanish.
//! * Where a condition cannot be told (a file, the output of a command), its first branch is taken.
//! * `exit` ends nothing: scripts leave early where something is missing that a reader may not have.

use std::collections::{BTreeMap, BTreeSet};

use super::condition;
use super::grammar::{self, Assignment, ShellCommand, plain};
use super::lexer::{self, Form, HERE, Variable, Word, WordPiece, quoted};
use super::marks::{UNKNOWN, is_known, open_as, says_something, unset, without_marks};
use super::sum;
use stepsim_step::spec::glob::fits;

/// Commands that are played at most.
const MOST: usize = 100_000;
/// Characters that words may have altogether, each as often as it is put together.
const MOST_TEXT: usize = 16 << 20;
/// Bytes that a word takes beside its characters.
const BESIDE: usize = 40;
/// Turns of a loop that goes on.
const TURNS: usize = 1000;
/// Functions that call one another, at most this deep.
const DEEPEST: usize = 16;
/// Programs whose words are no arguments of a job.
const APART: [&str; 19] = [
    "echo", "printf", "mkdir", "cd", "rm", "cp", "mv", "ls", "cat", "find", "pip", "pip3", "git", "wget",
    "curl", "apt", "apt-get", "sed", "tar",
];

/// The variable at whose characters a text that is read comes apart.
const SEPARATORS: &str = "IFS";

/// The state of a shell.
#[derive(Default)]
pub(super) struct Player {
    variables: BTreeMap<String, Vec<String>>,
    functions: BTreeMap<String, Vec<ShellCommand>>,
    /// The words behind the script's name.
    line: Vec<String>,
    /// The words of each program, in order.
    pub programs: Vec<Vec<String>>,
    /// Variables whose values stood somewhere.
    used: BTreeSet<String>,
    /// Variables that nothing sets, with the values that conditions compare them with.
    pub choices: BTreeMap<String, BTreeSet<String>>,
    played: usize,
    written: usize,
    depth: usize,
}

/// True if a name collects options.
fn collects(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["args", "arg", "opts", "opt", "options", "option", "params", "flags", "flag", "cmd", "extra", "extras"]
        .iter()
        .any(|end| name.ends_with(end))
}

impl Player {
    /// A shell with variables of its surroundings, and what stands behind the script's name.
    pub fn new(environment: &[(String, String)], line: &[String]) -> Player {
        let variables = environment.iter().map(|(name, value)| (name.clone(), vec![value.clone()])).collect();
        Player { variables, line: line.to_vec(), ..Player::default() }
    }

    /// True if it has done all that it may.
    pub fn is_spent(&self) -> bool {
        self.played > MOST || self.written > MOST_TEXT
    }

    /// True if a variable has a value.
    fn is_set(&self, name: &str) -> bool {
        self.variables.get(name).is_some_and(|values| values.iter().all(|value| unset(value).is_none()))
    }

    /// True if the script makes every launch wait for its kernel.
    pub fn blocks_launches(&self) -> bool {
        let set = self.variables.get("CUDA_LAUNCH_BLOCKING");
        set.is_some_and(|values| values.iter().any(|value| !value.is_empty() && value != "0"))
    }
    /// Options in variables that no program got: files that others read in hold nothing else.
    pub fn options_left(&self) -> Vec<Vec<String>> {
        let left = self.variables.iter().filter(|(name, _)| !self.used.contains(*name));
        left.map(|(_, values)| values.clone())
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
        variables.flat_map(|(_, values)| values.iter().filter(path).cloned()).collect()
    }

    /// A text with the values of its variables.
    pub fn filled(&mut self, text: &str) -> String {
        // Quotes of the text are its own.
        let text = text.replace('"', "\u{1}").replace('\'', "\u{2}");
        self.text(&quoted(&text)).replace('\u{1}', "\"").replace('\u{2}', "'")
    }

    /// Notes what an open variable is compared with.
    fn asks(&mut self, left: &str, right: &str) {
        for (one, other) in [(left, right), (right, left)] {
            if let (Some(name), true) = (unset(one), says_something(other) && !other.is_empty()) {
                self.choices.entry(name.to_string()).or_default().insert(other.to_string());
            }
        }
    }

    /// Plays commands in order; whether the last one succeeded.
    pub fn play(&mut self, commands: &[ShellCommand]) -> Option<bool> {
        let mut last = Some(true);
        for command in commands {
            self.played += 1;
            if self.is_spent() {
                break;
            }
            last = self.command(command);
        }
        last
    }

    fn command(&mut self, command: &ShellCommand) -> Option<bool> {
        match command {
            ShellCommand::Simple { sets, words } => self.simple(sets, words),
            ShellCommand::Sum(text) => self.sum(text).map(|value| value != 0),
            ShellCommand::Not(inner) => self.command(inner).map(|is| !is),
            ShellCommand::And(left, right) => match self.command(left) {
                Some(false) => Some(false),
                _ => self.command(right),
            },
            ShellCommand::Or(left, right) => match self.command(left) {
                Some(false) => self.command(right),
                succeeded => succeeded,
            },
            ShellCommand::Group(body) => self.play(body),
            ShellCommand::Function { name, body } => {
                self.functions.insert(name.clone(), body.clone());
                Some(true)
            }
            ShellCommand::If { branches, other } => {
                for (condition, body) in branches {
                    if self.play(condition) != Some(false) {
                        return self.play(body);
                    }
                }
                self.play(other)
            }
            ShellCommand::Case { word, arms } => self.case(word, arms),
            ShellCommand::For { name, words, body } => self.each(name, words.as_deref(), body),
            ShellCommand::While { until, condition, body } => {
                for _ in 0..TURNS {
                    if self.play(condition) != Some(!until) {
                        break;
                    }
                    self.play(body);
                }
                Some(true)
            }
        }
    }

    fn case(&mut self, word: &Word, arms: &[(Vec<Word>, Vec<ShellCommand>)]) -> Option<bool> {
        let value = self.text(word);
        for (patterns, body) in arms {
            let patterns: Vec<String> = patterns.iter().map(|pattern| self.text(pattern)).collect();
            for pattern in patterns.iter().filter(|pattern| !pattern.contains('*')) {
                self.asks(&value, pattern);
            }
            let value = without_marks(&value);
            if patterns.iter().any(|pattern| fits(pattern, &value)) {
                return self.play(body);
            }
        }
        Some(true)
    }

    fn each(&mut self, name: &str, words: Option<&[Word]>, body: &[ShellCommand]) -> Option<bool> {
        let values = match words {
            Some(words) => words.iter().flat_map(|word| self.fields(word)).collect(),
            None => self.line.clone(),
        };
        for value in values {
            self.variables.insert(name.to_string(), vec![value]);
            self.play(body);
        }
        Some(true)
    }

    fn simple(&mut self, sets: &[Assignment], words: &[Word]) -> Option<bool> {
        for set in sets {
            self.set(set);
        }
        let program = words.first().and_then(plain).unwrap_or_default();
        match program {
            "[" | "[[" | "test" => {
                let end = words.len() - usize::from(program != "test" && words.len() > 1);
                let words: Vec<String> = words[1..end].iter().map(|word| self.text(word)).collect();
                let (holds, asked) = condition::holds(&words, &|name| self.is_set(name));
                asked.iter().for_each(|(left, right)| self.asks(left, right));
                return holds;
            }
            "false" => return Some(false),
            ":" | "true" | "exit" | "return" | "set" | "unset" | "source" | "." => {
                // Defaults that are set on the way: `: ${N:=8}`.
                words.iter().for_each(|word| drop(self.fields(word)));
                return Some(true);
            }
            "read" => {
                self.read(words);
                self.variables.retain(|name, _| name != SEPARATORS || sets.is_empty());
                return Some(true);
            }
            "shift" => {
                let by = words.get(1).and_then(plain).and_then(|n| n.parse().ok()).unwrap_or(1);
                self.line.drain(..usize::min(by, self.line.len()));
                return Some(true);
            }
            _ => {}
        }
        if let (Some("-v"), Some(name), [_, _, _, format, text]) =
            (words.get(1).and_then(plain), words.get(2).and_then(plain), words)
            && program == "printf"
        {
            let text = self.text(format).replacen("%s", &self.text(text), 1);
            self.variables.insert(name.to_string(), vec![text]);
            return Some(true);
        }
        let end = words.iter().position(|word| plain(word) == Some(HERE)).unwrap_or(words.len());
        let fields: Vec<String> = words[..end].iter().flat_map(|word| self.fields(word)).collect();
        if let Some(body) = self.functions.get(program).cloned()
            && self.depth < DEEPEST
        {
            let line = std::mem::replace(&mut self.line, fields[1..].to_vec());
            self.depth += 1;
            let succeeded = self.play(&body);
            self.depth -= 1;
            self.line = line;
            return succeeded;
        }
        match fields.first() {
            None => return Some(true),
            Some(program) if APART.contains(&program.as_str()) => {}
            Some(_) => self.run(fields),
        }
        None
    }

    /// Writes a program down; one that has a shell play a line of its own (`srun bash -c '$LAUNCHER $CMD'`) plays that
    /// line.
    fn run(&mut self, mut fields: Vec<String>) {
        let inner =
            fields.windows(3).position(|at| ["bash", "sh"].contains(&at[0].as_str()) && at[1] == "-c");
        let line = inner.map(|at| fields[at + 2].clone()).filter(|line| line.contains('$'));
        if let Some((at, line)) = inner.zip(line)
            && self.depth < DEEPEST
            && let Ok(tokens) = lexer::tokens(&line)
        {
            fields.truncate(at);
            self.depth += 1;
            self.play(&grammar::commands(tokens));
            self.depth -= 1;
        }
        if !fields.is_empty() {
            self.programs.push(fields);
        }
    }

    /// `read -r A B <<< TEXT`: parts of the text, the last name takes what is left; `-a` makes an array of all.
    /// Without a text nobody knows.
    fn read(&mut self, words: &[Word]) {
        let here = words.iter().position(|word| plain(word) == Some(HERE));
        let text = here.and_then(|at| words.get(at + 1)).map(|word| self.text(word));
        let names: Vec<&str> = words[1..here.unwrap_or(words.len())].iter().filter_map(plain).collect();
        let is_array = names.iter().any(|name| name.starts_with('-') && name.ends_with('a'));
        let names: Vec<&str> = names.into_iter().filter(|name| !name.starts_with('-')).collect();
        let separators = self.variables.get(SEPARATORS).map_or(String::new(), |values| values.concat());
        let at = |c: char| if separators.is_empty() { c.is_whitespace() } else { separators.contains(c) };
        let text = text.unwrap_or_else(|| UNKNOWN.to_string());
        let mut values: Vec<String> = text.trim().split(at).map(str::to_string).collect();
        if let (true, [name]) = (is_array, names.as_slice()) {
            self.variables.insert((*name).to_string(), values);
            return;
        }
        for (i, name) in names.iter().enumerate() {
            let last = i + 1 == names.len();
            let value = match (last, values.is_empty()) {
                (_, true) => String::new(),
                (true, _) => values.join(&separators.chars().next().unwrap_or(' ').to_string()),
                (false, _) => values.remove(0),
            };
            self.variables.insert((*name).to_string(), vec![value]);
        }
    }

    fn set(&mut self, set: &Assignment) {
        let mut values: Vec<String> = match set.is_array {
            true => set.values.iter().flat_map(|word| self.fields(word)).collect(),
            false => vec![set.values.iter().map(|word| self.text(word)).collect()],
        };
        // The line before the script counts where the script takes the value from its own line.
        if let ([value], true) = (values.as_slice(), self.is_set(&set.name))
            && unset(value).is_some()
        {
            return;
        }
        // A value that is still open is known by the name that it goes by last: `SIZE=$1`.
        if let [value] = values.as_mut_slice()
            && unset(value).is_some_and(|name| name.chars().all(|c| c.is_ascii_digit()))
        {
            *value = open_as(&set.name);
        }
        let before = self.variables.entry(set.name.clone()).or_default();
        match (set.append, set.is_array) {
            (true, true) => before.append(&mut values),
            (true, false) => *before = vec![before.join(" ") + &values.concat()],
            (false, _) => *before = values,
        }
    }

    /// A word as one text.
    fn text(&mut self, word: &Word) -> String {
        let mut whole = String::new();
        for piece in word {
            let part = match piece {
                _ if self.is_spent() => UNKNOWN.to_string(),
                WordPiece::Text(text, _) => text.clone(),
                WordPiece::Variable(variable, _) => self.value(variable).join(" "),
                WordPiece::Sum(sum) => self.sum(sum).map_or_else(|| UNKNOWN.to_string(), |n| n.to_string()),
                WordPiece::Output => UNKNOWN.to_string(),
                WordPiece::Echo(text, between) => self.text(&quoted(text)).replace(' ', &between.to_string()),
            };
            self.written += part.len();
            whole += &part;
        }
        whole
    }

    /// A word as the words that it becomes: variables without quotes come apart at blanks.
    fn fields(&mut self, word: &Word) -> Vec<String> {
        let mut fields = Vec::new();
        let mut open: Option<String> = None;
        for piece in word {
            match piece {
                WordPiece::Variable(variable, is_quoted) => {
                    let values = self.value(variable);
                    let parts: Vec<String> = match (is_quoted, &variable.form) {
                        (true, Form::All) => values,
                        (true, _) => vec![values.join(" ")],
                        (false, _) => values.join(" ").split_whitespace().map(str::to_string).collect(),
                    };
                    for (i, part) in parts.into_iter().enumerate() {
                        if i > 0 {
                            fields.extend(open.take());
                        }
                        *open.get_or_insert_default() += &part;
                    }
                }
                other => {
                    let text = self.text(&vec![other.clone()]);
                    *open.get_or_insert_default() += &text;
                }
            }
        }
        fields.extend(open);
        fields
    }

    /// The values of a variable.
    fn value(&mut self, variable: &Variable) -> Vec<String> {
        let values = self.value_of(variable);
        self.written += values.iter().map(|value| value.len() + BESIDE).sum::<usize>();
        if self.is_spent() { vec![UNKNOWN.to_string()] } else { values }
    }

    fn value_of(&mut self, variable: &Variable) -> Vec<String> {
        self.used.insert(variable.name.clone());
        let values = self.values(&variable.name);
        let is_empty = values.iter().all(|value| is_known(value) && without_marks(value).is_empty());
        match &variable.form {
            Form::Plain | Form::All => values,
            Form::Else(word) | Form::Set(word) if is_empty => {
                let text = self.text(word);
                if let Form::Set(_) = variable.form {
                    self.variables.insert(variable.name.clone(), vec![text.clone()]);
                }
                vec![text]
            }
            Form::Else(_) | Form::Set(_) => values,
            Form::Instead(word) if !is_empty => vec![self.text(word)],
            Form::Instead(_) => Vec::new(),
            Form::Lower => values.iter().map(|value| value.to_lowercase()).collect(),
            Form::Upper => values.iter().map(|value| value.to_uppercase()).collect(),
            Form::Other => vec![UNKNOWN.to_string()],
        }
    }

    fn values(&self, name: &str) -> Vec<String> {
        match name {
            "@" | "*" => return self.line.clone(),
            "#" => return vec![self.line.len().to_string()],
            "0" | "?" | "$" | "!" | "-" => return vec![UNKNOWN.to_string()],
            _ => {}
        }
        if !self.variables.contains_key(name) && collects(name) {
            return Vec::new();
        }
        let at = name.parse::<usize>().ok().and_then(|n| self.line.get(n.checked_sub(1)?));
        let known = at.map(|value| vec![value.clone()]).or_else(|| self.variables.get(name).cloned());
        known.unwrap_or_else(|| vec![open_as(name)])
    }

    fn sum(&mut self, text: &str) -> Option<i64> {
        let text = self.text(&quoted(text));
        if !says_something(&text) {
            return None;
        }
        let value_of = |name: &str| self.variables.get(name)?.first()?.trim().parse().ok();
        let Some((name, value)) = sum::assigned(&text, &value_of) else {
            return sum::evaluate(&text, &value_of);
        };
        self.variables.insert(name.to_string(), vec![value.to_string()]);
        Some(value)
    }
}
