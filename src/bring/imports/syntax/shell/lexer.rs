//! Words and operators of a script: a POSIX shell's, with arrays and tests of bash.

use std::iter::Peekable;
use std::str::Chars;

use stepsim_step::spec::SpecError;

/// Longest first.
const OPERATORS: [&str; 15] =
    [";;&", ";;", ";&", "&&", "||", "|&", "&>>", "&>", ";", "&", "|", "((", "(", ")", "\n"];

/// A word: its pieces stand side by side.
pub(super) type Word = Vec<WordPiece>;

/// A piece of a word.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum WordPiece {
    /// As it stands; whether it stood in quotes.
    Text(String, bool),
    /// A variable; whether it stood in quotes.
    Variable(Variable, bool),
    /// `$((...))`, `$(expr ...)`.
    Sum(String),
    /// The output of a command: unknown, since nothing is executed.
    Output,
    /// The output of `echo "TEXT"`, behind `IFS=C;` with that character between words.
    Echo(String, char),
}

/// `$NAME` or `${NAME...}`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variable {
    pub name: String,
    pub form: Form,
}

/// The treatment of a variable's value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    /// Itself; values of an array in a row (`${NAME[*]}`).
    Plain,
    /// All values of an array, each a word of its own: `${NAME[@]}`.
    All,
    /// Another word where it is empty: `${NAME:-word}`.
    Else(Word),
    /// The same, and the variable keeps it: `${NAME:=word}`.
    Set(Word),
    /// Another word where it is not empty: `${NAME:+word}`.
    Instead(Word),
    /// `${NAME,,}`.
    Lower,
    /// `${NAME^^}`.
    Upper,
    /// Cut, counted, or reached by another name: not followed.
    Other,
}

/// A part of a script.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ShellToken {
    Word(Word),
    /// `NAME=(...)`, and `NAME+=(...)`, which appends.
    Array {
        name: String,
        append: bool,
        values: Vec<Word>,
    },
    /// `((...))`.
    Sum(String),
    /// Of [`OPERATORS`].
    Operator(&'static str),
}

/// Stands before the text that a command reads: `read -r TP PP <<< "4 2"`. A word of its own, since programs that
/// read it matter.
pub(super) const HERE: &str = "<<<";

/// The tokens of a script, without comments, redirections and here-documents.
///
/// # Errors
/// A quote that is not closed.
pub(super) fn tokens(text: &str) -> Result<Vec<ShellToken>, SpecError> {
    let mut lexer = ShellLexer::of(text);
    let mut tokens = Vec::new();
    while let Some(token) = lexer.token()? {
        tokens.push(token);
    }
    Ok(tokens)
}

/// The pieces of a text as if it stood in double quotes.
pub(super) fn quoted(text: &str) -> Word {
    ShellLexer::of(text).inside(None).unwrap_or_default()
}

/// The piece of a command that only prints a text in quotes.
fn echo(command: &str) -> Option<WordPiece> {
    let (before, text) = command.split_once("echo ")?;
    let text = text.trim().strip_prefix('"')?.strip_suffix('"')?;
    let separator = match before.trim().strip_prefix("IFS=") {
        None if before.trim().is_empty() => ' ',
        None => return None,
        Some(set) => set.strip_suffix(';')?.trim_matches(['\'', '"']).chars().next()?,
    };
    (!text.contains(['"', '|', '`'])).then(|| WordPiece::Echo(text.to_string(), separator))
}

struct ShellLexer<'a> {
    chars: Peekable<Chars<'a>>,
    /// Ends of here-documents that begin at the next line.
    documents: Vec<String>,
}

impl<'a> ShellLexer<'a> {
    fn of(text: &'a str) -> Self {
        ShellLexer { chars: text.chars().peekable(), documents: Vec::new() }
    }
    fn starts(&self, with: &str) -> bool {
        let mut chars = self.chars.clone();
        with.chars().all(|c| chars.next() == Some(c))
    }
    fn skip(&mut self, n: usize) {
        for _ in 0..n {
            self.chars.next();
        }
    }
    fn line(&mut self) -> String {
        let mut line = String::new();
        while let Some(c) = self.chars.next_if(|c| *c != '\n') {
            line.push(c);
        }
        line
    }

