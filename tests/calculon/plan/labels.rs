//! Labels of the ops of Calculon's step: slots, transfers, and descriptions for readers.

use super::{CalculonStep, DataParallelPlan};
use stepsim::core::program::{OpInfo, Phase, ProgramBuilder};

/// The slots of a rank below its pipeline transfers' slots, each a communicator of that rank alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Local {
    Tensor,
    Data,
    CopyIn,
    CopyOut,
    Send,
}

impl Local {
    pub(super) const ALL: [Local; 5] =
        [Local::Tensor, Local::Data, Local::CopyIn, Local::CopyOut, Local::Send];
}

/// The kinds of transfers, each an entry of the world's profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Move {
    Activations,
    Gradients,
    ForwardComm,
    EdgeForwardComm,
    RedoComm,
    EdgeRedoComm,
    BackwardComm,
    EdgeBackwardComm,
    ForwardOffload,
    EdgeForwardOffload,
    BackwardOffload,
    EdgeBackwardOffload,
    Exposed,
    Reduce,
    Gather,
    Weights,
    Stored,
    State,
}

/// Descriptions of the open program.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Infos {
    pub(super) kernels: [u32; 4],
    pub(super) comm: [u32; 3],
    pub(super) weights: u32,
    pub(super) out: u32,
    pub(super) stored: u32,
    pub(super) exposed: u32,
    pub(super) reduce: u32,
    pub(super) gather: u32,
    pub(super) state_in: u32,
    pub(super) state_out: u32,
    pub(super) send: [u32; 2],
}

impl CalculonStep {
    /// Writes the descriptions of the open program.
    pub(super) fn describe(&self, b: &mut ProgramBuilder) -> Infos {
        let mut info = |name: &'static str, phase: Phase, bytes: f64| b.info(OpInfo::of(name, phase, bytes));
        let (reduce, gather) = match self.data {
            DataParallelPlan::Blocks { reduce, gather, .. } => (reduce, gather),
            _ => Default::default(),
        };
        let reduction = if gather.is_some() { "reduce-scatter gradients" } else { "all-reduce gradients" };
        let size = |bytes: u64| bytes as f64;
        Infos {
            kernels: [Phase::Forward, Phase::Recompute, Phase::Backward, Phase::Optimizer]
                .map(|phase| info("block", phase, 0.0)),
            comm: [Phase::Forward, Phase::Recompute, Phase::Backward]
                .map(|phase| info("tp exposed", phase, 0.0)),
            weights: info("offload in", Phase::Forward, size(self.bytes.weights)),
            out: info("activations out", Phase::Forward, size(self.bytes.stored)),
            stored: info("activations in", Phase::Backward, size(self.bytes.stored)),
            exposed: info("data parallel, exposed", Phase::Optimizer, 0.0),
            reduce: info(reduction, Phase::Backward, reduce.bytes),
            gather: info("all-gather weights", Phase::Optimizer, gather.unwrap_or_default().bytes),
            state_in: info("state in", Phase::Optimizer, size(self.bytes.state)),
            state_out: info("state out", Phase::Optimizer, size(self.bytes.state)),
            send: [
                info("send, as if", Phase::Forward, self.p2p[0].bytes),
                info("send, as if", Phase::Backward, self.p2p[1].bytes),
            ],
        }
    }
}
