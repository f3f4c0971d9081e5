//! The next work of a rank: passes of micro-batches through chunks.

use std::fmt;

/// A pass of one micro-batch through one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pass {
    /// Forward.
    Forward,
    /// Backward, both gradients.
    Backward,
    /// Backward, gradient of the inputs only.
    InputGrad,
    /// Backward, gradient of the weights only.
    WeightGrad,
}

impl Pass {
    /// How many there are.
    pub const COUNT: usize = 4;
    /// Its letter in pipeline diagrams.
    pub fn letter(self) -> char {
        match self {
            Pass::Forward => 'F',
            Pass::Backward => 'B',
            Pass::InputGrad => 'I',
            Pass::WeightGrad => 'W',
        }
    }
    /// Its output, which other stages receive.
    pub fn makes(self) -> Option<Data> {
        match self {
            Pass::Forward => Some(Data::Activations),
            Pass::Backward | Pass::InputGrad => Some(Data::Gradients),
            Pass::WeightGrad => None,
        }
    }
}

/// The data that cross a border between stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Data {
    /// Output of a forward pass, towards the next stage.
    Activations,
    /// Gradient with respect to a stage's input, towards the stage before.
    Gradients,
}

/// One pass of one micro-batch through one chunk of a rank. Shown as `F3` or, on chunk 1, `F3.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotPass {
    /// The pass.
    pub pass: Pass,
    /// The chunk, by its number on the rank.
    pub chunk: u16,
    /// The micro-batch.
    pub micro_batch: u32,
}

impl fmt::Display for SlotPass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.pass.letter(), self.micro_batch)?;
        if self.chunk > 0 { write!(f, ".{}", self.chunk) } else { Ok(()) }
    }
}

/// The work at one place of a rank's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// One pass.
    Single(SlotPass),
    /// A forward pass and a full backward pass of another micro-batch at the same time; both end together.
    Overlapped {
        /// The forward pass.
        forward: SlotPass,
        /// The backward pass.
        backward: SlotPass,
    },
}

impl Slot {
    /// Its one or two parts.
    pub fn parts(&self) -> impl Iterator<Item = SlotPass> + use<> {
        let (a, b) = match *self {
            Slot::Single(part) => (part, None),
            Slot::Overlapped { forward, backward } => (forward, Some(backward)),
        };
        std::iter::once(a).chain(b)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Slot::Single(part) => part.fmt(f),
            Slot::Overlapped { forward, backward } => write!(f, "{forward}&{backward}"),
        }
    }
}
