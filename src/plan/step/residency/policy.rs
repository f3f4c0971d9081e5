//! The policy of one class of bytes.

use super::super::chain::{Chain, Visit};
use super::super::writer::Writer;
use super::law::Law;
use stepsim_core::ids::OpId;
use stepsim_core::program::ProgramBuilder;

/// The behaviour of one class of bytes on a rank.
pub(in crate::step) trait Residency: Law {
    /// A rank's program begins: nothing of it has happened yet.
    fn begin(&mut self, units: usize);
    /// Bytes that are there before the first op and stay: (tier, bytes).
    fn resident(&self, w: &Writer<'_, '_>) -> Vec<(u8, f64)>;
    /// A step begins.
    fn begin_step(&mut self, _w: &Writer<'_, '_>) {}
    /// A pass comes to a unit: what it needs is brought in, and the chain waits for it.
    fn arrive(
        &mut self,
        _w: &mut Writer<'_, '_>,
        _b: &mut ProgramBuilder,
        _chain: &mut Chain,
        _visit: Visit,
    ) {
    }
    /// A pass has left a unit with the op `end`: what is no longer needed is given up, what follows is started.
    fn leave(&mut self, _w: &mut Writer<'_, '_>, _b: &mut ProgramBuilder, _visit: Visit, _end: OpId) {}
    /// The last pass of the step is over.
    fn close(&mut self, _w: &mut Writer<'_, '_>, _b: &mut ProgramBuilder) {}
}
