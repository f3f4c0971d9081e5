//! Steps with a time of its own for each pass, each transfer and what stands around them, in several replicas.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Channel, PipelineOptions, StageWork, Task, phase, programs};
use crate::pipeline::durations::{Durations, StartGroup};
use stepsim_core::ids::{CommId, OpId, ProgramId, RankId, TransferId};
use stepsim_core::program::{Action, NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, StreamKind, Work, World};
use stepsim_core::units::Time;
use stepsim_schedule::{Data, Order, Pass};

/// Asks for the time of a part: its name among the durations, and (replica, stage, micro-batch), or (replica, rank) of
/// what stands around the passes. The flag asks for its launch delay instead. `None`: there is no such part.
pub type TimeOf<'a> = &'a dyn Fn(&str, &[u32], bool) -> Option<Time>;

/// The world of one step: a rank for each replica and pipeline rank; the ranks of a replica stand side by side.
///
/// Receives are posted ahead, and messages of a channel go one after the other. Work that ranks begin together begins
/// when the last of them is ready; each then takes its own time.
pub fn measured_world(order: &Order, durations: &Durations, time: TimeOf) -> World {
    let mut world = World { actions: vec![Action::Fixed(Time::ZERO)], ..World::default() };
    let mut pipelines = Vec::new();
    for replica in 0..durations.replicas {
        let mut work = MeasuredWork { durations, time, replica, compute: 0, infos: BTreeMap::new() };
        let options =
            PipelineOptions { first_slot: work.around().count() as u16, ..PipelineOptions::default() };
        let mut pipeline = programs(order, options, &mut work);
        for (program, slots) in pipeline.programs.iter_mut().zip(&pipeline.slots) {
            for op in &mut program.ops {
                let Work::Comm { slot, transfer } = &mut op.work else { continue };
                let Some(own) = slot.checked_sub(options.first_slot) else { continue };
                let channel = &pipeline.channels[slots[usize::from(own)] as usize];
                *transfer = TransferId(message(channel, op.micro_batch, durations.micro_batches));
            }
        }
        pipelines.push(pipeline);
    }
    // Transfer 0 of profile 0 is a meeting that takes no time; a replica's messages have a profile of their own.
    world.profiles.push(vec![0]);
    let ranks = order.placement.ranks();
    let first_slot = durations.before.len() + durations.after.len();
    for (replica, pipeline) in (0..).zip(&pipelines) {
        for (program, slots) in pipeline.programs.iter().zip(&pipeline.slots) {
            world.programs.push(Arc::new(program.clone()));
            world.add_rank(ProgramId(world.programs.len() as u32 - 1), (first_slot + slots.len()) as u32);
        }
        let profile = messages(&mut world, order, durations, time, replica);
        for (number, channel) in (0u32..).zip(&pipeline.channels) {
            let member = |rank: u32| RankId(replica * ranks + rank);
            let comm = world.add_comm(profile, &[member(channel.from.rank), member(channel.to.rank)], &[]);
            for (rank, slots) in (0..).zip(&pipeline.slots) {
                for (slot, _) in slots.iter().enumerate().filter(|s| *s.1 == number) {
                    world.bind(member(rank), (first_slot + slot) as u16, comm);
                }
            }
        }
    }
    for (slot, around) in durations.before.iter().chain(&durations.after).enumerate() {
        meet(&mut world, durations, time, (slot as u16, &around.name, around.group));
    }
    world
}

/// A message's number in its replica's profile.
fn message(channel: &Channel, micro_batch: u32, micro_batches: u32) -> u32 {
    (channel.from_stage.stage * 2 + channel.data as u32) * micro_batches + micro_batch
}

/// The times of a replica's messages as a profile; returns its number.
fn messages(world: &mut World, order: &Order, durations: &Durations, time: TimeOf, replica: u32) -> u32 {
    let mut profile = Vec::new();
    for stage in 0..order.placement.parts() * order.placement.ranks() {
        for name in [send(Data::Activations), send(Data::Gradients)] {
            for micro_batch in 0..durations.micro_batches {
                let t = time(name, &[replica, stage, micro_batch], false).unwrap_or_default();
                profile.push(world.actions.len() as u32);
                world.actions.push(Action::Fixed(t));
            }
        }
    }
    world.profiles.push(profile);
    world.profiles.len() as u32 - 1
}

