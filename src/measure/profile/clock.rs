//! Time stamps of profilers: decimal microseconds in text, as integer nanoseconds.
//!
//! A time stamp may be whole microseconds since 1970 with three decimals (`1712195496004644.183`), which is more than a
//! double holds, so it never becomes one.

/// The largest time, of either sign: 95 years. Two of them and a difference of two fit the type.
const LARGEST: i128 = 3_000_000_000_000_000_000;

/// Nanoseconds of a JSON number (or of a string that holds one) of microseconds: rounded to the nearest, half to even.
/// `None` if the text is no number or beyond 95 years.
pub fn ns(text: &str) -> Option<i64> {
    let text = text.trim().trim_matches('"').trim();
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, mantissa) = match mantissa.as_bytes().first()? {
        b'-' => (true, &mantissa[1..]),
        b'+' => (false, &mantissa[1..]),
        _ => (false, mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // Digits before the point of nanoseconds: the whole part's and `3 + exponent` of the fraction.
    let point = i64::try_from(whole.len()).ok()? + 3 + i64::from(exponent);
    let (mut value, mut rest, mut digits) = (0_i128, DigitTail::Nothing, 0_i64);
    for digit in whole.bytes().chain(fraction.bytes()) {
        if !digit.is_ascii_digit() {
            return None;
        }
        if digits < point {
            value = value * 10 + i128::from(digit - b'0');
            if value > LARGEST {
                return None;
            }
        } else {
            rest = rest.then(digit - b'0', digits == point);
        }
        digits += 1;
    }
    for _ in digits..point {
        value *= 10;
        if value > LARGEST {
            return None;
        }
        if value == 0 {
            break;
        }
    }
    let up = match rest {
        DigitTail::MoreThanHalf => true,
        DigitTail::Half => value % 2 == 1,
        DigitTail::Nothing | DigitTail::LessThanHalf => false,
    };
    let value = i64::try_from(value + i128::from(up)).ok()?;
    Some(if negative { -value } else { value })
}

/// The digits behind the last one that is kept.
#[derive(Clone, Copy, PartialEq)]
enum DigitTail {
    Nothing,
    LessThanHalf,
    Half,
    MoreThanHalf,
}

impl DigitTail {
    fn then(self, digit: u8, first: bool) -> DigitTail {
        match (self, digit) {
            (DigitTail::Nothing, 0) => DigitTail::Nothing,
            (DigitTail::Nothing, 5) if first => DigitTail::Half,
            (DigitTail::Nothing, 6..) if first => DigitTail::MoreThanHalf,
            (DigitTail::Nothing, _) => DigitTail::LessThanHalf,
            (DigitTail::Half, 1..) => DigitTail::MoreThanHalf,
            (rest, _) => rest,
        }
    }
}

/// Nanoseconds in seconds, to print.
pub(super) fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}
