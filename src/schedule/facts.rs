//! The facts of a schedule, beside its order, bubble and peak.

/// The facts of a schedule, beside its order, bubble and peak: all that its readers need to know of it. No code asks
/// for a schedule by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleFacts {
    /// Its name in kebab case.
    pub name: &'static str,
    /// Other names in use.
    pub aliases: &'static [&'static str],
    /// Its distinction, in one line.
    pub about: &'static str,
    /// For which numbers it is defined, in one line; empty: any.
    pub needs: &'static str,
    /// How many chunks a rank may hold.
    pub chunks: ChunkCount,
    /// True if [`Shape::group`](super::Shape::group) means anything to it.
    pub groups: bool,
    /// Directions in which micro-batches pass, 1 or 2; with 2 a rank holds a stage of each.
    pub directions: u16,
    /// The cut of backward passes into their two gradients.
    pub backward: BackwardSplit,
    /// True if its ranks can send and receive at the same time between passes, as Megatron's batched exchange does.
    /// Where warm-up is deeper than the ranks behind are long, or two directions meet, each of two neighbours would
    /// wait in a send for the other's receive.
    pub batched: bool,
    /// True if each receive brings the input of one of the rank's next passes. Where it comes earlier, a host that
    /// waits for every exchange waits in one whose receive the other host has not launched.
    pub prompt: bool,
    /// True if it runs a forward and a backward pass of two micro-batches together.
    pub pairs: bool,
    /// True if [`Schedule::order_for`](super::Schedule::order_for) makes the order for the times and the memory of a
    /// step.
    pub searched: bool,
}

impl ScheduleFacts {
    /// One chunk on a rank, one direction, whole backward passes; any numbers.
    pub const fn new(name: &'static str, about: &'static str) -> ScheduleFacts {
        ScheduleFacts {
            name,
            aliases: &[],
            about,
            needs: "",
            chunks: ChunkCount::Exactly(1),
            groups: false,
            directions: 1,
            backward: BackwardSplit::Whole,
            batched: true,
            prompt: true,
            pairs: false,
            searched: false,
        }
    }
    /// True if its stages lie in one line, a stage a rank, each with its order beforehand: ranks whose sends hold them
    /// up, and whose hosts wait for their receives, then never wait for each other in a ring.
    pub fn in_line(&self) -> bool {
        self.chunks == ChunkCount::Exactly(1) && self.directions == 1 && !self.searched
    }
    /// True if it is known by that name.
    pub fn is(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// How many chunks a schedule allows on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkCount {
    /// This many, by definition.
    Exactly(u16),
    /// The user's choice from a least number on; the default comes second.
    AtLeast(u16, u16),
}

impl ChunkCount {
    /// The number where none is given.
    pub fn usual(self) -> u16 {
        match self {
            ChunkCount::Exactly(v) | ChunkCount::AtLeast(_, v) => v,
        }
    }
}

/// How a schedule runs backward passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackwardSplit {
    /// Both gradients at once.
    Whole,
    /// The two gradients apart, the weights' later.
    Split,
    /// Some whole, some split.
    Both,
}
