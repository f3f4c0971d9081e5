//! Names of models as people spell them: `LLAMA3.1_405B`, `Qwen3 30B-A3B`, `DeepSeekV3 (w/o MTP)`.
//!
//! A name is letters and numbers in turn; what stands between does not count. A *size* is a number with `B`, `M` or
//! `T` behind it, `8x7B`, or `A3B` (what a token uses of a mixture). `GPT 175B` is therefore not `GPT 5B`, and
//! `Llama 3.2 1B` no `Llama 3`.

use super::{Kind, catalog};

/// A piece of a name.
#[derive(Clone, Debug, PartialEq)]
enum NamePiece {
    Letters(String),
    /// A version, or any other number.
    Number(String),
    Size(String),
}

/// Words that make another size of a model: Phi-4-mini is no Phi-4.
const SIZE_WORDS: [&str; 14] = [
    "mini", "nano", "lite", "air", "tiny", "micro", "small", "medium", "large", "max", "ultra", "turbo",
    "flash", "plus",
];

/// Words that make another architecture of a name: Zebra-Llama is no Llama, and Qwen2.5-VL has an encoder beside it.
const OTHER_KINDS: [&str; 18] = [
    "debugmodel",
    "zebra",
    "mamba",
    "gdn",
    "kda",
    "rwkv",
    "video",
    "diffusion",
    "eagle",
    "medusa",
    "draft",
    "bert",
    "vl",
    "omni",
    "asr",
    "ocr",
    "llava",
    "molmo",
];

/// True if a name contains a spelling: the spelling's pieces in their order, with letters alone between them, and no
/// word of another model.
pub fn says(full: &str, spelling: &str) -> bool {
    let (name, wanted) = (pieces(full), pieces(spelling));
    let means = |piece: &NamePiece, word: &str| matches!(piece, NamePiece::Letters(letters) if letters.ends_with(word));
    let other = |word: &str| {
        name.iter().any(|piece| matches!(piece, NamePiece::Letters(letters) if letters == word))
            && !wanted.iter().any(|piece| means(piece, word))
    };
    !SIZE_WORDS.iter().any(|word| other(word))
        && !is_another_kind(full, spelling)
        && (0..name.len()).any(|start| says_from(&name[start..], &wanted, true))
}

/// True if a name has a word of another architecture that the spelling lacks.
fn is_another_kind(name: &str, spelling: &str) -> bool {
    let lower = name.to_lowercase();
    let word = |word: &str| OTHER_KINDS.iter().any(|kind| *kind == word && !spelling.contains(kind));
    lower.split(|c: char| !c.is_alphabetic()).any(word)
}

fn says_from(name: &[NamePiece], wanted: &[NamePiece], first: bool) -> bool {
    let Some((want, rest)) = wanted.split_first() else { return true };
    let Some((piece, left)) = name.split_first() else { return false };
    let same = match (piece, want) {
        // An organisation or a company may stand before the name without a gap that counts.
        (NamePiece::Letters(a), NamePiece::Letters(b)) if first => a.ends_with(b.as_str()),
        // 500M is 0.5B.
        (NamePiece::Size(a), NamePiece::Size(b)) if a != b => {
            size_in_billions(a).zip(size_in_billions(b)).is_some_and(|(a, b)| (a - b).abs() < 1e-9)
        }
        (a, b) => a == b,
    };
    let skips = !first && matches!(piece, NamePiece::Letters(_));
    same && says_from(left, rest, false) || skips && says_from(left, wanted, false)
}

/// The shipped model with the longest name that a text says.
pub fn shipped(text: &str) -> Option<&'static str> {
    let said = catalog::names(Kind::Model).filter(|name| !text.is_empty() && says(text, name));
    said.max_by_key(|name| name.len())
}

/// Words behind a name that do not change the model.
const VARIANTS: [&str; 7] = ["instruct", "base", "chat", "it", "hf", "pt", "pretrain"];

/// The shipped model whose whole name a text is, whoever published it and however it was trained further.
pub fn shipped_exactly(text: &str) -> Option<&'static str> {
    let mut said = pieces(text.rsplit('/').next().unwrap_or_default());
    said.pop_if(|piece| matches!(piece, NamePiece::Letters(word) if VARIANTS.contains(&word.as_str())));
    catalog::names(Kind::Model).find(|name| !said.is_empty() && pieces(name) == said)
}

/// A name of a program as people spell it: `llama31_8b` is Llama 3.1 8B, `qwen2_1p5b` Qwen 2 1.5B, `Llama31Config405B`
/// Llama 3.1 405B.
pub fn spelled(identifier: &str) -> String {
    let point = |word: &str| {
        let digits = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let letters = &word[..word.len() - digits.len()];
        match digits.as_bytes() {
            [a, b] if !letters.is_empty() && a.is_ascii_digit() && b.is_ascii_digit() => {
                format!("{letters}{}.{}", *a as char, *b as char)
            }
            _ => between_digits(word.strip_prefix("Config").unwrap_or(word), 'p', '.'),
        }
    };
    words_apart(identifier).split('_').map(point).collect::<Vec<String>>().join(" ").trim().to_string()
}

/// `MistralNeMoConfig` as `Mistral_Ne_Mo_Config`.
fn words_apart(identifier: &str) -> String {
    let all: Vec<char> = identifier.chars().collect();
    let begins = |at: usize| {
        all[at].is_ascii_uppercase()
            && all.get(at + 1).is_some_and(char::is_ascii_lowercase)
            && at.checked_sub(1).is_some_and(|before| all[before].is_ascii_alphanumeric())
    };
    all.iter().enumerate().flat_map(|(at, c)| begins(at).then_some('_').into_iter().chain([*c])).collect()
}

