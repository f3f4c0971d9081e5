//! What a step of the walk is when something is otherwise: without what has no effect, at twice all speeds, with its
//! ranks in the order of a mirror.

use serde_json::{Value, json};
use stepsim::core::kernel_class::KernelClass;
use stepsim::core::units::Time;
use stepsim::price::moe::dispatcher;
use stepsim::simulate::jump::figures;
use stepsim::simulate::{Inputs, Options};

use super::ranges::Document;

/// Times are whole picoseconds.
const ROUNDING: f64 = 1e-5;
/// With this much more speed a step is the same, but for the order of events at one time.
const NEAR: [f64; 4] = [1e-9, 1e-8, 1e-7, 1e-6];
/// The order changes a step at most by this many times the largest change that these show.
const CHANCE: f64 = 10.0;

pub fn step_end(document: &Document) -> Option<Time> {
    let inputs = document.inputs().ok()?;
    Some(figures(&inputs, &Options::default(), false).ok()?.step_end)
}

/// Holds the laws on a step that took `end`.
///
/// # Errors
/// The one that it breaks.
pub fn held(document: &Document, inputs: &Inputs, end: Time) -> Result<(), String> {
    without_what_is_off(document, inputs, end)?;
    at_twice_the_speed(document, inputs)?;
    mirrored(document, inputs, end)
}

/// What is called without effect has none.
fn without_what_is_off(document: &Document, inputs: &Inputs, end: Time) -> Result<(), String> {
    for inert in inputs.without_effect() {
        let mut without = document.clone();
        let (part, path) = match inert.field.strip_prefix("topology.") {
            Some(path) => (&mut without.machine, path),
            None => (&mut without.workload, inert.field.as_str()),
        };
        let place = format!("/{}", path.replace('.', "/"));
        let (over, name) = place.rsplit_once('/').unwrap_or_default();
        let fields = part.pointer_mut(over).and_then(Value::as_object_mut);
        if fields.and_then(|fields| fields.shift_remove(name)).is_none() {
            continue;
        }
        if let Some(other) = step_end(&without).filter(|other| *other != end) {
            return Err(format!("{inert}; without it {other} and not {end}"));
        }
    }
    Ok(())
}

/// A quantity by the unit in its name: what it is multiplied by where everything is so many times as fast.
fn faster(name: &str, times: f64) -> Option<f64> {
    let time = name.ends_with("_us") || name.starts_with("us_per") || name.starts_with("ns_per");
    let speed = name.contains("GBps") || name.contains("TFLOPs") || name == "attention_exp_tera_per_s";
    match (time, speed) {
        (true, _) => Some(1.0 / times),
        (_, true) => Some(times),
        _ => None,
    }
}

/// Multiplies all numbers in a value; those of fields with a unit in their name where there is no factor yet.
fn scaled(value: &mut Value, by: Option<f64>, times: f64) {
    match value {
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(name, value)| scaled(value, by.or(faster(name, times)), times));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| scaled(value, by, times)),
        Value::Number(number) => {
            if let (Some(by), Some(old)) = (by, number.as_f64()) {
                *value = json!(old * by);
            }
        }
        _ => {}
    }
}

/// Makes devices such that nothing is known of: no table of the program's own has a time of theirs.
fn unknown(machine: &mut Value) {
    match machine {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if name == "device" && value.is_object() {
                    value["name"] = "unknown".into();
                    let classes = &mut value["cost"]["classes"];
                    KernelClass::ALL.iter().for_each(|class| classes[class.name()]["floor_us"] = json!(4.0));
                }
                unknown(value);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(unknown),
        _ => {}
    }
}

/// Everything twice as fast: half the time.
fn at_twice_the_speed(document: &Document, inputs: &Inputs) -> Result<(), String> {
    // Kernels of a dispatcher's own begin in a time that was measured.
    if dispatcher(inputs.workload.value.expert.dispatcher).kernels(1).is_some() {
        return Ok(());
    }
    let mut once = document.written_out(inputs);
    unknown(&mut once.machine);
    // With what the new costs leave to others.
    let Ok(inputs) = once.inputs() else { return Ok(()) };
    let once = once.written_out(&inputs);
    let at = |times: f64| {
        let mut other = once.clone();
        scaled(&mut other.machine, None, times);
        scaled(&mut other.workload, None, times);
        // Hosts of a graph have cores of one speed: more of them are a faster host.
        let cores = other.workload.pointer_mut("/stack/optimizer/host/cores_per_rank");
        if let Some(cores) = cores.filter(|_| !other.machine["graph"].is_null()) {
            scaled(cores, Some(times), times);
        }
        step_end(&other)
    };
    let (Some(end), Some(twice)) = (step_end(&once), at(2.0)) else { return Ok(()) };
    // Each against the same time: how far it is off.
    let off = |times: f64, at: Time| (times * at.s() / end.s() - 1.0).abs();
    let twice_off = off(2.0, twice);
    // Where a picosecond says who goes first, a step with a little more speed is another one too.
    let near_off = |more: &f64| at(1.0 + more).map_or(0.0, |near| off(1.0 + more, near));
    if twice_off > ROUNDING && twice_off > CHANCE * NEAR.iter().map(near_off).fold(0.0, f64::max) {
        return Err(format!("{end}, and {twice} where all is twice as fast"));
    }
    Ok(())
}

/// On a machine that is its own mirror, ranks from the last device to the first take as long.
fn mirrored(document: &Document, inputs: &Inputs, end: Time) -> Result<(), String> {
    let machine = &inputs.machine;
    let plain = document.workload["parallelism"]["rank_map"].is_null() && document.machine["graph"].is_null();
    let node = &document.machine["node"];
    let own = [&node["host"]["link_shared_by"], &node["nics"]["shared_by"]];
    let tiers = node["memory"].as_array().into_iter().flatten().map(|tier| &tier["shared_by"]);
    let devices = u64::from(machine.fabric().node_size.max(1));
    let even = own.into_iter().chain(tiers).filter_map(Value::as_u64).all(|by| devices % by.max(1) == 0);
    let leaves = document.machine["fabric"]["clos"]["tiers"].as_array().into_iter().flatten();
    let nodes = u64::from(machine.devices()) / devices;
    let full = leaves.filter_map(|tier| tier["serves"].as_u64()).all(|by| nodes % by.max(1) == 0);
    // A slow link stays where it is.
    let noise = &inputs.workload.value.noise;
    let noisy = noise.is_random() || !noise.slow_links.is_empty();
    if !plain || !even || !full || noisy || machine.device_classes().len() > 1 {
        return Ok(());
    }
    let mut other = document.clone();
    other.workload["parallelism"]["rank_map"] = (0..machine.devices()).rev().collect::<Vec<_>>().into();
    let Some(mirrored) = step_end(&other) else { return Ok(()) };
    let off = (mirrored.s() / end.s() - 1.0).abs();
    if off > ROUNDING {
        Err(format!("{end}, and {mirrored} with ranks in the order of a mirror"))
    } else {
        Ok(())
    }
}
