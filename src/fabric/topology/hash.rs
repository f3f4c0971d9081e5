//! Hashes that spread flows over links.

/// A well-mixed hash of some numbers (the finalizer of splitmix64, folded over them).
pub(super) fn hash(parts: &[u64]) -> u64 {
    parts.iter().fold(0, |state, part| {
        let mut z = (state ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}
