//! Amounts by stretch of a step: what came in each of 512 equal times.

use stepsim_core::units::Time;

/// Stretches of a step.
const STRETCHES: usize = 512;

/// Amounts that came in each stretch of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretches {
    /// How long a stretch is, in picoseconds.
    width: u64,
    /// An amount for each stretch.
    pub amounts: Vec<f64>,
}

impl Stretches {
    /// Nothing yet in a step of so long.
    pub fn new(step: Time) -> Stretches {
        Stretches { width: step.0.div_ceil(STRETCHES as u64).max(1), amounts: vec![0.0; STRETCHES] }
    }

    /// How long a stretch is.
    pub fn width(&self) -> Time {
        Time(self.width)
    }

    /// Adds an amount that came evenly between two times.
    pub fn add(&mut self, start: Time, end: Time, amount: f64) {
        let length = (end.0 - start.0).max(1) as f64;
        let mut from = start.0;
        while from < end.0 {
            let stretch = ((from / self.width) as usize).min(STRETCHES - 1);
            let until = if stretch == STRETCHES - 1 {
                end.0
            } else {
                end.0.min((from / self.width + 1) * self.width)
            };
            self.amounts[stretch] += amount * (until - from) as f64 / length;
            from = until;
        }
    }

    /// The part of `full` that a picosecond had, from the beginning of each stretch on.
    pub fn shares(&self, full: f64) -> impl Iterator<Item = (Time, f64)> {
        let share = move |amount: &f64| amount / (full * self.width as f64);
        (0u64..).map(|i| Time(i * self.width)).zip(self.amounts.iter().map(share))
    }
}
