//! Patterns of texts: `*` stands for anything.

/// True if a text fits a pattern.
pub fn fits(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(head) else { return false };
    let (inner, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in inner.split('*') {
        let Some(found) = left.find(part) else { return false };
        left = &left[found + part.len()..];
    }
    left.ends_with(tail)
}

/// Where the letters of a pattern stand in a text that fits it.
pub(super) fn parts(pattern: &str, text: &str) -> Option<Vec<(usize, usize)>> {
    let Some((head, rest)) = pattern.split_once('*') else {
        return (pattern == text).then(|| vec![(0, text.len())]);
    };
    if !text.starts_with(head) {
        return None;
    }
    let mut known = vec![(0, head.len())];
    let (mut at, mut parts) = (head.len(), rest.split('*').collect::<Vec<&str>>());
    let tail = parts.pop().unwrap_or_default();
    for part in parts {
        let found = at + text[at..].find(part)?;
        known.push((found, found + part.len()));
        at = found + part.len();
    }
    if text.len() < at + tail.len() || !text.ends_with(tail) {
        return None;
    }
    known.push((text.len() - tail.len(), text.len()));
    known.retain(|(a, b)| a < b);
    Some(known)
}
