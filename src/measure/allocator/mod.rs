//! The memory that PyTorch's caching allocator reserves for what a step allocates.
//!
//! Rules (`c10/cuda/CUDACachingAllocator.cpp` of pytorch/pytorch at 001074d2, with its default settings):
//! * A size is rounded up to 512 B. Up to 1 MiB it is *small*, else *large*; the two have pools of their own.
//! * The smallest free block of the pool that is large enough is taken, of several the one at the lowest address.
//! * If there is none, a segment is reserved: 2 MiB for small blocks, 20 MiB for less than 10 MiB, else the size
//!   rounded up to 2 MiB.
//! * A block is split if what is left of it is 512 B or more (small), or more than 1 MiB (large).
//! * A freed block is joined with free neighbours of its segment. Segments are kept.
//!
//! With `expandable_segments` each pool is one segment that grows at its end by pages of 2 MiB (small) or 20 MiB
//! (large), blocks are split from 512 B on, and the free block at the end is taken last.
//!
//! Left out: several streams (blocks are cached by stream), segments that are given back when the device is full,
//! CUDA graphs, and settings like `max_split_size_mb`.

pub mod replay;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// 2²⁰ bytes.
pub const MIB: u64 = 1 << 20;

/// All sizes are multiples of it.
const BLOCK: u64 = 512;
/// The largest small block.
const SMALL: u64 = MIB;
/// A segment of small blocks, and what large ones are rounded up to.
const SMALL_SEGMENT: u64 = 2 * MIB;
/// A segment that several large blocks share.
const LARGE_SEGMENT: u64 = 20 * MIB;
/// From this size on a block has a segment of its own.
const OWN_SEGMENT: u64 = 10 * MIB;

/// A block that is in use: where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPlace {
    /// Its segment.
    pub segment: usize,
    /// Bytes from the segment's begin.
    pub at: u64,
}

/// Memory in use and reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReservedLevel {
    /// Bytes of blocks in use.
    #[serde(rename = "allocated_bytes")]
    pub allocated: u64,
    /// Bytes of all segments.
    #[serde(rename = "reserved_bytes")]
    pub reserved: u64,
    /// The largest block that is free.
    #[serde(rename = "largest_free_bytes")]
    pub largest_free: u64,
}

/// Segments and their blocks.
#[derive(Clone, Debug)]
pub struct Allocator {
    expandable: bool,
    /// All that were taken from the device.
    pub segments: Vec<MemorySegment>,
    /// Free blocks: whether they are large, size, segment, place.
    pub free: BTreeSet<(bool, u64, usize, u64)>,
    allocated: u64,
    reserved: u64,
}

/// A segment of the device's memory, tiled by blocks.
#[derive(Clone, Debug)]
pub struct MemorySegment {
    /// True for a segment of large blocks.
    pub large: bool,
    /// Bytes.
    pub size: u64,
    /// Sizes by place, and whether a block is free.
    pub blocks: BTreeMap<u64, (u64, bool)>,
}

impl Allocator {
    /// Nothing reserved; `expandable` as `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` says it.
    pub fn new(expandable: bool) -> Allocator {
        Allocator { expandable, segments: Vec::new(), free: BTreeSet::new(), allocated: 0, reserved: 0 }
    }

    /// Takes a block of `bytes`.
    pub fn take(&mut self, bytes: u64) -> BlockPlace {
        let size = bytes.max(1).next_multiple_of(BLOCK);
        let large = size > SMALL;
        let (found, segment, at) = self.best(large, size).unwrap_or_else(|| self.reserve(large, size));
        self.free.remove(&(large, found, segment, at));
        let left = found - size;
        let split = if large && !self.expandable { left > SMALL } else { left >= BLOCK };
        let blocks = &mut self.segments[segment].blocks;
        let taken = if split { size } else { found };
        blocks.insert(at, (taken, false));
        if split {
            blocks.insert(at + size, (left, true));
            self.free.insert((large, left, segment, at + size));
        }
        self.allocated += taken;
        BlockPlace { segment, at }
    }

