//! One rank's step in the terms of a closed form: its kernels by phase, its stalls by cause.

use crate::analysis::cause::Causes;
use crate::analysis::idle::IdleTimes;
use crate::analysis::stalls::{StallCause, stalls_of};
use crate::engine::Record;
use crate::ids::RankId;
use crate::program::{Phase, StreamKind, Work, World};
use crate::units::Time;

/// The terms that closed forms and readings share, in the order of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// Forward kernels.
    Forward,
    /// Recomputed kernels.
    Recompute,
    /// Backward kernels.
    Backward,
    /// Optimizer kernels, and waiting for an optimizer elsewhere.
    Optimizer,
    /// Tensor-parallel communication, repeated or not.
    Tensor,
    /// Context-parallel communication.
    Context,
    /// Expert-parallel communication.
    Expert,
    /// Waiting for other ranks: pipeline bubble, late peers, the end of the step.
    Bubble,
    /// Transfers between stages.
    Pipeline,
    /// Data-parallel communication.
    Data,
    /// Copies to and from other memory tiers.
    Offload,
    /// Launches.
    Host,
    /// What sharing links added to communication.
    Contention,
}

impl Row {
    /// How many there are.
    pub const COUNT: usize = 13;
    /// The names, in order.
    pub const NAMES: [&'static str; Row::COUNT] = [
        "forward",
        "recompute",
        "backward",
        "optimizer",
        "tensor parallel, exposed",
        "context parallel, exposed",
        "expert parallel, exposed",
        "pipeline bubble, late peers",
        "pipeline transfers, exposed",
        "data parallel, exposed",
        "offload, exposed",
        "host",
        "link contention",
    ];

    fn of_stall(cause: StallCause) -> Row {
        match cause {
            StallCause::TensorParallel => Row::Tensor,
            StallCause::ContextParallel => Row::Context,
            StallCause::ExpertParallel => Row::Expert,
            StallCause::PipelineBubble | StallCause::PeerLate | StallCause::StepTail => Row::Bubble,
            StallCause::PipelineTransfer => Row::Pipeline,
            StallCause::DataParallel => Row::Data,
            StallCause::Optimizer => Row::Optimizer,
            StallCause::PrefetchQueued
            | StallCause::PrefetchTransfer
            | StallCause::PrefetchBlocked
            | StallCause::WriteBack => Row::Offload,
            StallCause::Host => Row::Host,
            StallCause::Contention => Row::Contention,
        }
    }
    fn of_kernel(phase: Phase) -> Row {
        match phase {
            Phase::Forward => Row::Forward,
            Phase::Recompute => Row::Recompute,
            Phase::Backward | Phase::InputGrad | Phase::WeightGrad => Row::Backward,
            Phase::Optimizer => Row::Optimizer,
        }
    }
}

/// Where the step of one simulated rank went; the rows sum to the step time.
pub fn read_rank(world: &World, record: &Record, idle: &mut IdleTimes, rank: RankId) -> [Time; Row::COUNT] {
    let mut rows = [Time::ZERO; Row::COUNT];
    let mut causes = Causes::new(world, record);
    let time = stalls_of(&mut causes, idle, rank, &mut Vec::new());
    for cause in StallCause::ALL {
        rows[Row::of_stall(cause) as usize] += time.stall(cause);
    }
    let program = world.program_of(rank);
    let mut kernels: Vec<(Time, Time, Phase)> = Vec::new();
    for stream in program.streams.iter().filter(|s| s.kind == StreamKind::Compute) {
        for &op in &stream.ops {
            let is = &program.ops[op.index()];
            if matches!(is.work, Work::Compute { .. }) {
                let (start, end) = record.span(rank, op);
                kernels.push((start, end, program.infos[is.info as usize].phase));
            }
        }
    }
    kernels.sort_unstable_by_key(|k| (k.0, k.1));
    let mut covered = Time::ZERO;
    for (start, end, phase) in kernels {
        if end > covered {
            rows[Row::of_kernel(phase) as usize] += end - start.max(covered);
            covered = end;
        }
    }
    rows
}
