//! Amounts by stretch of a step: what came in each of 512 equal times.

use stepsim_core::units::Time;

/// Stretches of a step.
const STRETCHES: usize = 512;

/// Amounts that came in each stretch of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretches {
    /// How long a stretch is, in picoseconds.
    width: u64,
    amounts: Vec<f64>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_spread_over_the_stretches_that_it_touches() {
        let mut flops = Stretches::new(Time(5120));
        flops.add(Time(5), Time(25), 20.0);
        flops.add(Time(5100), Time(5120), 40.0);
        assert_eq!(flops.amounts[..4], [5.0, 10.0, 5.0, 0.0]);
        assert_eq!(flops.amounts[510..], [20.0, 20.0]);
        assert_eq!(flops.shares(2.0).take(2).collect::<Vec<_>>(), [(Time(0), 0.25), (Time(10), 0.5)]);
        assert_eq!(flops.amounts.iter().sum::<f64>(), 60.0);
    }
}
