//! The closed form beside the simulation: both term by term, and the difference cut into named effects.
//!
//! ```text
//! simulation − closed form = Σ effects + rest        (whole picoseconds, exactly)
//! ```
//! Every effect is the difference of two runs that differ in one switch. The first run makes the assumptions of the
//! closed form as far as it can; what it still differs by is the rest, which is stated and not labelled.
//!
//! * Calculon's files: [`crate::calculon::compare`], from its assumptions to events, one after another.
//! * [`workload`]: a workload. There the closed form has a term for most of what is switched on: an effect is what
//!   the switch adds to the simulation, less that term.
//!
//! Hazard: an effect depends on the order of the switches, as any sequential attribution does; the order is fixed and
//! shown.

pub mod among;
mod estimators;
mod page;
mod reading;
#[cfg(feature = "tables")]
mod table;
pub mod tracks;
pub mod workload;

use schemars::JsonSchema;
use serde::Serialize;

pub use estimators::Estimators;
pub use page::{Drawing, page};
pub use reading::{Row, beside, read_rank};
#[cfg(feature = "tables")]
pub use table::table;

use stepsim_core::units::{PS_PER_S, Time};

/// One switch and what it changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Effect {
    /// Its name: `link contention`.
    pub name: &'static str,
    /// What was switched.
    pub switch: &'static str,
    /// What it adds to simulation minus closed form, in picoseconds.
    pub picoseconds: i64,
    /// The same in seconds.
    pub seconds: f64,
    /// The same in percent of the closed form's step.
    pub percent: f64,
}

/// One term on both sides, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Term {
    /// Its name.
    pub name: &'static str,
    /// In closed form.
    pub closed_form_s: f64,
    /// On the simulated rank that is read: what its compute stream did or waited for.
    pub simulated_s: f64,
}

/// Closed form and simulation of one step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// What was compared.
    pub what: String,
    /// The rank whose time is read term by term.
    pub rank: String,
    /// Seconds of the step in closed form.
    pub closed_form_s: f64,
    /// Seconds of the step as simulated.
    pub simulated_s: f64,
    /// Both sides term by term; the columns sum to the two step times.
    pub terms: Vec<Term>,
    /// What makes the difference.
    pub effects: Vec<Effect>,
    /// What no switch explains, in picoseconds.
    pub rest_picoseconds: i64,
    /// The same in seconds.
    pub rest_s: f64,
    /// Effects and rest: simulation minus closed form, in picoseconds.
    pub sum_picoseconds: i64,
    /// The same in seconds.
    pub sum_s: f64,
}

/// Collects runs: the gap between simulation and closed form after each switch.
pub(crate) struct Gaps {
    closed_form: Time,
    rest: i64,
    last: i64,
    effects: Vec<Effect>,
}

impl Gaps {
    /// `simulated` makes the assumptions of a closed form of `closed_form`, of a step that in full has `total`.
    pub(crate) fn new(total: Time, simulated: Time, closed_form: Time) -> Gaps {
        let rest = gap(simulated, closed_form);
        Gaps { closed_form: total, rest, last: rest, effects: Vec::new() }
    }
    /// The next switch leads to these times.
    pub(crate) fn switch(
        &mut self,
        name: &'static str,
        switch: &'static str,
        simulated: Time,
        closed_form: Time,
    ) {
        let gap = gap(simulated, closed_form);
        let picoseconds = gap - self.last;
        self.last = gap;
        let seconds = picoseconds as f64 / PS_PER_S;
        let percent = 100.0 * seconds / self.closed_form.s();
        self.effects.push(Effect { name, switch, picoseconds, seconds, percent });
    }
    pub(crate) fn finish(self, what: String, rank: String, simulated: Time, terms: Vec<Term>) -> Comparison {
        let sum = self.rest + self.effects.iter().map(|e| e.picoseconds).sum::<i64>();
        assert_eq!(sum, gap(simulated, self.closed_form));
        let seconds = |ps: i64| ps as f64 / PS_PER_S;
        Comparison {
            what,
            rank,
            closed_form_s: self.closed_form.s(),
            simulated_s: simulated.s(),
            terms,
            effects: self.effects,
            rest_picoseconds: self.rest,
            rest_s: seconds(self.rest),
            sum_picoseconds: sum,
            sum_s: seconds(sum),
        }
    }
}

fn gap(simulated: Time, closed_form: Time) -> i64 {
    simulated.0 as i64 - closed_form.0 as i64
}
