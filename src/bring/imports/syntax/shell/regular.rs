//! Regular expressions of `[[ x =~ y ]]` and `grep`.

use regex_lite::RegexBuilder;

/// Bytes that an expression may take.
const MOST: usize = 1 << 20;

/// True if an expression fits a part of a text; `None` where it is none.
pub(super) fn finds(expression: &str, text: &str) -> Option<bool> {
    Some(RegexBuilder::new(expression).size_limit(MOST).build().ok()?.is_match(text))
}

/// True for an expression of the basic kind, where some signs mean themselves without a stroke before them.
pub(super) fn finds_basic(expression: &str, text: &str) -> Option<bool> {
    let is_other = expression.contains(['+', '?', '|', '(', ')', '{', '}']);
    if is_other { None } else { finds(expression, text) }
}
