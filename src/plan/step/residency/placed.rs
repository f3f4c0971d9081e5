//! The tier of each byte.

use super::away::Away;
use stepsim_core::ids::DeviceId;
use stepsim_fabric::topology::Machine;
use stepsim_spec::SpecError;
use stepsim_spec::workload::{Placement, WorkloadSpec};

/// Shares of state that live on other tiers.
#[derive(Clone, Debug, Default)]
pub(in crate::step) struct TierShares {
    pub weights: Vec<Away>,
    pub gradients: Vec<Away>,
    pub optimizer: Vec<Away>,
    pub activations: Vec<Away>,
}

/// Tier numbers of what is placed off the device.
pub(in crate::step) fn placed(w: &WorkloadSpec, machine: &Machine) -> Result<TierShares, SpecError> {
    let number = |field: String, name: &str| -> Result<u8, SpecError> {
        let tier = machine.tier_named(DeviceId(0), name).ok_or_else(|| {
            let have: Vec<_> = machine.tiers_of(DeviceId(0)).map(|t| machine.tier(t).0).collect();
            SpecError::at(field, format!("the machine has no tier `{name}`")).allowed(have.join(", "))
        })?;
        Ok(tier as u8)
    };
    let tiers = |class: &str, list: &[Placement]| -> Result<Vec<Away>, SpecError> {
        let off = list.iter().enumerate().filter(|(_, p)| !p.on_device() && p.fraction > 0.0);
        off.map(|(i, p)| {
            let via = p.via.iter().enumerate();
            let via = via.map(|(j, name)| number(format!("offload.{class}[{i}].via[{j}]"), name));
            Ok(Away {
                tier: number(format!("offload.{class}[{i}].tier"), &p.tier)?,
                via: via.collect::<Result<_, _>>()?,
                fraction: p.fraction,
            })
        })
        .collect()
    };
    let o = &w.offload;
    Ok(TierShares {
        weights: tiers("weights", &o.weights)?,
        gradients: tiers("gradients", &o.gradients)?,
        optimizer: tiers("optimizer", &o.optimizer)?,
        activations: tiers("activations", &o.activations)?,
    })
}
