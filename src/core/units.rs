//! Units: every quantity that crosses a module border has its unit in its type.
//!
//! * [`Time`]: simulated time, integer **picoseconds**. Integers make runs reproducible to the last bit and sums
//!   exact; `u64` picoseconds reach 213 days. Sums beyond that stay there, and the engine ends a run long before.
//! * [`Bytes`]: integer bytes. GB is 10⁹ and GiB is 2³⁰, always.
//! * [`Flops`]: floating-point operations (a multiply-add counts two).
//! * [`Bandwidth`] in bytes per second, [`FlopRate`] in FLOP per second.
//!
//! Hazard: converting from `f64` rounds to the nearest picosecond, once, where a duration is made. Adding rounded
//! times is exact; never round a difference of unrounded ones.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

use serde::{Deserialize, Serialize};

/// Picoseconds in one second.
pub const PS_PER_S: f64 = 1e12;

/// The nearest whole number, halves away from zero, as `f64::round`: in two instructions where that is a call of the C
/// library. Negative values and NaN become zero, too large ones the largest.
#[inline]
pub fn round(x: f64) -> u64 {
    let whole = x as u64;
    whole.saturating_add(u64::from(x - whole as f64 >= 0.5))
}

/// A point in simulated time, or a span of it, in integer picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

impl Time {
    /// The origin of time, and the empty span.
    pub const ZERO: Time = Time(0);
    /// Later than everything.
    pub const MAX: Time = Time(u64::MAX);

    /// From seconds, rounded to the nearest picosecond; negative values and NaN become zero.
    pub fn from_s(s: f64) -> Time {
        Time(round(s * PS_PER_S))
    }
    /// From microseconds, rounded to the nearest picosecond.
    pub fn from_us(us: f64) -> Time {
        Time(round(us * 1e6))
    }
    /// From whole nanoseconds.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns * 1000)
    }
    /// In seconds.
    pub fn s(self) -> f64 {
        self.0 as f64 / PS_PER_S
    }
    /// In microseconds.
    pub fn us(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// The nearest whole nanosecond: what a trace prints.
    pub const fn round_ns(self) -> u64 {
        self.0.saturating_add(500) / 1000
    }
    /// `self − other`, or zero where that would be negative.
    pub fn saturating_sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }
}

impl Add for Time {
    type Output = Time;
    #[inline]
    fn add(self, o: Time) -> Time {
        Time(self.0.saturating_add(o.0))
    }
}
impl AddAssign for Time {
    fn add_assign(&mut self, o: Time) {
        *self = *self + o;
    }
}
impl Sub for Time {
    type Output = Time;
    fn sub(self, o: Time) -> Time {
        Time(self.0 - o.0)
    }
}
impl Mul<u64> for Time {
    type Output = Time;
    fn mul(self, k: u64) -> Time {
        Time(self.0.saturating_mul(k))
    }
}
impl Sum for Time {
    fn sum<I: Iterator<Item = Time>>(iter: I) -> Time {
        iter.fold(Time::ZERO, |sum, t| sum + t)
    }
}
impl fmt::Display for Time {
    /// With a unit that leaves one to three digits before the point: `1.235 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = match self.0 {
            0..=999 => return write!(f, "{} ps", self.0),
            1_000..=999_999 => (1e3, "ns"),
            1_000_000..=999_999_999 => (1e6, "us"),
            1_000_000_000..=999_999_999_999 => (1e9, "ms"),
            _ => (1e12, "s"),
        };
        write!(f, "{:.3} {unit}", self.0 as f64 / scale)
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Bytes = Bytes(0);
    /// From gigabytes of 10⁹ bytes.
    pub fn from_gb(gb: f64) -> Bytes {
        Bytes((gb * 1e9).round() as u64)
    }
    /// From gibibytes of 2³⁰ bytes.
    pub fn from_gib(gib: f64) -> Bytes {
        Bytes((gib * (1u64 << 30) as f64).round() as u64)
    }
    /// As a float, for arithmetic with rates.
    pub fn f(self) -> f64 {
        self.0 as f64
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, o: Bytes) -> Bytes {
        Bytes(self.0 + o.0)
    }
}
impl AddAssign for Bytes {
    fn add_assign(&mut self, o: Bytes) {
        self.0 += o.0;
    }
}
impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, o: Bytes) -> Bytes {
        Bytes(self.0 - o.0)
    }
}
impl Mul<u64> for Bytes {
    type Output = Bytes;
    fn mul(self, k: u64) -> Bytes {
        Bytes(self.0 * k)
    }
}
impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(iter: I) -> Bytes {
        Bytes(iter.map(|b| b.0).sum())
    }
}
impl fmt::Display for Bytes {
    /// In binary units: `1.50 GiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shift, unit) = match self.0 {
            0..=1023 => return write!(f, "{} B", self.0),
            1024..=1_048_575 => (10, "KiB"),
            1_048_576..=1_073_741_823 => (20, "MiB"),
            1_073_741_824..=1_099_511_627_775 => (30, "GiB"),
            0x100_0000_0000..=0x3_ffff_ffff_ffff => (40, "TiB"),
            0x4_0000_0000_0000..=0xfff_ffff_ffff_ffff => (50, "PiB"),
            _ => (60, "EiB"),
        };
        write!(f, "{:.2} {unit}", self.0 as f64 / (1u64 << shift) as f64)
    }
}

/// Floating-point operations; a multiply-add counts two.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Flops(pub f64);

impl Div<FlopRate> for Flops {
    type Output = Time;
    fn div(self, rate: FlopRate) -> Time {
        Time::from_s(self.0 / rate.0)
    }
}

/// Floating-point operations per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FlopRate(pub f64);

impl FlopRate {
    /// From TFLOP/s of 10¹² FLOP per second.
    pub fn from_tflops(t: f64) -> FlopRate {
        FlopRate(t * 1e12)
    }
}

/// Bytes per second, one direction unless its place says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bandwidth(pub f64);

impl Bandwidth {
    /// From gigabytes of 10⁹ bytes per second.
    pub fn from_gbps(gbps: f64) -> Bandwidth {
        Bandwidth(gbps * 1e9)
    }
    /// In gigabytes of 10⁹ bytes per second, to twelve digits: 80 % of 63 GB/s are 50.4, not 50.400000000000006.
    pub fn gbps(self) -> f64 {
        let gbps = self.0 / 1e9;
        format!("{gbps:.11e}").parse().unwrap_or(gbps)
    }
}

impl Div<Bandwidth> for Bytes {
    type Output = Time;
    fn div(self, rate: Bandwidth) -> Time {
        Time::from_s(self.0 as f64 / rate.0)
    }
}

/// With commas between thousands.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