    /// Gives a block back.
    pub fn give(&mut self, taken: BlockPlace) {
        let BlockPlace { segment, mut at } = taken;
        let MemorySegment { large, blocks, .. } = &mut self.segments[segment];
        let Some(&(mut size, false)) = blocks.get(&at) else { return };
        self.allocated -= size;
        let before = blocks.range(..at).next_back().map(|(place, block)| (*place, *block));
        let behind = blocks.get(&(at + size)).copied();
        if let Some((free, true)) = behind {
            blocks.remove(&(at + size));
            self.free.remove(&(*large, free, segment, at + size));
            size += free;
        }
        if let Some((place, (free, true))) = before {
            blocks.remove(&at);
            self.free.remove(&(*large, free, segment, place));
            (at, size) = (place, size + free);
        }
        blocks.insert(at, (size, true));
        self.free.insert((*large, size, segment, at));
    }

    /// The bytes in use and reserved now.
    pub fn level(&self) -> ReservedLevel {
        let largest =
            |large| self.free.range((large, 0, 0, 0)..=(large, u64::MAX, usize::MAX, u64::MAX)).next_back();
        ReservedLevel {
            allocated: self.allocated,
            reserved: self.reserved,
            largest_free: [false, true].into_iter().filter_map(largest).map(|free| free.1).max().unwrap_or(0),
        }
    }

    /// The free block that fits best: size, segment, place.
    fn best(&self, large: bool, size: u64) -> Option<(u64, usize, u64)> {
        let mut fit = self.free.range((large, size, 0, 0)..).take_while(|free| free.0 == large);
        let first = fit.next()?;
        // The end of an expandable segment counts with all the room that it can grow into.
        let (_, size, segment, at) = if self.is_end(first) { fit.next().unwrap_or(first) } else { first };
        Some((*size, *segment, *at))
    }

    fn is_end(&self, &(_, size, segment, at): &(bool, u64, usize, u64)) -> bool {
        self.expandable && at + size == self.segments[segment].size
    }

    /// More memory, as one free block that is large enough: size, segment, place.
    fn reserve(&mut self, large: bool, size: u64) -> (u64, usize, u64) {
        let (segment, at, size) =
            if self.expandable { self.grow(large, size) } else { self.add(large, size) };
        self.segments[segment].blocks.insert(at, (size, true));
        (size, segment, at)
    }

    /// A new segment: its number, place and size.
    fn add(&mut self, large: bool, size: u64) -> (usize, u64, u64) {
        let size = match size {
            _ if !large => SMALL_SEGMENT,
            size if size < OWN_SEGMENT => LARGE_SEGMENT,
            size => size.next_multiple_of(SMALL_SEGMENT),
        };
        self.reserved += size;
        self.segments.push(MemorySegment { large, size, blocks: BTreeMap::new() });
        (self.segments.len() - 1, 0, size)
    }

    /// Pages at the end of the pool's segment, with the free block there.
    fn grow(&mut self, large: bool, size: u64) -> (usize, u64, u64) {
        let known = self.segments.iter().position(|segment| segment.large == large);
        let number = known.unwrap_or_else(|| {
            self.segments.push(MemorySegment { large, size: 0, blocks: BTreeMap::new() });
            self.segments.len() - 1
        });
        let segment = &mut self.segments[number];
        let end = segment.size;
        let last = segment.blocks.last_key_value().map(|(at, block)| (*at, *block));
        let (at, free) = match last {
            Some((at, (free, true))) => (at, free),
            _ => (end, 0),
        };
        self.free.remove(&(large, free, number, at));
        let page = if large { LARGE_SEGMENT } else { SMALL_SEGMENT };
        let more = (size - free).next_multiple_of(page);
        segment.size += more;
        self.reserved += more;
        (number, at, segment.size - at)
    }
}
