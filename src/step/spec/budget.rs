//! What a text may cost those who read it: readers of trees take stack and time for each level, and some the square
//! of it.

use super::SpecError;

/// Bytes of a script or of a configuration in another format; ours may hold tables of millions of numbers.
const MOST_BYTES: usize = 8 << 20;
/// Brackets, or branches and loops of a script, that may stand open in one another.
const MOST_OPEN: usize = 128;

/// Words that begin and end what stands in one another in a script of a shell.
const BEGIN: [&str; 8] = ["if", "case", "for", "while", "until", "select", "!", "{"];
const END: [&str; 4] = ["fi", "esac", "done", "}"];

/// Refuses JSON that nests deeper than its readers follow.
pub(crate) fn check_json(file: &str, text: &str) -> Result<(), SpecError> {
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

/// Refuses a text of other software that is too long, or nests deeper than its readers follow; in which texts stand
/// in quotes is not asked.
pub(crate) fn check_foreign(text: &str) -> Result<(), SpecError> {
    if text.len() > MOST_BYTES {
        return Err(SpecError::at("", format!("{} bytes are too many", text.len()))
            .allowed(format!("scripts and configurations of at most {MOST_BYTES} bytes")));
    }
    check_open(text.bytes())?;
    let mut open = 0usize;
    for word in text.split(|c: char| c.is_whitespace() || c == ';') {
        if END.contains(&word) {
            open = open.saturating_sub(1);
        } else if BEGIN.contains(&word) {
            open += 1;
        }
        // In prose these words end nothing: only a script of some depth has so many of them open.
        if open > MOST_OPEN && text.starts_with("#!") {
            return Err(too_deep());
        }
    }
    Ok(())
}

fn check_open(bytes: impl Iterator<Item = u8>) -> Result<(), SpecError> {
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

fn too_deep() -> SpecError {
    SpecError::at("", format!("more than {MOST_OPEN} levels stand in one another"))
        .allowed(format!("at most {MOST_OPEN}"))
        .hint("is a bracket or the end of a block missing?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nests_too_deep_is_refused_at_once() {
        let deep = |open: &str, inner: &str, close: &str, n: usize| open.repeat(n) + inner + &close.repeat(n);
        assert!(check_json("f", &deep("[", "1", "]", 128)).is_ok());
        let error = check_json("f", &deep("[", "1", "]", 129)).unwrap_err().to_string();
        assert!(error.contains("128 levels") && error.len() < 300, "{error}");
        // In a text they nest nothing, and an escaped quote ends none.
        assert!(check_json("f", &format!("[\"\\\"{}\"]", "[".repeat(1000))).is_ok());
        assert!(check_json("f", &format!("[\"\\\\\", {}", "[".repeat(1000))).is_err());
        assert!(check_foreign(&deep("a: [", "1", "]", 1000)).is_err());
        assert!(
            check_foreign(&format!("#!/bin/bash\n{}", deep("if true; then\n", "x\n", "fi\n", 129))).is_err()
        );
        assert!(check_foreign(&deep("if true; then\n", "x\n", "fi\n", 129).repeat(2)).is_ok());
        assert!(check_foreign(&"a: 1\n".repeat(MOST_BYTES / 5 + 1)).is_err());
    }
}
