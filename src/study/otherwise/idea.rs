//! Something that could be otherwise, before it is played.

use stepsim_read::analysis::candidates::CandidateKind;
use stepsim_simulate::whatif::{Change, Subject};

/// The setting that deals layers out to stages as even as can be.
pub(super) const LAYERS_DEALT_OUT: &str = "parallelism.pipeline.layer_split=null";

/// Something that could be otherwise, before it is played.
#[derive(Clone, PartialEq)]
pub(super) struct Idea {
    pub(super) what: String,
    pub(super) otherwise: String,
    pub(super) kind: CandidateKind,
    pub(super) way: Remedy,
    /// Seconds that it promises to save.
    pub(super) promise_s: f64,
    /// Seconds that it can save at most.
    pub(super) most_s: f64,
    /// No run can make a line of it.
    pub(super) is_in_vain: bool,
}

/// The change that an idea makes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Remedy {
    Sets(Vec<String>),
    Without(Change),
}

impl Idea {
    pub(super) fn set(
        kind: CandidateKind,
        what: impl Into<String>,
        otherwise: impl Into<String>,
        sets: &[&str],
    ) -> Idea {
        let sets = sets.iter().map(|set| (*set).to_owned()).collect();
        let way = Remedy::Sets(sets);
        Idea::of(kind, what, otherwise, way)
    }
    pub(super) fn of(
        kind: CandidateKind,
        what: impl Into<String>,
        otherwise: impl Into<String>,
        way: Remedy,
    ) -> Idea {
        let (what, otherwise) = (what.into(), otherwise.into());
        Idea { what, otherwise, kind, way, promise_s: 0.0, most_s: f64::INFINITY, is_in_vain: false }
    }
    /// True if it makes stages equally long.
    pub(super) fn levels_stages(&self) -> bool {
        matches!(&self.way, Remedy::Without(change) if change.subject == Subject::Imbalance)
    }
    /// True if it deals layers out to stages anew.
    pub(super) fn deals_out_layers(&self) -> bool {
        matches!(&self.way, Remedy::Sets(sets) if sets[..] == [LAYERS_DEALT_OUT])
    }
    pub(super) fn promising(self, promise_s: f64) -> Idea {
        Idea { promise_s, ..self }
    }
}
