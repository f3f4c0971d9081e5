//! The files that ASTRA-sim takes beside traces: its network (YAML) as a machine of ours, and its system (JSON).
//!
//! Figures are ASTRA-sim's: a bandwidth of 1 GB/s is 2³⁰ bytes a second and direction (`bw_GBps_to_Bpns` of its
//! analytical network), a latency belongs to one link (a message crosses two at a switch), and `endpoint-delay` is
//! paid once a message. Rates of the system file are in 10¹² operations and 10⁹ bytes.

use serde_json::{Value, json};

use super::DeviceRates;
use stepsim_core::declare::defaults;
use stepsim_spec::SpecError;

/// Bytes a second of what the network file calls 1 GB/s, in 10⁹.
const GBPS: f64 = (1u64 << 30) as f64 / 1e9;
/// Most devices of a dimension, and pieces of a collective.
const MOST_DEVICES: f64 = 1_048_576.0;
const MOST_PIECES: u64 = 256;

/// Collectives that a system file names an algorithm for, in our words.
const COLLECTIVES: [(&str, &str); 4] = [
    ("all-reduce-implementation", "all-reduce"),
    ("all-gather-implementation", "all-gather"),
    ("reduce-scatter-implementation", "reduce-scatter"),
    ("all-to-all-implementation", "all-to-all"),
];
/// Its algorithms in our words. An all-to-all is sent to each other rank in either.
const ALGORITHMS: [(&str, &str); 4] = [
    ("ring", "ring"),
    ("direct", "direct"),
    ("halvingDoubling", "halving-doubling"),
    ("doubleBinaryTree", "tree"),
];

defaults! {
    /// The fields of a system file that matter here.
    #[derive(Clone, Debug, PartialEq)]
    pub struct AstraSystem {
        /// Pieces of a collective (`preferred-dataset-splits`).
        pub splits: u32 = 1,
        /// How many of them run at once (`active-chunks-per-dimension`).
        pub active: u32 = 1,
        /// Of a device (`peak-perf`, `local-mem-bw`).
        pub rates: DeviceRates,
        /// Paid by a message at its end, in microseconds (`endpoint-delay`).
        pub endpoint_us: f64,
        /// Rules for the collectives of a machine file; of one dimension alone.
        rules: Vec<Value>,
    }
}

impl AstraSystem {
    /// Of a file of this name.
    ///
    /// # Errors
    /// A value is not what ASTRA-sim takes there.
    pub fn of(value: &Value, file: &str) -> Result<AstraSystem, SpecError> {
        let object = value.as_object().ok_or_else(|| {
            SpecError::file(file, "is no object")
                .allowed("ASTRA-sim's system file (JSON): `preferred-dataset-splits`, ...")
        })?;
        let number = |key: &str| match object.get(key) {
            None => Ok(None),
            Some(value) => value.as_f64().filter(|x| *x >= 0.0 && *x <= 1e12).map(Some).ok_or_else(|| {
                SpecError::at(key, format!("{value} is not allowed"))
                    .in_file(file)
                    .allowed("a number from 0 to 1e12")
            }),
        };
        let count = |key: &str| match object.get(key) {
            None => Ok(1),
            Some(value) => {
                value.as_u64().filter(|n| (1..=MOST_PIECES).contains(n)).map(|n| n as u32).ok_or_else(|| {
                    let allowed = format!("a whole number from 1 to {MOST_PIECES}");
                    SpecError::at(key, format!("{value} is not allowed")).in_file(file).allowed(allowed)
                })
            }
        };
        let above = |rate: Option<f64>, unit: f64| rate.filter(|rate| *rate > 0.0).map(|rate| rate * unit);
        let mut rules = Vec::new();
        for (key, op) in COLLECTIVES {
            let Some(value) = object.get(key) else { continue };
            let names: Option<Vec<&str>> =
                value.as_array().map(|names| names.iter().filter_map(Value::as_str).collect());
            let [name] = names.as_deref().unwrap_or_default() else { continue };
            let known = ALGORITHMS.iter().find(|known| known.0 == *name).ok_or_else(|| {
                let allowed: Vec<&str> = ALGORITHMS.iter().map(|known| known.0).collect();
                SpecError::at(key, format!("{name:?} is not known")).in_file(file).allowed(allowed.join(", "))
            })?;
            if op != "all-to-all" {
                rules.push(json!({"op": op, "algorithm": known.1, "chunks": 1}));
            }
        }
        let splits = count("preferred-dataset-splits")?;
        Ok(AstraSystem {
            splits,
            active: count("active-chunks-per-dimension")?.min(splits),
            rates: DeviceRates {
                flops: above(number("peak-perf")?, 1e12),
                bytes: above(number("local-mem-bw")?, 1e9),
            },
            endpoint_us: number("endpoint-delay")?.unwrap_or(0.0) / 1000.0,
            rules,
        })
    }
}

/// A dimension of a network.
struct Dimension {
    kind: String,
    count: u32,
    gbps: f64,
    latency_us: f64,
}

