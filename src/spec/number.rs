//! Numbers with bounds, for `#[serde(deserialize_with = "…")]`: a wrong one is refused where it stands, with the
//! bounds in the message.

use std::fmt;

use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// The largest count of anything in an input file: 2²⁰ devices, layers, links.
pub const MAX_COUNT: u64 = 1 << 20;

/// A range of numbers and the words for it.
struct Within {
    low: f64,
    low_excluded: bool,
    high: f64,
    whole: bool,
    words: &'static str,
}

impl Visitor<'_> for Within {
    type Value = f64;
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.words)
    }
    fn visit_u64<E: Error>(self, v: u64) -> Result<f64, E> {
        self.check(v as f64).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(v), &self))
    }
    fn visit_i64<E: Error>(self, v: i64) -> Result<f64, E> {
        self.check(v as f64).ok_or_else(|| E::invalid_value(Unexpected::Signed(v), &self))
    }
    fn visit_f64<E: Error>(self, v: f64) -> Result<f64, E> {
        self.check(v).ok_or_else(|| E::invalid_value(Unexpected::Float(v), &self))
    }
}

impl Within {
    fn check(&self, v: f64) -> Option<f64> {
        let above = if self.low_excluded { v > self.low } else { v >= self.low };
        (above && v <= self.high && (!self.whole || v.fract() == 0.0)).then_some(v)
    }
}

/// The same for a field that may be absent or null.
struct Maybe(Within);

impl<'de> Visitor<'de> for Maybe {
    type Value = Option<f64>;
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}, or null", self.0.words)
    }
    fn visit_none<E: Error>(self) -> Result<Option<f64>, E> {
        Ok(None)
    }
    fn visit_unit<E: Error>(self) -> Result<Option<f64>, E> {
        Ok(None)
    }
    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Option<f64>, D::Error> {
        d.deserialize_any(self.0).map(Some)
    }
}

macro_rules! bounded {
    ($(#[$doc:meta])*
     $name:ident, $optional:ident, $type:ty, $low:expr, $excluded:expr, $high:expr, $whole:expr, $words:expr) => {
        $(#[$doc])*
        pub fn $name<'de, D: Deserializer<'de>>(d: D) -> Result<$type, D::Error> {
            let range = Within { low: $low, low_excluded: $excluded, high: $high, whole: $whole, words: $words };
            d.deserialize_any(range).map(|v| v as $type)
        }
        /// The same for an `Option`; wants `#[serde(default)]` beside it.
        pub fn $optional<'de, D: Deserializer<'de>>(d: D) -> Result<Option<$type>, D::Error> {
            let range = Within { low: $low, low_excluded: $excluded, high: $high, whole: $whole, words: $words };
            d.deserialize_option(Maybe(range)).map(|v| v.map(|v| v as $type))
        }
    };
}

bounded!(
    /// How many: 1 to 2²⁰.
    count, optional_count, u32, 1.0, false, MAX_COUNT as f64, true, "a whole number from 1 to 1,048,576"
);
bounded!(
    /// How many, or none: 0 to 2²⁰.
    count_or_zero, optional_count_or_zero, u32, 0.0, false, MAX_COUNT as f64, true, "a whole number from 0 to 1,048,576"
);
bounded!(
    /// A rate or a size: more than 0, at most 10¹² (so that no product with a unit overflows).
    positive, optional_positive, f64, 0.0, true, 1e12, false, "a number above 0, at most 1e12"
);
/// A rate in 10⁹ bytes a second, as a number or as a text with its unit (`400 Gb/s`, `50 GB/s`).
pub fn rate<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    d.deserialize_any(RateVisitor)
}

struct RateVisitor;

impl Visitor<'_> for RateVisitor {
    type Value = f64;
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a number above 0, at most 1e12, in GB/s, or a text with its unit: \"400 Gb/s\"")
    }
    fn visit_u64<E: Error>(self, v: u64) -> Result<f64, E> {
        self.visit_f64(v as f64)
    }
    fn visit_i64<E: Error>(self, v: i64) -> Result<f64, E> {
        self.visit_f64(v as f64)
    }
    fn visit_f64<E: Error>(self, v: f64) -> Result<f64, E> {
        if v > 0.0 && v <= 1e12 { Ok(v) } else { Err(E::invalid_value(Unexpected::Float(v), &self)) }
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
        let rate = super::quantity::rate(text).filter(|rate| rate.count.is_none());
        let rate = rate.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))?;
        self.visit_f64(rate.gbytes_per_s)
    }
}

bounded!(
    /// A latency or a length: 0 to 10⁹.
    non_negative, optional_non_negative, f64, 0.0, false, 1e9, false, "a number from 0 to 1e9"
);
bounded!(
    /// A capacity in GiB or GB: more than 0, at most 2³⁰ (one EiB).
    capacity, optional_capacity, f64, 0.0, true, (1u64 << 30) as f64, false, "a number above 0, at most 1,073,741,824"
);
bounded!(
    /// A factor above 0, at most 1.
    efficiency, optional_efficiency, f64, 0.0, true, 1.0, false, "a number above 0, at most 1"
);
