//! Words and operators of a script: a POSIX shell's, with arrays and tests of bash.

use std::iter::Peekable;
use std::str::Chars;

use stepsim_spec::SpecError;

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
    Variable(Box<Variable>, bool),
    /// `$((...))`.
    Sum(String),
    /// The output of commands; whether it stood in quotes.
    Output(String, bool),
    /// `<what goes here>`, which a reader is meant to fill in.
    Blank(String),
}

/// `$NAME` or `${NAME...}`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variable {
    pub name: String,
    pub part: Part,
    pub form: Form,
}

/// The values of an array that are meant.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    /// The first, which is the value of a variable that is none.
    First,
    /// `[@]`: all, each a word of its own.
    Each,
    /// `[*]`: all in a row.
    Row,
    /// `[2]`, `[name]`.
    At(Word),
}

/// The treatment of a variable's value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    Plain,
    /// Another word where it is not set or (with a colon) empty: `${NAME:-word}`, `${NAME:=word}`, which it keeps, and
    /// `${NAME:+word}`, where it is set.
    Else(Word, bool),
    Set(Word, bool),
    Instead(Word, bool),
    /// `${NAME:?message}`.
    Must,
    /// `${NAME,,}`.
    Lower,
    /// `${NAME^^}`.
    Upper,
    /// `${#NAME}`.
    Length,
    /// `${!NAME}`: the variable that it names, or the keys of an array.
    Named,
    /// `${NAME#pattern}`, `${NAME%pattern}`.
    Cut {
        end: bool,
        longest: bool,
        pattern: Word,
    },
    /// `${NAME/pattern/word}`.
    Replace {
        all: bool,
        pattern: Word,
        with: Word,
    },
    /// `${NAME:from:length}`.
    Slice(String, Option<String>),
    /// Not followed.
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
    /// Where words of a command come from, or go.
    Stream(Stream),
    /// Of [`OPERATORS`].
    Operator(&'static str),
}

/// A redirection.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stream {
    /// `> FILE`, and `>> FILE`, which appends.
    Into(Word, bool),
    /// `< FILE`.
    From(Word),
    /// `<<< TEXT`, or a here-document.
    Text(Word),
    /// Of errors, and of numbers.
    Aside,
}

/// A here-document that begins at the next line: the word that ends it, whether it is taken as it stands, whether tabs
/// before its lines are none of it, and its token.
struct Document {
    end: String,
    is_plain: bool,
    cuts_tabs: bool,
    at: usize,
}

/// The tokens of a script, without comments.
///
/// # Errors
/// A quote that is not closed.
pub(super) fn tokens(text: &str) -> Result<Vec<ShellToken>, SpecError> {
    let mut lexer = ShellLexer::of(text);
    while let Some(token) = lexer.token()? {
        lexer.tokens.push(token);
    }
    Ok(lexer.tokens)
}

/// The pieces of a text as if it stood in double quotes.
pub(super) fn quoted(text: &str) -> Word {
    ShellLexer::of(text).inside(None).unwrap_or_default()
}

/// The pieces of a text that is one word, blanks included.
fn pieces(text: &str) -> Word {
    let mut lexer = ShellLexer::of(text);
    let mut word = Vec::new();
    while let Some(c) = lexer.chars.peek().copied() {
        match lexer.piece(c, &mut word) {
            Ok(true) => {}
            _ => {
                lexer.skip(1);
                push(&mut word, c, false);
            }
        }
    }
    word
}

struct ShellLexer<'a> {
    chars: Peekable<Chars<'a>>,
    tokens: Vec<ShellToken>,
    documents: Vec<Document>,
}

