//! Python cut into tokens: a line for each statement, whatever brackets it is spread over.

use std::iter::Peekable;
use std::str::Chars;

/// A piece of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum PythonToken {
    /// A name, a keyword among them.
    Name(String),
    /// Digits as they stand: `1_000`, `3e-4`.
    Number(String),
    /// The text between quotes.
    Text(String),
    /// Any other character; `//` and `**` are two.
    Sign(char),
}

/// A statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PythonLine {
    /// Blanks before it.
    pub indent: usize,
    /// Its words.
    pub tokens: Vec<PythonToken>,
}

/// The lines of a text that hold anything.
pub fn lines(text: &str) -> Vec<PythonLine> {
    let mut lexer =
        PythonLexer { rest: text.chars().peekable(), lines: vec![PythonLine::default()], depth: 0 };
    while let Some(c) = lexer.rest.next() {
        lexer.take(c);
    }
    lexer.lines.retain(|line| !line.tokens.is_empty());
    lexer.lines
}

struct PythonLexer<'a> {
    rest: Peekable<Chars<'a>>,
    lines: Vec<PythonLine>,
    /// Brackets that are open.
    depth: usize,
}

impl PythonLexer<'_> {
    fn take(&mut self, c: char) {
        match c {
            '\n' if self.depth == 0 => self.lines.push(PythonLine::default()),
            '\\' if self.rest.peek() == Some(&'\n') => drop(self.rest.next()),
            '#' => while self.rest.next_if(|c| *c != '\n').is_some() {},
            ' ' | '\t' => {
                let line = self.line();
                line.indent += usize::from(line.tokens.is_empty());
            }
            c if c.is_whitespace() => {}
            '"' | '\'' => {
                let text = self.quoted(c);
                self.put(PythonToken::Text(text));
            }
            c if c.is_ascii_digit() => {
                let number = self.word(c, |before, c| {
                    c.is_ascii_alphanumeric()
                        || c == '.'
                        || c == '_'
                        || (matches!(c, '+' | '-') && matches!(before, 'e' | 'E'))
                });
                self.put(PythonToken::Number(number.replace('_', "")));
            }
            c if c.is_alphabetic() || c == '_' => {
                let name = self.word(c, |_, c| c.is_alphanumeric() || c == '_');
                // `f"..."` and `r"..."`.
                if name.len() > 2 || !matches!(self.rest.peek(), Some('"' | '\'')) {
                    self.put(PythonToken::Name(name));
                }
            }
            c => {
                match c {
                    '(' | '[' | '{' => self.depth += 1,
                    ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
                self.put(PythonToken::Sign(c));
            }
        }
    }

    fn line(&mut self) -> &mut PythonLine {
        if self.lines.is_empty() {
            self.lines.push(PythonLine::default());
        }
        let last = self.lines.len() - 1;
        &mut self.lines[last]
    }
    fn put(&mut self, token: PythonToken) {
        self.line().tokens.push(token);
    }

    /// A word that begins with `first`; `goes_on` is asked with the character before.
    fn word(&mut self, first: char, goes_on: impl Fn(char, char) -> bool) -> String {
        let mut word = String::from(first);
        let mut before = first;
        while let Some(c) = self.rest.next_if(|c| goes_on(before, *c)) {
            word.push(c);
            before = c;
        }
        word
    }

    /// Up to the quote that closes; three of them close three.
    fn quoted(&mut self, quote: char) -> String {
        let mut text = String::new();
        let mut long = false;
        if self.rest.next_if_eq(&quote).is_some() {
            if self.rest.next_if_eq(&quote).is_none() {
                return text;
            }
            long = true;
        }
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => text.extend(self.rest.next()),
                c if c == quote && !long => return text,
                '\n' if !long => return text,
                c => text.push(c),
            }
            if long && text.len() >= 3 && text.chars().rev().take(3).all(|c| c == quote) {
                text.truncate(text.len() - 3);
                return text;
            }
        }
        text
    }
}
