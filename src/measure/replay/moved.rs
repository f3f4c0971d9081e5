//! Measured collectives on another network, or among more ranks.
//!
//! ```text
//! time there = measured time · model of it there / model of it on the machine that was measured
//! ```
//! The ratio takes what a model gets wrong alike on both sides (a slow link, a busy host) out of the answer. Facts
//! that a profile lacks stay as measured, and [`MovedStep::unknown`] says so.

use std::collections::BTreeMap;

use crate::profile::programs::{StepPrograms, TracedCollective};
use stepsim_core::ids::DeviceId;
use stepsim_fabric::collective::{Chooser, Fidelity, Lowering, Op, Transfer};
use stepsim_fabric::topology::Machine;
use stepsim_spec::SpecError;

/// A machine, and how collectives choose their algorithms on it.
pub struct MachineNetwork {
    name: String,
    machine: Machine,
    chooser: Chooser,
}

impl MachineNetwork {
    /// The machine of a name, a file, or a word like `switch:8,450,1`.
    ///
    /// # Errors
    /// The machine's file, or its rules for collectives, are wrong.
    pub fn load(topology: &str) -> Result<MachineNetwork, SpecError> {
        let (loaded, machine) = Machine::load(topology, &[])?;
        let device = &machine.device(DeviceId(0)).name;
        let chooser = Chooser::of_machine(device, loaded.value.collectives.as_ref())
            .map_err(|e| e.in_file(&loaded.file))?;
        Ok(MachineNetwork { name: topology.to_owned(), machine, chooser })
    }

    /// How it was asked for.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
    /// How its collectives choose their algorithms.
    pub(super) fn chooser(&self) -> &Chooser {
        &self.chooser
    }

    /// Seconds of a collective among the first `ranks` devices, alone on the network.
    fn seconds(&self, transfer: Transfer, ranks: u32) -> Result<f64, SpecError> {
        let have = self.machine.devices();
        if ranks > have {
            return Err(SpecError::file(
                &self.name,
                format!("has {have} devices, and a group has {ranks} ranks"),
            )
            .allowed(format!("a machine of at least {ranks} devices")));
        }
        let devices: Vec<DeviceId> = (0..ranks).map(DeviceId).collect();
        let lowering = Lowering::new(&self.machine, Fidelity::Formula, self.chooser.clone());
        let (_, choice) = lowering.explain(&transfer, &devices).map_err(|e| {
            SpecError::file(&self.name, format!("{} of {ranks} ranks: {e}", transfer.op.name()))
        })?;
        Ok(choice.expected_s)
    }
}

/// A step whose collectives were moved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MovedStep {
    /// The step with its new times.
    pub step: StepPrograms,
    /// By kind of communication.
    pub kinds: Vec<MovedKind>,
    /// The facts that the profiles lack, and the assumptions in their place.
    pub unknown: Vec<String>,
}

/// Collectives of a kind, of all ranks that were profiled.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct MovedKind {
    /// `all-reduce`, ….
    pub kind: String,
    /// How many were moved.
    pub count: u64,
    /// Seconds that they were measured to take.
    pub measured_s: f64,
    /// The model's time for them on the machine that was measured.
    pub model_s: f64,
    /// And on the other one.
    pub model_there_s: f64,
    /// Seconds that they take there.
    pub there_s: f64,
}

/// Puts the collectives of a step that was measured on `from` on the network `to`, the largest groups (the replicas
/// of the model) `replicas` times as large.
///
/// # Errors
/// A machine has too few devices for a group, or a collective cannot run on it.
pub fn moved(
    step: &StepPrograms,
    from: &MachineNetwork,
    to: &MachineNetwork,
    replicas: u32,
) -> Result<MovedStep, SpecError> {
    let mut out = MovedStep { step: step.clone(), ..MovedStep::default() };
    let groups = step.ranks.iter().flat_map(|r| &r.ops).filter_map(|op| op.collective.as_ref());
    let largest = groups.map(|c| c.group_size).max().unwrap_or(0);
    let mut models: BTreeMap<(&'static str, u64, u32), (f64, f64)> = BTreeMap::new();
    let mut kinds: BTreeMap<String, MovedKind> = BTreeMap::new();
    let mut kept: BTreeMap<String, (u64, f64)> = BTreeMap::new();
    for op in out.step.ranks.iter_mut().flat_map(|r| &mut r.ops) {
        let Some(collective) = &op.collective else { continue };
        let measured = op.ns as f64 / 1e9;
        let (operation, bytes, ranks) = match known(collective) {
            Ok(known) => known,
            Err(why) => {
                let sum = kept.entry(format!("{} {why}", collective.kind)).or_default();
                *sum = (sum.0 + 1, sum.1 + measured);
                continue;
            }
        };
        let grown = if collective.group_size == largest { ranks.saturating_mul(replicas) } else { ranks };
        let key = (operation.name(), bytes, ranks);
        let model = match models.get(&key) {
            Some(model) => *model,
            None => {
                let transfer = Transfer::new(operation, bytes);
                let model = (from.seconds(transfer, ranks)?, to.seconds(transfer, grown)?);
                models.insert(key, model);
                model
            }
        };
        let there = if model.0 > 0.0 { measured * model.1 / model.0 } else { measured };
        op.ns = (there * 1e9).round() as u64;
        let kind = kinds.entry(collective.kind.clone()).or_default();
        kind.count += 1;
        kind.measured_s += measured;
        kind.model_s += model.0;
        kind.model_there_s += model.1;
        kind.there_s += there;
    }
    out.kinds = kinds.into_iter().map(|(kind, sums)| MovedKind { kind, ..sums }).collect();
    out.unknown = said(&kept, replicas, largest);
    Ok(out)
}

/// The transfer that a profile's arguments describe, and among how many ranks; else why it is not known.
fn known(collective: &TracedCollective) -> Result<(Op, u64, u32), &'static str> {
    let operation =
        [Op::AllReduce, Op::AllGather, Op::ReduceScatter, Op::AllToAll, Op::Broadcast, Op::Reduce]
            .into_iter()
            .find(|op| op.name() == collective.kind)
            .ok_or("is no collective that the model knows")?;
    let bytes = collective.bytes.ok_or("has no size in the profile")?;
    let ranks = u32::try_from(collective.group_size).ok().filter(|n| *n > 1);
    Ok((operation, bytes, ranks.ok_or("has no group in the profile")?))
}

fn said(kept: &BTreeMap<String, (u64, f64)>, replicas: u32, largest: i64) -> Vec<String> {
    let mut said: Vec<String> = kept
        .iter()
        .map(|(what, (count, s))| format!("{what}: {count} ops of {s:.6} s in all keep their time"))
        .collect();
    said.push("which devices a group has is not in a profile: the first of the machine are taken".into());
    said.push(
        "collectives that run at the same time do not slow each other more, or less, than they did".into(),
    );
    if replicas > 1 {
        said.push(format!(
            "groups of {largest} ranks are taken for the replicas; each does what it did (an optimizer whose \
             state is sharded over them would have less to do), and the new ones are as punctual as those \
             that were profiled"
        ));
    }
    said
}
