//! Machines with one of their resources faster or slower.

use super::device::{Device, Peaks};
use super::topology::{Fabric, Link, ScaleUp, Topology};

impl Topology {
    /// All devices, other nodes' and drawn vertices' included.
    fn devices_mut(&mut self) -> impl Iterator<Item = &mut Device> {
        let drawn = self.graph.iter_mut().flat_map(|g| &mut g.vertices).filter_map(|v| v.device.as_mut());
        let others = self.other_nodes.iter_mut().map(|other| &mut other.device);
        std::iter::once(&mut self.device).chain(others).chain(drawn)
    }
    /// Multiplies the matrix peaks of all devices, in every format.
    pub fn scale_matrix_rate(&mut self, factor: f64) {
        for device in self.devices_mut() {
            let Peaks { fp32, tf32, bf16, fp16, fp8, fp6, fp4, int8 } = &mut device.peak_dense_tflops;
            [fp32, tf32, bf16, fp16, fp8, fp6, fp4, int8].into_iter().flatten().for_each(|p| *p *= factor);
        }
    }
    /// Multiplies the bandwidth of all devices' memories.
    pub fn scale_memory_rate(&mut self, factor: f64) {
        self.devices_mut().filter_map(|d| d.hbm.as_mut()).for_each(|hbm| hbm.gbps *= factor);
    }
    /// Multiplies the bandwidth of a class of links ([`Topology::link_classes`]).
    pub fn scale_links(&mut self, class: &str, factor: f64) {
        for (_, link) in self.links_mut().into_iter().filter(|(of, _)| of == class) {
            link.gbps *= factor;
            link.combined_gbps.iter_mut().for_each(|combined| *combined *= factor);
        }
        let tiers = self.node.iter_mut().flat_map(|n| &mut n.memory);
        tiers
            .filter(|m| class.strip_prefix("tier.") == Some(&m.name))
            .filter_map(|m| m.write_gbps.as_mut())
            .for_each(|w| *w *= factor);
    }
    /// The classes of links that it has: `scale-up`, `nic`, `host-link`, `local` and `global` of a dragonfly,
    /// `sites`, `links` of a drawn machine, and its memory tiers (`tier.host`).
    pub fn link_classes(&self) -> Vec<String> {
        let mut classes: Vec<String> = self.clone().links_mut().into_iter().map(|l| l.0).collect();
        classes.dedup();
        classes
    }
    /// Bandwidth of the first link of a class, in 10⁹ B/s and direction.
    pub fn link_rate(&self, class: &str) -> Option<f64> {
        self.clone().links_mut().into_iter().find(|l| l.0 == class).map(|l| l.1.gbps)
    }
    /// Every link with its class.
    fn links_mut(&mut self) -> Vec<(String, &mut Link)> {
        let mut links: Vec<(String, &mut Link)> = Vec::new();
        let mut add = |class: &str, link| links.push((class.to_string(), link));
        if let Some(node) = &mut self.node {
            match &mut node.scale_up {
                Some(ScaleUp::Switch(switch)) => add("scale-up", &mut switch.link),
                Some(ScaleUp::FullMesh(mesh)) => add("scale-up", &mut mesh.link),
                Some(ScaleUp::Torus(torus)) => add("scale-up", &mut torus.link),
                None => {}
            }
            node.nics.iter_mut().for_each(|nics| add("nic", &mut nics.link));
            node.host.iter_mut().for_each(|host| add("host-link", &mut host.link));
            for memory in &mut node.memory {
                let class = format!("tier.{}", memory.name);
                add(&class, &mut memory.link);
                memory.port.iter_mut().for_each(|port| add(&class, port));
            }
        }
        if let Some(Fabric::Dragonfly(dragonfly)) = &mut self.fabric {
            add("local", &mut dragonfly.local_link);
            add("global", &mut dragonfly.global_link);
        }
        self.sites.iter_mut().for_each(|sites| add("sites", &mut sites.link));
        self.graph.iter_mut().flat_map(|g| &mut g.links).for_each(|edge| add("links", &mut edge.link));
        links
    }
}
