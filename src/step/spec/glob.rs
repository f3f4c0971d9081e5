//! Patterns of texts: `*` stands for anything.

/// Whether a text fits a pattern.
pub(crate) fn fits(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or_default();
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn stars_stand_for_anything() {
        assert!(
            fits("a*c", "abc") && fits("*llama-3*", "meta-llama/meta-llama-3-70b") && !fits("a*c", "abd")
        );
        assert!(fits("*a*b*", "xaxbx") && !fits("*a*b*", "xbxax") && fits("a*a", "aa") && !fits("a*a", "a"));
    }
}
