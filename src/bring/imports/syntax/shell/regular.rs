//! Regular expressions of `[[ x =~ y ]]` and `grep`, of the kinds that scripts have: texts, sets, `.`, `*`, `+`, `?`, and
//! where a line begins and ends. Groups and choices have no known answer.

/// Steps of one search at most.
const MOST_STEPS: usize = 200_000;

/// A set of characters, and how often one of them stands.
struct Part {
    set: Box<dyn Fn(char) -> bool>,
    least: usize,
    most: usize,
}

/// True if an expression fits a part of a text; `None` where it is of another kind, or costs too much.
pub(super) fn finds(expression: &str, text: &str) -> Option<bool> {
    let inner = expression.strip_prefix('^').unwrap_or(expression);
    let ends = inner.ends_with('$') && !inner.ends_with("\\$");
    let parts = parts(&inner[..inner.len() - usize::from(ends)])?;
    let text: Vec<char> = text.chars().collect();
    let starts = if expression.starts_with('^') { 0..=0 } else { 0..=text.len() };
    let mut steps = 0;
    for start in starts {
        if fits(&parts, &text[start..], ends, &mut steps)? {
            return Some(true);
        }
    }
    Some(false)
}

/// True if parts fit the begin of a text, and all of it where it has to end there.
fn fits(parts: &[Part], text: &[char], ends: bool, steps: &mut usize) -> Option<bool> {
    *steps += 1;
    let Some((part, rest)) = parts.split_first() else { return Some(!ends || text.is_empty()) };
    if *steps > MOST_STEPS {
        return None;
    }
    let taken = text.iter().take(part.most).take_while(|c| (part.set)(**c)).count();
    for n in (part.least..=taken).rev() {
        if fits(rest, &text[n..], ends, steps)? {
            return Some(true);
        }
    }
    Some(false)
}

fn parts(expression: &str) -> Option<Vec<Part>> {
    let mut chars = expression.chars().peekable();
    let mut parts: Vec<Part> = Vec::new();
    while let Some(c) = chars.next() {
        let set: Box<dyn Fn(char) -> bool> = match c {
            '(' | ')' | '|' | '{' | '}' | '^' | '$' => return None,
            '*' | '+' | '?' => return None,
            '.' => Box::new(|_| true),
            '\\' => class(chars.next()?)?,
            '[' => listed(&mut chars)?,
            c => Box::new(move |other| other == c),
        };
        let (least, most) = match chars.peek() {
            Some('*') => (0, usize::MAX),
            Some('+') => (1, usize::MAX),
            Some('?') => (0, 1),
            _ => (1, 1),
        };
        if (least, most) != (1, 1) {
            chars.next();
        }
        parts.push(Part { set, least, most });
    }
    Some(parts)
}

/// `\s`, `\d`, `\w`, or a character that is meant as it stands.
fn class(c: char) -> Option<Box<dyn Fn(char) -> bool>> {
    Some(match c {
        's' => Box::new(char::is_whitespace),
        'd' => Box::new(|c| c.is_ascii_digit()),
        'w' => Box::new(|c: char| c.is_ascii_alphanumeric() || c == '_'),
        c if c.is_ascii_alphanumeric() => return None,
        c => Box::new(move |other| other == c),
    })
}

/// `[a-z_]`, `[^0-9]`, `[[:digit:]]`.
fn listed(chars: &mut std::iter::Peekable<std::str::Chars>) -> Option<Box<dyn Fn(char) -> bool>> {
    let is_other = chars.next_if_eq(&'^').is_some();
    let mut inside = String::new();
    loop {
        match chars.next()? {
            ']' if !inside.is_empty()
                && !inside.ends_with("[:")
                && inside.matches("[:").count() == inside.matches(":]").count() =>
            {
                break;
            }
            c => inside.push(c),
        }
    }
    let named =
        [("[:digit:]", "0-9"), ("[:alpha:]", "a-zA-Z"), ("[:alnum:]", "a-zA-Z0-9"), ("[:space:]", " \t\n")];
    let set: Vec<char> =
        named.iter().fold(inside, |set, (name, all)| set.replace(name, all)).chars().collect();
    let has =
        move |c: char| set.contains(&c) || set.windows(3).any(|w| w[1] == '-' && (w[0]..=w[2]).contains(&c));
    Some(Box::new(move |c| has(c) != is_other))
}
