//! Marks inside texts for what a script does not tell.

/// Stands in a text for what nobody can know.
pub(super) const UNKNOWN: char = '\u{1}';
/// Stand around the name of a variable that nothing sets.
const UNSET: [char; 2] = ['\u{2}', '\u{3}'];

/// True if all of a text is known; a variable that nothing sets is: it is empty.
pub(super) fn is_known(text: &str) -> bool {
    !text.contains(UNKNOWN)
}

/// A text in which variables that nothing sets are empty.
pub(super) fn without_marks(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(UNSET[0]) {
        out += before;
        rest = after.split_once(UNSET[1]).map_or("", |(_, rest)| rest);
    }
    out + rest
}

/// True if a text says something: nothing in it is open.
pub(super) fn says_something(text: &str) -> bool {
    is_known(text) && !text.contains(UNSET[0])
}

/// The part behind the last slash of a path whose folder is open: the name of a model, mostly.
pub(super) fn below_open(text: &str) -> Option<&str> {
    let (_, name) = text.rsplit_once('/')?;
    let has = |kind: fn(char) -> bool| name.contains(kind);
    let is_name = says_something(name)
        && !name.contains(['$', ' '])
        && has(char::is_alphabetic)
        && has(|c| c.is_ascii_digit());
    (is_name && is_known(text)).then_some(name)
}

/// The variable that a text is, where it is one that nothing sets.
pub(super) fn unset(text: &str) -> Option<&str> {
    text.strip_prefix(UNSET[0])?.strip_suffix(UNSET[1]).filter(|name| !name.contains(UNSET[0]))
}

/// The value of a variable that nothing sets.
pub(super) fn open_as(name: &str) -> String {
    format!("{}{name}{}", UNSET[0], UNSET[1])
}
