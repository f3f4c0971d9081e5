//! The facts of a kind of sharding.

use super::{CutExtent, Cuts};

/// The facts of a kind of sharding: all that its readers need to know of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShardingFacts {
    /// Its name in kebab case.
    pub name: &'static str,
    /// Other names in use.
    pub aliases: &'static [&'static str],
    /// The state that is cut, in one line, with its source where that is a paper.
    pub about: &'static str,
    /// Over whom the state of dense weights is cut.
    pub dense: Cuts<CutExtent>,
    /// The extent over which experts' state is cut, among the ranks that hold the same experts: the same classes as of
    /// dense weights.
    pub experts: Cuts<CutExtent>,
    /// The group, where the workload gives none.
    pub group: GroupSize,
    /// True if groups sum gradients with one another once a step, behind the last micro-batch, and not in every
    /// reduction.
    pub across_once: bool,
    /// True if gradients go to the ranks that sum them in an all-to-all, and not in a reduce-scatter.
    pub sums_by_all_to_all: bool,
    /// Bytes of a weight as it is gathered, where the workload gives no format; `None`: as it is kept.
    pub weight_bytes: Option<f64>,
    /// Bytes of a gradient as it is sent, where the workload gives no format; `None`: as it is kept.
    pub gradient_bytes: Option<f64>,
    /// True if a search tries it by itself.
    pub searched: bool,
}

/// Ranks of a group, where the workload gives none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupSize {
    /// All that hold the same weights.
    All,
    /// Those of them on one node.
    Node,
}

impl ShardingFacts {
    /// Dense state is cut as said, in one group; experts' state the same way over all ranks that hold them. Gradients
    /// are summed by reduce-scatters, each in one hop; nothing is quantised.
    pub const fn new(name: &'static str, about: &'static str, dense: Cuts<CutExtent>) -> ShardingFacts {
        ShardingFacts {
            name,
            aliases: &[],
            about,
            dense,
            experts: dense,
            group: GroupSize::All,
            across_once: false,
            sums_by_all_to_all: false,
            weight_bytes: None,
            gradient_bytes: None,
            searched: false,
        }
    }
    /// True if it is known by that name.
    pub fn is(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
    /// True if a rank keeps a part of the weights only, and gathers the rest for each pass.
    pub fn cuts_weights(&self) -> bool {
        self.dense.weights.is_cut()
    }
    /// True if a rank keeps a part of the gradients only.
    pub fn cuts_gradients(&self) -> bool {
        self.dense.gradients.is_cut()
    }
    /// True if a rank updates a part of the weights only.
    pub fn cuts_optimizer(&self) -> bool {
        self.dense.optimizer.is_cut()
    }
    /// True if weights that are whole between passes are gathered behind the update of their parts.
    pub fn renews_weights(&self) -> bool {
        self.cuts_optimizer() && !self.cuts_weights()
    }
    /// True if backward passes gather from a second copy of the weights.
    pub fn keeps_secondary(&self) -> bool {
        self.dense.secondary.is_cut()
    }
    /// True if the size of a group matters.
    pub fn has_groups(&self) -> bool {
        self.dense.classes().contains(&CutExtent::Group)
    }
}
