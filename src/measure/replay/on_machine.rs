//! Rank programs on a machine: collectives and messages take what its links allow, shared with all that runs beside
//! them.
//!
//! Rank n is device n. Kernels take what the programs say; so do communications whose ranks or sizes the programs do
//! not tell.
//!
//! Hazard: communicators match the ops of their ranks by order, so all of them must queue the same in the same order.
//! [`OnMachine::play`] says where two do not.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::profile::classes::Family;
use crate::profile::programs::{ProgramOp, RankProgram, StepPrograms, TracedCollective};
use crate::replay::moved::MachineNetwork;
use stepsim_core::engine::{self, EngineError, Record};
use stepsim_core::ids::{DeviceId, OpId, ProgramId, RankId, TransferId};
use stepsim_core::program::{NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, StreamKind, Work, World};
use stepsim_core::units::Time;
use stepsim_fabric::collective::{Fidelity, Lowering, Op, Transfer};
use stepsim_spec::SpecError;

/// A step that was played on a machine.
#[derive(Debug)]
pub struct OnMachine {
    /// All ranks.
    pub world: World,
    /// The spans of all ops.
    pub record: Record,
    /// Communications that took what the programs say, because those do not say between whom and how much.
    pub untold: u64,
}

/// Why a step does not run on a machine.
#[derive(Debug, thiserror::Error)]
pub enum OnMachineError {
    /// The programs do not fit the machine, or each other.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The run.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A communicator: whether it is a channel from its first member to the second, its name, its members.
type CommunicatorKey = (bool, String, Vec<u64>);
/// The ops of a rank on a communicator, in order.
type CommunicatorQueue = Vec<(Op, u64)>;

impl OnMachine {
    /// Plays a step that has passed [`check`](crate::replay::check).
    ///
    /// # Errors
    /// The machine is too small, a group cannot do what is asked of it, or its ranks ask for different things; the
    /// programs wait for each other.
    pub fn play(step: &StepPrograms, network: &MachineNetwork) -> Result<OnMachine, OnMachineError> {
        let machine = network.machine();
        let mut world = machine.world();
        let mut lowering = Lowering::new(machine, Fidelity::Fluid, network.chooser().clone());
        let mut of_rank: BTreeMap<u64, RankId> = BTreeMap::new();
        let mut queues: BTreeMap<CommunicatorKey, BTreeMap<u64, (u16, CommunicatorQueue)>> = BTreeMap::new();
        let mut untold = 0;
        for (number, rank) in (0u32..).zip(&step.ranks) {
            if rank.rank >= u64::from(machine.devices()) {
                let problem = format!("has {} devices, and the step rank {}", machine.devices(), rank.rank);
                return Err(SpecError::file(network.name(), problem)
                    .allowed("a machine with a device for each rank")
                    .into());
            }
            let mut writer = ReplayWriter { lowering: &mut lowering, queues: Vec::new(), untold: 0 };
            world.programs.push(Arc::new(writer.program(rank)?));
            untold += writer.untold;
            let id = world.add_rank(ProgramId(number), writer.queues.len() as u32);
            if of_rank.insert(rank.rank, id).is_some() {
                return Err(SpecError::at("ranks", format!("two of them are rank {}", rank.rank)).into());
            }
            for (slot, (key, queue)) in (0u16..).zip(writer.queues) {
                queues.entry(key).or_default().insert(rank.rank, (slot, queue));
            }
        }
        for (key, members) in &queues {
            let queue = common(key, members)?;
            let mut transfers: Vec<TransferId> =
                queue.iter().map(|(op, bytes)| lowering.transfer(Transfer::new(*op, *bytes))).collect();
            transfers.sort_unstable_by_key(|t| t.0);
            transfers.dedup();
            let ranks: Vec<RankId> = key.2.iter().map(|rank| of_rank[rank]).collect();
            let devices: Vec<DeviceId> = key.2.iter().map(|rank| DeviceId(*rank as u32)).collect();
            let comm = lowering
                .comm(&mut world, &ranks, &devices, &transfers)
                .map_err(|e| SpecError::file(network.name(), format!("ranks {:?}: {e}", key.2)))?;
            for (rank, (slot, _)) in members {
                world.bind(of_rank[rank], *slot, comm);
            }
        }
        let record = engine::run(&world)?;
        Ok(OnMachine { world, record, untold })
    }
}

/// The queue of a communicator's members, which must be the same for all.
fn common<'a>(
    key: &CommunicatorKey,
    members: &'a BTreeMap<u64, (u16, CommunicatorQueue)>,
) -> Result<&'a CommunicatorQueue, SpecError> {
    let (ranks, mut queues) = (&key.2, key.2.iter().map(|rank| (rank, members.get(rank).map(|m| &m.1))));
    let wrong = |problem: String| {
        Err(SpecError::at("ranks", problem)
            .hint("all ranks of a group queue the same collectives in the same order"))
    };
    let Some((first, Some(queue))) = queues.next() else {
        return wrong(format!("of the group {ranks:?}, rank {} queues nothing", ranks.first().unwrap_or(&0)));
    };
    for (rank, other) in queues {
        let Some(other) = other else {
            return wrong(format!(
                "of the group {ranks:?}, rank {rank} queues nothing, and rank {first} does"
            ));
        };
        let words = |queue: &CommunicatorQueue, i: usize| {
            queue.get(i).map_or("nothing".to_owned(), |(op, bytes)| format!("{} of {bytes} bytes", op.name()))
        };
        let differ = (0..queue.len().max(other.len())).find(|i| queue.get(*i) != other.get(*i));
        if let Some(i) = differ {
            let [ours, theirs] = [words(queue, i), words(other, i)];
            return wrong(format!(
                "of the group {ranks:?}, rank {first} queues {ours} as number {i}, and rank {rank} {theirs}"
            ));
        }
    }
    Ok(queue)
}

