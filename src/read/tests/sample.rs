//! A training step made by hand and played by the engine: pipeline stages with tensor-parallel pairs and
//! data-parallel pairs, a prefetch of weights before each layer, saved activations.

use stepsim_core::engine::{Record, run};
use stepsim_core::ids::{CommId, OpId, ProgramId, RankId, TransferId};
use stepsim_core::program::{
    Action, Flow, MemoryClass, MemoryEffect, MemoryWhen, NO_MICRO_BATCH, OpInfo, Phase, Program,
    ProgramBuilder, StreamKind, Work, World,
};
use stepsim_core::units::{Bandwidth, Bytes, Time};
use stepsim_read::trace::{RunMeta, TracedRank};

const TENSOR: u32 = 2;
const DATA: u32 = 2;

/// The size of a step.
#[derive(Clone, Copy)]
pub struct SampleShape {
    pub stages: u32,
    pub layers: u32,
    pub micro_batches: u32,
}

/// Slots of each rank.
const ACTIVATIONS_OUT: u16 = 0;
const ACTIVATIONS_IN: u16 = 1;
const GRADIENTS_OUT: u16 = 2;
const GRADIENTS_IN: u16 = 3;
const TP: u16 = 4;
const DP: u16 = 5;
const COPY: u16 = 6;

/// One rank's program on its way.
struct SampleWriter {
    step: SampleShape,
    stage: u32,
    b: ProgramBuilder,
    streams: [u16; 8],
    last: Option<OpId>,
}

impl SampleWriter {
    fn put(&mut self, stream: usize, work: Work, waits: &[OpId], info: OpInfo, m: u32) -> OpId {
        let info = self.b.info(info);
        self.b.op(self.streams[stream], work, waits, info, m)
    }
    fn comm(slot: u16, transfer: u32) -> Work {
        Work::Comm { slot, transfer: TransferId(transfer) }
    }
    /// One pass of a micro-batch through the stage.
    fn pass(&mut self, phase: Phase, m: u32) {
        let forward = phase == Phase::Forward;
        let info = |name: &'static str, layer: Option<u32>, flops: f64, bytes: f64| OpInfo {
            layer,
            flops,
            ..OpInfo::of(name, phase, bytes)
        };
        let first = if forward { self.stage == 0 } else { self.stage + 1 == self.step.stages };
        let last = if forward { self.stage + 1 == self.step.stages } else { self.stage == 0 };
        let mut waits: Vec<OpId> = Vec::new();
        if !first {
            let (stream, slot) = if forward { (2, ACTIVATIONS_IN) } else { (3, GRADIENTS_IN) };
            waits.push(self.put(stream, Self::comm(slot, 0), &[], info("recv", None, 0.0, 16e6), m));
        }
        let factor = if forward { 1 } else { 2 };
        for i in 0..self.step.layers {
            let layer = self.stage * self.step.layers + if forward { i } else { self.step.layers - 1 - i };
            let after: Vec<OpId> = self.last.into_iter().collect();
            let copy = Self::comm(COPY, 0);
            waits.push(self.put(6, copy, &after, info("prefetch weights", Some(layer), 0.0, 40e6), m));
            for (kernel, us) in [("attention", 40), ("mlp", 60)] {
                let us = f64::from(us * factor);
                let work = Work::Compute { time: Time::from_us(us) + Time(123) };
                let op = self.put(0, work, &waits, info(kernel, Some(layer), us * 3e8, 30e6), m);
                if kernel == "mlp" {
                    let when = if forward { MemoryWhen::AllocAtStart } else { MemoryWhen::FreeAtEnd };
                    let class = MemoryClass::Activations;
                    self.b.memory(op, MemoryEffect { when, class, tier: 0, bytes: 64 << 20 });
                }
                let name = if kernel == "mlp" { "reduce-scatter" } else { "all-gather" };
                waits = vec![self.put(1, Self::comm(TP, 0), &[op], info(name, Some(layer), 0.0, 8e6), m)];
                self.last = Some(op);
            }
            if !forward && m + 1 == self.step.micro_batches {
                let name = info("reduce-scatter gradients", Some(layer), 0.0, 80e6);
                let waits: Vec<OpId> = self.last.into_iter().collect();
                self.put(5, Self::comm(DP, 0), &waits, name, NO_MICRO_BATCH);
            }
        }
        if !last {
            let (stream, slot) = if forward { (4, ACTIVATIONS_OUT) } else { (7, GRADIENTS_OUT) };
            self.put(stream, Self::comm(slot, 0), &waits, info("send", None, 0.0, 16e6), m);
        }
    }
    fn program(step: SampleShape, stage: u32) -> Program {
        let mut b = ProgramBuilder::new();
        let kinds = [
            StreamKind::Compute,
            StreamKind::Tensor,
            StreamKind::PipelineRecv,
            StreamKind::PipelineRecv,
            StreamKind::PipelineSend,
            StreamKind::Data,
            StreamKind::CopyIn,
            StreamKind::PipelineSend,
        ];
        let streams = kinds.map(|kind| b.stream(kind));
        let (when, class) = (MemoryWhen::AllocAtStart, MemoryClass::Weights);
        b.resident(MemoryEffect { when, class, tier: 0, bytes: 2 << 30 });
        let mut w = SampleWriter { step, stage, b, streams, last: None };
        let warm_up = (step.stages - 1 - stage).min(step.micro_batches);
        for m in 0..warm_up {
            w.pass(Phase::Forward, m);
        }
        for m in 0..step.micro_batches {
            if warm_up + m < step.micro_batches {
                w.pass(Phase::Forward, warm_up + m);
            }
            w.pass(Phase::Backward, m);
        }
        let info = OpInfo::of("optimizer step", Phase::Optimizer, 6e8);
        let waits: Vec<OpId> = (0..w.b.len() as u32).map(OpId).collect();
        w.put(0, Work::Compute { time: Time::from_us(180.0) }, &waits, info, NO_MICRO_BATCH);
        w.b.finish()
    }
}

