//! Marks inside texts for what a script does not tell.

/// Stand around the name of a variable that nothing sets, or what else a text hangs on: `$(nproc)`.
const OPEN: [char; 2] = ['\u{2}', '\u{3}'];

/// Stands for a blank inside: it does not come apart there.
const BLANK: char = '\u{1f}';

/// The text of what hangs on something.
pub(super) fn open_as(what: &str) -> String {
    format!("{}{}{}", OPEN[0], without_marks(what).replace(char::is_whitespace, &BLANK.to_string()), OPEN[1])
}

/// What a text hangs on as people write it.
pub(super) fn written(what: &str) -> String {
    what.replace(BLANK, " ")
}

/// All that a text hangs on.
pub(in crate::imports) fn opens(text: &str) -> impl Iterator<Item = &str> {
    text.split(OPEN[0]).skip(1).filter_map(|part| part.split_once(OPEN[1])).map(|(what, _)| what)
}

/// True if something is the name of a variable, or a word of the script's own line.
pub(super) fn is_variable(what: &str) -> bool {
    !what.is_empty() && what.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// True if all of a text is known; a variable that nothing sets is: it is empty.
pub(super) fn is_known(text: &str) -> bool {
    opens(text).all(is_variable)
}

/// A text in which all that is open is empty.
pub(super) fn without_marks(text: &str) -> String {
    let mut parts = text.split(OPEN[0]);
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |whole, part| whole + part.split_once(OPEN[1]).map_or("", |(_, rest)| rest))
}

/// True if a text says something: nothing in it is open.
pub(super) fn says_something(text: &str) -> bool {
    !text.contains(OPEN[0])
}

/// The part behind the last slash of a path whose folder is open: the name of a model, mostly.
pub(super) fn below_open(text: &str) -> Option<&str> {
    let name = below(text)?;
    let is_name = name.contains(char::is_alphabetic) && name.contains(|c: char| c.is_ascii_digit());
    (is_name && is_known(text)).then_some(name)
}

/// The known part of a word: all of it, or the part behind the last slash where its folder is open.
pub(in crate::imports) fn known(word: &str) -> Option<String> {
    if says_something(word) { Some(word.to_owned()) } else { below(word).map(str::to_owned) }
}

fn below(text: &str) -> Option<&str> {
    let (_, name) = text.rsplit_once('/')?;
    (says_something(name) && !name.contains(['$', ' ', OPEN[1]])).then_some(name)
}

/// The variable that a text is, where it is one that nothing sets.
pub(super) fn unset(text: &str) -> Option<&str> {
    let name = text.strip_prefix(OPEN[0])?.strip_suffix(OPEN[1])?;
    is_variable(name).then_some(name)
}
