//! Pieces of JSON text.

use std::io::Write;

use super::Value;

/// Appends `text` as a JSON string with its quotes.
pub fn push_string(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    // Nearly no text has anything to escape, and a loop without a way out looks at many bytes at once.
    if !text.bytes().fold(false, |any, byte| any | needs_escape(byte)) {
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
        return;
    }
    // Bytes of UTF-8 above ASCII need no escape, so the text can be searched and copied bytewise.
    let mut plain = 0;
    for (i, &byte) in text.as_bytes().iter().enumerate() {
        if !needs_escape(byte) {
            continue;
        }
        out.extend_from_slice(&text.as_bytes()[plain..i]);
        plain = i + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            other => write!(out, "\\u{other:04x}").expect("a Vec takes every write"),
        }
    }
    out.extend_from_slice(&text.as_bytes()[plain..]);
    out.push(b'"');
}

#[inline]
fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || matches!(byte, b'"' | b'\\' | 0x7f)
}

/// Appends a whole number.
#[inline]
pub fn push_uint(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a number of thousandths with exactly three decimals: nanoseconds as microseconds.
#[inline]
pub fn push_milli(out: &mut Vec<u8>, thousandths: u64) {
    let mut text = [0; MOST_MILLI];
    let start = milli_before(&mut text, thousandths).len();
    out.extend_from_slice(&text[start..]);
}

/// The longest number of thousandths: 17 digits, a point and three more.
pub const MOST_MILLI: usize = 21;

/// The digits of 0 to 99.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
};

/// Puts a number of thousandths at the end of `room`; returns what is left before it.
#[inline]
pub fn milli_before(room: &mut [u8], thousandths: u64) -> &mut [u8] {
    let (mut whole, rest) = (thousandths / 1000, (thousandths % 1000) as usize);
    let [tens, ones] = PAIRS[rest % 100];
    let mut left = before(room, [b'.', b'0' + (rest / 100) as u8, tens, ones]);
    while whole >= 100 {
        left = before(left, PAIRS[(whole % 100) as usize]);
        whole /= 100;
    }
    match whole {
        0..10 => before(left, [b'0' + whole as u8]),
        _ => before(left, PAIRS[whole as usize]),
    }
}

/// Puts bytes at the end of `room`; returns what is left before them.
#[inline]
pub fn before<const N: usize>(room: &mut [u8], bytes: [u8; N]) -> &mut [u8] {
    let (left, place) = room.split_last_chunk_mut().expect("there is room for all that is put there");
    *place = bytes;
    left
}

/// Appends a value. Numbers that JSON does not have become `null`.
pub fn push_value(out: &mut Vec<u8>, value: Value) {
    match value {
        Value::Uint(n) => push_uint(out, n),
        Value::Milli(n) => push_milli(out, n),
        Value::Text(text) => push_string(out, text),
        Value::Float(x) if !x.is_finite() => out.extend_from_slice(b"null"),
        Value::Float(x) if x.fract() == 0.0 && (0.0..9e18).contains(&x) => push_uint(out, x as u64),
        Value::Float(x) => write!(out, "{x:?}").expect("a Vec takes every write"),
    }
}

/// Appends the beginning of an event and where it stands: `{"ph":…,"pid":…,"tid":…`.
pub fn push_head(out: &mut Vec<u8>, start: &[u8], pid: u64, tid: Option<u64>) {
    out.extend_from_slice(start);
    out.extend_from_slice(b",\"pid\":");
    push_uint(out, pid);
    if let Some(tid) = tid {
        out.extend_from_slice(b",\"tid\":");
        push_uint(out, tid);
    }
}

/// Appends `"key":value` pairs with commas between them.
pub fn push_members(out: &mut Vec<u8>, members: &[(&str, Value)]) {
    for (i, (key, value)) in members.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        push_string(out, key);
        out.push(b':');
        push_value(out, *value);
    }
}