/// The machine of a network file (its text), as the text of a machine file of ours.
///
/// # Errors
/// It is no such file, or of dimensions that no machine of ours has.
pub fn network(text: &str, file: &str, system: &AstraSystem) -> Result<Value, SpecError> {
    let dimensions = dimensions(text, file)?;
    let endpoint = system.endpoint_us;
    let link = |d: &Dimension, latency: f64| {
        json!({
            "bandwidth_GBps_per_direction": d.gbps * GBPS, "latency_us": latency,
        })
    };
    let [first, outer @ ..] = dimensions.as_slice() else {
        return Err(wrong(file, "has no dimension".into()));
    };
    let mut devices = first.count;
    let mut outer = outer;
    let scale_up = match first.kind.as_str() {
        "Ring" => {
            let alike =
                |d: &&Dimension| d.kind == "Ring" && d.gbps == first.gbps && d.latency_us == first.latency_us;
            let rings = 1 + outer.iter().take_while(alike).count();
            outer = &outer[rings - 1..];
            let dims: Vec<u32> = dimensions[..rings].iter().map(|d| d.count).collect();
            devices = dims
                .iter()
                .try_fold(1u32, |n, d| n.checked_mul(*d))
                .ok_or_else(|| wrong(file, "has too many devices".into()))?;
            json!({"torus": {"dims": dims, "link": link(first, first.latency_us + endpoint)}})
        }
        "FullyConnected" => json!({"full_mesh": {"link": link(first, first.latency_us + endpoint)}}),
        // A message goes up one link and down another.
        _ => json!({"switch": {"link": link(first, 0.0), "latency_us": 2.0 * first.latency_us + endpoint}}),
    };
    let mut machine = json!({
        "description": format!("The network of {file}, a file of ASTRA-sim"),
        "device": {
            "name": "npu",
            "peak_dense_TFLOPs": {"bf16": system.rates.flops.map_or(1.0, |rate| rate / 1e12)},
        },
        "nodes": 1,
        "node": {"devices": devices, "scale_up": scale_up},
    });
    match outer {
        [] => {}
        [d] if d.kind == "Switch" => {
            machine["nodes"] = d.count.into();
            machine["node"]["nics"] = json!({"link": link(d, 0.0)});
            let latency = 2.0 * d.latency_us + endpoint;
            machine["fabric"] = json!({"clos": {"tiers": [{"name": "switch", "latency_us": latency}]}});
        }
        [d, ..] => return Err(wrong(file, format!("has a {} outside of a {}", d.kind, first.kind))),
    }
    if dimensions.len() == 1 && !system.rules.is_empty() {
        machine["collectives"] = json!({"rules": system.rules});
    }
    Ok(machine)
}

fn wrong(file: &str, problem: String) -> SpecError {
    SpecError::file(file, problem).allowed(
        "ASTRA-sim's network file (YAML): lists `topology` (Ring, FullyConnected, Switch), `npus_count`, \
         `bandwidth` (GB/s) and `latency` (ns), an entry a dimension: one, equal Rings, or any with one \
         Switch around it",
    )
}

fn dimensions(text: &str, file: &str) -> Result<Vec<Dimension>, SpecError> {
    let value: Value = serde_yaml_ng::from_str(text).map_err(|e| wrong(file, format!("is not YAML: {e}")))?;
    let list = |key: &str| {
        value.get(key).and_then(Value::as_array).ok_or_else(|| wrong(file, format!("`{key}` is no list")))
    };
    let kinds = list("topology")?;
    let numbers = |key: &str, from: f64, to: f64| {
        let list = list(key)?;
        if list.len() != kinds.len() {
            return Err(wrong(
                file,
                format!("`{key}` has {} entries and `topology` {}", list.len(), kinds.len()),
            ));
        }
        let number = |value: &Value| value.as_f64().filter(|x| (from..=to).contains(x));
        let numbers = list.iter().map(|value| {
            number(value)
                .ok_or_else(|| wrong(file, format!("`{key}`: {value} is no number from {from} to {to}")))
        });
        numbers.collect::<Result<Vec<f64>, SpecError>>()
    };
    let counts = numbers("npus_count", 1.0, MOST_DEVICES)?;
    let rates = numbers("bandwidth", 1e-9, 1e9)?;
    let latencies = numbers("latency", 0.0, 1e12)?;
    let kind = |value: &Value| {
        let known = ["Ring", "FullyConnected", "Switch"];
        let name = value.as_str().filter(|name| known.contains(name));
        name.map(str::to_owned).ok_or_else(|| wrong(file, format!("`topology`: {value} is not known")))
    };
    let dimension = |i: usize| {
        Ok(Dimension {
            kind: kind(&kinds[i])?,
            count: counts[i] as u32,
            gbps: rates[i],
            latency_us: latencies[i] / 1000.0,
        })
    };
    (0..kinds.len()).map(dimension).collect()
}