struct ReplayWriter<'a, 'm> {
    lowering: &'a mut Lowering<'m>,
    /// By slot.
    queues: Vec<(CommunicatorKey, CommunicatorQueue)>,
    untold: u64,
}

impl ReplayWriter<'_, '_> {
    fn program(&mut self, rank: &RankProgram) -> Result<stepsim_core::program::Program, SpecError> {
        let mut b = ProgramBuilder::new();
        for number in 0..rank.streams.len() {
            b.stream(kind(rank, number));
        }
        let mut infos: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        let mut ends: Vec<OpId> = Vec::new();
        for op in &rank.ops {
            // A collective is named by its kind: names of kernels differ, and an area of a timeline sums by name.
            let name = if op.collective.is_some() { &op.class } else { &op.name };
            let bytes = op.collective.as_ref().and_then(|c| c.bytes).unwrap_or(0);
            let info = *infos
                .entry((name, &op.class))
                .or_insert_with(|| b.info(OpInfo::of(name.clone(), Phase::Forward, bytes as f64)));
            let stream = op.stream as u16;
            let mut waits: Vec<OpId> = op.after.iter().map(|a| ends[*a as usize]).collect();
            let lead_ns = op.lead_ns + op.launched_ns;
            if lead_ns > 0 {
                let lead = Work::Compute { time: Time::from_ns(lead_ns) };
                waits = vec![b.op(stream, lead, &waits, info, NO_MICRO_BATCH)];
            }
            let work = match self.told(op) {
                Some((key, op, bytes)) => self.communication(key, op, bytes)?,
                None => Work::Compute { time: Time::from_ns(op.ns) },
            };
            ends.push(b.op(stream, work, &waits, info, NO_MICRO_BATCH));
        }
        Ok(b.finish())
    }

    /// Between whom an op communicates, and what.
    fn told(&mut self, op: &ProgramOp) -> Option<(CommunicatorKey, Op, u64)> {
        let collective = op.collective.as_ref()?;
        let told = told(collective);
        self.untold += u64::from(told.is_none() && collective.group_size != 1);
        told
    }

    fn communication(&mut self, key: CommunicatorKey, op: Op, bytes: u64) -> Result<Work, SpecError> {
        let found = self.queues.iter().position(|queue| queue.0 == key);
        let slot = found.unwrap_or_else(|| {
            self.queues.push((key, Vec::new()));
            self.queues.len() - 1
        });
        let number = u16::try_from(slot)
            .map_err(|_| SpecError::at("ranks", "a rank is in more than 65,536 groups"))?;
        self.queues[slot].1.push((op, bytes));
        Ok(Work::Comm { slot: number, transfer: self.lowering.transfer(Transfer::new(op, bytes)) })
    }
}

/// Between whom, and what, if the programs say it.
fn told(collective: &TracedCollective) -> Option<(CommunicatorKey, Op, u64)> {
    let ranks = &collective.ranks;
    let op = Op::ALL.into_iter().find(|op| op.name() == collective.kind)?;
    let bytes = collective.bytes.filter(|_| ranks.len() > 1)?;
    Some(((op == Op::SendRecv, collective.group.clone(), ranks.clone()), op, bytes))
}

/// The purpose of a stream, by its first op.
fn kind(rank: &RankProgram, stream: usize) -> StreamKind {
    let first = rank.ops.iter().find(|op| op.stream as usize == stream);
    match first.map(|op| (op.family, op.collective.as_ref())) {
        Some((None, _)) => StreamKind::Host,
        Some((_, Some(c))) if c.kind == "send-recv" && c.ranks.first() == Some(&rank.rank) => {
            StreamKind::PipelineSend
        }
        Some((_, Some(c))) if c.kind == "send-recv" => StreamKind::PipelineRecv,
        Some((Some(Family::Communication), _)) => StreamKind::Data,
        Some(_) => StreamKind::Compute,
        None if stream == 0 => StreamKind::Host,
        None => StreamKind::Compute,
    }
}
