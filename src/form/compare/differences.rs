//! Collects what makes the difference between a closed form and a simulation.

use super::{Comparison, Difference, OwnError, Remainder, Term};
use stepsim_core::units::{PS_PER_S, Time};

/// Collects differences in whole picoseconds.
pub struct Differences {
    closed_form: Time,
    own: Vec<Difference>,
    effects: Vec<Difference>,
}

impl Differences {
    /// Of a step that takes `closed_form` in closed form.
    pub fn new(closed_form: Time) -> Differences {
        Differences { closed_form, own: Vec::new(), effects: Vec::new() }
    }
    /// Adds one: an error of the form's own where it claims what was switched, else an effect.
    pub fn add(&mut self, claimed: bool, (name, switch): (&'static str, &'static str), picoseconds: i64) {
        let seconds = picoseconds as f64 / PS_PER_S;
        let difference =
            Difference { name, switch, picoseconds, seconds, percent: 100.0 * self.fraction(picoseconds) };
        if claimed { self.own.push(difference) } else { self.effects.push(difference) }
    }
    fn fraction(&self, picoseconds: i64) -> f64 {
        picoseconds as f64 / (self.closed_form.0 as f64).max(1.0)
    }

    /// The comparison with a simulated step; time that is not yet explained joins the rest.
    pub fn finish(self, what: String, rank: String, simulated: Time, terms: Vec<Term>) -> Comparison {
        let seconds = |ps: i64| ps as f64 / PS_PER_S;
        let sum = gap(simulated, self.closed_form);
        let of = |list: &[Difference]| list.iter().map(|d| d.picoseconds).sum::<i64>();
        let (own, rest) = (of(&self.own), sum - of(&self.own) - of(&self.effects));
        let gross = self.own.iter().map(|d| d.picoseconds.abs()).sum();
        Comparison {
            what,
            rank,
            closed_form_s: self.closed_form.s(),
            simulated_s: simulated.s(),
            terms,
            rest: Remainder { picoseconds: rest, seconds: seconds(rest), fraction: self.fraction(rest) },
            not_claimed: Vec::new(),
            own_error: OwnError {
                fraction: self.fraction(own),
                gross_fraction: self.fraction(gross),
                picoseconds: own,
                seconds: seconds(own),
                terms: self.own,
            },
            effects: self.effects,
            formula: None,
            sum_picoseconds: sum,
            sum_s: seconds(sum),
        }
    }
}

/// Simulation minus closed form.
pub(crate) fn gap(simulated: Time, closed_form: Time) -> i64 {
    simulated.0 as i64 - closed_form.0 as i64
}
