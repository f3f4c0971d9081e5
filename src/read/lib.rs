//! The floor that reads: what a played step, or a profile of a real one, says; the closed form beside it; timelines; what an
//! allocator reserves.

pub mod analysis;
pub mod page;
pub mod palette;
pub mod trace;
