//! Machines made in a program, part by part: what a topology file says, as methods.
//!
//! ```
//! use stepsim_spec::{Device, Spec};
//! use stepsim_spec::topology::{Link, Topology};
//!
//! let device = Device::of("mine", 500.0, 96.0, 3000.0);
//! let topology = Topology::of(device)
//!     .switch(8, Link::of(450.0, 0.5))
//!     .host(Link::of(64.0, 1.0))
//!     .memory("host", 2048.0, Link::of(200.0, 0.2))
//!     .nodes(4, Link::of(50.0, 2.0), 0.5);
//! assert_eq!(topology.validate(), Ok(()));
//! ```

use super::device::{Device, Hbm, Peaks};
use super::topology::{
    Clos, Fabric, Host, Link, Memory, Nics, Node, ScaleUp, Switch, SwitchTier, Topology, Torus, Via, Wrap,
    core_gbps,
};

impl Device {
    /// A device with `peak_tflops` dense 10¹² FLOP/s in 16-bit formats, `memory_gb` 10⁹ bytes of memory and
    /// `memory_gbps` 10⁹ B/s. Other formats and the facts of its kernels are fields.
    pub fn of(name: &str, peak_tflops: f64, memory_gb: f64, memory_gbps: f64) -> Device {
        let peak = Some(peak_tflops);
        Device {
            name: name.to_string(),
            peak_dense_tflops: Peaks { bf16: peak, fp16: peak, ..Peaks::default() },
            hbm: Some(Hbm { gb: memory_gb, gbps: memory_gbps, kind: None }),
            ..Device::default()
        }
    }
}

impl Clos {
    /// One switch that limits nothing: the fabric of a site that gives none.
    pub fn one_switch(name: &str, latency_us: f64) -> Clos {
        let name = name.to_string();
        let tier = SwitchTier { name, serves: None, oversubscription: 1.0, latency_us };
        Clos { tiers: vec![tier], ..Clos::default() }
    }
}

impl Topology {
    /// One node of one device.
    pub fn of(device: Device) -> Topology {
        let node = Some(Node { devices: Some(1), ..Node::default() });
        Topology { device, nodes: 1, node, ..Topology::default() }
    }
    /// A node's devices, each with one port of a crossbar.
    pub fn switch(self, devices: u32, port: Link) -> Topology {
        let switch = Switch { link: port, latency_us: 0.0, in_switch_reduction: false };
        self.with_node(|node| {
            node.devices = Some(devices);
            node.scale_up = Some(ScaleUp::Switch(switch));
        })
    }
    /// A node's devices in a grid whose axes close to rings, with a link to each neighbour.
    pub fn torus(self, dims: &[u32], link: Link) -> Topology {
        let torus = Torus { dims: dims.to_vec(), wrap: Wrap::Always, link };
        self.with_node(|node| {
            node.devices = None;
            node.scale_up = Some(ScaleUp::Torus(torus));
        })
    }
    /// The host of a node, with a link to each device.
    pub fn host(self, link: Link) -> Topology {
        self.with_node(|node| {
            node.host = Some(Host { shared_by: None, link, link_shared_by: 1, core_gbps: core_gbps() })
        })
    }
    /// A memory tier of a node behind its host, of `capacity_gib` GiB; workloads' `offload` names it by `name`.
    pub fn memory(self, name: &str, capacity_gib: f64, link: Link) -> Topology {
        let name = name.to_string();
        let memory = Memory {
            name,
            capacity_gib,
            shared_by: None,
            via: Via::Host,
            link,
            write_gbps: None,
            write_cache_gb: None,
            port: None,
        };
        self.with_node(|node| node.memory.push(memory))
    }
    /// So many nodes on one switch of a latency in µs, a network interface for each device.
    pub fn nodes(self, nodes: u32, nic: Link, switch_us: f64) -> Topology {
        let fabric = Some(Fabric::Clos(Clos::one_switch("switch", switch_us)));
        let nics = Nics { shared_by: 1, bundle: 1, link: nic };
        Topology { nodes, fabric, ..self.with_node(|node| node.nics = Some(nics)) }
    }
    fn with_node(mut self, change: impl FnOnce(&mut Node)) -> Topology {
        if let Some(node) = &mut self.node {
            change(node);
        }
        self
    }
}
