//! What crosses the borders between stages, in bytes of a message and seconds of putting its pieces together.

use crate::step::plan::step::Border;
use crate::step::schedule::Data;

/// The borders of a step: most are alike.
#[derive(Debug, Default)]
pub(super) struct Crossings {
    /// Each kind of message once: its bytes, and the seconds in which its pieces are put together.
    pub kinds: Vec<[f64; 2]>,
    /// By data and border: which kind.
    of: [Vec<usize>; 2],
}

impl Crossings {
    /// Of these borders; `gather` prices the pieces of a message.
    ///
    /// # Errors
    /// Those of `gather`.
    pub fn new<E>(borders: &[Border], gather: impl Fn(f64) -> Result<f64, E>) -> Result<Crossings, E> {
        let mut crossings = Crossings::default();
        for border in borders {
            for data in [Data::Activations, Data::Gradients] {
                let kind = [border.message(data), gather(border.gathered(data))?];
                let known = crossings.kinds.iter().position(|known| *known == kind);
                crossings.of[data as usize].push(known.unwrap_or(crossings.kinds.len()));
                if known.is_none() {
                    crossings.kinds.push(kind);
                }
            }
        }
        Ok(crossings)
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
