//! Commands of a script: what is run one after the other, and what is chosen between.

use std::collections::BTreeSet;

use super::lexer::{Piece, Token, Variable, Word, is_name};

/// Words that take names and values as a plain assignment does.
const DECLARATIONS: [&str; 5] = ["export", "declare", "local", "readonly", "typeset"];

/// A value for a variable.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Assignment {
    pub name: String,
    /// True if it is added at the end.
    pub append: bool,
    /// One word, or the words of an array.
    pub values: Vec<Word>,
    pub is_array: bool,
}

/// A command.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command {
    /// Assignments, and a program with its words.
    Simple { sets: Vec<Assignment>, words: Vec<Word> },
    /// `((...))`.
    Sum(String),
    /// `! command`.
    Not(Box<Command>),
    /// The second where the first succeeds.
    And(Box<Command>, Box<Command>),
    /// The second where the first fails.
    Or(Box<Command>, Box<Command>),
    /// Conditions with their bodies, and what is left.
    If { branches: Vec<(Vec<Command>, Vec<Command>)>, other: Vec<Command> },
    /// Patterns with their bodies.
    Case { word: Word, arms: Vec<(Vec<Word>, Vec<Command>)> },
    /// Once for each word; for each argument where none are named.
    For { name: String, words: Option<Vec<Word>>, body: Vec<Command> },
    /// As long as the condition succeeds (fails, for `until`).
    While { until: bool, condition: Vec<Command>, body: Vec<Command> },
    /// A function, which runs where it is called.
    Function { name: String, body: Vec<Command> },
    /// `{ ...; }` or `( ... )`.
    Group(Vec<Command>),
}

impl Command {
    /// The names that this command sets somewhere, taken or not, to more than a word of the script's own line.
    pub(super) fn names_set<'a>(&'a self, names: &mut BTreeSet<&'a str>) {
        let mut all = |bodies: &[&'a [Command]]| {
            bodies.iter().for_each(|body| body.iter().for_each(|c| c.names_set(names)))
        };
        match self {
            Command::Simple { sets, .. } => {
                names.extend(sets.iter().filter(|set| !set.is_of_the_line()).map(|set| set.name.as_str()));
            }
            Command::Sum(_) => {}
            Command::Not(inner) => all(&[std::slice::from_ref(inner)]),
            Command::And(a, b) | Command::Or(a, b) => {
                all(&[std::slice::from_ref(a), std::slice::from_ref(b)])
            }
            Command::If { branches, other } => {
                branches.iter().for_each(|(condition, body)| all(&[condition, body]));
                all(&[other]);
            }
            Command::Case { arms, .. } => arms.iter().for_each(|(_, body)| all(&[body])),
            Command::For { body, .. } | Command::Function { body, .. } | Command::Group(body) => all(&[body]),
            Command::While { condition, body, .. } => all(&[condition, body]),
        }
    }
}

impl Assignment {
    /// `SIZE=$1`.
    fn is_of_the_line(&self) -> bool {
        let mut pieces =
            self.values.iter().flatten().filter(|piece| !matches!(piece, Piece::Text(t, _) if t.is_empty()));
        let is_number = |v: &Variable| v.name.chars().all(|c| c.is_ascii_digit());
        matches!((pieces.next(), pieces.next()), (Some(Piece::Variable(v, _)), None) if is_number(v))
    }
}

