//! Groups that do one transfer each, and what their messages take on a machine.

use stepsim_core::engine;
use stepsim_core::ids::{CommId, DeviceId, RankId, ResourceId, TransferId};
use stepsim_core::program::{OpInfo, Phase, ProgramBuilder, StreamKind, Work, World};
use stepsim_fabric::collective::{Chooser, Fidelity, Lowering, Network, Op, Transfer};
use stepsim_fabric::topology::Machine;

/// Groups that each do one transfer at time zero.
pub struct Trial<'m> {
    pub world: World,
    lowering: Lowering<'m>,
}

impl<'m> Trial<'m> {
    pub fn new(net: &'m dyn Network, fidelity: Fidelity, chooser: Chooser) -> Trial<'m> {
        Trial { world: World::default(), lowering: Lowering::new(net, fidelity, chooser) }
    }
    /// A group of new ranks on these devices.
    pub fn group(&mut self, net: &dyn Network, devices: &[u32], op: Op, bytes: u64) -> Vec<RankId> {
        let id = self.lowering.transfer(Transfer::new(op, bytes));
        let ranks: Vec<RankId> = devices.iter().map(|_| self.rank(id)).collect();
        let devices: Vec<DeviceId> = devices.iter().map(|&d| DeviceId(d)).collect();
        let comm =
            self.lowering.comm(&mut self.world, &ranks, &devices, &[id]).expect("a group that can run");
        ranks.iter().for_each(|&r| self.world.bind(r, 0, comm));
        self.resources(net);
        ranks
    }
    /// A new rank with one op.
    fn rank(&mut self, id: TransferId) -> RankId {
        let mut b = ProgramBuilder::new();
        let info = OpInfo::of("op", Phase::Forward, 0.0);
        let info = b.info(info);
        let s = b.stream(StreamKind::Tensor);
        b.op(s, Work::Comm { slot: 0, transfer: id }, &[], info, 0);
        let program = self.world.add_program(b.finish());
        self.world.add_rank(program, 1)
    }
    /// Adds the resources that paths name.
    fn resources(&mut self, net: &dyn Network) {
        let paths = (0..)
            .zip(self.world.comms())
            .flat_map(|(c, comm)| (0..comm.paths.len).map(move |p| (CommId(c), p)));
        let uses = paths.flat_map(|(comm, path)| self.world.path(comm, path));
        let most = uses.map(|u| u.0.0).max().map_or(0, |m| m as usize + 1);
        for r in self.world.resources().len()..most {
            self.world.add_resource(net.capacity(ResourceId(r as u32)));
        }
    }
    /// When each rank's op ended, in seconds.
    pub fn ends(&self) -> Vec<f64> {
        engine::run(&self.world).expect("runs").spans.iter().map(|(_, end)| end.s()).collect()
    }
}

/// Devices of a group that is played.
const MOST: u32 = 64;

/// On all devices of a machine; of a large one, on those around the border of its first node.
pub fn check_messages(name: &str, machine: &Machine) {
    let node = |device: u32| machine.node_of(DeviceId(device));
    let all = machine.devices();
    let border = (0..all).take_while(|device| node(*device) == node(0)).count() as u32;
    let first = border.saturating_sub(MOST / 2).min(all.saturating_sub(MOST));
    let all: Vec<u32> = (first..all.min(first + MOST)).collect();
    // Neighbours in order: the border between two nodes is among them.
    let next = all.iter().cycle().skip(1);
    let pairs: Vec<[u32; 2]> = all.iter().zip(next).map(|(a, b)| [*a, *b]).collect();
    let far = pairs.iter().filter(|[a, b]| node(*a) != node(*b)).chain(&pairs[..1]);
    let apart: Vec<&[u32; 2]> = far.filter(|[a, b]| a != b).collect();
    if apart.is_empty() {
        return;
    }
    let took = |fidelity, devices: &[u32], op: Op, bytes: u64| {
        let mut trial = Trial::new(machine, fidelity, Chooser::best());
        trial.group(machine, devices, op, bytes);
        trial.ends()[0]
    };
    for (op, bytes) in [Op::RingShift, Op::AllToAll, Op::AllReduce, Op::AllGather]
        .into_iter()
        .flat_map(|op| [1u64 << 16, 1 << 25].map(|bytes| (op, bytes)))
    {
        let each = if op == Op::RingShift { bytes } else { bytes / all.len() as u64 };
        let of = |fidelity| {
            let sent =
                |bytes: u64| apart.iter().map(move |pair| took(fidelity, &pair[..], Op::SendRecv, bytes));
            let longest = |bytes| sent(bytes).fold(0.0, f64::max);
            // Algorithms reckon with the latency of one pair: the farthest may have a switch more between it.
            let farther = longest(1) - sent(1).fold(f64::INFINITY, f64::min);
            let (alone, together) = (longest(each) - farther, took(fidelity, &all, op, bytes));
            let what = op.name();
            assert!(
                together >= alone * (1.0 - ROUNDING),
                "{name} {fidelity:?}: {what} of {bytes} B takes {together} s, a message of it {alone}"
            );
            together
        };
        let (formula, fluid) = (of(Fidelity::Formula), of(Fidelity::Fluid));
        let what = op.name();
        assert!(
            (formula / fluid - 1.0).abs() < OFF,
            "{name}: {what} of {bytes} B takes {formula} s by formula, {fluid} played"
        );
    }
}

/// Times are whole picoseconds, rates whole bytes per second.
const ROUNDING: f64 = 1e-5;

/// The formula of a collective is as near to its play.
const OFF: f64 = 0.25;
