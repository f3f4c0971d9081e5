//! Limits on texts of other software, for the sake of their readers.

use stepsim_spec::SpecError;
use stepsim_spec::budget::{MOST_OPEN, check_open, too_deep};

/// Bytes of a script or of a configuration in another format; files of ours may hold tables of millions of numbers.
pub const MOST_BYTES: usize = 8 << 20;

/// Words that begin and end what stands in one another in a script of a shell.
const BEGIN: [&str; 8] = ["if", "case", "for", "while", "until", "select", "!", "{"];
const END: [&str; 4] = ["fi", "esac", "done", "}"];

/// Refuses a text of other software that is too long, or nests deeper than its readers follow; in which texts stand
/// in quotes is not asked.
pub fn check(text: &str) -> Result<(), SpecError> {
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
        // In prose these words end nothing: only a script of some depth has more than `MOST_OPEN` of them open.
        if open > MOST_OPEN && text.starts_with("#!") {
            return Err(too_deep());
        }
    }
    Ok(())
}
