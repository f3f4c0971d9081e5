//! Calculon's step beside the same step of ours, simulated: term by term, and what makes the difference.
//!
//! Calculon's model ends at the last block, so the step that stands beside its terms is the import with an embedding of
//! one row. The causes add up: from Calculon's total over its repaired form and our closed form to the simulation, and
//! from there to the imported step with its embedding and head.

use serde_json::{Value, json};
use stepsim_bring::calculon::Calculon;
use stepsim_form::compare::Comparison;
use stepsim_form::compare::workload::{closed_form, compare};
use stepsim_read::analysis::stall_cause::TimeTerm;
use stepsim_simulate::jump::figures_edited;
use stepsim_simulate::{Inputs, Options, SimulationError};

use super::{CalculonEstimate, CalculonTerms, estimate};

/// A cause of the difference, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct CalculonCause {
    /// The side that it belongs to: Calculon, our closed form, the simulation, our software.
    pub side: &'static str,
    /// What it is.
    pub name: String,
    /// Seconds that it adds.
    pub seconds: f64,
}

/// Both sides of one step of Calculon's.
pub struct CalculonBeside {
    /// Calculon's form as published.
    pub published: CalculonEstimate,
    /// The step without embedding and head: our closed form and its simulation.
    pub ours: Comparison,
    /// Seconds of the imported step with its embedding and head, simulated.
    pub imported_s: f64,
    /// Bytes of the fullest device, by Calculon and by our closed form.
    pub memory: [f64; 2],
    /// From Calculon's total to the imported step, in order; they add up.
    pub causes: Vec<CalculonCause>,
}

/// Calculon's terms as ours.
fn as_ours(t: &CalculonTerms) -> [(TimeTerm, f64); 9] {
    [
        (TimeTerm::Forward, t.forward),
        (TimeTerm::Recompute, t.recompute),
        (TimeTerm::Backward, t.backward),
        (TimeTerm::Optimizer, t.optimizer),
        (TimeTerm::Tensor, t.tensor_parallel + t.recommunication),
        (TimeTerm::Bubble, t.bubble),
        (TimeTerm::Pipeline, t.pipeline_parallel),
        (TimeTerm::Data, t.data_parallel),
        (TimeTerm::Offload, t.forward_offload + t.backward_offload),
    ]
}

impl CalculonBeside {
    /// Plays the step of `case`; `progress` is told the ops done.
    ///
    /// # Errors
    /// No software of ours runs such a step, or it does not fit.
    pub fn new(case: &Calculon, progress: &mut dyn FnMut(u64)) -> Result<CalculonBeside, SimulationError> {
        let imported = Inputs::of(&case.to_workload("topology.json")?, &case.to_topology()?)?;
        let blocks = imported.again(&["model.vocabulary=1".to_string()])?;
        let (ours, ..) = compare(&blocks, progress)?;
        let played = figures_edited(&imported, &Options::default(), &[], false)?.step_end;
        let (published, repaired) = (estimate(case, true), estimate(case, false));
        let memory = [published.memory.tier1.total(), closed_form(&blocks)?.fullest().total()];
        let imported_s = played.s();
        let causes = causes(&published, &repaired, &ours, imported_s);
        Ok(CalculonBeside { published, ours, imported_s, memory, causes })
    }

    /// Rows of terms that are not zero on all sides: name, Calculon, our closed form, simulated, in seconds.
    pub fn terms(&self) -> impl Iterator<Item = (&'static str, [f64; 3])> {
        let theirs = as_ours(&self.published.terms);
        let of = move |name: &str| theirs.iter().find(|row| row.0.name() == name).map_or(0.0, |row| row.1);
        let rows =
            self.ours.terms.iter().map(move |t| (t.name, [of(t.name), t.closed_form_s, t.simulated_s]));
        rows.filter(|row| row.1 != [0.0; 3])
    }

    /// All of it, with Calculon's own outputs under their names.
    pub fn to_json(&self) -> Value {
        let terms = self.terms().map(|(name, [calculon, form, simulated])| {
            json!({"name": name, "calculon_s": calculon, "closed_form_s": form, "simulated_s": simulated})
        });
        let causes =
            self.causes.iter().map(|c| json!({"side": c.side, "name": c.name, "seconds": c.seconds}));
        json!({
            "calculon": self.published.outputs(),
            "terms": terms.collect::<Vec<_>>(),
            "causes": causes.collect::<Vec<_>>(),
            "imported_s": self.imported_s,
            "device_bytes": {"calculon": self.memory[0], "ours": self.memory[1]},
        })
    }
}

/// The causes in order; those of no time are left out.
fn causes(
    published: &CalculonEstimate,
    repaired: &CalculonEstimate,
    ours: &Comparison,
    imported_s: f64,
) -> Vec<CalculonCause> {
    let cause = |side, name: &str, seconds| CalculonCause { side, name: name.into(), seconds };
    let mut all = vec![cause(
        "Calculon",
        "known defects of the published form, repaired",
        repaired.terms.total() - published.terms.total(),
    )];
    let theirs = as_ours(&repaired.terms);
    for term in &ours.terms {
        let has = theirs.iter().find(|row| row.0.name() == term.name).map_or(0.0, |row| row.1);
        all.push(cause("our closed form", term.name, term.closed_form_s - has));
    }
    all.extend(ours.differences().map(|(_, name, _, seconds)| cause("simulation", name, seconds)));
    all.push(cause(
        "our software",
        "embedding and head, which Calculon leaves out",
        imported_s - ours.simulated_s,
    ));
    all.retain(|c| c.seconds.abs() > 1e-6);
    all
}
