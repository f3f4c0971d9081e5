//! Commands of a script: what is run one after the other, and what is chosen between.

use std::collections::BTreeSet;

use super::lexer::{Form, ShellToken, Stream, Variable, Word, WordPiece, is_name, quoted};

/// Words that take names and values as a plain assignment does.
pub(super) const DECLARATIONS: [&str; 5] = ["export", "declare", "local", "readonly", "typeset"];

/// A value for a variable.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Assignment {
    pub name: String,
    /// `NAME[key]=value`.
    pub key: Option<Word>,
    /// True if it is added at the end.
    pub append: bool,
    /// One word, or the words of an array.
    pub values: Vec<Word>,
    pub is_array: bool,
}

/// A command.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ShellCommand {
    /// Assignments, and a program with its words.
    Simple { sets: Vec<Assignment>, words: Vec<Word> },
    /// `((...))`.
    Sum(String),
    /// `! command`.
    Not(Box<ShellCommand>),
    /// The second where the first succeeds.
    And(Box<ShellCommand>, Box<ShellCommand>),
    /// The second where the first fails.
    Or(Box<ShellCommand>, Box<ShellCommand>),
    /// Conditions with their bodies, and what is left.
    If { branches: Vec<(Vec<ShellCommand>, Vec<ShellCommand>)>, other: Vec<ShellCommand> },
    /// Patterns with their bodies.
    Case { word: Word, arms: Vec<(Vec<Word>, Vec<ShellCommand>)> },
    /// Once for each word; for each argument where none are named.
    For { name: String, words: Option<Vec<Word>>, body: Vec<ShellCommand> },
    /// As long as the condition succeeds (fails, for `until`); what is done after each turn.
    While {
        until: bool,
        condition: Vec<ShellCommand>,
        body: Vec<ShellCommand>,
        next: Option<Box<ShellCommand>>,
    },
    /// A function, which runs where it is called.
    Function { name: String, body: Vec<ShellCommand> },
    /// `{ ...; }`.
    Group(Vec<ShellCommand>),
    /// `( ... )`: what it sets is forgotten.
    Apart(Vec<ShellCommand>),
    /// Each reads what the one before it writes.
    Pipe(Vec<ShellCommand>),
    /// A command with what it reads and where it writes.
    Streamed(Box<ShellCommand>, Vec<Stream>),
}

/// The names that a script sets somewhere, taken or not, to more than a word of its own line.
pub(super) fn names_set(tokens: &[ShellToken]) -> BTreeSet<String> {
    const BEFORE: [&str; 9] = ["then", "do", "else", "{", "!", "if", "elif", "while", "until"];
    let mut names = BTreeSet::new();
    let mut begins = true;
    for token in tokens {
        match token {
            ShellToken::Array { name, .. } => drop(names.insert(name.clone())),
            ShellToken::Word(word) if begins => match assignment(word) {
                Some(set) => names.extend((!set.is_of_the_line()).then_some(set.name)),
                None => {
                    begins = plain(word).is_some_and(|w| BEFORE.contains(&w) || DECLARATIONS.contains(&w))
                }
            },
            _ => begins = matches!(token, ShellToken::Operator(_)),
        }
    }
    names
}

/// The variables that commands ask for, without those inside of what others print.
pub(super) fn variables(commands: &[ShellCommand]) -> Vec<String> {
    let of = |command: &ShellCommand| match command {
        ShellCommand::Simple { words, .. } => {
            let names = words.iter().flatten().filter_map(|piece| match piece {
                WordPiece::Variable(variable, _) => Some(variable.name.clone()),
                _ => None,
            });
            names.filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic())).collect()
        }
        ShellCommand::Not(inner) => variables(std::slice::from_ref(inner)),
        ShellCommand::And(left, right) | ShellCommand::Or(left, right) => {
            [left, right].into_iter().flat_map(|side| variables(std::slice::from_ref(side))).collect()
        }
        _ => Vec::new(),
    };
    commands.iter().flat_map(of).collect()
}

impl Assignment {
    /// `SIZE=$1`.
    fn is_of_the_line(&self) -> bool {
        let mut pieces = self
            .values
            .iter()
            .flatten()
            .filter(|piece| !matches!(piece, WordPiece::Text(t, _) if t.is_empty()));
        let is_number = |v: &Variable| v.name.chars().all(|c| c.is_ascii_digit());
        let first = pieces.next();
        pieces.next().is_none()
            && matches!(first, Some(WordPiece::Variable(v, _)) if is_number(v) && v.form == Form::Plain)
    }
}

/// The commands of a script; what does not parse is taken word by word.
pub(super) fn commands(tokens: Vec<ShellToken>) -> Vec<ShellCommand> {
    let mut parser = ShellParser { tokens, at: 0 };
    let mut all = Vec::new();
    while parser.at < parser.tokens.len() {
        all.extend(parser.list(&[]));
        // A word that ends what has not begun.
        parser.at += 1;
    }
    all
}

