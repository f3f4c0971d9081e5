//! The parts that a step consists of, in closed form: what it hangs on.

use serde::{Deserialize, Serialize};

use stepsim_form::compare::workload::closed_form;
use stepsim_read::analysis::kind::OpKind;
use stepsim_read::analysis::report::Report;
use stepsim_simulate::Inputs;

/// Weights of exposed exchanges, the bubble, the host and copies in how far a step deviates, as they are [`named`].
///
/// [`named`]: StepShares::named
const DEVIATES: [f64; 4] = [10.0, 4.0, 1.0, 1.0];

/// Shares of a step that are no kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepShares {
    /// Exposed communication.
    pub exchange: f64,
    /// The pipeline's bubble.
    pub bubble: f64,
    /// Waiting for launches.
    pub host: f64,
    /// Exposed copies to and from other memory.
    pub offload: f64,
}

impl StepShares {
    /// The shares of a step, to a hundredth; none where it has no closed form.
    pub fn of(inputs: &Inputs) -> StepShares {
        let Ok(form) = closed_form(inputs) else { return StepShares::default() };
        let (terms, all) = (form.terms, form.terms.total());
        let share = |seconds: f64| if all > 0.0 { (100.0 * seconds / all).round() / 100.0 } else { 0.0 };
        StepShares {
            exchange: share(terms.tensor + terms.context + terms.expert + terms.p2p + terms.data),
            bubble: share(terms.bubble),
            host: share(terms.host),
            offload: share(terms.offload),
        }
    }

    /// Each share with its name.
    pub fn named(&self) -> [(&'static str, f64); 4] {
        [
            ("exposed exchanges", self.exchange),
            ("the pipeline's bubble", self.bubble),
            ("the host", self.host),
            ("copies to other memory", self.offload),
        ]
    }

    /// How far a step that consists of these parts deviates, in deviations of one that is all kernels: waiting deviates
    /// more than as much time in kernels. With these weights ranges from other sources miss measured steps least (1,379
    /// steps of 42 sources, by the loss of their deciles).
    pub fn deviates(&self) -> f64 {
        let weighed =
            self.named().into_iter().zip(DEVIATES).map(|((_, share), weight)| weight * share.max(0.0));
        1.0 + weighed.sum::<f64>()
    }

    /// The share of a step that would have to move for it to consist of the same parts as another.
    pub fn apart(&self, other: &StepShares) -> f64 {
        let parts = self.named().into_iter().zip(other.named()).map(|((_, a), (_, b))| a - b);
        let moved: Vec<f64> = parts.collect();
        (moved.iter().map(|part| part.abs()).sum::<f64>() + moved.iter().sum::<f64>().abs()) / 2.0
    }
}

/// The kind of communication that runs longest under kernels, with its seconds; `None` where none does.
pub fn most_hidden(report: &Report) -> Option<(OpKind, f64)> {
    let hidden = report.communication.iter().map(|(kind, of)| (*kind, of.under_kernels_s));
    hidden.filter(|(_, seconds)| *seconds > 0.0).max_by(|a, b| a.1.total_cmp(&b.1))
}