/// The commands of a script; what does not parse is taken word by word.
pub(super) fn commands(tokens: Vec<Token>) -> Vec<Command> {
    let mut parser = Parser { tokens, at: 0 };
    let mut all = Vec::new();
    while parser.at < parser.tokens.len() {
        all.extend(parser.list(&[]));
        // A word that ends what has not begun.
        parser.at += 1;
    }
    all
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn operator(&self) -> Option<&'static str> {
        match self.tokens.get(self.at) {
            Some(Token::Operator(operator)) => Some(operator),
            _ => None,
        }
    }
    /// The text of the next word, where it is nothing but that.
    fn keyword(&self) -> Option<&str> {
        match self.tokens.get(self.at) {
            Some(Token::Word(word)) => plain(word),
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
        let Some(Token::Word(word)) = self.tokens.get(self.at) else { return None };
        let word = word.clone();
        self.at += 1;
        Some(word)
    }

    /// Commands to one of some words, or to what closes.
    fn list(&mut self, ends: &[&str]) -> Vec<Command> {
        let mut list = Vec::new();
        loop {
            while matches!(self.operator(), Some("\n" | ";" | "&" | "|" | "|&")) {
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
    fn chain(&mut self) -> Command {
        let mut left = self.command();
        loop {
            let and = self.take_operator("&&");
            if !and && !self.take_operator("||") {
                return left;
            }
            self.lines();
            let right = Box::new(self.command());
            left = if and { Command::And(Box::new(left), right) } else { Command::Or(Box::new(left), right) };
        }
    }

    fn command(&mut self) -> Command {
        if let Some(Token::Sum(sum)) = self.tokens.get(self.at) {
            let sum = sum.clone();
            self.at += 1;
            return Command::Sum(sum);
        }
        if self.take_operator("(") {
            let body = self.list(&[]);
            self.take_operator(")");
            return Command::Group(body);
        }
        match self.keyword().unwrap_or_default().to_string().as_str() {
            word @ ("!" | "{" | "if" | "case" | "for" | "select" | "while" | "until" | "function") => {
                self.at += 1;
                self.compound(word)
            }
            "[[" => self.test(),
            _ => self.simple(),
        }
    }

    /// The command that its first word begins.
    fn compound(&mut self, word: &str) -> Command {
        match word {
            "!" => Command::Not(Box::new(self.command())),
            "{" => {
                let body = self.list(&["}"]);
                self.take("}");
                Command::Group(body)
            }
            "if" => self.choice(),
            "case" => self.case(),
            "for" | "select" => self.each(),
            "while" | "until" => {
                let condition = self.list(&["do"]);
                Command::While { until: word == "until", condition, body: self.body() }
            }
            _ => {
                let name = self.keyword().unwrap_or_default().to_string();
                self.at += 1;
                self.function(name)
            }
        }
    }

    /// `do ... done`.
    fn body(&mut self) -> Vec<Command> {
        self.lines();
        self.take("do");
        let body = self.list(&["done"]);
        self.take("done");
        body
    }

    fn choice(&mut self) -> Command {
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
            return Command::If { branches, other };
        }
    }

    fn case(&mut self) -> Command {
        let word = self.word().unwrap_or_default();
        self.lines();
        self.take("in");
        let mut arms = Vec::new();
        loop {
            self.lines();
            if self.take("esac") || self.at >= self.tokens.len() {
                return Command::Case { word, arms };
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

    fn each(&mut self) -> Command {
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
        Command::For { name, words, body: self.body() }
    }

    fn function(&mut self, name: String) -> Command {
        if self.take_operator("(") {
            self.take_operator(")");
        }
        self.lines();
        let body = vec![self.command()];
        Command::Function { name, body }
    }

    /// `[[ ... ]]`, whose operators are words.
    fn test(&mut self) -> Command {
        let mut words = Vec::new();
        while let Some(token) = self.tokens.get(self.at).cloned() {
            self.at += 1;
            match token {
                Token::Operator(operator) => words.push(vec![Piece::Text(operator.trim().into(), false)]),
                Token::Word(word) => words.push(word),
                _ => {}
            }
            if words.last().and_then(plain) == Some("]]") {
                break;
            }
        }
        Command::Simple { sets: Vec::new(), words }
    }

    fn simple(&mut self) -> Command {
        let mut sets = Vec::new();
        let mut words: Vec<Word> = Vec::new();
        while let Some(token) = self.tokens.get(self.at).cloned() {
            let declares = words.first().is_none_or(|w| plain(w).is_some_and(|w| DECLARATIONS.contains(&w)));
            match token {
                Token::Array { name, append, values } => {
                    sets.push(Assignment { name, append, values, is_array: true });
                }
                Token::Word(word) => match assignment(&word).filter(|_| declares) {
                    Some(set) => sets.push(set),
                    None => words.push(word),
                },
                Token::Operator("(") if words.len() == 1 => {
                    let name = plain(&words[0]).unwrap_or_default().to_string();
                    return self.function(name);
                }
                _ => break,
            }
            self.at += 1;
        }
        if sets.is_empty() && words.is_empty() {
            // Nothing that begins a command.
            self.at += 1;
        }
        Command::Simple { sets, words }
    }
}

/// The text of a word that is nothing but text without quotes.
pub(super) fn plain(word: &Word) -> Option<&str> {
    match word.as_slice() {
        [Piece::Text(text, false)] => Some(text),
        _ => None,
    }
}

/// `NAME=value` or `NAME+=value`.
pub(super) fn assignment(word: &Word) -> Option<Assignment> {
    let (Piece::Text(head, false), rest) = word.split_first()? else { return None };
    let (name, value) = head.split_once('=')?;
    let (name, append) = name.strip_suffix('+').map_or((name, false), |name| (name, true));
    if !is_name(name) {
        return None;
    }
    let mut piece = vec![Piece::Text(value.to_string(), false)];
    piece.extend_from_slice(rest);
    Some(Assignment { name: name.to_string(), append, values: vec![piece], is_array: false })
}
