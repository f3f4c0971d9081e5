//! Patterns of a shell for texts: `*`, `?` and `[a-z]`.

/// True if all of a text fits a pattern.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    lengths(pattern, &text).last() == Some(&text.len())
}

/// A text without the shortest or longest part at its begin (or end) that fits.
pub(super) fn cut(text: &str, pattern: &str, end: bool, longest: bool) -> String {
    let chars: Vec<char> = text.chars().collect();
    if !end {
        let fitting = lengths(pattern, &chars);
        let found = if longest { fitting.last() } else { fitting.first() };
        return chars[found.copied().unwrap_or(0)..].iter().collect();
    }
    let fits = |at: &usize| lengths(pattern, &chars[*at..]).last() == Some(&(chars.len() - at));
    let found = if longest { (0..=chars.len()).find(fits) } else { (0..=chars.len()).rev().find(fits) };
    chars[..found.unwrap_or(chars.len())].iter().collect()
}

/// A text with another word for the first part, or for all parts, that fit.
pub(super) fn replaced(text: &str, pattern: &str, with: &str, all: bool) -> String {
    let chars: Vec<char> = text.chars().collect();
    let (mut out, mut at, mut done) = (String::new(), 0, false);
    while at < chars.len() {
        let length = lengths(pattern, &chars[at..]).last().copied().filter(|n| *n > 0 && (all || !done));
        match length {
            Some(length) => {
                out += with;
                at += length;
                done = true;
            }
            None => {
                out.push(chars[at]);
                at += 1;
            }
        }
    }
    out
}

/// How many of the first characters of a text fit a pattern, in order.
fn lengths(pattern: &str, text: &[char]) -> Vec<usize> {
    let pattern: Vec<char> = pattern.chars().collect();
    let (mut reached, mut at) = (vec![false; text.len() + 1], 0);
    reached[0] = true;
    while at < pattern.len() {
        if pattern[at] == '*' {
            let first = reached.iter().position(|is| *is).unwrap_or(text.len() + 1);
            reached.iter_mut().skip(first).for_each(|is| *is = true);
            at += 1;
            continue;
        }
        let (fits, length) = one(&pattern[at..]);
        for i in (0..text.len()).rev() {
            reached[i + 1] = reached[i] && fits(text[i]);
        }
        reached[0] = false;
        at += length;
    }
    (0..=text.len()).filter(|at| reached[*at]).collect()
}

/// The test of a pattern's first character, and how many characters it takes there.
fn one(pattern: &[char]) -> (Box<dyn Fn(char) -> bool + '_>, usize) {
    match pattern {
        ['?', ..] => (Box::new(|_| true), 1),
        ['\\', c, ..] => (Box::new(move |other| other == *c), 2),
        ['[', rest @ ..] if rest.iter().skip(1).any(|c| *c == ']') => {
            let end = rest.iter().skip(1).position(|c| *c == ']').unwrap_or(0) + 1;
            let (not, set) = match &rest[..end] {
                ['!' | '^', set @ ..] => (true, set),
                set => (false, set),
            };
            let has = move |c: char| {
                set.contains(&c) || set.windows(3).any(|w| w[1] == '-' && (w[0]..=w[2]).contains(&c))
            };
            (Box::new(move |c| has(c) != not), end + 2)
        }
        [c, ..] => (Box::new(move |other| other == *c), 1),
        [] => (Box::new(|_| false), 1),
    }
}
