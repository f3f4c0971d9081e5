//! How the layers of a model are shared among stages.

use std::ops::Range;

/// A rule for the number of layers of each stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerSplit {
    /// As even as can be; the remainder goes to the stages in the middle, so that the first and the last, which also
    /// hold the embedding and the LM head, have fewer.
    RemainderMiddle,
    /// The number for each stage.
    Explicit(Vec<u32>),
}

/// Why layers cannot be split so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{layers} layers over {stages} stages: {problem}")]
pub struct SplitError {
    /// Layers to share.
    pub layers: u32,
    /// Among so many.
    pub stages: u32,
    /// The problem, and a setting that would do.
    pub problem: String,
}

/// The layers of each stage, in order.
///
/// # Errors
/// If the rule cannot be met with these numbers.
pub fn split_layers(layers: u32, stages: u32, rule: &LayerSplit) -> Result<Vec<Range<u32>>, SplitError> {
    let fail = |problem: String| Err(SplitError { layers, stages, problem });
    if stages == 0 {
        return fail("there must be at least 1 stage".to_owned());
    }
    let (each, extra) = (layers / stages, layers % stages);
    let counts: Vec<u32> = match rule {
        LayerSplit::RemainderMiddle => {
            let first = (stages - extra) / 2;
            (0..stages).map(|s| each + u32::from((first..first + extra).contains(&s))).collect()
        }
        LayerSplit::Explicit(counts) => {
            let sum: u64 = counts.iter().map(|c| u64::from(*c)).sum();
            if counts.len() != stages as usize || sum != u64::from(layers) {
                return fail(format!("the list has {} stages with {sum} layers in all", counts.len()));
            }
            counts.clone()
        }
    };
    let mut next = 0;
    let range = |count: u32| {
        let start = next;
        next += count;
        start..next
    };
    Ok(counts.into_iter().map(range).collect())
}
