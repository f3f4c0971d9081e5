//! Ranks that play programs on shared resources.
//!
//! [`units`] and [`ids`] are the words, a [`clock`] counts what work takes, an [`interrupt`] calls it off, a
//! [`program`] is what a rank does, [`fold`] finds ranks that must behave alike, and the [`engine`] plays the world
//! that is left.
//!
//! Invariant: it knows no file, no JSON document and no transformer.

pub mod clock;
pub mod declare;
pub mod engine;
pub mod fold;
pub mod ids;
pub mod interrupt;
pub mod intervals;
pub mod kernel_class;
pub mod known;
pub mod pool;
pub mod power;
pub mod program;
pub mod units;