/// The step's world and what happened in it.
pub fn pipeline(step: SampleShape) -> (World, Record) {
    let mut world = World::default();
    for stage in 0..step.stages {
        world.add_program(SampleWriter::program(step, stage));
    }
    let flow =
        |latency, bytes| Flow { latency: Time::from_us(latency), bytes, rate_limit: f64::INFINITY, path: 0 };
    // by profile: pipeline transfer, tensor-parallel, data-parallel, copy
    for (latency, bytes) in [(5.0, 16e6), (3.0, 8e6), (9.0, 80e6), (2.0, 4e6)] {
        let action = world.add_action(Action::Phases(vec![flow(latency, bytes)]));
        world.add_profile([action]);
    }
    let number = |stage: u32, data: u32, tensor: u32| RankId((stage * DATA + data) * TENSOR + tensor);
    for stage in 0..step.stages {
        for _ in 0..DATA * TENSOR {
            let rank = world.add_rank(ProgramId(stage), 7);
            let hbm = world.add_tier("hbm", Bytes(80 << 30));
            world.set_tiers(rank, &[hbm]);
            let host = world.add_resource(Bandwidth::from_gbps(50.0));
            let copy = world.add_comm(3, &[rank], &[&[(host, 1)]]);
            world.bind(rank, COPY, copy);
        }
    }
    let link = |world: &mut World, profile, members: &[(RankId, u16)], gbps| -> CommId {
        let resource = world.add_resource(Bandwidth::from_gbps(gbps));
        let ranks: Vec<RankId> = members.iter().map(|m| m.0).collect();
        let comm = world.add_comm(profile, &ranks, &[&[(resource, 1)]]);
        members.iter().for_each(|(rank, slot)| world.bind(*rank, *slot, comm));
        comm
    };
    for stage in 0..step.stages {
        for i in 0..2 {
            link(&mut world, 1, &[(number(stage, i, 0), TP), (number(stage, i, 1), TP)], 400.0);
            link(&mut world, 2, &[(number(stage, 0, i), DP), (number(stage, 1, i), DP)], 200.0);
        }
        for (data, tensor) in [(0, 0), (0, 1), (1, 0), (1, 1)].into_iter().filter(|_| stage > 0) {
            let (up, down) = (number(stage - 1, data, tensor), number(stage, data, tensor));
            link(&mut world, 0, &[(up, ACTIVATIONS_OUT), (down, ACTIVATIONS_IN)], 400.0);
            link(&mut world, 0, &[(down, GRADIENTS_OUT), (up, GRADIENTS_IN)], 400.0);
        }
    }
    // slots at the ends of the pipeline are never used
    let unused = world.add_comm(0, &[], &[&[]]);
    world.slots.iter_mut().filter(|comm| comm.0 == u32::MAX).for_each(|comm| *comm = unused);
    let record = run(&world).expect("the step runs");
    (world, record)
}

/// The first rank of each stage.
pub fn one_per_stage(step: SampleShape) -> Vec<TracedRank> {
    let traced = |stage: u32| {
        let rank = RankId(stage * DATA * TENSOR);
        TracedRank { rank, source: rank, name: format!("rank {:04} · stage {stage} · tp 0 dp 0", rank.0) }
    };
    (0..step.stages).map(traced).collect()
}

/// Run parameters without anything that changes from day to day.
pub fn meta(record: &Record) -> RunMeta {
    let mut meta = RunMeta::default();
    meta.text("simulator", "stepsim");
    meta.text("workload", "a pipeline \"by hand\"");
    meta.int("seed", 7);
    meta.number("step_time_s", record.step_end.s());
    meta
}
