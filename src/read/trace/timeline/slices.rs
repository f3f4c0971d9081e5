//! The texts of a slice: its name, its category and its arguments.

use std::io;
use std::ops::Add;

use super::beside::{beside_kernels, issued};
use super::layout::TimelineLayout;
use super::places::direction;
use super::rows::{RankRows, SliceLevel, SlicePiece};
use super::shown::{Detail, TracedRank};
use super::{names, passes};
use crate::trace::writer::{SliceKind, Value};
use stepsim_core::engine::kernel_time;
use stepsim_core::ids::OpId;
use stepsim_core::program::{Program, StreamKind, Work};
use stepsim_core::units::Time;

impl TimelineLayout<'_> {
    /// The kind of a pass.
    pub(super) fn pass(
        &mut self,
        traced: &TracedRank,
        rows: &RankRows,
        piece: &SlicePiece,
        category: &'static str,
    ) -> io::Result<SliceKind> {
        let program = self.timeline.world.program_of(traced.rank);
        let parts = passes::parts(program, rows.ops_of(piece));
        let step = round(program, rows.ops_of(piece)[0]);
        let key = (names::pass(parts.iter().copied()), category, step);
        if let Some(kind) = self.kinds.passes.get(&key) {
            return Ok(*kind);
        }
        let mut args = Vec::with_capacity(4);
        let words = [("phase", "micro_batch"), ("second_phase", "second_micro_batch")];
        for ((phase, micro_batch), (phase_key, key)) in parts.into_iter().zip(words) {
            args.push((phase_key, Value::Text(phase.name())));
            args.extend(names::place_arguments(None, micro_batch).map(|(_, value)| (key, value)));
        }
        args.extend(step.map(|step| ("step", Value::Uint(step))));
        let kind = self.sink.kind(&key.0, category, &args)?;
        self.kinds.passes.insert(key, kind);
        Ok(kind)
    }

    /// True if a piece is shown as one op, and not as a stretch of them.
    fn is_one_op(&self, rows: &RankRows, piece: &SlicePiece) -> bool {
        let of_kernels = rows.rows[piece.row as usize].kind == StreamKind::Compute;
        let alone = self.timeline.detail == Detail::Op || !of_kernels && rows.ops_of(piece).len() == 1;
        piece.level == SliceLevel::Op && alone
    }

    /// The kind of slice that a piece is.
    pub(super) fn kind(
        &mut self,
        traced: &TracedRank,
        rows: &RankRows,
        piece: &SlicePiece,
    ) -> io::Result<SliceKind> {
        if piece.level == SliceLevel::Pass {
            return self.pass(traced, rows, piece, "pass");
        }
        let program = self.timeline.world.program_of(traced.rank);
        let number = self.timeline.world.ranks[traced.rank.index()].program.index();
        let row = rows.rows[piece.row as usize].kind;
        let ops = rows.ops_of(piece);
        let op = &program.ops[ops[0].index()];
        let info = &program.infos[op.info as usize];
        if self.is_one_op(rows, piece) {
            let key = (number, op.info, row, round(program, ops[0]));
            if let Some(kind) = self.kinds.ops.get(&key) {
                return Ok(*kind);
            }
            let name = names::op(row, info);
            let mut args = names::arguments(info);
            args.extend(key.3.map(|step| ("step", Value::Uint(step))));
            let kind = self.sink.kind(&name, row.name(), &args)?;
            self.kinds.ops.insert(key, kind);
            return Ok(kind);
        }
        let phase =
            names::merged(ops.iter().map(|op| program.infos[program.ops[op.index()].info as usize].phase));
        let layer = info.layer.filter(|_| self.timeline.detail < Detail::Phase);
        let key = (row, piece.level, phase, layer, op.micro_batch);
        if let Some(kind) = self.kinds.merged.get(&key) {
            return Ok(*kind);
        }
        let name = names::stretch(row, layer, phase);
        let category = if piece.level == SliceLevel::Layer { "layer" } else { row.name() };
        let phase = [("phase", Value::Text(phase.name()))];
        let args: Vec<_> = phase.into_iter().chain(names::place_arguments(layer, op.micro_batch)).collect();
        let kind = self.sink.kind(&name, category, &args)?;
        self.kinds.merged.insert(key, kind);
        Ok(kind)
    }

    /// Fills `self.args` with what differs between slices of one kind.
    pub(super) fn arguments(&mut self, traced: &TracedRank, rows: &RankRows, piece: &SlicePiece) {
        let (world, record) = (self.timeline.world, self.timeline.record);
        let program = world.program_of(traced.rank);
        let ops = rows.ops_of(piece);
        let (mut flops, mut bytes, mut busy) = (0.0, 0.0, Time::ZERO);
        for id in ops {
            let info = &program.infos[program.ops[id.index()].info as usize];
            let (start, end) = record.span(traced.source, *id);
            flops += info.flops;
            bytes += info.bytes;
            busy += end - start;
        }
        let keys = self.keys;
        self.args.clear();
        if self.is_one_op(rows, piece) {
            let micro_batch = names::micro_batch(program.ops[ops[0].index()].micro_batch);
            self.args.extend(micro_batch.map(|m| (keys.micro_batch, m)));
        }
        if ops.len() > 1 || piece.level != SliceLevel::Op {
            self.args.push((keys.ops, Value::Uint(ops.len() as u64)));
            self.args.push((keys.busy, Value::Milli(busy.round_ns())));
            self.args.extend((flops > 0.0).then_some((keys.flops, Value::Float(flops.round()))));
            self.args.extend((bytes > 0.0).then_some((keys.bytes, Value::Float(bytes.round()))));
        }
        // FLOP per picosecond is TFLOP/s; bytes per picosecond, a thousand GB/s.
        let per_ps = |amount: f64| amount / busy.0 as f64;
        if flops > 0.0 {
            self.args.push((keys.tflops, Value::Milli((per_ps(flops) * 1e3).round() as u64)));
        }
        if bytes > 0.0 {
            self.args.push((keys.gbps, Value::Milli((per_ps(bytes) * 1e6).round() as u64)));
        }
        if beside_kernels(rows.rows[piece.row as usize].kind) {
            self.beside_kernels(traced, ops);
        }
        if let ([op], SliceLevel::Op) = (ops, piece.level) {
            match program.ops[op.index()].work {
                Work::Compute { time } => self.kernel(traced, *op, time, busy),
                Work::Comm { .. } => self.communication(traced, *op, busy),
            }
            if let Some(slack) = self.timeline.slack {
                self.args.push((keys.slack, Value::Milli(slack(traced.source, *op).round_ns())));
            }
            if self.on_path.contains(op) {
                self.args.push((keys.critical, Value::Uint(1)));
            }
        }
    }

    /// Arguments of transfers that run beside kernels: of one, when it was issued and needed; of all, how long it was
    /// hidden.
    fn beside_kernels(&mut self, traced: &TracedRank, ops: &[OpId]) {
        let us = |time: Time| Value::Milli(time.round_ns());
        let spans = ops.iter().map(|op| self.timeline.record.span(traced.source, *op));
        let hidden = spans.map(|(start, end)| self.beside.hidden(start, end)).fold(Time::ZERO, Time::add);
        if let [op] = ops {
            self.args.push((self.keys.issued, us(issued(self.timeline, traced, *op))));
            if let Some(needed) = self.beside.needed(*op) {
                let late = self.timeline.record.span(traced.source, *op).1.saturating_sub(needed);
                self.args.extend([(self.keys.needed, us(needed)), (self.keys.late, us(late))]);
            }
        }
        self.args.push((self.keys.hidden, us(hidden)));
    }

    /// Arguments of one kernel that did not take its nominal time: what noise and what its neighbours added.
    fn kernel(&mut self, traced: &TracedRank, op: OpId, nominal: Time, took: Time) {
        if took == nominal {
            return;
        }
        let alone = kernel_time(self.timeline.world, traced.rank, op, nominal.0);
        let us = |from: u64, to: u64| (to as f64 - from as f64) / 1e6;
        let (noise, interference) = (us(nominal.0, alone), us(alone, took.0));
        self.args.push((self.keys.nominal, Value::Float(us(0, nominal.0))));
        self.args.extend((noise != 0.0).then_some((self.keys.noise, Value::Float(noise))));
        self.args
            .extend((interference != 0.0).then_some((self.keys.interference, Value::Float(interference))));
    }

    /// Arguments of one communication op: with whom, and what sharing added.
    fn communication(&mut self, traced: &TracedRank, id: OpId, busy: Time) {
        let world = self.timeline.world;
        let program = world.program_of(traced.rank);
        let op = &program.ops[id.index()];
        let Work::Comm { slot, .. } = op.work else { return };
        let members = world.members_of(world.slots_of(traced.rank)[slot as usize]);
        let row = program.streams[op.stream as usize].kind;
        match (members, direction(row, &program.infos[op.info as usize].name)) {
            ([a, b], Some(_)) => {
                let peer = if *a == traced.rank { b } else { a };
                self.args.push((self.keys.peer, Value::Uint(u64::from(peer.0))));
            }
            ([] | [_], _) => {}
            _ => self.args.push((self.keys.group_size, Value::Uint(members.len() as u64))),
        }
        if let Some(alone) = self.timeline.uncontended.and_then(|alone| alone(traced.rank, id)) {
            let added = busy.saturating_sub(alone);
            self.args.push((self.keys.uncontended, Value::Milli(alone.round_ns())));
            self.args.push((self.keys.contention, Value::Milli(added.round_ns())));
        }
    }
}

/// The step of several that an op belongs to, from 1.
fn round(program: &Program, op: OpId) -> Option<u64> {
    let rounds = &program.rounds;
    (rounds.len() > 1).then(|| rounds.partition_point(|until| *until <= op.0) as u64 + 1)
}