impl<'a> ShellLexer<'a> {
    fn of(text: &'a str) -> Self {
        ShellLexer { chars: text.chars().peekable(), tokens: Vec::new(), documents: Vec::new() }
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
                Some('<' | '>') if self.starts("<(") || self.starts(">(") => break,
                Some('<' | '>') if !self.placeholder() => return self.redirection(1).map(Some),
                Some(_) => break,
            }
        }
        if let Some(operator) = OPERATORS.iter().find(|operator| self.starts(operator)) {
            self.skip(operator.chars().count());
            return Ok(Some(match *operator {
                "((" => ShellToken::Sum(self.until(2)),
                "&>" | "&>>" => {
                    self.blanks();
                    ShellToken::Stream(Stream::Into(self.word()?, *operator == "&>>"))
                }
                "\n" => {
                    self.read_documents();
                    ShellToken::Operator("\n")
                }
                operator => ShellToken::Operator(operator),
            }));
        }
        let word = self.word()?;
        // A number before a redirection is the stream that it is of.
        if let ([WordPiece::Text(number, false)], Some('<' | '>')) = (word.as_slice(), self.chars.peek())
            && let Ok(number) = number.parse()
        {
            return self.redirection(number).map(Some);
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

    fn blanks(&mut self) {
        while self.chars.next_if(|c| *c == ' ' || *c == '\t').is_some() {}
    }

    /// `<`, `>`, `>>`, `2>&1`, `<<END`, `<<< TEXT`.
    fn redirection(&mut self, number: u32) -> Result<ShellToken, SpecError> {
        let mut sign = String::new();
        while let Some(c) = self.chars.next_if(|c| matches!(c, '<' | '>' | '&' | '|')) {
            sign.push(c);
        }
        let cuts_tabs = sign == "<<" && self.chars.next_if_eq(&'-').is_some();
        self.blanks();
        let word = self.word()?;
        Ok(ShellToken::Stream(match sign.as_str() {
            ">" | ">>" | ">|" if number == 1 => Stream::Into(word, sign == ">>"),
            "<" => Stream::From(word),
            "<<<" => Stream::Text(word),
            "<<" => {
                let text = |piece: &WordPiece| match piece {
                    WordPiece::Text(text, _) => text.clone(),
                    _ => String::new(),
                };
                let end = word.iter().map(text).collect();
                let is_plain = word.iter().any(|piece| matches!(piece, WordPiece::Text(_, true)));
                self.documents.push(Document { end, is_plain, cuts_tabs, at: self.tokens.len() });
                Stream::Text(Vec::new())
            }
            _ => Stream::Aside,
        }))
    }

    fn read_documents(&mut self) {
        for Document { end, is_plain, cuts_tabs, at } in std::mem::take(&mut self.documents) {
            let mut body = String::new();
            while self.chars.peek().is_some() {
                let line = self.line();
                self.skip(1);
                let line = if cuts_tabs { line.trim_start_matches('\t') } else { &line };
                if line.trim() == end {
                    break;
                }
                body += line;
                body.push('\n');
            }
            let word = if is_plain {
                vec![WordPiece::Text(body, true)]
            } else {
                // Quotes of a document are its own.
                quoted(&body.replace('"', "\\\""))
            };
            if let Some(token @ ShellToken::Stream(_)) = self.tokens.get_mut(at) {
                *token = ShellToken::Stream(Stream::Text(word));
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
                    self.skip(1);
                    let mut what = String::new();
                    while let Some(c) = self.chars.next_if(|c| *c != '>') {
                        what.push(c);
                    }
                    self.skip(1);
                    word.push(WordPiece::Blank(format!("<{what}>")));
                }
                '<' | '>' if word.is_empty() && (self.starts("<(") || self.starts(">(")) => {
                    self.skip(2);
                    word.push(WordPiece::Output(self.until(1), true));
                }
                c if c.is_whitespace() || ";&|()<>".contains(c) => break,
                c if self.piece(c, &mut word)? => {}
                c => {
                    self.skip(1);
                    push(&mut word, c, false);
                }
            }
        }
        Ok(word)
    }

    /// Takes a piece with quotes, a backslash or a dollar; false where it begins with none.
    fn piece(&mut self, c: char, word: &mut Word) -> Result<bool, SpecError> {
        match c {
            '\\' => self.escaped(word, false),
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
            '$' if self.starts("$'") => {
                self.skip(2);
                let text = self.up_to_quote('\'')?;
                word.push(WordPiece::Text(unescaped(&text), true));
            }
            '$' | '`' => {
                let piece = self.expansion(false)?;
                word.push(piece);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A backslash, and the character or the end of the line that it takes with it.
    fn escaped(&mut self, word: &mut Word, in_quotes: bool) {
        self.skip(1);
        match self.chars.next() {
            Some('\n') | None => {}
            Some('\r') if self.chars.peek() == Some(&'\n') => self.skip(1),
            Some(c) => {
                if in_quotes && !"$`\"\\".contains(c) {
                    push(word, '\\', true);
                }
                push(word, c, true);
            }
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
                '\\' => self.escaped(&mut word, true),
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
            let command = self.up_to_quote('`')?;
            return Ok(WordPiece::Output(command.replace("\\$", "$"), quoted));
        }
        if self.starts("((") {
            self.skip(2);
            return Ok(WordPiece::Sum(self.until(2)));
        }
        if self.chars.next_if_eq(&'(').is_some() {
            return Ok(WordPiece::Output(self.until(1), quoted));
        }
        if self.chars.next_if_eq(&'{').is_some() {
            return Ok(WordPiece::Variable(Box::new(Variable::of(&self.braces())), quoted));
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
        let part = match name.as_str() {
            "@" => Part::Each,
            "*" => Part::Row,
            _ => Part::First,
        };
        Ok(WordPiece::Variable(Box::new(Variable { name, part, form: Form::Plain }), quoted))
    }

    /// To where as many parentheses as are open are closed.
    fn until(&mut self, open: usize) -> String {
        let mut text = String::new();
        let (mut depth, mut in_quotes, mut as_it_stands) = (open, false, false);
        while let Some(c) = self.chars.next() {
            match c {
                '\'' if !in_quotes => as_it_stands = !as_it_stands,
                _ if as_it_stands => {}
                '"' => in_quotes = !in_quotes,
                '\\' => {
                    text.push(c);
                    text.extend(self.chars.next());
                    continue;
                }
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
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
        while let Some(c) = self.chars.next() {
            match c {
                '\\' => {
                    text.push(c);
                    text.extend(self.chars.next());
                    continue;
                }
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
        let (sign, inside) = match inside.split_at_checked(1) {
            Some(("#" | "!", rest)) if !rest.is_empty() => inside.split_at(1),
            _ => ("", inside),
        };
        let is_part = |(at, c): &(usize, char)| {
            c.is_ascii_alphanumeric() || *c == '_' || (*at == 0 && "@*#?".contains(*c))
        };
        let end = inside.char_indices().find(|at| !is_part(at)).map_or(inside.len(), |(at, _)| at);
        let (name, rest) = inside.split_at(end);
        let (part, rest) = part(name, rest);
        let form = match sign {
            "#" => Form::Length,
            "!" => Form::Named,
            _ if name.is_empty() => Form::Other,
            _ => Form::of(rest),
        };
        Variable { name: name.to_string(), part, form }
    }
}

/// The part of an array that is meant, and what stands behind it.
fn part<'a>(name: &str, rest: &'a str) -> (Part, &'a str) {
    if let Some((key, behind)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return match key {
            "@" => (Part::Each, behind),
            "*" => (Part::Row, behind),
            key => (Part::At(pieces(key)), behind),
        };
    }
    match name {
        "@" => (Part::Each, rest),
        "*" => (Part::Row, rest),
        _ => (Part::First, rest),
    }
}

impl Form {
    /// Of what stands behind a variable's name.
    fn of(rest: &str) -> Form {
        let colon = rest.starts_with(':');
        let bare = rest.strip_prefix(':').unwrap_or(rest);
        let Some(sign) = bare.chars().next() else {
            return if colon { Form::Other } else { Form::Plain };
        };
        let word = &bare[sign.len_utf8()..];
        match sign {
            '-' => Form::Else(pieces(word), colon),
            '=' => Form::Set(pieces(word), colon),
            '+' => Form::Instead(pieces(word), colon),
            '?' => Form::Must,
            _ if colon => {
                let (from, length) =
                    bare.split_once(':').map_or((bare, None), |(from, length)| (from, Some(length)));
                Form::Slice(from.to_string(), length.map(str::to_string))
            }
            ',' => Form::Lower,
            '^' => Form::Upper,
            '#' | '%' => {
                let longest = word.starts_with(sign);
                let pattern = pieces(if longest { &word[1..] } else { word });
                Form::Cut { end: sign == '%', longest, pattern }
            }
            '/' => {
                let all = word.starts_with('/');
                let word = if all { &word[1..] } else { word };
                let escaped = |at: usize| word[..at].ends_with('\\');
                let end = word.match_indices('/').map(|(at, _)| at).find(|at| !escaped(*at));
                let (pattern, with) = end.map_or((word, ""), |at| (&word[..at], &word[at + 1..]));
                Form::Replace { all, pattern: pieces(pattern), with: pieces(with) }
            }
            _ => Form::Other,
        }
    }
}

/// A text with the marks of C for lines and tabs.
pub(super) fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some('t')) => out.push('\t'),
            ('\\', Some(c @ ('\\' | '\'' | '"'))) => out.push(c),
            ('\\', Some(c)) => out.extend(['\\', c]),
            (c, _) => out.push(c),
        }
    }
    out
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