    fn token(&mut self) -> Result<Option<ShellToken>, SpecError> {
        loop {
            match self.chars.peek().copied() {
                None => return Ok(None),
                Some('#') => drop(self.line()),
                Some('\\') if self.starts("\\\n") => self.skip(2),
                Some('\\') if self.starts("\\\r\n") => self.skip(3),
                Some(c) if c.is_whitespace() && c != '\n' => self.skip(1),
                Some('<') if self.starts(HERE) => {
                    self.skip(HERE.len());
                    return Ok(Some(ShellToken::Word(vec![WordPiece::Text(HERE.into(), false)])));
                }
                Some('<' | '>') if !self.placeholder() => self.redirection()?,
                Some(_) => break,
            }
        }
        if let Some(operator) = OPERATORS.iter().find(|operator| self.starts(operator)) {
            self.skip(operator.chars().count());
            return Ok(Some(match *operator {
                "((" => ShellToken::Sum(self.until(2)),
                "&>" | "&>>" => {
                    self.word()?;
                    return self.token();
                }
                "\n" => {
                    self.skip_documents();
                    ShellToken::Operator("\n")
                }
                operator => ShellToken::Operator(operator),
            }));
        }
        let word = self.word()?;
        // A number before a redirection is the stream that it is of.
        let is_stream =
            matches!(word.as_slice(), [WordPiece::Text(t, false)] if t.chars().all(|c| c.is_ascii_digit()));
        if is_stream && matches!(self.chars.peek(), Some('<' | '>')) {
            return self.token();
        }
        match (self.chars.peek(), array_name(&word)) {
            (Some('('), Some((name, append))) => {
                self.skip(1);
                Ok(Some(ShellToken::Array { name, append, values: self.values()? }))
            }
            _ => Ok(Some(ShellToken::Word(word))),
        }
    }

    /// The values of an array, to its parenthesis.
    fn values(&mut self) -> Result<Vec<Word>, SpecError> {
        let mut values = Vec::new();
        while let Some(token) = self.token()? {
            match token {
                ShellToken::Word(word) => values.push(word),
                ShellToken::Operator(")") => break,
                _ => {}
            }
        }
        Ok(values)
    }

    /// `<`, `>`, `>>`, `2>&1`, `<<END`: what they name is no argument.
    fn redirection(&mut self) -> Result<(), SpecError> {
        let is_document = self.starts("<<");
        while self.chars.next_if(|c| matches!(c, '<' | '>' | '&' | '|')).is_some() {}
        self.chars.next_if(|c| is_document && *c == '-');
        while self.chars.next_if(|c| *c == ' ' || *c == '\t').is_some() {}
        let word = self.word()?;
        if let (true, [WordPiece::Text(end, _)]) = (is_document, word.as_slice()) {
            self.documents.push(end.clone());
        }
        Ok(())
    }
    fn skip_documents(&mut self) {
        for end in std::mem::take(&mut self.documents) {
            while self.chars.peek().is_some() {
                let line = self.line();
                self.skip(1);
                if line.trim() == end {
                    break;
                }
            }
        }
    }

