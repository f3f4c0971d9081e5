//! Hosts and the memory tiers behind the device memory: DRAM, CXL, NVMe, memory servers.
//!
//! A copy runs device – host link – host – port – tier. A link that several devices share is one link of the graph, so
//! that their copies contend: a host link behind a PCIe switch, a pool's port, the tier's own bandwidth.

use petgraph::graph::NodeIndex;

use super::builder::Builder;
use super::graph::{LinkClass, LinkHop, MachineVertex};
use super::machine::TierClass;
use stepsim_core::ids::TierId;
use stepsim_core::units::{Bandwidth, Bytes};
use stepsim_spec::topology::{Host, Memory, Via};

/// The hosts and the hops from each device to its own.
#[derive(Default)]
pub(super) struct Hosts {
    per_host: u32,
    hosts: Vec<NodeIndex<u32>>,
    /// One or two hops for each device.
    chains: Vec<[LinkHop; 2]>,
}

/// The links of one memory tier.
pub(super) struct Chains {
    first_tier: u32,
    shared_by: u32,
    via: Via,
    per_attachment: u32,
    /// Hop from each attachment to its instance's hub; empty where there is none.
    ports: Vec<LinkHop>,
    /// Hop of each instance into its memory.
    last: Vec<LinkHop>,
    /// Hop of each instance from its cache of writes to what it keeps; empty where there is none.
    past: Vec<LinkHop>,
}

impl Chains {
    pub fn tier(&self, device: u32) -> TierId {
        TierId(self.first_tier + device / self.shared_by)
    }
    /// The hop that its writes cross beyond these, once a cache of writes is full.
    pub fn past_cache(&self, device: u32) -> LinkHop {
        self.past.get((device / self.shared_by) as usize).copied().unwrap_or(LinkHop::NONE)
    }
    /// The hops from a device's memory to its instance.
    pub fn append(&self, device: u32, hosts: &Hosts, to_nic: &[LinkHop], hops: &mut Vec<LinkHop>) {
        match self.via {
            Via::Host => {
                hops.extend(hosts.chains[device as usize].iter().filter(|hop| **hop != LinkHop::NONE))
            }
            Via::Device => {}
            Via::Nic => hops.push(to_nic[device as usize]),
        }
        if !self.ports.is_empty() {
            // An instance has one port for each attachment, or one alone if several instances hang on one.
            let per_port = self.per_attachment.min(self.shared_by);
            hops.push(self.ports[(device / per_port) as usize]);
        }
        hops.push(self.last[(device / self.shared_by) as usize]);
    }
}

impl Builder<'_> {
    /// Adds the hosts and the links to them.
    pub fn hosts(&mut self) -> Hosts {
        let Some(Host { shared_by, link, link_shared_by, .. }) = &self.node.host else {
            return Hosts::default();
        };
        let per_host = shared_by.unwrap_or(self.per_node);
        let class = self.net.link_class(LinkClass::of(link));
        let host_class = self.net.switch_class("host", true, 0.0);
        let count = self.devices().div_ceil(per_host);
        let hosts: Vec<_> = (0..count).map(|i| self.net.switch(host_class, i)).collect();
        let mut chains = Vec::with_capacity(self.devices() as usize);
        if *link_shared_by == 1 {
            for device in 0..self.devices() {
                let host = hosts[(device / per_host) as usize];
                chains.push([self.net.link(NodeIndex::new(device as usize), host, class), LinkHop::NONE]);
            }
        } else {
            let port = self.net.link_class(LinkClass::of(link).instant());
            let pcie = self.net.switch_class("pcie", true, 0.0);
            for index in 0..self.devices().div_ceil(*link_shared_by) {
                let switch = self.net.switch(pcie, index);
                let first = index * link_shared_by;
                let shared = self.net.link(switch, hosts[(first / per_host) as usize], class);
                for device in first..(first + link_shared_by).min(self.devices()) {
                    chains.push([self.net.link(NodeIndex::new(device as usize), switch, port), shared]);
                }
            }
        }
        Hosts { per_host, hosts, chains }
    }

    /// Adds the instances of one memory tier and their links.
    pub fn memory_tier(&mut self, spec: &Memory, hosts: &Hosts, to_nic: &[LinkHop]) -> Chains {
        let attachments: Vec<NodeIndex<u32>> = match spec.via {
            Via::Host => hosts.hosts.clone(),
            Via::Device => (0..self.devices()).map(|d| NodeIndex::new(d as usize)).collect(),
            Via::Nic => self.nic_vertices.clone(),
        };
        let per_attachment = match spec.via {
            Via::Host => hosts.per_host,
            Via::Device => 1,
            Via::Nic => self.node.nics.as_ref().map_or(1, |nics| nics.shared_by),
        };
        let shared_by =
            spec.shared_by.unwrap_or(if spec.via == Via::Host { hosts.per_host } else { self.per_node });
        let mut class = LinkClass::of(&spec.link);
        let mut past = None;
        if let Some(write) = spec.write_gbps.map(Bandwidth::from_gbps) {
            match spec.write_cache_gb {
                None => class.capacity[0] = write,
                Some(_) => past = Some(LinkClass { capacity: [write; 2], combined: None, ..class.instant() }),
            }
        }
        let port = match (&spec.port, shared_by > per_attachment) {
            (Some(port), _) => Some(LinkClass::of(port)),
            // Several attachments and no port of their own: a link that limits nothing.
            (None, true) => Some(LinkClass { combined: None, half: false, ..class.instant() }),
            (None, false) => None,
        };
        let class = self.net.link_class(class);
        let [port, past] = [port, past].map(|class| class.map(|class| self.net.link_class(class)));
        let first_tier = self.tier_class.len() as u32;
        self.tiers.push(TierClass {
            name: spec.name.clone(),
            capacity: Bytes::from_gib(spec.capacity_gib),
            write_cache: Bytes((1e9 * spec.write_cache_gb.unwrap_or(0.0)).round() as u64),
        });
        let tier_class = self.tiers.len() as u32 - 1;
        let hub = self.net.switch_class(&format!("{}-port", spec.name), true, 0.0);
        let instances = self.devices().div_ceil(shared_by);
        let mut chains = Chains {
            first_tier,
            shared_by,
            via: spec.via,
            per_attachment,
            ports: Vec::new(),
            last: Vec::new(),
            past: Vec::new(),
        };
        for index in 0..instances {
            let tier = TierId(first_tier + index);
            self.tier_class.push(tier_class);
            let memory = self.net.graph.add_node(MachineVertex::Memory(tier));
            let first = index * shared_by / per_attachment;
            let count = shared_by.div_ceil(per_attachment);
            match port {
                None => chains.last.push(self.net.link(attachments[first as usize], memory, class)),
                Some(port) => {
                    let hub = self.net.switch(hub, index);
                    chains.last.push(self.net.link(hub, memory, class));
                    for attachment in attachments.iter().skip(first as usize).take(count as usize) {
                        chains.ports.push(self.net.link(*attachment, hub, port));
                    }
                }
            }
            if let Some(past) = past {
                let kept = self.net.switch(hub, instances + index);
                chains.past.push(self.net.link(memory, kept, past));
            }
        }
        assert!(spec.via != Via::Nic || !to_nic.is_empty());
        chains
    }
}
