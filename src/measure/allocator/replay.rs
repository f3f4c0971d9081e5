//! The bytes that the allocator reserves for a rank's program.
//!
//! Ops take and free in program order, each ended before the next begins, and the step is played twice: the second
//! finds what the first has cached. A free names a class and bytes, not an allocation: it gives back the last one of
//! its class that has as many bytes, or several that have as many together.
//!
//! Hazard: a plan allocates sums, what a layer keeps or a collective gathers, where PyTorch has a tensor for each.
//! Tensors fill gaps that sums cannot, and leave gaps of their own: what is found is of the right order, and no more.

use serde::Serialize;

use super::{Allocator, BlockPlace, ReservedLevel};
use stepsim_core::program::{MemoryClass, MemoryEffect, MemoryWhen, Program};

/// Steps that are played.
const STEPS: usize = 2;

/// The reserved bytes of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReservedMemory {
    /// Bytes of blocks in use, at their most.
    pub peak_allocated_bytes: u64,
    /// Bytes of segments, at their most.
    pub peak_reserved_bytes: u64,
    /// After the last step.
    pub end: ReservedLevel,
}

/// Plays the device memory of a program.
pub fn replay(program: &Program, expandable: bool) -> ReservedMemory {
    let mut player = AllocatorReplay::new(expandable);
    program.resident.iter().filter(|effect| effect.tier == 0).for_each(|effect| player.take(effect));
    for _ in 0..STEPS {
        for op in &program.ops {
            let effects = &program.memory[op.memory.range()];
            for when in [MemoryWhen::FreeAtStart, MemoryWhen::AllocAtStart, MemoryWhen::FreeAtEnd] {
                for effect in effects.iter().filter(|effect| effect.tier == 0 && effect.when == when) {
                    match when {
                        MemoryWhen::AllocAtStart => player.take(effect),
                        MemoryWhen::FreeAtStart | MemoryWhen::FreeAtEnd => player.give(effect),
                    }
                }
            }
        }
    }
    ReservedMemory { end: player.allocator.level(), ..player.memory }
}

/// An allocator, and what is in use.
struct AllocatorReplay {
    allocator: Allocator,
    /// By class: bytes asked for, and where they lie.
    used: [Vec<(u64, BlockPlace)>; MemoryClass::ALL.len()],
    /// By class: bytes that were freed of allocations that are larger.
    owed: [u64; MemoryClass::ALL.len()],
    memory: ReservedMemory,
}

impl AllocatorReplay {
    fn new(expandable: bool) -> AllocatorReplay {
        AllocatorReplay {
            allocator: Allocator::new(expandable),
            used: Default::default(),
            owed: Default::default(),
            memory: ReservedMemory::default(),
        }
    }

    fn take(&mut self, effect: &MemoryEffect) {
        let place = self.allocator.take(effect.bytes);
        self.used[effect.class as usize].push((effect.bytes, place));
        let (memory, level) = (&mut self.memory, self.allocator.level());
        memory.peak_allocated_bytes = memory.peak_allocated_bytes.max(level.allocated);
        memory.peak_reserved_bytes = memory.peak_reserved_bytes.max(level.reserved);
    }

    fn give(&mut self, effect: &MemoryEffect) {
        let class = effect.class as usize;
        if let Some(at) = self.used[class].iter().rposition(|(bytes, _)| *bytes == effect.bytes) {
            let (_, place) = self.used[class].remove(at);
            return self.allocator.give(place);
        }
        self.owed[class] += effect.bytes;
        while let Some(at) = self.used[class].iter().rposition(|(bytes, _)| *bytes <= self.owed[class]) {
            let (bytes, place) = self.used[class].remove(at);
            self.owed[class] -= bytes;
            self.allocator.give(place);
        }
    }
}
