//! The machine of a row: a shipped description with the row's number of devices, node and network.

use serde_json::Value;

use super::columns::DescribedColumns;
use super::network;
use stepsim_spec::machine_size::torus_dims;
use stepsim_spec::rules::MachineRule;
use stepsim_spec::topology::ScaleUp;
use stepsim_spec::{LoadedSpec, Topology, load};

/// A shipped machine and what is set in it.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineCase {
    /// Its name.
    pub topology: String,
    /// Settings.
    pub sets: Vec<String>,
}

/// The machine that the rules and columns ask for.
///
/// # Errors
/// No rule knows the device, or the devices do not fill whole nodes.
pub fn machine(rule: &MachineRule, columns: &mut DescribedColumns) -> Result<MachineCase, String> {
    let device = columns.text("device");
    let name = rule.topology.clone().ok_or_else(|| format!("no rule knows the device {device:?}"))?;
    let base: LoadedSpec<Topology> = load(&name, &[]).map_err(|e| e.to_string())?;
    let node = base.value.node.as_ref().ok_or("the machine has no nodes")?;
    let devices = columns.needs("n_devices")?;
    let mut sets = Vec::new();
    let per_node = match &node.scale_up {
        Some(ScaleUp::Torus(torus)) => {
            let slice = columns.count("devices_per_node").unwrap_or(devices).min(devices);
            let dims = torus_dims(slice, torus.dims.len())
                .ok_or_else(|| format!("{slice} chips make no torus of {} axes", torus.dims.len()))?;
            sets.push(format!("node.scale_up.torus.dims={}", Value::from(dims)));
            slice
        }
        _ => {
            let domain = domain(rule, columns, u64::from(node.devices.unwrap_or(8)), devices);
            sets.push(format!("node.devices={domain}"));
            domain
        }
    };
    if !devices.is_multiple_of(per_node) {
        return Err(format!("{devices} devices are not whole nodes of {per_node}"));
    }
    sets.push(format!("nodes={}", devices / per_node));
    let server = columns.count("devices_per_node").unwrap_or(per_node).min(per_node);
    if let Some(gbps) = network::device_gbps(&columns.text("inter_node"), server) {
        sets.push("node.nics.shared_by=1".into());
        sets.push("node.nics.bundle=1".into());
        sets.push(format!("node.nics.link.bandwidth_GBps_per_direction={gbps}"));
        if gbps < SLOW_GBPS {
            let words = columns.get("inter_node").clone();
            columns.assume("inter_node", words, &format!("{gbps:.2} GB/s a device: is its unit right?"));
        }
    } else if columns.has("inter_node") && devices > per_node {
        let words = columns.get("inter_node").clone();
        columns.assume("inter_node", words, &format!("no bandwidth is named: the network of {name}"));
    }
    if let Some(device) = &rule.device {
        sets.push(format!("device={device}"));
    }
    sets.extend(rule.set.iter().cloned());
    Ok(MachineCase { topology: name, sets })
}

/// A network of a device below this rate, in GB/s, is questioned: 100 Gb/s among eight are 1.56.
const SLOW_GBPS: f64 = 1.0;

/// Devices of one scale-up domain: as many as a server or rack has, fewer where the job is smaller, and so that the job
/// fills whole domains.
fn domain(rule: &MachineRule, columns: &DescribedColumns, usual: u64, devices: u64) -> u64 {
    let block = columns.get("network").get("nvlink_block_gpus").and_then(Value::as_u64);
    let most = match rule.domain {
        Some(domain) => block.unwrap_or(domain),
        None => columns.count("devices_per_node").unwrap_or(usual),
    };
    let most = most.clamp(1, devices);
    (1..=most).rev().find(|d| devices.is_multiple_of(*d)).unwrap_or(1)
}
