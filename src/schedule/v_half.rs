//! V-Half: two chunks per rank in a V, split backward passes, and half the activations of 1F1B.
//!
//! Forward passes go down the V at half speed, so that activations of the first chunk wait less for their gradients.
//! No rank holds more than p + 2 chunks in a long step (p + 1 where p is odd). Source: Qi et al. 2024 (arXiv
//! 2405.15362), table 2 and appendix; [`super::building_block`] makes the order.

use super::building_block::BuildingBlock;

/// See the module.
pub(super) const V_HALF: BuildingBlock = BuildingBlock {
    name: "v-half",
    aliases: &["vhalf"],
    about: "two chunks per rank in a V, half the activations of 1F1B",
    block,
};

/// When a rank runs the four passes of the first micro-batch.
fn block(p: u32, rank: u32) -> [u32; 4] {
    // Without them passes of an even number of ranks would meet in one unit.
    let wait = if p.is_multiple_of(2) { 3 } else { 0 };
    [2 * rank, 3 * p - 2 - rank, 3 * p - 1 + wait + 2 * rank, 6 * p - 2 + wait - rank]
}