/// A text in which one letter, where it stands between digits, is another.
fn between_digits(text: &str, letter: char, other: char) -> String {
    let all: Vec<char> = text.chars().collect();
    let digit = |at: Option<usize>| at.and_then(|at| all.get(at)).is_some_and(char::is_ascii_digit);
    let new = |(at, c): (usize, &char)| {
        if *c == letter && digit(at.checked_sub(1)) && digit(Some(at + 1)) { other } else { *c }
    };
    all.iter().enumerate().map(new).collect()
}

/// Billions of parameters in a name, all experts together.
pub fn billions(name: &str) -> Option<f64> {
    let sizes = pieces(name).into_iter().filter_map(|piece| match piece {
        NamePiece::Size(size) if !size.starts_with('a') && !size.contains('x') => size_in_billions(&size),
        _ => None,
    });
    // Of two, one is what a token uses: OLMoE-1B-7B.
    sizes.into_iter().filter(|b| *b > 0.0).reduce(f64::max)
}

/// True if a name says that the model has experts: `8x7B`, `30B-A3B`, `MoE`.
pub fn has_experts(name: &str) -> bool {
    pieces(name).iter().any(|piece| match piece {
        NamePiece::Size(size) => size.starts_with('a') || size.contains('x'),
        NamePiece::Letters(letters) => letters.ends_with("moe"),
        NamePiece::Number(_) => false,
    })
}

fn size_in_billions(size: &str) -> Option<f64> {
    let (figure, unit) = size.split_at(size.len().checked_sub(1)?);
    let times = match unit {
        "b" => 1.0,
        "m" => 1e-3,
        "t" => 1e3,
        _ => return None,
    };
    Some(figure.parse::<f64>().ok()? * times)
}

fn pieces(name: &str) -> Vec<NamePiece> {
    let letters: Vec<char> = name.to_lowercase().chars().collect();
    let mut found: Vec<NamePiece> = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        let c = letters[at];
        let word_before = at > 0 && letters[at - 1].is_ascii_alphabetic();
        if c.is_ascii_digit() {
            let end = number_end(&letters, at);
            let (piece, end) = sized(&letters, at, end);
            found.push(piece);
            at = end;
        } else if let Some(end) = active(&letters, at).filter(|_| !word_before) {
            found.push(NamePiece::Size(letters[at..end].iter().collect()));
            at = end;
        } else if c.is_ascii_alphabetic() || c == '+' {
            let read = if c == '+' { "plus".to_string() } else { c.to_string() };
            match found.last_mut() {
                Some(NamePiece::Letters(before)) => *before += &read,
                _ => found.push(NamePiece::Letters(read)),
            }
            at += 1;
        } else {
            at += 1;
        }
    }
    found
}

/// Behind a number that begins at `at`, a fraction included.
fn number_end(letters: &[char], at: usize) -> usize {
    let digits = |from: usize| letters[from..].iter().take_while(|c| c.is_ascii_digit()).count();
    let whole = at + digits(at);
    match letters.get(whole) {
        Some('.') if digits(whole + 1) > 0 => whole + 1 + digits(whole + 1),
        _ => whole,
    }
}

/// A number with what makes a size of it, and where it ends.
fn sized(letters: &[char], at: usize, end: usize) -> (NamePiece, usize) {
    let text = |from: usize, to: usize| letters[from..to].iter().collect::<String>();
    let unit = |at: usize| {
        matches!(letters.get(at), Some('b' | 'm' | 't'))
            && !letters.get(at + 1).is_some_and(char::is_ascii_alphanumeric)
    };
    if letters.get(end) == Some(&'x') && letters.get(end + 1).is_some_and(char::is_ascii_digit) {
        let behind = number_end(letters, end + 1);
        if unit(behind) {
            return (NamePiece::Size(text(at, behind + 1)), behind + 1);
        }
    }
    // The unit as the point: `7b1` is 7.1 B.
    if letters.get(end) == Some(&'b') && letters.get(end + 1).is_some_and(char::is_ascii_digit) {
        let behind = number_end(letters, end + 1);
        if !letters.get(behind).is_some_and(char::is_ascii_alphanumeric) && !text(at, behind).contains('.') {
            return (NamePiece::Size(format!("{}.{}b", text(at, end), text(end + 1, behind))), behind);
        }
    }
    // A space may stand before the unit: `70 B`.
    let spaced = end + usize::from(letters.get(end) == Some(&' '));
    if unit(spaced) && (spaced == end || letters.get(spaced) == Some(&'b')) {
        return (NamePiece::Size(text(at, end) + &text(spaced, spaced + 1)), spaced + 1);
    }
    // A letter of the number's own makes another version of it: `gemma-3n`, `gpt-4o`.
    let own = letters.get(end).is_some_and(char::is_ascii_alphabetic)
        && !letters.get(end + 1).is_some_and(char::is_ascii_alphanumeric);
    let end = end + usize::from(own);
    (NamePiece::Number(text(at, end)), end)
}

/// Behind `a3b`, what a token uses of a mixture.
fn active(letters: &[char], at: usize) -> Option<usize> {
    let digit = letters.get(at) == Some(&'a') && letters.get(at + 1).is_some_and(char::is_ascii_digit);
    let end = digit.then(|| number_end(letters, at + 1))?;
    let whole =
        letters.get(end) == Some(&'b') && !letters.get(end + 1).is_some_and(char::is_ascii_alphanumeric);
    whole.then_some(end + 1)
}
