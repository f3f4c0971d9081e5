//! V-Min: two chunks per rank in a V, split backward passes, and a third of the activations of 1F1B.
//!
//! Each micro-batch runs down and up the V, and back, without a pause. No rank holds more than 2⌊(p + 4) / 3⌋ chunks
//! in a long step. Source: Qi et al. 2024 (arXiv 2405.15362), table 2 and appendix; [`super::building_block`] makes
//! the order.

use super::building_block::BuildingBlock;

/// See the module.
pub(super) const V_MIN: BuildingBlock = BuildingBlock {
    name: "v-min",
    aliases: &["vmin"],
    about: "two chunks per rank in a V, a third of the activations of 1F1B",
    block,
};

/// When a rank runs the four passes of the first micro-batch.
fn block(p: u32, rank: u32) -> [u32; 4] {
    // Without them passes of three, six, … ranks would meet in one unit.
    let wait = if p.is_multiple_of(3) { 2 } else { 0 };
    [rank, 2 * p - 1 - rank, 2 * p + wait + rank, 4 * p - 1 + wait - rank]
}
