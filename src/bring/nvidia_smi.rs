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
use stepsim_step::spec::SpecError;

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
    let matrix = ConnectionMatrix::read(text, file)?;
    let gpus = matrix.gpus;
    let mut assumed = Vec::new();
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
            links if nvlinks_of(device).is_some_and(|most| all <= most) => {
                assumed.push(format!(
                    "{links} NVLinks of {} GB/s a direction from each GPU to each other, without a switch: {all} at \
                     each",
                    rates.nvlink_gbps
                ));
                json!({"full_mesh": {"link": {
                    "bandwidth_GBps_per_direction": f64::from(links) * rates.nvlink_gbps, "latency_us": 1,
                }}})
            }
            links => {
                assumed.push(format!(
                    "{links} NVLinks of {} GB/s a direction at each GPU, through a switch",
                    rates.nvlink_gbps
                ));
                scale_up(f64::from(links) * rates.nvlink_gbps)
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

/// NVLinks of a device by its name (NVIDIA's data sheets); where they are not known a switch is taken.
fn nvlinks_of(device: &str) -> Option<u32> {
    let links = [
        ("v100", 6),
        ("p100", 4),
        ("a100", 12),
        ("a800", 8),
        ("a30", 4),
        ("a40", 4),
        ("a6000", 4),
        ("3090", 4),
        ("h800", 8),
        ("h100", 18),
        ("h200", 18),
        ("h20", 18),
        ("gh200", 18),
        ("b200", 18),
        ("b300", 18),
    ];
    let name = device.to_ascii_lowercase();
    links.iter().find(|(part, _)| name.contains(part)).map(|(_, links)| *links)
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
