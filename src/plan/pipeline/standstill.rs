//! Tests before a step is played that its ranks cannot come to a standstill: passes, sends, receives, and the launches
//! and waits of hosts, together.
//!
//! Each pass is one kernel here. A standstill does not depend on how long anything takes (streams
//! are in order, and transfers begin when both ends have come to them), so the kernels of a pass and the sizes of
//! messages are left out.

use super::abstract_work::{UNIT, world};
use super::{PipelineOptions, Sends, StageWork, Task, phase, programs, reads_before};
use crate::launch::{HostWait, Setting, launch};
use stepsim_core::engine::{self, EngineError, WaitingOp};
use stepsim_core::ids::OpId;
use stepsim_core::program::{OpInfo, ProgramBuilder, StreamKind, Work};
use stepsim_core::units::Time;
use stepsim_schedule::Order;
use stepsim_spec::stack::{HostSpec, LayerHosts};

/// The cycle of waits in which an order comes to a standstill with these sends; `None` where it runs.
pub fn standstill(order: &Order, sends: Sends, host: Option<&HostSpec>) -> Option<Vec<WaitingOp>> {
    let mut passes = KernelPasses { host_waits: sends != Sends::Asynchronous, ..KernelPasses::default() };
    let blocks = host.is_some_and(|host| host.blocking);
    let options = PipelineOptions { sends, launched: host.is_some(), blocks, ..PipelineOptions::default() };
    let mut pipeline = programs(order, options, &mut passes);
    if let Some(host) = host {
        let setting = Setting {
            gap: Time::ZERO,
            slowness: 1.0,
            groups: Vec::new(),
            tensor_us: 0.0,
            layers: LayerHosts::default(),
        };
        for reads in &mut passes.reads {
            reads.retain(|read| host.reads.contains(&read.what));
        }
        let launched = pipeline.programs.iter().zip(&passes.reads);
        pipeline.programs = launched.map(|(p, reads)| launch(p, host, &setting, reads)).collect();
    }
    match engine::run(&world(pipeline, [UNIT; 2], &|_| false)) {
        Err(EngineError::Deadlock { cycle, .. }) => Some(cycle),
        _ => None,
    }
}

/// A kernel a pass, and what the host reads by rank.
#[derive(Default)]
struct KernelPasses {
    host_waits: bool,
    compute: u16,
    reads: Vec<Vec<HostWait>>,
}

impl KernelPasses {
    fn push(&self, b: &mut ProgramBuilder, task: &Task, waits: &[OpId]) -> OpId {
        let phase = phase(task.part.pass);
        let info = OpInfo::of("pass", phase, 0.0);
        let info = b.info(info);
        b.op(self.compute, Work::Compute { time: UNIT }, waits, info, task.part.micro_batch)
    }
}

impl StageWork for KernelPasses {
    fn begin(&mut self, b: &mut ProgramBuilder, _rank: u32) -> u16 {
        self.reads.push(Vec::new());
        self.compute = b.stream(StreamKind::Compute);
        self.compute
    }
    fn pass(&mut self, b: &mut ProgramBuilder, task: &Task) -> OpId {
        let reads = reads_before(b, self.compute, task, self.host_waits);
        self.reads.last_mut().expect("a rank has begun").extend(reads);
        self.push(b, task, task.input.as_slice())
    }
    fn overlapped(&mut self, b: &mut ProgramBuilder, forward: &Task, backward: &Task) -> (OpId, OpId) {
        let waits: Vec<OpId> = forward.input.into_iter().chain(backward.input).collect();
        let op = self.push(b, forward, &waits);
        (op, op)
    }
}