    /// True if `<what goes here>` begins, which a reader is meant to fill in.
    fn placeholder(&self) -> bool {
        let mut chars = self.chars.clone().skip(1);
        let inside = |c: &char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '-' | '/' | '.' | ',');
        self.starts("<")
            && chars.next().is_some_and(|c| c.is_ascii_alphabetic())
            && chars.find(|c| !inside(c)) == Some('>')
    }

    fn word(&mut self) -> Result<Word, SpecError> {
        let mut word = Vec::new();
        while let Some(c) = self.chars.peek().copied() {
            match c {
                '<' if self.placeholder() => {
                    while self.chars.next_if(|c| *c != '>').is_some() {}
                    self.skip(1);
                    word.push(WordPiece::Output);
                }
                c if c.is_whitespace() || ";&|()<>".contains(c) => break,
                '\\' => self.escaped(&mut word),
                '\'' => {
                    self.skip(1);
                    let text = self.up_to_quote('\'')?;
                    word.push(WordPiece::Text(text, true));
                }
                '"' => {
                    self.skip(1);
                    let inside = self.inside(Some('"'))?;
                    word.extend(inside);
                }
                '$' | '`' => {
                    let piece = self.expansion(false)?;
                    word.push(piece);
                }
                c => {
                    self.skip(1);
                    push(&mut word, c, false);
                }
            }
        }
        Ok(word)
    }

    /// A backslash, and the character or the end of the line that it takes with it.
    fn escaped(&mut self, word: &mut Word) {
        self.skip(1);
        match self.chars.next() {
            Some('\n') | None => {}
            Some('\r') => drop(self.chars.next_if_eq(&'\n')),
            Some(c) => push(word, c, true),
        }
    }

    fn up_to_quote(&mut self, quote: char) -> Result<String, SpecError> {
        let mut text = String::new();
        loop {
            match self.chars.next() {
                Some(c) if c == quote => return Ok(text),
                Some(c) => text.push(c),
                None => return Err(SpecError::at("", format!("a quote {quote} is not closed"))),
            }
        }
    }

    /// The word in double quotes, or to the end of the text.
    fn inside(&mut self, quote: Option<char>) -> Result<Word, SpecError> {
        let mut word = vec![WordPiece::Text(String::new(), true)];
        while let Some(c) = self.chars.peek().copied() {
            match c {
                c if Some(c) == quote => {
                    self.skip(1);
                    return Ok(word);
                }
                '"' if quote.is_none() => self.skip(1),
                '\\' => self.escaped(&mut word),
                '$' | '`' => {
                    let piece = self.expansion(true)?;
                    word.push(piece);
                }
                c => {
                    self.skip(1);
                    push(&mut word, c, true);
                }
            }
        }
        match quote {
            Some(quote) => Err(SpecError::at("", format!("a quote {quote} is not closed"))),
            None => Ok(word),
        }
    }

    /// The piece that `$` or a backtick begins.
    fn expansion(&mut self, quoted: bool) -> Result<WordPiece, SpecError> {
        if self.chars.next() == Some('`') {
            self.up_to_quote('`')?;
            return Ok(WordPiece::Output);
        }
        if self.starts("((") {
            self.skip(2);
            return Ok(WordPiece::Sum(self.until(2)));
        }
        if self.chars.next_if_eq(&'(').is_some() {
            let command = self.until(1);
            let sum =
                command.trim_start().strip_prefix("expr ").map(|sum| WordPiece::Sum(sum.replace('\\', "")));
            return Ok(sum.or_else(|| echo(&command)).unwrap_or(WordPiece::Output));
        }
        if self.chars.next_if_eq(&'{').is_some() {
            return Ok(WordPiece::Variable(Variable::of(&self.braces()), quoted));
        }
        let mut name = String::new();
        match self.chars.peek() {
            Some(c) if c.is_ascii_alphabetic() || *c == '_' => {
                while let Some(c) = self.chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    name.push(c);
                }
            }
            Some(c) if c.is_ascii_digit() || "@*#?$!-".contains(*c) => name.extend(self.chars.next()),
            _ => return Ok(WordPiece::Text("$".into(), quoted)),
        }
        let form = if name == "@" { Form::All } else { Form::Plain };
        Ok(WordPiece::Variable(Variable { name, form }, quoted))
    }

    /// To where as many parentheses as are open are closed.
    fn until(&mut self, open: usize) -> String {
        let mut text = String::new();
        let mut depth = open;
        for c in self.chars.by_ref() {
            depth = match c {
                '(' => depth + 1,
                ')' => depth - 1,
                _ => depth,
            };
            if depth == 0 {
                // All but the last of those that closed stand in the text.
                text.truncate(text.len() - (open - 1));
                break;
            }
            text.push(c);
        }
        text
    }

    /// To the brace that closes.
    fn braces(&mut self) -> String {
        let mut text = String::new();
        let mut depth = 1;
        for c in self.chars.by_ref() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            text.push(c);
        }
        text
    }
}

impl Variable {
    /// Of what stands between braces.
    fn of(inside: &str) -> Variable {
        let end = inside
            .char_indices()
            .find(|(at, c)| !(c.is_ascii_alphanumeric() || *c == '_' || (*at == 0 && "@*".contains(*c))))
            .map_or(inside.len(), |(at, _)| at);
        let (name, rest) = inside.split_at(end);
        let all = name == "@" || rest.starts_with("[@]");
        let rest = rest.strip_prefix("[@]").or_else(|| rest.strip_prefix("[*]")).unwrap_or(rest);
        let after = |signs: [&str; 2]| signs.iter().find_map(|sign| rest.strip_prefix(sign)).map(quoted);
        let form = match rest {
            _ if name.is_empty() => Form::Other,
            "" if all => Form::All,
            "" => Form::Plain,
            ",," | "," => Form::Lower,
            "^^" | "^" => Form::Upper,
            _ => after([":-", "-"])
                .map(Form::Else)
                .or_else(|| after([":=", "="]).map(Form::Set))
                .or_else(|| after([":+", "+"]).map(Form::Instead))
                .unwrap_or(Form::Other),
        };
        Variable { name: name.to_string(), form }
    }
}

/// A character at the end of a word.
fn push(word: &mut Word, c: char, quoted: bool) {
    match word.last_mut() {
        Some(WordPiece::Text(text, same)) if *same == quoted => text.push(c),
        _ => word.push(WordPiece::Text(c.into(), quoted)),
    }
}

/// The name before `=` or `+=` at the end of a word.
fn array_name(word: &Word) -> Option<(String, bool)> {
    let [WordPiece::Text(text, false)] = word.as_slice() else { return None };
    let name = text.strip_suffix('=')?;
    let plain = name.strip_suffix('+').unwrap_or(name);
    is_name(plain).then(|| (plain.to_string(), plain != name))
}

/// True if a text can name a variable.
pub(super) fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(plain)
}
