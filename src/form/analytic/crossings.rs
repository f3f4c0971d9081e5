//! The messages over the borders between stages: bytes of one, and seconds of putting its pieces together.

use stepsim_plan::step::Border;
use stepsim_schedule::Data;

/// The message over a border for one micro-batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Crossing {
    /// Bytes of a message.
    pub message: f64,
    /// Messages that pass one rank, one after the other.
    pub in_turn: f64,
    /// Seconds in which the pieces are put together.
    pub gathered: f64,
}

/// The borders of a step: most are alike.
#[derive(Debug, Default)]
pub(super) struct Crossings {
    /// Each kind once.
    pub kinds: Vec<Crossing>,
    /// By data and border: which kind.
    of: [Vec<usize>; 2],
}

impl Crossings {
    /// Of these borders; `gather` prices the pieces of a message over a border.
    ///
    /// # Errors
    /// Those of `gather`.
    pub fn new<E>(borders: &[Border], gather: impl Fn(usize, f64) -> Result<f64, E>) -> Result<Crossings, E> {
        let mut crossings = Crossings::default();
        for (i, border) in borders.iter().enumerate() {
            for data in [Data::Activations, Data::Gradients] {
                let (message, in_turn) = (border.message(data), f64::from(border.in_turn()));
                let kind = Crossing { message, in_turn, gathered: gather(i, border.gathered(data))? };
                let known = crossings.kinds.iter().position(|known| *known == kind);
                crossings.of[data as usize].push(known.unwrap_or(crossings.kinds.len()));
                if known.is_none() {
                    crossings.kinds.push(kind);
                }
            }
        }
        Ok(crossings)
    }
    /// The kind of the border between the first stage and the ranks that encode its images: the last border's.
    pub fn side(&self, data: Data) -> usize {
        self.of[data as usize].last().copied().unwrap_or(0)
    }
    /// The kind of what leaves a stage.
    pub fn kind(&self, from_stage: u32, data: Data) -> usize {
        let border = match data {
            Data::Activations => from_stage,
            Data::Gradients => from_stage - 1,
        };
        self.of[data as usize][border as usize]
    }
}
