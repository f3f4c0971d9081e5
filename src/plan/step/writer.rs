//! The rank that is being written: its streams and units, what policies must know of one another, and the pushing of
//! ops that belong to no layer list.

use rustc_hash::FxHashMap;

use super::groups::Group;
use super::residency::visits::RankVisits;
use super::unit::{Label, Unit};
use super::{Prices, Setup};
use crate::launch::HostWait;
use stepsim_core::ids::{OpId, TransferId};
use stepsim_core::program::{NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, StreamKind, Work};
use stepsim_core::units::Time;
use stepsim_fabric::collective::{Lowering, Op, Transfer};
use stepsim_price::model::Kernel;
use stepsim_schedule::{Order, Seat};
use stepsim_spec::stack::HostRead;

/// The rank that is being written.
pub(super) struct Writer<'a, 'm> {
    pub setup: &'a Setup<'a>,
    /// The order of its passes.
    pub order: &'a Order,
    pub prices: &'a dyn Prices,
    lowering: &'a mut Lowering<'m>,
    /// For each pipeline rank, for each group (slot), the transfers that its programs ask for.
    pub used: Vec<Vec<Vec<TransferId>>>,
    /// By pipeline rank: ops whose results the host reads.
    pub reads: Vec<Vec<HostWait>>,
    /// By pipeline rank: kernels behind the numbers of their descriptions.
    pub kernels: Vec<Vec<(u32, Kernel)>>,
    /// Its number in the pipeline.
    pub rank: u32,
    /// Stream of each group's slot.
    pub streams: Vec<u16>,
    pub compute: u16,
    pub units: Vec<Unit>,
    /// First unit of each chunk; one entry more than chunks.
    pub first_unit: Vec<u32>,
    infos: FxHashMap<(Group, TransferId, Phase, Option<u32>), u32>,
    /// The step of the run that is being written.
    pub step: u32,
    /// Bytes that the rank has written in this step to tiers with a cache of writes.
    pub cached: FxHashMap<u8, u64>,
    pub visits: RankVisits,
    /// By unit: ops after which its gradient is reduced, and is where it lives.
    pub reduced: Vec<Vec<OpId>>,
    /// By unit: ops after which the weights that the step before has updated may be read.
    pub fresh: Vec<Vec<OpId>>,
}

impl<'a, 'm> Writer<'a, 'm> {
    pub fn new(
        setup: &'a Setup<'a>,
        order: &'a Order,
        prices: &'a dyn Prices,
        lowering: &'a mut Lowering<'m>,
    ) -> Self {
        let ranks = order.placement.ranks() as usize;
        Writer {
            setup,
            order,
            prices,
            lowering,
            used: vec![vec![Vec::new(); setup.shares.groups.len()]; ranks],
            reads: vec![Vec::new(); ranks],
            kernels: vec![Vec::new(); ranks],
            rank: 0,
            streams: Vec::new(),
            compute: 0,
            units: Vec::new(),
            first_unit: Vec::new(),
            infos: FxHashMap::default(),
            step: 0,
            cached: FxHashMap::default(),
            visits: RankVisits::default(),
            reduced: Vec::new(),
            fresh: Vec::new(),
        }
    }

    /// The program of a pipeline rank begins: its streams and units.
    pub fn begin(&mut self, b: &mut ProgramBuilder, rank: u32) {
        self.rank = rank;
        self.step = 0;
        self.infos.clear();
        self.compute = b.stream(StreamKind::Compute);
        // Groups that share a stream: tensor, context and expert each have one; every other group has its own.
        let mut shared: Vec<(StreamKind, u16)> = Vec::new();
        let stream_of = |group: &Group| {
            let kind = group.stream();
            let own = !matches!(group, Group::Layer(_));
            match shared.iter().find(|(k, _)| *k == kind && !own) {
                Some((_, stream)) => *stream,
                None => {
                    let stream = b.stream(kind);
                    if !own {
                        shared.push((kind, stream));
                    }
                    stream
                }
            }
        };
        self.streams = self.setup.shares.groups.iter().map(stream_of).collect();
        self.units.clear();
        self.first_unit = vec![0];
        let placement = &self.order.placement;
        for chunk in 0..placement.chunks(rank) {
            let at = placement.stage(Seat { rank, chunk });
            self.units.extend(self.setup.stages[at.stage as usize].iter().cloned());
            self.first_unit.push(self.units.len() as u32);
        }
        self.fresh = vec![Vec::new(); self.units.len()];
    }
    /// Nothing of the step to come has happened yet.
    pub fn begin_step(&mut self) {
        let passes: Vec<u32> = (0..self.units.len() as u32).map(|unit| self.backward_passes(unit)).collect();
        self.visits.begin_step(passes);
        self.cached.clear();
        self.reduced = vec![Vec::new(); self.units.len()];
    }

    /// The first unit of a module that the rank holds beside its stages; as many as there are units where it holds
    /// none.
    pub fn first_beside(&self) -> u32 {
        let chunks = self.first_unit.len() - if self.order.placement.has_sides() { 2 } else { 1 };
        self.first_unit[chunks]
    }
    /// Micro-batches that add to the gradient of a unit.
    pub fn backward_passes(&self, unit: u32) -> u32 {
        match unit >= self.first_beside() {
            true => self.order.placement.owned(self.rank).count() as u32,
            false => self.order.per_direction(),
        }
    }

