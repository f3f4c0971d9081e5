//! Small machines and worlds for the tests of collectives.

use stepsim_core::engine;
use stepsim_core::ids::{CommId, DeviceId, RankId, ResourceId, TransferId};
use stepsim_core::program::{OpInfo, Phase, ProgramBuilder, StreamKind, Work, World};
use stepsim_core::units::{Bandwidth, Time};
use stepsim_fabric::collective::{
    Chooser, DomainWiring, Fidelity, Lowering, Network, Op, TorusAxis, Transfer, algorithm,
};
use stepsim_fabric::topology::Machine;

/// `nodes · per_node` devices: a port each way on the node's switch, and one on the network.
pub struct Nodes {
    pub per_node: u32,
    pub inside: (f64, f64),
    pub between: (f64, f64),
    pub fabric: DomainWiring,
}

impl Nodes {
    /// `n` devices behind one switch of `rate` bytes per second a port and `alpha` seconds.
    pub fn switch(n: u32, rate: f64, alpha: f64) -> Nodes {
        let fabric = DomainWiring::Switch { reduces: true };
        Nodes { per_node: n, inside: (rate, alpha), between: (rate, alpha), fabric }
    }
}

impl Network for Nodes {
    fn route(&self, from: DeviceId, to: DeviceId, path: &mut Vec<ResourceId>) -> Result<Time, String> {
        let across = u32::from(self.node_of(from) != self.node_of(to));
        path.extend([ResourceId(4 * from.0 + 2 * across), ResourceId(4 * to.0 + 2 * across + 1)]);
        Ok(Time::from_s(if across == 1 { self.between.1 } else { self.inside.1 }))
    }
    fn capacity(&self, r: ResourceId) -> Bandwidth {
        Bandwidth(if r.0 % 4 < 2 { self.inside.0 } else { self.between.0 })
    }
    fn node_of(&self, d: DeviceId) -> u32 {
        d.0 / self.per_node
    }
    fn fabric(&self) -> DomainWiring {
        self.fabric.clone()
    }
}

/// A torus or a part of one; routes only between neighbours.
pub struct Box3 {
    pub axes: Vec<TorusAxis>,
    pub rate: f64,
    pub alpha: f64,
}

impl Box3 {
    pub fn new(axes: &[(u32, bool)], rate: f64, alpha: f64) -> Box3 {
        Box3 { axes: axes.iter().map(|&(len, wraps)| TorusAxis { len, wraps }).collect(), rate, alpha }
    }
}

impl Network for Box3 {
    fn route(&self, from: DeviceId, to: DeviceId, path: &mut Vec<ResourceId>) -> Result<Time, String> {
        let (a, b) = (self.coordinates(from), self.coordinates(to));
        let differ: Vec<usize> = (0..3).filter(|&k| a[k] != b[k]).collect();
        let [k] = differ[..] else { return Err("not neighbours".into()) };
        let axis = self.axes[k];
        let forward = (a[k] + 1) % axis.len == b[k] && (axis.wraps || b[k] > a[k]);
        let backward = (b[k] + 1) % axis.len == a[k] && (axis.wraps || a[k] > b[k]);
        if !forward && !backward {
            return Err("not neighbours".into());
        }
        path.push(ResourceId(6 * from.0 + 2 * k as u32 + u32::from(!forward)));
        Ok(Time::from_s(self.alpha))
    }
    fn capacity(&self, _: ResourceId) -> Bandwidth {
        Bandwidth(self.rate)
    }
    fn node_of(&self, _: DeviceId) -> u32 {
        0
    }
    fn fabric(&self) -> DomainWiring {
        DomainWiring::Torus(self.axes.clone())
    }
    fn coordinates(&self, d: DeviceId) -> [u32; 3] {
        let mut rest = d.0;
        std::array::from_fn(|k| {
            let len = self.axes.get(k).map_or(1, |a| a.len);
            let at = rest % len;
            rest /= len;
            at
        })
    }
}

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

/// Time of one transfer on all `n` devices of a network by a named algorithm.
pub fn time(
    net: &dyn Network,
    n: u32,
    op: Op,
    bytes: u64,
    name: &str,
    chunks: Option<u32>,
    f: Fidelity,
) -> f64 {
    let algorithm = algorithm(name).expect("a known algorithm");
    let mut trial = Trial::new(net, f, Chooser::always(algorithm, chunks));
    trial.group(net, &(0..n).collect::<Vec<_>>(), op, bytes);
    trial.ends()[0]
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
