//! Tests of all algorithms together: golden values, and the agreement of the three fidelities.

use super::*;
use crate::ids::{DeviceId, RankId, ResourceId};
use crate::program::{Action, World};
use crate::units::{Bandwidth, Time};

/// `n` devices behind one switch: resource `2d` is the port up, `2d + 1` the port down.
struct Switch {
    rate: f64,
    latency: Time,
}

impl Network for Switch {
    fn route(&self, from: DeviceId, to: DeviceId, path: &mut Vec<ResourceId>) -> Result<Time, String> {
        path.extend([ResourceId(2 * from.0), ResourceId(2 * to.0 + 1)]);
        Ok(self.latency)
    }
    fn capacity(&self, _: ResourceId) -> Bandwidth {
        Bandwidth(self.rate)
    }
    fn node_of(&self, _: DeviceId) -> u32 {
        0
    }
    fn fabric(&self) -> Fabric {
        Fabric::Switch { reduces: true }
    }
}

/// A world with one communicator of `n` that knows one transfer.
fn lowered(net: &dyn Network, n: u32, t: Transfer, chooser: Chooser, fidelity: Fidelity) -> World {
    let mut world = World::default();
    let mut lowering = Lowering::new(net, fidelity, chooser);
    let id = lowering.transfer(t);
    let ranks: Vec<RankId> = (0..n).map(RankId).collect();
    let devices: Vec<DeviceId> = (0..n).map(DeviceId).collect();
    lowering
        .comm(&mut world, &ranks, &devices, &[id])
        .expect("a group that can run");
    world
}

/// Time of a phased or fixed action on an idle network.
fn idle_time(net: &dyn Network, world: &World) -> f64 {
    match &world.actions[0] {
        Action::Fixed(t) => t.s(),
        Action::Phases(flows) => flows
            .iter()
            .map(|f| {
                let path = world.path(crate::ids::CommId(0), f.path);
                let slowest = path
                    .iter()
                    .map(|&(r, c)| f64::from(c) / net.capacity(r).0)
                    .fold(0.0, f64::max);
                f.latency.s() + f.bytes * slowest
            })
            .sum(),
        Action::Graph { .. } => panic!("the engine plays graphs"),
    }
}

#[test]
fn ring_all_reduce_on_a_switch_takes_the_textbook_time() {
    // 2(n−1)(α + S/(nB)) = 14·(2 us + 1e6/(8·100e9)) = 14·(2 + 1.25) us.
    let net = Switch {
        rate: 100e9,
        latency: Time::from_us(2.0),
    };
    let t = Transfer {
        op: Op::AllReduce,
        bytes: 1_000_000,
    };
    let chooser = || Chooser::Always {
        algorithm: algorithm("ring").expect("known"),
        chunks: None,
    };
    for fidelity in [Fidelity::Formula, Fidelity::Fluid] {
        let world = lowered(&net, 8, t, chooser(), fidelity);
        assert!((idle_time(&net, &world) - 45.5e-6).abs() < 1e-15);
    }
    let world = lowered(&net, 8, t, chooser(), Fidelity::Steps);
    let Action::Graph { flows, parents, .. } = &world.actions[0] else {
        panic!("steps")
    };
    assert_eq!(flows.len(), 14 * 8);
    assert!(parents[..8].iter().all(|p| p.is_empty()) && parents[8..].iter().all(|p| p.len == 2));
}

#[test]
fn equal_groups_share_a_profile_and_lone_ranks_take_no_time() {
    let net = Switch {
        rate: 100e9,
        latency: Time::from_us(2.0),
    };
    let mut world = World::default();
    let mut lowering = Lowering::new(&net, Fidelity::Fluid, Chooser::Best);
    let id = lowering.transfer(Transfer {
        op: Op::AllGather,
        bytes: 4096,
    });
    for first in [0, 4] {
        let ranks: Vec<RankId> = (first..first + 4).map(RankId).collect();
        let devices: Vec<DeviceId> = (first..first + 4).map(DeviceId).collect();
        lowering.comm(&mut world, &ranks, &devices, &[id]).expect("runs");
    }
    lowering
        .comm(&mut world, &[RankId(9)], &[DeviceId(9)], &[id])
        .expect("runs");
    assert_eq!(world.comms[0].profile, world.comms[1].profile);
    assert_ne!(
        world.path(crate::ids::CommId(0), 0),
        world.path(crate::ids::CommId(1), 0)
    );
    assert_eq!(
        world.actions[world.profiles[world.comms[2].profile as usize][0] as usize],
        Action::Fixed(Time::ZERO)
    );
}