    /// The slot of a group, if it has more than one member (copies always have one).
    pub fn slot(&self, group: Group) -> Option<u16> {
        self.setup.shares.groups.iter().position(|g| *g == group).map(|s| s as u16)
    }

    /// Notes that this rank's `slot` does a transfer, and returns its id.
    pub fn transfer(&mut self, slot: u16, transfer: Transfer) -> TransferId {
        let id = self.lowering.transfer(transfer);
        let used = &mut self.used[self.rank as usize][usize::from(slot)];
        if !used.contains(&id) {
            used.push(id);
        }
        id
    }

    /// Pushes a communication that belongs to no layer list: a reduction, a gather or a copy. `None` if the group has
    /// one member.
    #[allow(clippy::too_many_arguments)]
    pub fn communicate(
        &mut self,
        b: &mut ProgramBuilder,
        group: Group,
        op: Op,
        bytes: u64,
        (name, phase, layer): (&'static str, Phase, Option<u32>),
        waits: &[OpId],
        micro_batch: u32,
    ) -> Option<OpId> {
        let slot = self.slot(group)?;
        if bytes == 0 {
            return None;
        }
        let transfer = self.transfer(slot, Transfer::new(op, bytes));
        let info = self.describe(b, group, transfer, (name, phase, layer), bytes);
        Some(b.op(self.streams[usize::from(slot)], Work::Comm { slot, transfer }, waits, info, micro_batch))
    }

    /// Pushes a kernel that belongs to no layer list.
    pub fn kernel(
        &mut self,
        b: &mut ProgramBuilder,
        kernel: &Kernel,
        phase: Phase,
        layer: Option<u32>,
        waits: &[OpId],
    ) -> OpId {
        let (info, time, slowdown) = self.price(b, kernel, phase, &Label { module: None, layer });
        let op = b.op(self.compute, Work::Compute { time }, waits, info, NO_MICRO_BATCH);
        b.slowdown(op, slowdown);
        op
    }

    /// The description of a kernel, its time, and how much longer it takes beside communication. No op is priced
    /// elsewhere.
    pub fn price(
        &mut self,
        b: &mut ProgramBuilder,
        kernel: &Kernel,
        phase: Phase,
        of: &Label,
    ) -> (u32, Time, u16) {
        let info = b.info(info_of(kernel, phase, of));
        self.kernels[self.rank as usize].push((info, *kernel));
        (info, self.prices.time(kernel), self.prices.slowdown(kernel))
    }

    /// The description of a communication, pushed once a program.
    pub fn describe(
        &mut self,
        b: &mut ProgramBuilder,
        group: Group,
        transfer: TransferId,
        (name, phase, layer): (&'static str, Phase, Option<u32>),
        bytes: u64,
    ) -> u32 {
        *self.infos.entry((group, transfer, phase, layer)).or_insert_with(|| {
            b.info(OpInfo { name: name.into(), phase, layer, class: None, flops: 0.0, bytes: bytes as f64 })
        })
    }

    /// Notes that the host reads this, if it does.
    pub fn host_reads(&mut self, read: HostWait) {
        let w = self.setup.shares.workload;
        let unasked = read.what == HostRead::GradientNorm && self.setup.updates_unasked;
        if !unasked && w.host().is_some_and(|host| host.reads.contains(&read.what)) {
            self.reads[self.rank as usize].push(read);
        }
    }

    /// Bytes of activations that a unit keeps between its passes under the policy.
    pub fn kept(&self, unit: u32) -> u64 {
        self.units[unit as usize].kept_bytes
    }
    /// Bytes of activations that its backward pass reads.
    pub fn all(&self, unit: u32) -> u64 {
        let unit = &self.units[unit as usize];
        unit.saved_bytes.max(unit.kept_bytes)
    }
    /// Bytes of a unit's checkpointed input that stay until a backward pass has ended, and as many of its gradient.
    pub fn staying(&self, unit: u32) -> u64 {
        self.setup.shares.staying_bytes(&self.units[unit as usize])
    }
    pub fn held_for_weight_grad(&self, unit: u32) -> u64 {
        self.units[unit as usize].plan.weight_grad_bytes
    }

    /// Bytes of a unit's weights as passes read them.
    pub fn unit_weight_bytes(&self, unit: u32) -> u64 {
        self.setup.shares.weight_bytes(&self.units[unit as usize])
    }
    /// Parameters of some units that this rank updates.
    pub fn updated_parameters(&self, units: std::ops::Range<usize>) -> u64 {
        self.setup.shares.updated(self.units[units].iter())
    }
}

fn info_of(kernel: &Kernel, phase: Phase, of: &Label) -> OpInfo {
    OpInfo {
        name: of.name(kernel.name),
        phase,
        layer: of.layer,
        class: Some(kernel.class),
        flops: kernel.flops,
        bytes: kernel.bytes,
    }
}
