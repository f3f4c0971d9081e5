//! A machine with another number of devices.
//!
//! Fewer are its first nodes, whole, as a scheduler gives them to a job; the rest stands idle, so that switches and
//! uplinks keep the size that they have in the whole machine. Of one node they are its first devices. More are more
//! nodes on the same fabric, where that is built of switches. Chips on a torus are another slice, up to the largest
//! that is sold.

use serde_json::{Value, json};

use super::SpecError;
use super::number::MAX_COUNT;

/// Servers of this many GPUs share a board; a rack's domain is cut between them.
const TRAY: u64 = 4;

/// Gives a machine file `devices` devices; fields that are no counts are left to their readers. `domain` is the
/// largest scale-up domain of its devices, where that is known.
///
/// # Errors
/// They do not fill whole nodes, make no slice, or are more than there can be.
pub(super) fn resize(machine: &mut Value, devices: u64, domain: Option<u64>) -> Result<(), SpecError> {
    if !machine["graph"].is_null() {
        return refuse(
            devices,
            "machines of nodes; this one is drawn",
            "leave out vertices in a file of your own",
        );
    }
    let dims = machine["node"]["scale_up"]["torus"]["dims"].as_array();
    let dims = dims.map(|dims| dims.iter().filter_map(Value::as_u64).collect::<Vec<u64>>());
    let count = |field: &Value| if field.is_null() { Some(1) } else { field.as_u64() };
    let (Some(nodes), Some(sites)) = (count(&machine["nodes"]), count(&machine["sites"]["count"])) else {
        return Ok(());
    };
    if let Some(dims) = dims {
        return slice(machine, devices, &dims, domain);
    }
    let Some(node) = machine["node"]["devices"].as_u64().map(|node| node.max(1)) else { return Ok(()) };
    let site = node.saturating_mul(nodes);
    let grows = machine["fabric"]["clos"].is_object() && sites <= 1;
    if devices == 0 || (devices > site.saturating_mul(sites) && !grows) {
        return whole_nodes(devices, node, site, sites, grows);
    }
    if devices <= node {
        put(machine, 1, devices);
    } else if devices.is_multiple_of(node) && (devices <= site || grows) {
        put(machine, devices / node, node);
    } else if sites > 1 && devices.is_multiple_of(site) {
        machine["sites"]["count"] = (devices / site).into();
    } else if let Some(part) = domain.filter(|domain| *domain == node).and_then(|_| racks(devices, node)) {
        put(machine, devices / part, part);
    } else {
        return whole_nodes(devices, node, site, sites, grows);
    }
    Ok(())
}

/// Puts `nodes` nodes of `devices` devices on one site.
fn put(machine: &mut Value, nodes: u64, devices: u64) {
    machine["nodes"] = nodes.into();
    machine["node"]["devices"] = devices.into();
    machine["sites"] = Value::Null;
}

/// Devices of each rack where a job takes the same part, at least half, of several.
fn racks(devices: u64, rack: u64) -> Option<u64> {
    let parts = (rack.div_ceil(2)..=rack).rev();
    parts.filter(|part| part.is_multiple_of(TRAY)).find(|part| devices.is_multiple_of(*part))
}

fn refuse(devices: u64, allowed: &str, hint: &str) -> Result<(), SpecError> {
    let problem = format!("this machine cannot have {devices} devices");
    Err(SpecError::at("", problem).allowed(allowed).hint(hint))
}

fn whole_nodes(devices: u64, node: u64, site: u64, sites: u64, grows: bool) -> Result<(), SpecError> {
    let all = site.saturating_mul(sites);
    let multiple = match (grows, sites > 1) {
        (true, _) => format!("a multiple of {node} (whole nodes)"),
        (_, true) => {
            format!("a multiple of {node} (whole nodes) up to {site}, or a multiple of {site}, at most {all}")
        }
        _ => format!("a multiple of {node} (whole nodes), at most {all}"),
    };
    let most = if grows { MAX_COUNT } else { all };
    let below = (devices.min(most) / node).max(1) * node;
    let above = below.saturating_add(node);
    let next = if above <= most && devices > 0 { format!("{below} or {above}") } else { below.to_string() };
    refuse(devices, &format!("1 to {node}, or {multiple}"), &format!("take {next} of them"))
}

/// A slice of a torus, or several that the data-centre network joins.
fn slice(machine: &mut Value, devices: u64, dims: &[u64], domain: Option<u64>) -> Result<(), SpecError> {
    let most = domain.unwrap_or_else(|| dims.iter().product()).max(1);
    let (slices, chips) = if devices > most { (devices / most, most) } else { (1, devices) };
    let shape =
        (slices * chips == devices && is_slice(chips, dims.len())).then(|| torus_dims(chips, dims.len()));
    match shape.flatten() {
        Some(shape) if slices == 1 || machine["node"]["nics"].is_object() => {
            machine["nodes"] = slices.into();
            machine["node"]["scale_up"]["torus"]["dims"] = json!(shape);
            Ok(())
        }
        _ => {
            let below = (1..devices.min(most)).rev().find(|chips| is_slice(*chips, dims.len())).unwrap_or(1);
            let kind = if dims.len() > 2 { "1, 4, 8, 16, 32, or cubes of 4x4x4" } else { "a power of two" };
            let allowed = format!("{kind}, at most {most} in one slice, or a multiple of {most}");
            refuse(devices, &allowed, &format!("take {below} of them, or set node.scale_up.torus.dims"))
        }
    }
}

/// True if slices of `chips` chips are sold (docs.cloud.google.com/tpu/docs/v4, v5e, v5p, v6e: 2x2x1 to 2x4x4, then
/// cubes of four; on two axes 1x1 to 16x16).
fn is_slice(chips: u64, axes: usize) -> bool {
    match axes {
        0..=2 => chips.is_power_of_two() && chips != 2,
        _ if chips < 64 => matches!(chips, 1 | 4 | 8 | 16 | 32),
        _ => chips.is_multiple_of(64),
    }
}

/// No axis of several is longer: pods have 32 x 32 (v3) and 16 x 20 x 28 chips (v5p).
const LONGEST_AXIS: u64 = 64;

/// Axes of a slice: two as near to each other as can be (v5e, v6e), three that grow by doubling from a cube (v4, v5p).
pub fn torus_dims(chips: u64, axes: usize) -> Option<Vec<u32>> {
    let mut best: Option<Vec<u64>> = None;
    let divisors = |n: u64| (1..=n.min(4096)).filter(move |d| n.is_multiple_of(*d));
    // Slices of three axes are made of cubes of 4x4x4.
    let spread = |dims: &[u64]| (axes > 2 && dims.iter().any(|d| d % 4 != 0), dims.iter().sum::<u64>());
    for a in divisors(chips) {
        let rest = chips / a;
        let found: Option<Vec<u64>> = match axes {
            1 => Some(vec![chips]),
            2 => (a <= rest).then(|| vec![a, rest]),
            _ => divisors(rest)
                .filter(|b| a <= *b && *b <= rest / b)
                .map(|b| vec![a, b, rest / b])
                .min_by_key(|dims| spread(dims)),
        };
        if let Some(dims) = found
            && best.as_ref().is_none_or(|b| spread(&dims) < spread(b))
        {
            best = Some(dims);
        }
    }
    let best = best.filter(|dims| axes < 2 || dims.iter().all(|d| *d <= LONGEST_AXIS))?;
    best.into_iter().map(|d| u32::try_from(d).ok()).collect()
}
