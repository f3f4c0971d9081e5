//! Faults of an order.

use std::fmt;

use super::{Slot, SlotPass};

/// The ranks' orders wait for each other in a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Each rank of the cycle waits for the next one, the last for the first.
    pub cycle: Vec<Wait>,
}

/// One rank of a deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The rank that waits.
    pub rank: u32,
    /// The slot at which it waits.
    pub at: Slot,
    /// The rank whose result it needs.
    pub for_rank: u32,
    /// The part that makes it; `None` if that rank never does it.
    pub for_part: Option<SlotPass>,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deadlock:")?;
        for (i, w) in self.cycle.iter().enumerate() {
            let separator = if i == 0 { "" } else { ";" };
            write!(f, "{separator} rank {} is at {} and waits for ", w.rank, w.at)?;
            match w.for_part {
                Some(part) => write!(f, "{part} of rank {}", w.for_rank)?,
                None => write!(f, "a pass that rank {} never does", w.for_rank)?,
            }
            if let Some(next) = self.cycle.get((i + 1) % self.cycle.len()).filter(|_| w.for_part.is_some()) {
                write!(f, ", which comes after {}", next.at)?;
            }
        }
        Ok(())
    }
}

/// A fault of an order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderFault {
    /// The seats of the stages.
    #[error("{0}")]
    Placement(String),
    /// A slot that must not stand where it stands.
    #[error("rank {rank}, slot {index}: {part}: {what}")]
    Slot {
        /// The rank.
        rank: u32,
        /// Place in its list, from 0.
        index: usize,
        /// The part at fault.
        part: SlotPass,
        /// Why.
        what: String,
    },
    /// A pass that is nowhere.
    #[error(
        "rank {rank}: {part} is missing: every micro-batch needs F and either B or both I and W on every chunk"
    )]
    Missing {
        /// The rank.
        rank: u32,
        /// The part that it lacks.
        part: SlotPass,
    },
    /// The ranks wait for each other.
    #[error("{0}")]
    Deadlock(Deadlock),
}
