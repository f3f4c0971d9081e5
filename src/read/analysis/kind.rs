//! The purpose of an op: the rows of every breakdown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use stepsim_core::declare::named;
use stepsim_core::ids::OpId;
use stepsim_core::program::{Phase, Program, StreamKind, Work};

named! {
    /// The purpose of an op. Kernels are one kind, communication is told apart by the parallelism that asked for it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    pub enum OpKind {
        /// A kernel on the device.
        #[serde(rename = "compute")]
        Compute = "compute",
        /// Tensor-parallel collectives.
        #[serde(rename = "tp")]
        Tensor = "tp",
        /// Context-parallel transfers.
        #[serde(rename = "cp")]
        Context = "cp",
        /// Expert-parallel all-to-alls.
        #[serde(rename = "ep")]
        Expert = "ep",
        /// Pipeline sends and receives.
        #[serde(rename = "pp")]
        Pipeline = "pp",
        /// Data-parallel collectives.
        #[serde(rename = "dp")]
        Data = "dp",
        /// Copies towards the device.
        #[serde(rename = "h2d")]
        CopyIn = "h2d",
        /// Copies away from the device.
        #[serde(rename = "d2h")]
        CopyOut = "d2h",
        /// Work of the host.
        #[serde(rename = "host")]
        Host = "host",
    }
}

impl OpKind {
    /// The kind of an op, from its stream. Communication that blocks the compute stream has no stream to tell it
    /// apart, so its name does: sends and receives are pipeline, all-to-all is expert; else the optimizer's is
    /// data-parallel and the rest tensor-parallel.
    pub fn of(program: &Program, op: OpId) -> OpKind {
        let op = &program.ops[op.index()];
        match program.streams[op.stream as usize].kind {
            StreamKind::Compute if matches!(op.work, Work::Compute { .. }) => OpKind::Compute,
            StreamKind::Compute => {
                let info = &program.infos[op.info as usize];
                let name = info.name.to_ascii_lowercase();
                let is = |words: &[&str]| words.iter().any(|w| name.contains(w));
                if is(&["send", "recv", "receive"]) {
                    OpKind::Pipeline
                } else if is(&["all-to-all", "dispatch", "combine"]) {
                    OpKind::Expert
                } else if info.phase == Phase::Optimizer {
                    OpKind::Data
                } else {
                    OpKind::Tensor
                }
            }
            StreamKind::Tensor => OpKind::Tensor,
            StreamKind::Context => OpKind::Context,
            StreamKind::Expert => OpKind::Expert,
            StreamKind::PipelineSend | StreamKind::PipelineRecv => OpKind::Pipeline,
            StreamKind::Data => OpKind::Data,
            StreamKind::CopyIn => OpKind::CopyIn,
            StreamKind::CopyOut => OpKind::CopyOut,
            StreamKind::Host => OpKind::Host,
        }
    }

    /// The kinds of all ops of a program.
    pub fn of_all(program: &Program) -> Vec<OpKind> {
        let mut of = vec![OpKind::Compute; program.ops.len()];
        for stream in &program.streams {
            let Some(&first) = stream.ops.first() else { continue };
            if stream.kind == StreamKind::Compute {
                let is_comm = |op: &&OpId| matches!(program.ops[op.index()].work, Work::Comm { .. });
                stream.ops.iter().filter(is_comm).for_each(|op| of[op.index()] = OpKind::of(program, *op));
            } else {
                let kind = OpKind::of(program, first);
                stream.ops.iter().for_each(|op| of[op.index()] = kind);
            }
        }
        of
    }

    /// The name in words.
    pub fn words(self) -> &'static str {
        match self {
            OpKind::Compute => "compute",
            OpKind::Tensor => "tensor parallel",
            OpKind::Context => "context parallel",
            OpKind::Expert => "expert parallel",
            OpKind::Pipeline => "pipeline",
            OpKind::Data => "data parallel",
            OpKind::CopyIn => "copies to device",
            OpKind::CopyOut => "copies off device",
            OpKind::Host => "host",
        }
    }
}
