//! A part of a machine: `256 of meta-roce-24k`.
//!
//! The first nodes of it, whole, as a scheduler gives them to a job; the rest stands idle, so that switches and uplinks
//! keep the size that they have in the whole machine. Of one node its first devices.

use serde_json::{Value, json};

use super::SpecError;

/// The number of devices and the name of the machine, where a text has that form.
pub(super) fn asked(text: &str) -> Option<(u64, &str)> {
    let (count, machine) = text.trim().split_once(" of ")?;
    let count = count.trim().parse().ok()?;
    Some((count, machine.trim()))
}

/// Leaves so many devices of a machine file; fields that are no counts are left to what reads them.
///
/// # Errors
/// They do not fill whole nodes, are no part of one node, or are more than there are.
pub(super) fn cut(machine: &mut Value, devices: u64) -> Result<(), SpecError> {
    let wrong = |allowed: String, hint: &str| {
        Err(SpecError::at("", format!("{devices} devices are no part of this machine"))
            .allowed(allowed)
            .hint(hint.to_string()))
    };
    if !machine["graph"].is_null() {
        return wrong(
            "machines of nodes; this one is drawn".into(),
            "leave out vertices in a file of your own",
        );
    }
    let torus = &machine["node"]["scale_up"]["torus"]["dims"];
    let axes = torus.as_array().map(|dims| dims.iter().filter_map(Value::as_u64).product());
    let Some(node) = machine["node"]["devices"].as_u64().or(axes) else { return Ok(()) };
    let count = |field: &Value| if field.is_null() { Some(1) } else { field.as_u64() };
    let (Some(nodes), Some(sites)) = (count(&machine["nodes"]), count(&machine["sites"]["count"])) else {
        return Ok(());
    };
    let (site, node) = (node.saturating_mul(nodes), node.max(1));
    let all = site.saturating_mul(sites);
    let parts = devices > 0 && devices <= all;
    if parts && devices.is_multiple_of(node) && devices <= site {
        machine["nodes"] = (devices / node).into();
        if sites > 1 {
            machine["sites"] = Value::Null;
        }
    } else if parts && sites > 1 && devices.is_multiple_of(site) {
        machine["sites"]["count"] = (devices / site).into();
    } else if parts && devices < node && axes.is_none() {
        machine["nodes"] = json!(1);
        machine["node"]["devices"] = devices.into();
        machine["sites"] = Value::Null;
    } else {
        let of_node = if axes.is_none() { format!("1 to {node}, or ") } else { String::new() };
        let of_sites =
            if sites > 1 { format!(" up to {site}, or a multiple of {site}") } else { String::new() };
        let hint = "a slice of a torus is another torus: set node.scale_up.torus.dims";
        return wrong(
            format!("{of_node}a multiple of {node} (whole nodes){of_sites}, at most {all}"),
            if axes.is_some() { hint } else { "" },
        );
    }
    Ok(())
}