/// Makes the communicators of what ranks begin together, of those that take part.
fn meet(
    world: &mut World,
    durations: &Durations,
    time: TimeOf,
    (slot, name, group): (u16, &str, StartGroup),
) {
    let (replicas, stages) = (durations.replicas, durations.stages);
    let all = || (0..replicas).flat_map(move |d| (0..stages).map(move |p| (d, p)));
    let groups: Vec<Vec<(u32, u32)>> = match group {
        StartGroup::Alone | StartGroup::Others => all().map(|rank| vec![rank]).collect(),
        StartGroup::Replicas => (0..stages).map(|p| (0..replicas).map(|d| (d, p)).collect()).collect(),
        StartGroup::Stages => (0..replicas).map(|d| (0..stages).map(|p| (d, p)).collect()).collect(),
        StartGroup::All => vec![all().collect()],
    };
    for ranks in groups {
        let part = ranks.iter().filter(|(d, p)| time(name, &[*d, *p], false).is_some());
        let members: Vec<RankId> = part.map(|(d, p)| RankId(d * stages + p)).collect();
        let comm = if members.is_empty() { CommId(0) } else { world.add_comm(0, &members, &[]) };
        for (d, p) in ranks {
            world.bind(RankId(d * stages + p), slot, comm);
        }
    }
}

/// The name of a transfer among the durations.
fn send(data: Data) -> &'static str {
    match data {
        Data::Activations => "send F",
        Data::Gradients => "send B",
    }
}

/// The name of a pass among the durations.
fn name(pass: Pass) -> &'static str {
    match pass {
        Pass::Forward => "F",
        Pass::Backward => "B",
        Pass::InputGrad => "I",
        Pass::WeightGrad => "W",
    }
}

struct MeasuredWork<'a> {
    durations: &'a Durations,
    time: TimeOf<'a>,
    replica: u32,
    compute: u16,
    infos: BTreeMap<String, u32>,
}

impl MeasuredWork<'_> {
    fn around(&self) -> impl Iterator<Item = (usize, &str, StartGroup)> {
        let all = self.durations.before.iter().chain(&self.durations.after).enumerate();
        all.map(|(slot, a)| (slot, a.name.as_str(), a.group))
    }

    fn push(
        &mut self,
        b: &mut ProgramBuilder,
        what: (&str, Phase),
        work: Work,
        waits: &[OpId],
        micro_batch: u32,
    ) -> OpId {
        let info = *self
            .infos
            .entry(what.0.to_string())
            .or_insert_with(|| b.info(OpInfo::of(what.0.to_string(), what.1, 0.0)));
        b.op(self.compute, work, waits, info, micro_batch)
    }

    /// The work of a rank before or after its passes.
    fn do_around(&mut self, b: &mut ProgramBuilder, rank: u32, slots: std::ops::Range<usize>) {
        let list: Vec<(usize, String, StartGroup)> =
            self.around().filter(|a| slots.contains(&a.0)).map(|a| (a.0, a.1.to_string(), a.2)).collect();
        for (slot, name, group) in list {
            let place = [self.replica, rank];
            let Some(time) = (self.time)(&name, &place, false) else { continue };
            if !matches!(group, StartGroup::Alone | StartGroup::Others) {
                let meet = Work::Comm { slot: slot as u16, transfer: TransferId(0) };
                self.push(b, ("wait for the others", Phase::Optimizer), meet, &[], NO_MICRO_BATCH);
            }
            self.delay(b, &name, &place, &[]);
            self.push(b, (&name, Phase::Optimizer), Work::Compute { time }, &[], NO_MICRO_BATCH);
        }
    }

    fn delay(&mut self, b: &mut ProgramBuilder, name: &str, place: &[u32], waits: &[OpId]) {
        if let Some(time) = (self.time)(name, place, true).filter(|t| *t > Time::ZERO) {
            self.push(b, ("launch delay", Phase::Forward), Work::Compute { time }, waits, NO_MICRO_BATCH);
        }
    }

    fn time_of(&self, task: &Task) -> Time {
        let place = [self.replica, task.at.stage, task.part.micro_batch];
        (self.time)(name(task.part.pass), &place, false).unwrap_or_default()
    }
}

impl StageWork for MeasuredWork<'_> {
    fn begin(&mut self, b: &mut ProgramBuilder, rank: u32) -> u16 {
        self.infos.clear();
        self.compute = b.stream(StreamKind::Compute);
        self.do_around(b, rank, 0..self.durations.before.len());
        self.compute
    }
    fn pass(&mut self, b: &mut ProgramBuilder, task: &Task) -> OpId {
        let waits: Vec<OpId> = task.input.into_iter().collect();
        let (name, place) = (name(task.part.pass), [self.replica, task.at.stage, task.part.micro_batch]);
        self.delay(b, name, &place, &waits);
        let work = Work::Compute { time: self.time_of(task) };
        self.push(b, (name, phase(task.part.pass)), work, &waits, task.part.micro_batch)
    }
    fn overlapped(&mut self, b: &mut ProgramBuilder, forward: &Task, backward: &Task) -> (OpId, OpId) {
        let waits: Vec<OpId> = forward.input.into_iter().chain(backward.input).collect();
        let time = self.time_of(forward) + self.time_of(backward);
        let op =
            self.push(b, ("F&B", Phase::Forward), Work::Compute { time }, &waits, forward.part.micro_batch);
        (op, op)
    }
    fn end(&mut self, b: &mut ProgramBuilder, rank: u32) {
        let before = self.durations.before.len();
        self.do_around(b, rank, before..before + self.durations.after.len());
    }
}
