//! The ops that hosts may wait for before a pass; the stack says which of them a host does wait for.

use super::work::Task;
use crate::launch::HostWait;
use stepsim_core::ids::OpId;
use stepsim_core::program::ProgramBuilder;
use stepsim_schedule::Pass;
use stepsim_spec::stack::HostRead;

/// Before a pass: the exchange that brought its input, where passes wait for exchanges (`waits`); all kernels of
/// passes before on the stream `compute`; and before a forward pass, the sizes of its batch.
pub fn reads_before(
    b: &ProgramBuilder,
    compute: u16,
    task: &Task,
    waits: bool,
) -> impl Iterator<Item = HostWait> + use<> {
    let last = b.len().checked_sub(1).map(|last| OpId(last as u32));
    let runs = last.filter(|_| b.recent(compute, 1).is_some());
    let reads = [
        (task.exchange.filter(|_| waits), HostRead::Transfers),
        (runs, HostRead::Passes),
        (runs.filter(|_| task.part.pass == Pass::Forward), HostRead::Batch),
    ];
    reads.into_iter().filter_map(move |(of, what)| Some(HostWait { what, of: of?, behind: last? }))
}
