//! Simple machines from one argument: `switch:8,100,2`. Their device is generic: 1,000 TFLOP/s, unbounded memory.

use serde_json::{Value, json};

use super::SpecError;
use super::number::MAX_COUNT;

/// The forms, for messages and help texts.
pub const FORMS: &str = "switch:N,GBps,us  ring:N,GBps,us  line:N,GBps,us  mesh:N,GBps,us  \
     torus:AxB[xC],GBps,us  nodes:K*G,GBps_in,us_in,GBps_out,us_out";

/// True if an argument has the form of a simple machine rather than of a name or a path.
pub fn looks_simple(argument: &str) -> bool {
    argument
        .split_once(':')
        .is_some_and(|(kind, _)| ["switch", "ring", "line", "mesh", "torus", "nodes"].contains(&kind))
}

/// The machine file that an argument stands for.
///
/// Bandwidth is per port (switch, nodes), per peer (mesh) or per link (ring, line, torus) and direction in 10⁹ B/s;
/// latency is of a whole transfer (switch, nodes) or of each hop, paid before the transfer occupies links. A torus
/// wraps on every axis longer than two.
///
/// # Errors
/// A part is missing, too many, not a number, or out of its range.
pub fn machine(argument: &str) -> Result<Value, SpecError> {
    let (kind, rest) = argument.split_once(':').unwrap_or((argument, ""));
    let parts: Vec<&str> = rest.split(',').map(str::trim).collect();
    let wanted = if kind == "nodes" { 5 } else { 3 };
    if parts.len() != wanted {
        let problem = format!("{wanted} values expected after `{kind}:`, {} found", parts.len());
        return Err(wrong(argument, problem));
    }
    let link = |bandwidth: &str, latency: &str| -> Result<Value, SpecError> {
        Ok(json!({
            "bandwidth_GBps_per_direction": number(argument, "bandwidth", bandwidth, true)?,
            "latency_us": number(argument, "latency", latency, false)?,
        }))
    };
    let mut node = json!({});
    let mut machine = json!({"description": argument, "device": generic(), "nodes": 1});
    match kind {
        "switch" | "mesh" => {
            node["devices"] = count(argument, parts[0])?.into();
            let link = link(parts[1], parts[2])?;
            node["scale_up"] =
                if kind == "mesh" { json!({"full_mesh": {"link": link}}) } else { crossbar(link) };
        }
        "ring" | "line" | "torus" => {
            let dims: Vec<u32> = match kind {
                "torus" => parts[0].split('x').map(|n| count(argument, n)).collect::<Result<_, _>>()?,
                _ => vec![count(argument, parts[0])?],
            };
            let wrap = if kind == "line" { "never" } else { "always" };
            let link = link(parts[1], parts[2])?;
            node["scale_up"] = json!({"torus": {"dims": dims, "wrap": wrap, "link": link}});
        }
        _ => {
            let (k, g) = parts[0]
                .split_once('*')
                .ok_or_else(|| wrong(argument, format!("`{}` is not nodes*devices", parts[0])))?;
            machine["nodes"] = count(argument, k)?.into();
            node["devices"] = count(argument, g)?.into();
            node["scale_up"] = crossbar(link(parts[1], parts[2])?);
            let mut outside = link(parts[3], parts[4])?;
            let latency = outside["latency_us"].take();
            outside["latency_us"] = 0.into();
            node["nics"] = json!({"link": outside});
            machine["fabric"] = json!({"clos": {"tiers": [{"name": "core", "latency_us": latency}]}});
        }
    }
    machine["node"] = node;
    Ok(machine)
}

/// A switch whose latency is the latency of the whole transfer.
fn crossbar(mut link: Value) -> Value {
    let latency = link["latency_us"].take();
    link["latency_us"] = 0.into();
    json!({"switch": {"link": link, "latency_us": latency, "in_switch_reduction": true}})
}

fn generic() -> Value {
    json!({"name": "generic", "peak_dense_TFLOPs": {"fp32": 1000, "bf16": 1000, "fp16": 1000, "fp8": 1000}})
}

fn wrong(argument: &str, problem: String) -> SpecError {
    SpecError::file(argument, problem).allowed(FORMS).hint("for example switch:8,100,2 or torus:4x4x4,90,1")
}

fn count(argument: &str, text: &str) -> Result<u32, SpecError> {
    match text.trim().parse::<u64>() {
        Ok(n) if (1..=MAX_COUNT).contains(&n) => Ok(n as u32),
        _ => Err(wrong(argument, format!("`{text}` is not a whole number from 1 to 1,048,576"))),
    }
}

fn number(argument: &str, what: &str, text: &str, above_zero: bool) -> Result<f64, SpecError> {
    match text.parse::<f64>() {
        Ok(x) if x.is_finite() && (x > 0.0 || (x == 0.0 && !above_zero)) && x <= 1e9 => Ok(x),
        _ => {
            let low = if above_zero { "above 0" } else { "from 0" };
            Err(wrong(argument, format!("{what} `{text}` is not a number {low} to 1e9")))
        }
    }
}
