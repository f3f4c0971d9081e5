//! The closed form beside the simulation: both term by term, and the difference cut into three classes.
//!
//! ```text
//! simulation − closed form = own error + Σ effects + rest        (whole picoseconds, exactly)
//! ```
//! * *Own error*: what the form has a term for and gets wrong. Both sides take one subject more at a time (pieces,
//!   transfers, tails, copies, queue, depth, launches); what the difference between them grows by is that term's error.
//! * *Effects*: what the form does not claim (interference, contention, noise, capacity). Each is switched on alone,
//!   on top of all that the form claims.
//! * *Rest*: what no switch explains by itself: what several effects do together.
//!
//! Hazard: an error or effect depends on what was switched on before, as any attribution does; the order is fixed and
//! shown.

mod claims;
mod difference;
pub mod differences;
mod estimators;
pub mod formula;
mod reading;
#[cfg(feature = "tables")]
mod table;
mod term;
pub mod workload;
mod worth;

use schemars::JsonSchema;
use serde::Serialize;

pub use claims::{not_claimed, unclaimed};
pub use difference::{Difference, DifferenceOrigin, OwnError, Remainder};
pub(crate) use differences::Differences;
pub use estimators::Estimators;
pub use formula::{Formula, FormulaReading};
pub use reading::{TimeTerm, beside, read_rank};
#[cfg(feature = "tables")]
pub use table::table;
pub use term::Term;

/// Closed form and simulation of one step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The subject of the comparison.
    pub what: String,
    /// The rank whose time is read term by term.
    pub rank: String,
    /// Seconds of the step in closed form.
    pub closed_form_s: f64,
    /// Seconds of the step as simulated.
    pub simulated_s: f64,
    /// Both sides term by term; the columns sum to the two step times.
    pub terms: Vec<Term>,
    /// Effects of the step that the closed form has no term for: own error is not claimed.
    pub not_claimed: Vec<&'static str>,
    /// The closed form's errors in effects that it claims to cover.
    pub own_error: OwnError,
    /// The effects that the closed form does not claim.
    pub effects: Vec<Difference>,
    /// The rest that no switch explains by itself.
    pub rest: Remainder,
    /// The result of the user's formula for the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub formula: Option<FormulaReading>,
    /// Own error, effects and rest: simulation minus closed form, in picoseconds.
    pub sum_picoseconds: i64,
    /// The same in seconds.
    pub sum_s: f64,
}

impl Comparison {
    /// All that makes the difference: its class, its name, what was switched, and seconds; the rest last.
    pub fn differences(&self) -> impl Iterator<Item = (DifferenceOrigin, &'static str, &'static str, f64)> {
        let of = |class: DifferenceOrigin| move |d: &Difference| (class, d.name, d.switch, d.seconds);
        let own = self.own_error.terms.iter().map(of(DifferenceOrigin::OwnError));
        let rest =
            (DifferenceOrigin::Rest, "rest", "no switch: what no run explains by itself", self.rest.seconds);
        own.chain(self.effects.iter().map(of(DifferenceOrigin::Effect))).chain([rest])
    }
}
