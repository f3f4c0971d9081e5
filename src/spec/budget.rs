//! Limits on texts, for the sake of their readers: readers of trees take stack and time for each level, and some the
//! square of it.

use super::SpecError;

/// Brackets, or branches and loops of a script, that may stand open in one another.
pub const MOST_OPEN: usize = 128;

/// Refuses JSON that nests deeper than its readers follow.
pub(super) fn check_json(file: &str, text: &str) -> Result<(), SpecError> {
    let (mut in_text, mut escaped) = (false, false);
    let brackets = text.bytes().filter(move |byte| {
        let outside = !in_text;
        match byte {
            b'"' if !escaped => in_text = !in_text,
            b'\\' if in_text && !escaped => {
                escaped = true;
                return false;
            }
            _ => {}
        }
        escaped = false;
        outside
    });
    check_open(brackets).map_err(|e| e.in_file(file))
}

/// Refuses a text in which more brackets stand open than readers follow.
///
/// # Errors
/// The text nests too deep.
pub fn check_open(bytes: impl Iterator<Item = u8>) -> Result<(), SpecError> {
    let mut open = 0usize;
    for byte in bytes {
        match byte {
            b'[' | b'{' | b'(' => open += 1,
            b']' | b'}' | b')' => open = open.saturating_sub(1),
            _ => {}
        }
        if open > MOST_OPEN {
            return Err(too_deep());
        }
    }
    Ok(())
}

/// The message for a text that nests too deep.
pub fn too_deep() -> SpecError {
    SpecError::at("", format!("more than {MOST_OPEN} levels stand in one another"))
        .allowed(format!("at most {MOST_OPEN}"))
        .hint("is a bracket or the end of a block missing?")
}
