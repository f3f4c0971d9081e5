//! Over whom state is cut, class by class.

/// Over which of the ranks that hold the same weights something is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutExtent {
    /// Over nobody: each rank holds all of it.
    Nobody,
    /// Over the ranks of a group; each group holds all of it.
    Group,
    /// Over all of them.
    All,
}

impl CutExtent {
    /// True if a rank holds a part only.
    pub fn is_cut(self) -> bool {
        self != CutExtent::Nobody
    }
    fn ranks(self, group: u32, all: u32) -> u32 {
        match self {
            CutExtent::Nobody => 1,
            CutExtent::Group => group,
            CutExtent::All => all,
        }
    }
}

/// One value for each class of state that ranks may cut: an extent, or a number of ranks (1: over nobody).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cuts<T> {
    /// Weights between the passes that read them.
    pub weights: T,
    /// A second copy of the weights, from which backward passes gather; nobody: there is none.
    pub secondary: T,
    /// Gradients between two reductions.
    pub gradients: T,
    /// The ranks that sum a gradient in the first hop.
    pub summed: T,
    /// Master weights and moments.
    pub optimizer: T,
}

impl Cuts<CutExtent> {
    /// No second copy of weights; gradients are summed at once over those that cut the optimizer state.
    pub const fn of(weights: CutExtent, gradients: CutExtent, optimizer: CutExtent) -> Cuts<CutExtent> {
        Cuts { weights, secondary: CutExtent::Nobody, gradients, summed: optimizer, optimizer }
    }
    /// All classes.
    pub fn classes(&self) -> [CutExtent; 5] {
        [self.weights, self.secondary, self.gradients, self.summed, self.optimizer]
    }
    /// Numbers of ranks in groups of `group` of the `all` that hold the same weights. A second copy that is not
    /// nearer than the first is none.
    pub fn ranks(&self, group: u32, all: u32) -> Cuts<u32> {
        let [weights, secondary, gradients, summed, optimizer] =
            self.classes().map(|extent| extent.ranks(group, all));
        let secondary = if secondary < weights { secondary } else { 1 };
        Cuts { weights, secondary, gradients, summed, optimizer }
    }
}

impl Cuts<u32> {
    /// The cuts without the parts that decide no group of ranks that exchange state: cuts with equal results have
    /// equal groups ([`Exchange::span`](super::Exchange::span)).
    #[must_use]
    pub fn of_groups(self) -> Cuts<u32> {
        Cuts { weights: self.weights.max(self.optimizer), gradients: 1, ..self }
    }
}
