//! Small machines for the tests of collectives.

use stepsim_core::ids::{DeviceId, ResourceId};
use stepsim_core::units::{Bandwidth, Time};
use stepsim_fabric::collective::{Chooser, DomainWiring, Fidelity, Network, Op, TorusAxis, algorithm};

use crate::messages::Trial;

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
