//! Conditions of Python, as far as what they ask about is known.

use serde_json::Value;

use super::tokens::PythonToken;

/// True if a condition holds; `None` if unknown. `known` tells the value of an expression.
pub fn holds(tokens: &[PythonToken], known: &impl Fn(&[PythonToken]) -> Option<Value>) -> Option<bool> {
    for (word, decides) in [("or", true), ("and", false)] {
        if let Some((left, right)) = cut(tokens, &[word]) {
            let both = [holds(left, known), holds(right, known)];
            let other = both.iter().all(Option::is_some).then_some(!decides);
            return if both.contains(&Some(decides)) { Some(decides) } else { other };
        }
    }
    if let [PythonToken::Name(not), rest @ ..] = tokens
        && not == "not"
    {
        return holds(rest, known).map(|is| !is);
    }
    // A known value is something: `None` and an expression that is not followed are alike here.
    for (words, is) in [(["is", "not", "None"].as_slice(), true), (["is", "None"].as_slice(), false)] {
        if let Some((left, [])) = cut(tokens, words) {
            return known(left).map(|_| is);
        }
    }
    for (sign, is) in [('=', true), ('!', false)] {
        let at = tokens.windows(2).position(|two| *two == [PythonToken::Sign(sign), PythonToken::Sign('=')]);
        if let Some(at) = at {
            let same = known(&tokens[..at])? == known(&tokens[at + 2..])?;
            return Some(same == is);
        }
    }
    known(tokens)?.as_bool()
}

/// The tokens before and behind words outside of brackets.
fn cut<'a>(tokens: &'a [PythonToken], words: &[&str]) -> Option<(&'a [PythonToken], &'a [PythonToken])> {
    let is = |token: &PythonToken, word: &str| matches!(token, PythonToken::Name(name) if name == word);
    let mut depth = 0_i32;
    for at in 0..tokens.len() {
        match &tokens[at] {
            PythonToken::Sign('(' | '[' | '{') => depth += 1,
            PythonToken::Sign(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        let here = tokens.get(at..at + words.len()).unwrap_or_default();
        if depth == 0 && here.len() == words.len() && here.iter().zip(words).all(|(t, w)| is(t, w)) {
            return Some((&tokens[..at], &tokens[at + words.len()..]));
        }
    }
    None
}
