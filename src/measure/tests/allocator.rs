//! Levels by hand, from the rules.

use proptest::prelude::*;
use stepsim_measure::allocator::*;

/// The levels of the allocator after each of some sizes, taken one after the other: in use, reserved, the largest free
/// block.
fn levels(expandable: bool, sizes: &[u64]) -> Vec<[u64; 3]> {
    let mut allocator = Allocator::new(expandable);
    let level = |allocator: &Allocator| {
        let level = allocator.level();
        [level.allocated, level.reserved, level.largest_free]
    };
    sizes.iter().map(|size| (allocator.take(*size), level(&allocator)).1).collect()
}

#[test]
fn sizes_are_rounded_and_segments_shared() {
    // 1,000 B are 1,024 in a segment of 2 MiB; 1 B is 512 of it; 1 MiB is small too, and there is room for one.
    assert_eq!(levels(false, &[1000]), [[1024, 2 * MIB, 2 * MIB - 1024]]);
    let small = levels(false, &[1000, 1, MIB, MIB]);
    assert_eq!(small[2], [MIB + 1536, 2 * MIB, MIB - 1536]);
    assert_eq!(small[3], [2 * MIB + 1536, 4 * MIB, MIB]);
    // 5 MiB share a segment of 20 MiB; the fifth needs another.
    let large = levels(false, &[5 * MIB; 5]);
    assert_eq!(large[0], [5 * MIB, 20 * MIB, 15 * MIB]);
    assert_eq!(large[3], [20 * MIB, 20 * MIB, 0]);
    assert_eq!(large[4], [25 * MIB, 40 * MIB, 15 * MIB]);
    // From 10 MiB on a segment of its own, in steps of 2 MiB. The rest, up to 1 MiB, goes with the block.
    assert_eq!(levels(false, &[10 * MIB]), [[10 * MIB, 10 * MIB, 0]]);
    assert_eq!(levels(false, &[11 * MIB]), [[12 * MIB, 12 * MIB, 0]]);
    assert_eq!(levels(false, &[11 * MIB - 512]), [[11 * MIB - 512, 12 * MIB, MIB + 512]]);
}

#[test]
fn the_smallest_block_that_fits_is_taken() {
    let mut allocator = Allocator::new(false);
    let [a, b] = [30 * MIB, 24 * MIB].map(|size| allocator.take(size));
    allocator.give(a);
    allocator.give(b);
    let c = allocator.take(20 * MIB);
    assert_eq!(c.segment, b.segment, "24 MiB fit 20 better than 30 do");
    assert_eq!(
        allocator.level(),
        ReservedLevel { allocated: 20 * MIB, reserved: 54 * MIB, largest_free: 30 * MIB }
    );
}

/// 24 MiB are free in two segments, and 16 do not fit: reserved grows. With expandable segments they are one piece.
#[test]
fn free_pieces_apart_do_not_serve() {
    let reserved = |expandable| {
        let mut allocator = Allocator::new(expandable);
        let [a, b] = [12 * MIB; 2].map(|size| allocator.take(size));
        allocator.give(a);
        allocator.give(b);
        allocator.take(16 * MIB);
        allocator.level()
    };
    assert_eq!(
        reserved(false),
        ReservedLevel { allocated: 16 * MIB, reserved: 40 * MIB, largest_free: 12 * MIB }
    );
    assert_eq!(
        reserved(true),
        ReservedLevel { allocated: 16 * MIB, reserved: 40 * MIB, largest_free: 24 * MIB }
    );
    // Of 12 MiB in two pages of 20: the second block needs 4 MiB more than the first left, a page.
    assert_eq!(
        levels(true, &[12 * MIB, 12 * MIB]),
        [[12 * MIB, 20 * MIB, 8 * MIB], [24 * MIB, 40 * MIB, 16 * MIB]]
    );
    assert_eq!(
        levels(true, &[1000, 3 * MIB]),
        [[1024, 2 * MIB, 2 * MIB - 1024], [3 * MIB + 1024, 22 * MIB, 17 * MIB]]
    );
}

#[test]
fn the_end_of_an_expandable_segment_is_taken_last() {
    let mut allocator = Allocator::new(true);
    let a = allocator.take(14 * MIB);
    allocator.take(2 * MIB);
    allocator.give(a);
    // The hole is 14 MiB, the end 4: a block of 3 goes into the hole.
    assert_eq!(allocator.take(3 * MIB), BlockPlace { segment: 0, at: 0 });
    assert_eq!(allocator.level().largest_free, 11 * MIB);
}

proptest! {
    /// Blocks tile their segments, neighbours are never both free, and the books agree with the blocks.
    #[test]
    fn blocks_tile_segments(
        expandable in any::<bool>(),
        moves in prop::collection::vec((0..64 * MIB, any::<prop::sample::Index>(), any::<bool>()), 1..80),
    ) {
        let (mut allocator, mut taken) = (Allocator::new(expandable), Vec::new());
        for (size, which, gives) in moves {
            if gives && !taken.is_empty() {
                let at = which.index(taken.len());
                allocator.give(taken.swap_remove(at));
            } else {
                taken.push(allocator.take(size >> (size % 16)));
            }
            let mut in_use = 0;
            for (number, segment) in allocator.segments.iter().enumerate() {
                let (mut end, mut was_free) = (0, false);
                for (at, (size, free)) in &segment.blocks {
                    prop_assert_eq!(*at, end);
                    prop_assert!(!(*free && was_free));
                    prop_assert_eq!(*free, allocator.free.contains(&(segment.large, *size, number, *at)));
                    (end, was_free) = (end + size, *free);
                    in_use += if *free { 0 } else { *size };
                }
                prop_assert_eq!(end, segment.size);
            }
            let reserved: u64 = allocator.segments.iter().map(|segment| segment.size).sum();
            let level = allocator.level();
            prop_assert_eq!((in_use, reserved), (level.allocated, level.reserved));
        }
        taken.into_iter().for_each(|block| allocator.give(block));
        prop_assert!(allocator.segments.iter().all(|segment| segment.blocks.len() == 1));
    }
}
