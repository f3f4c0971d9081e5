//! Abstract steps: each slot of an order is one op of a given duration, each transfer a fixed delay.

use std::collections::BTreeMap;

use super::programs::{Posts, with_posts};
use super::{Channel, Pipeline, PipelineOptions, Receive, Sends, StageWork, Task, phase};
use stepsim_core::ids::{CommId, OpId, ProgramId, RankId};
use stepsim_core::program::{Action, OpInfo, Phase, ProgramBuilder, StreamKind, Work, World};
use stepsim_core::units::Time;
use stepsim_schedule::{Order, PassTimes, Slot, SlowEdge};

/// An abstract step, ready to run.
#[derive(Debug)]
pub struct AbstractPipeline {
    /// One rank per pipeline rank.
    pub world: World,
    /// For each rank the op of each slot of its order.
    pub slot_ops: Vec<Vec<OpId>>,
    /// For each rank its receives.
    pub receives: Vec<Vec<Receive>>,
}

/// An order whose passes and messages all take one unit of time.
pub(super) fn lock_step(order: &Order, sends: Sends) -> AbstractPipeline {
    let unit = Time(u64::from(order.placement.parts()) * UNIT.0);
    let half = Time(unit.0 / 2);
    let times = PassTimes { forward: unit, input_grad: half, weight_grad: half, overlapped: unit };
    abstract_world(order, &times, UNIT, sends)
}

/// A time for everything.
pub(super) const UNIT: Time = Time(1_000_000);

/// An order with the given pass times (a chunk costs its part of them) and the delay `p2p` on every transfer between
/// ranks. Transfers do not queue, unless a delay is so long that hundreds of them would be under way at a time.
pub fn abstract_world(order: &Order, times: &PassTimes, p2p: Time, sends: Sends) -> AbstractPipeline {
    abstract_world_over(order, times, p2p, None, sends)
}

/// The same where one edge is slower than the others.
pub fn abstract_world_over(
    order: &Order,
    times: &PassTimes,
    p2p: Time,
    slow: Option<SlowEdge>,
    sends: Sends,
) -> AbstractPipeline {
    let slow_p2p = p2p + slow.map_or(Time::ZERO, |edge| edge.delay);
    let mut work = AbstractWork {
        times: *times,
        parts: order.placement.parts(),
        compute: 0,
        slot_ops: Vec::new(),
        infos: BTreeMap::new(),
    };
    let options =
        PipelineOptions { sends, lanes: lanes(order, &work, slow_p2p), ..PipelineOptions::default() };
    let mut pipeline = with_posts(order, options, &Posts::default(), &mut work);
    let receives = std::mem::take(&mut pipeline.receives);
    let is_slow = |channel: &Channel| {
        let ends = [channel.from.rank, channel.to.rank];
        slow.is_some_and(|edge| ends.contains(&edge.after) && ends.contains(&(edge.after + 1)))
    };
    AbstractPipeline { world: world(pipeline, [p2p, slow_p2p], &is_slow), slot_ops: work.slot_ops, receives }
}

/// A rank for each program; its transfers take the first delay, or the second on slow channels.
pub(super) fn world(pipeline: Pipeline, delays: [Time; 2], is_slow: &dyn Fn(&Channel) -> bool) -> World {
    let mut world = World {
        programs: pipeline.programs.into_iter().map(std::sync::Arc::new).collect(),
        actions: delays.map(Action::Fixed).into(),
        profiles: vec![vec![0], vec![1]],
        ..World::default()
    };
    for (rank, slots) in pipeline.slots.iter().enumerate() {
        world.add_rank(ProgramId(rank as u32), slots.len() as u32);
    }
    for channel in &pipeline.channels {
        let ends = [RankId(channel.from.rank), RankId(channel.to.rank)];
        world.add_comm(u32::from(is_slow(channel)), &ends, &[]);
    }
    for (rank, slots) in pipeline.slots.iter().enumerate() {
        for (slot, channel) in slots.iter().enumerate() {
            world.bind(RankId(rank as u32), slot as u16, CommId(*channel));
        }
    }
    world
}

/// So many lanes that a message never waits for the one before: two messages of a channel are at least the shortest
/// pass apart.
fn lanes(order: &Order, work: &AbstractWork, p2p: Time) -> u32 {
    let slots = order.ranks.iter().flatten();
    let sending = slots.filter(|s| s.parts().any(|p| p.pass.makes().is_some()));
    let shortest = sending.map(|s| work.times.of(s, work.parts)).min().unwrap_or(Time::ZERO);
    // Streams and slots have 16-bit numbers, and a rank has up to four channels per chunk.
    let room = 60_000 / (4 * order.placement.parts() * u32::from(order.placement.directions()));
    let most = order.per_direction().min(room).max(1);
    p2p.0.div_ceil(shortest.0.max(1)).clamp(1, u64::from(most)) as u32
}

/// Stage and micro-batch of a backward pass that goes with a forward pass.
type Second = Option<(u32, u32)>;

struct AbstractWork {
    times: PassTimes,
    parts: u32,
    compute: u16,
    slot_ops: Vec<Vec<OpId>>,
    /// Descriptions of the open program: of a pass of a stage, alone or with the backward pass of another stage and
    /// micro-batch.
    infos: BTreeMap<(Phase, u32, Second), u32>,
}

impl AbstractWork {
    fn push(&mut self, b: &mut ProgramBuilder, slot: Slot, task: &Task, backward: Option<&Task>) -> OpId {
        let phase = phase(task.part.pass);
        let pair = backward.map(|t| (t.at.stage, t.part.micro_batch));
        let info = *self.infos.entry((phase, task.at.stage, pair)).or_insert_with(|| {
            let second = pair.map(|(stage, m)| format!(" & backward m{m} stage {stage}")).unwrap_or_default();
            b.info(OpInfo::of(format!("stage {}{second}", task.at.stage), phase, 0.0))
        });
        let waits: Vec<OpId> = task.input.into_iter().chain(backward.and_then(|t| t.input)).collect();
        let time = self.times.of(&slot, self.parts);
        let op = b.op(self.compute, Work::Compute { time }, &waits, info, task.part.micro_batch);
        self.slot_ops.last_mut().expect("a rank has begun").push(op);
        op
    }
}

impl StageWork for AbstractWork {
    fn begin(&mut self, b: &mut ProgramBuilder, _rank: u32) -> u16 {
        self.slot_ops.push(Vec::new());
        self.infos.clear();
        self.compute = b.stream(StreamKind::Compute);
        self.compute
    }
    fn pass(&mut self, b: &mut ProgramBuilder, task: &Task) -> OpId {
        self.push(b, Slot::Single(task.part), task, None)
    }
    fn overlapped(&mut self, b: &mut ProgramBuilder, forward: &Task, backward: &Task) -> (OpId, OpId) {
        let slot = Slot::Overlapped { forward: forward.part, backward: backward.part };
        let op = self.push(b, slot, forward, Some(backward));
        (op, op)
    }
}