struct ShellParser {
    tokens: Vec<ShellToken>,
    at: usize,
}

impl ShellParser {
    fn operator(&self) -> Option<&'static str> {
        match self.tokens.get(self.at) {
            Some(ShellToken::Operator(operator)) => Some(operator),
            _ => None,
        }
    }
    /// The text of the next word, where it is nothing but that.
    fn keyword(&self) -> Option<&str> {
        match self.tokens.get(self.at) {
            Some(ShellToken::Word(word)) => plain(word),
            _ => None,
        }
    }
    fn take_operator(&mut self, wanted: &str) -> bool {
        let is = self.operator() == Some(wanted);
        self.at += usize::from(is);
        is
    }
    fn take(&mut self, wanted: &str) -> bool {
        let is = self.keyword() == Some(wanted);
        self.at += usize::from(is);
        is
    }
    fn lines(&mut self) {
        while matches!(self.operator(), Some("\n" | ";")) {
            self.at += 1;
        }
    }
    fn word(&mut self) -> Option<Word> {
        let Some(ShellToken::Word(word)) = self.tokens.get(self.at) else { return None };
        let word = word.clone();
        self.at += 1;
        Some(word)
    }

    /// Commands to one of some words, or to what closes.
    fn list(&mut self, ends: &[&str]) -> Vec<ShellCommand> {
        let mut list = Vec::new();
        loop {
            while matches!(self.operator(), Some("\n" | ";" | "&")) {
                self.at += 1;
            }
            let ended = self.keyword().is_some_and(|word| ends.contains(&word));
            if ended || self.at >= self.tokens.len() || self.operator().is_some_and(|o| o != "(") {
                return list;
            }
            list.push(self.chain());
        }
    }

    /// Commands between `&&` and `||`.
    fn chain(&mut self) -> ShellCommand {
        let mut left = self.pipe();
        loop {
            let and = self.take_operator("&&");
            if !and && !self.take_operator("||") {
                return left;
            }
            self.lines();
            let right = Box::new(self.pipe());
            left = if and {
                ShellCommand::And(Box::new(left), right)
            } else {
                ShellCommand::Or(Box::new(left), right)
            };
        }
    }

    fn pipe(&mut self) -> ShellCommand {
        let mut all = vec![self.streamed()];
        while self.take_operator("|") || self.take_operator("|&") {
            self.lines();
            all.push(self.streamed());
        }
        if all.len() == 1 { all.remove(0) } else { ShellCommand::Pipe(all) }
    }

    /// A command, and the redirections behind it.
    fn streamed(&mut self) -> ShellCommand {
        let mut streams = Vec::new();
        let command = self.command(&mut streams);
        while let Some(ShellToken::Stream(stream)) = self.tokens.get(self.at) {
            streams.push(stream.clone());
            self.at += 1;
        }
        streams.retain(|stream| *stream != Stream::Aside);
        if streams.is_empty() { command } else { ShellCommand::Streamed(Box::new(command), streams) }
    }

    fn command(&mut self, streams: &mut Vec<Stream>) -> ShellCommand {
        if let Some(ShellToken::Sum(sum)) = self.tokens.get(self.at) {
            let sum = sum.clone();
            self.at += 1;
            return ShellCommand::Sum(sum);
        }
        if self.take_operator("(") {
            let body = self.list(&[]);
            self.take_operator(")");
            return ShellCommand::Apart(body);
        }
        match self.keyword().unwrap_or_default().to_string().as_str() {
            word @ ("!" | "{" | "if" | "case" | "for" | "select" | "while" | "until" | "function") => {
                self.at += 1;
                self.compound(word)
            }
            "[[" => self.test(),
            _ => self.simple(streams),
        }
    }

    /// The command that its first word begins.
    fn compound(&mut self, word: &str) -> ShellCommand {
        match word {
            "!" => ShellCommand::Not(Box::new(self.streamed())),
            "{" => {
                let body = self.list(&["}"]);
                self.take("}");
                ShellCommand::Group(body)
            }
            "if" => self.choice(),
            "case" => self.case(),
            "for" | "select" => self.each(),
            "while" | "until" => {
                let condition = self.list(&["do"]);
                ShellCommand::While { until: word == "until", condition, body: self.body(), next: None }
            }
            _ => {
                let name = self.keyword().unwrap_or_default().to_string();
                self.at += 1;
                self.function(name)
            }
        }
    }

    /// `do ... done`.
    fn body(&mut self) -> Vec<ShellCommand> {
        self.lines();
        self.take("do");
        let body = self.list(&["done"]);
        self.take("done");
        body
    }

    fn choice(&mut self) -> ShellCommand {
        let mut branches = Vec::new();
        let mut other = Vec::new();
        loop {
            let condition = self.list(&["then"]);
            self.take("then");
            branches.push((condition, self.list(&["elif", "else", "fi"])));
            if self.take("elif") {
                continue;
            }
            if self.take("else") {
                other = self.list(&["fi"]);
            }
            self.take("fi");
            return ShellCommand::If { branches, other };
        }
    }

    fn case(&mut self) -> ShellCommand {
        let word = self.word().unwrap_or_default();
        self.lines();
        self.take("in");
        let mut arms = Vec::new();
        loop {
            self.lines();
            if self.take("esac") || self.at >= self.tokens.len() {
                return ShellCommand::Case { word, arms };
            }
            self.take_operator("(");
            let mut patterns = Vec::new();
            while let Some(pattern) = self.word() {
                patterns.push(pattern);
                self.take_operator("|");
            }
            if !self.take_operator(")") {
                // No pattern: what stands here is passed over.
                self.at += 1;
            }
            arms.push((patterns, self.list(&["esac"])));
            for end in [";;", ";&", ";;&"] {
                self.take_operator(end);
            }
        }
    }

    fn each(&mut self) -> ShellCommand {
        if let Some(ShellToken::Sum(sums)) = self.tokens.get(self.at) {
            let mut sums: Vec<ShellCommand> =
                sums.split(';').map(|sum| ShellCommand::Sum(sum.to_string())).collect();
            self.at += 1;
            let body = self.body();
            if sums.len() != 3 {
                return ShellCommand::Group(body);
            }
            let (next, condition) = (sums.pop().map(Box::new), sums.pop().into_iter().collect());
            let turns = ShellCommand::While { until: false, condition, body, next };
            return ShellCommand::Group(sums.into_iter().chain([turns]).collect());
        }
        let name = self.keyword().unwrap_or_default().to_string();
        self.at += 1;
        self.lines();
        let mut words = None;
        if self.take("in") {
            let list = words.insert(Vec::new());
            while let Some(word) = self.word() {
                list.push(word);
            }
        }
        ShellCommand::For { name, words, body: self.body() }
    }

    fn function(&mut self, name: String) -> ShellCommand {
        if self.take_operator("(") {
            self.take_operator(")");
        }
        self.lines();
        let body = vec![self.streamed()];
        ShellCommand::Function { name, body }
    }

    /// `[[ ... ]]`, whose operators are words.
    fn test(&mut self) -> ShellCommand {
        let sign = |text: &str| vec![WordPiece::Text(text.into(), false)];
        let mut words = Vec::new();
        while let Some(token) = self.tokens.get(self.at).cloned() {
            self.at += 1;
            match token {
                ShellToken::Operator(operator) => words.push(sign(operator.trim())),
                ShellToken::Word(word) => words.push(word),
                ShellToken::Stream(Stream::From(word)) => words.extend([sign("<"), word]),
                ShellToken::Stream(Stream::Into(word, _)) => words.extend([sign(">"), word]),
                _ => {}
            }
            if words.last().and_then(plain) == Some("]]") {
                break;
            }
        }
        ShellCommand::Simple { sets: Vec::new(), words }
    }

    fn simple(&mut self, streams: &mut Vec<Stream>) -> ShellCommand {
        let (begin, mut sets, mut words) = (self.at, Vec::new(), Vec::<Word>::new());
        while let Some(token) = self.tokens.get(self.at).cloned() {
            let declares = words.first().is_none_or(|w| plain(w).is_some_and(|w| DECLARATIONS.contains(&w)));
            match token {
                ShellToken::Array { name, append, values } => {
                    sets.push(Assignment { name, key: None, append, values, is_array: true });
                }
                ShellToken::Word(word) => match assignment(&word).filter(|_| declares) {
                    Some(set) => sets.push(set),
                    None => words.push(word),
                },
                ShellToken::Stream(stream) => streams.push(stream),
                ShellToken::Operator("(") if words.len() == 1 => {
                    let name = plain(&words[0]).unwrap_or_default().to_string();
                    return self.function(name);
                }
                _ => break,
            }
            self.at += 1;
        }
        if self.at == begin {
            // Nothing that begins a command.
            self.at += 1;
        }
        ShellCommand::Simple { sets, words }
    }
}

/// The text of a word that is nothing but text without quotes.
pub(super) fn plain(word: &Word) -> Option<&str> {
    match word.as_slice() {
        [WordPiece::Text(text, false)] => Some(text),
        _ => None,
    }
}

/// `NAME=value` or `NAME+=value`.
pub(super) fn assignment(word: &Word) -> Option<Assignment> {
    let (WordPiece::Text(head, false), rest) = word.split_first()? else { return None };
    let (name, value) = head.split_once('=')?;
    let (name, append) = name.strip_suffix('+').map_or((name, false), |name| (name, true));
    let (name, key) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
        Some((name, key)) => (name, Some(quoted(key))),
        None => (name, None),
    };
    if !is_name(name) {
        return None;
    }
    let mut piece = vec![WordPiece::Text(value.to_string(), false)];
    piece.extend_from_slice(rest);
    Some(Assignment { name: name.to_string(), key, append, values: vec![piece], is_array: false })
}
