//! The output of `nvidia-smi topo -m` as a machine file: how the GPUs of a node are joined, and which network adapters
//! they have.
//!
//! The matrix says for each pair how it is joined: `NV18` (that number of NVLinks), else the worst that lies between:
//! `PIX`, `PXB` (PCIe switches), `PHB` (a host bridge), `NODE`, `SYS` (between sockets). It gives no rates: the user
//! gives a link's. Where all pairs have equally many NVLinks these meet in a switch, or, where a device has just as
//! many as peers, lead from GPU to GPU; uneven joints are drawn link by link (`nvidia_smi_graph`). Adapters that hang
//! at a GPU's own PCIe switch are its own. Where the table of plain `nvidia-smi` stands in the same file, its total is
//! the memory of the device.

use serde_json::{Value, json};

use super::nvidia_smi_matrix::{ConnectionMatrix, wrong};
use super::{nccl_topology, rocm_smi};
use stepsim_spec::device::PeerLinks;
use stepsim_spec::{Device, SpecError, load};

pub use super::nvidia_smi_matrix::NodeRates;

/// Bytes.
const MIB: f64 = 1_048_576.0;

/// The machine of a node's matrix, on a device of that name or file, and what was assumed.
///
/// # Errors
/// It is no such matrix, or of a node that is no machine of ours.
pub fn machine(
    text: &str,
    file: &str,
    device: &str,
    rates: &NodeRates,
) -> Result<(Value, Vec<String>), SpecError> {
    let matrix = match text {
        text if nccl_topology::is_one(text) => nccl_topology::matrix(text, file)?,
        text if rocm_smi::is_one(text) => rocm_smi::matrix(text, file)?,
        text => ConnectionMatrix::read(text, file)?,
    };
    let mut assumed = Vec::new();
    // Where they are not known a switch is taken.
    let known = load::<Device>(device, &[]).ok().and_then(|device| device.value.peer_links);
    let nvlink_gbps = rates.nvlink_gbps.or(known.map(|links| links.gbps)).unwrap_or(NVLINK_GBPS);
    let nic_gbps = matrix.nic_gbps.unwrap_or(rates.nic_gbps);
    let rates = &NodeRates { nvlink_gbps: Some(nvlink_gbps), nic_gbps, ..rates.clone() };
    let (trays, rates) = &trays_of(known, &matrix, rates);
    if *trays > 1 {
        assumed.push(format!("{trays} trays of {} GPUs share the NVLink switches of a rack", matrix.gpus));
    }
    let gpus = matrix.gpus * *trays as usize;
    let hardware = match least_memory_mib(text) {
        Some(mib) => {
            assumed.push(format!("{mib} MiB of memory a GPU, the total that nvidia-smi shows"));
            json!({"base": device, "hbm": {"GB": (mib as f64 * MIB / 1e7).round() / 100.0}})
        }
        None => json!(device),
    };
    let scale_up =
        |gbps: f64| json!({"switch": {"link": {"bandwidth_GBps_per_direction": gbps}, "latency_us": 1}});
    let description = format!("A node as nvidia-smi shows it ({file})");
    let mut node = json!({"devices": gpus});
    if gpus > 1 {
        let Some(links) = matrix.nvlinks() else {
            matrix.lost(file)?;
            let (graph, more) = super::nvidia_smi_graph::graph(&matrix, file, &hardware, rates)?;
            assumed.extend(more);
            return Ok((json!({"description": description, "device": hardware, "graph": graph}), assumed));
        };
        let all = links * (gpus as u32 - 1);
        node["scale_up"] = match links {
            0 => {
                assumed.push(format!("no NVLinks: each GPU has a PCIe port of {} GB/s", rates.pcie_gbps));
                scale_up(rates.pcie_gbps)
            }
            links if known.is_some_and(|known| all <= known.count) => {
                assumed.push(format!(
                    "{links} NVLinks of {} GB/s a direction from each GPU to each other, without a switch: {all} at \
                     each",
                    nvlink_gbps
                ));
                json!({"full_mesh": {"link": {
                    "bandwidth_GBps_per_direction": f64::from(links) * nvlink_gbps, "latency_us": 1,
                }}})
            }
            links => {
                assumed.push(format!(
                    "{links} NVLinks of {} GB/s a direction at each GPU, through a switch",
                    nvlink_gbps
                ));
                scale_up(f64::from(links) * nvlink_gbps)
            }
        };
        assumed.push("1 us from GPU to GPU".to_owned());
    }
    let mut machine = json!({
        "description": description, "device": hardware, "nodes": rates.nodes,
    });
    if gpus > 2 && !node["scale_up"]["full_mesh"].is_null() {
        // NCCL lays as many rings as a mesh has links (graph search, src/graph/search.cc); these take what all links
        // take.
        let rule = |op: &str, algorithm: &str| json!({"op": op, "algorithm": algorithm, "max_nodes": 1});
        machine["collectives"] = json!({"rules": [
            rule("all-reduce", "two-shot"), rule("all-gather", "direct"), rule("reduce-scatter", "direct"),
        ]});
    }
    if rates.nodes > 1 {
        let (nics, near) = matrix.adapters();
        let nics = nics * *trays as usize;
        let (shared_by, bundle) = match nics {
            0 => {
                return Err(wrong(file, "shows no network adapter".into())
                    .hint("a machine of one node needs none: --nodes 1"));
            }
            nics if nics >= gpus && nics.is_multiple_of(gpus) => (1, nics / gpus),
            nics if gpus.is_multiple_of(nics) => (gpus / nics, 1),
            nics => return Err(wrong(file, format!("shows {nics} network adapters for {gpus} GPUs"))),
        };
        let of = if near { "at the GPUs' own PCIe switches" } else { "none of them at a GPU's PCIe switch" };
        assumed.push(format!("{nics} network adapters of {} GB/s, {of}", rates.nic_gbps));
        assumed.push("one switch between the nodes, 2 us".to_owned());
        node["nics"] = json!({
            "shared_by": shared_by, "bundle": bundle, "link": {"bandwidth_GBps_per_direction": rates.nic_gbps},
        });
        machine["fabric"] = json!({"clos": {"tiers": [{"name": "switch", "latency_us": 2}]}});
    }
    machine["node"] = node;
    Ok((machine, assumed))
}

/// Of one NVLink of a device that is not known, a direction.
const NVLINK_GBPS: f64 = 25.0;

/// Trays whose GPUs meet in the switches of one rack, and what is left of the nodes.
fn trays_of(known: Option<PeerLinks>, matrix: &ConnectionMatrix, rates: &NodeRates) -> (u32, NodeRates) {
    let in_rack = known.filter(|links| matrix.nvlinks() == Some(links.count)).and_then(|links| links.trays);
    let trays = (1..=in_rack.unwrap_or(1)).rev().find(|n| rates.nodes.is_multiple_of(*n)).unwrap_or(1);
    (trays, NodeRates { nodes: rates.nodes / trays, ..rates.clone() })
}

/// The least total of the GPUs in what plain `nvidia-smi` prints (`4MiB / 81559MiB`), in MiB; nothing where no such
/// table is.
fn least_memory_mib(text: &str) -> Option<u64> {
    let total = |line: &str| {
        let (_, after) = line.split_once("MiB /")?;
        after.split_once("MiB")?.0.trim().parse::<u64>().ok().filter(|mib| *mib > 0)
    };
    text.lines().filter_map(total).min()
}
