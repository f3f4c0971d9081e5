//! A node whose GPUs are joined unevenly (bridges between pairs, cubes of NVLinks, PCIe alone elsewhere), link by
//! link: NVLinks from GPU to GPU, a PCIe switch for GPUs that meet below a host bridge, a socket above, and one link
//! between sockets.

use serde_json::{Value, json};

use super::nvidia_smi_matrix::{ConnectionMatrix, NodeRates, wrong};
use stepsim_spec::{SpecError, merge};

/// The graph of some such nodes under one switch, and what was assumed.
pub(super) fn graph(
    matrix: &ConnectionMatrix,
    file: &str,
    device: &Value,
    rates: &NodeRates,
) -> Result<(Value, Vec<String>), SpecError> {
    let nics = matrix.rows[0].len() - matrix.gpus;
    if rates.nodes > 1 && nics == 0 {
        return Err(wrong(file, "shows no network adapter".into())
            .hint("a machine of one node needs none: --nodes 1"));
    }
    let mut drawing = GraphBuilder::default();
    if rates.nodes > 1 {
        drawing.vertex("network", "switch", 0, json!({"latency_us": 2}));
    }
    for node in 0..rates.nodes {
        drawing.node(matrix, device, rates, node);
    }
    let assumed = vec![
        format!("links of {} GB/s a direction, from GPU to GPU as the matrix has them", link_gbps(rates)),
        format!("PCIe of {} GB/s at each GPU, each PCIe switch and between sockets", rates.pcie_gbps),
    ];
    Ok((json!({"vertices": drawing.vertices, "links": drawing.links}), assumed))
}

fn link_gbps(rates: &NodeRates) -> f64 {
    rates.nvlink_gbps.unwrap_or_default()
}

#[derive(Default)]
struct GraphBuilder {
    vertices: Vec<Value>,
    links: Vec<Value>,
}

impl GraphBuilder {
    fn vertex(&mut self, name: &str, kind: &str, node: u32, more: Value) {
        let mut vertex = json!({"name": name, "kind": kind, "node": node});
        merge(&mut vertex, more);
        self.vertices.push(vertex);
    }
    fn link(&mut self, from: &str, to: &str, gbps: f64) {
        let link = json!({"bandwidth_GBps_per_direction": gbps, "latency_us": 0.5});
        self.links.push(json!({"from": from, "to": to, "link": link}));
    }

    fn node(&mut self, matrix: &ConnectionMatrix, device: &Value, rates: &NodeRates, node: u32) {
        let name = |kind: &str, i: usize| format!("{kind}{node}-{i}");
        let switches = groups(matrix, &["PIX", "PXB"]);
        let sockets = groups(matrix, &["PIX", "PXB", "PHB", "NODE"]);
        for gpu in 0..matrix.gpus {
            self.vertex(&name("gpu", gpu), "device", node, json!({"device": device}));
        }
        for i in 0..matrix.gpus {
            for j in (0..i).filter(|j| matrix.between(i, *j) > 0) {
                let gbps = f64::from(matrix.between(i, j)) * link_gbps(rates);
                self.link(&name("gpu", j), &name("gpu", i), gbps);
            }
        }
        let first = |of: &[usize], group: usize| of.iter().position(|g| *g == group).unwrap_or(0);
        let count = |of: &[usize]| of.iter().max().map_or(0, |most| most + 1);
        for socket in 0..count(&sockets) {
            self.vertex(&name("cpu", socket), "host", node, json!({}));
            if socket > 0 {
                self.link(&name("cpu", socket - 1), &name("cpu", socket), rates.pcie_gbps);
            }
        }
        for switch in 0..count(&switches) {
            self.vertex(&name("pcie", switch), "switch", node, json!({"latency_us": 0.2}));
            let socket = sockets[first(&switches, switch)];
            self.link(&name("pcie", switch), &name("cpu", socket), rates.pcie_gbps);
        }
        for (gpu, switch) in switches.iter().enumerate().take(matrix.gpus) {
            self.link(&name("gpu", gpu), &name("pcie", *switch), rates.pcie_gbps);
        }
        if rates.nodes == 1 {
            return;
        }
        for nic in 0..matrix.rows[0].len() - matrix.gpus {
            let near = |words: &[&str]| {
                (0..matrix.gpus).find(|gpu| words.contains(&matrix.rows[*gpu][matrix.gpus + nic].as_str()))
            };
            let at = match (near(&["PIX", "PXB"]), near(&["PHB", "NODE"])) {
                (Some(gpu), _) => name("pcie", switches[gpu]),
                (None, Some(gpu)) => name("cpu", sockets[gpu]),
                (None, None) => name("cpu", 0),
            };
            self.vertex(&name("nic", nic), "nic", node, json!({}));
            self.link(&name("nic", nic), &at, rates.pcie_gbps);
            self.link(&name("nic", nic), "network", rates.nic_gbps);
        }
    }
}

/// The group of each GPU: two that are joined by one of these words are in the same, and so are those that reach one
/// another through others. NVLinks hide the way over PCIe, which a third GPU tells.
fn groups(matrix: &ConnectionMatrix, words: &[&str]) -> Vec<usize> {
    let mut group: Vec<usize> = (0..matrix.gpus).collect();
    for i in 0..matrix.gpus {
        for j in 0..i {
            if words.contains(&matrix.rows[i][j].as_str()) {
                let (from, to) = (group[i].max(group[j]), group[i].min(group[j]));
                group.iter_mut().filter(|g| **g == from).for_each(|g| *g = to);
            }
        }
    }
    let mut seen: Vec<usize> = Vec::new();
    group
        .into_iter()
        .map(|g| {
            seen.iter().position(|s| *s == g).unwrap_or_else(|| {
                seen.push(g);
                seen.len() - 1
            })
        })
        .collect()
}
