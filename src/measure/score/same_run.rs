//! Checks that a profile is of the step that a workload describes: the device, the ranks, the kernels, and the times
//! that they can take.
//!
//! A factor on prices hides a wrong description: half the layers at half the pace last as long. Differences that
//! no price explains are refused: another device, another number of ranks, matrix kernels that are half or twice as
//! many as planned, and FLOPs above the peak of the device.

use super::side::{NotLearned, StepSide};
use crate::profile::ProfileReport;
use stepsim_core::ids::DeviceId;
use stepsim_price::cost::measured::catalogue_name;
use stepsim_simulate::Inputs;
use stepsim_spec::Dtype;

/// A profile may have between half and twice the plan's kernels of a work: kernels are cut and fused.
const COUNTS: [f64; 2] = [0.5, 2.0];

/// Refuses profiles of another device than the machine's.
pub(super) fn check_device(inputs: &Inputs, profiles: &ProfileReport) -> Result<(), NotLearned> {
    let own = &inputs.machine.device(DeviceId(0)).name;
    let in_catalogue = |name: &str| catalogue_name(name) != name;
    let mut named =
        profiles.ranks.iter().filter_map(|rank| Some((rank.file.as_str(), rank.device.as_deref()?)));
    let other = named.find(|(_, device)| {
        in_catalogue(device) && in_catalogue(own) && catalogue_name(device) != catalogue_name(own)
    });
    match other {
        None => Ok(()),
        Some((file, device)) => Err(NotLearned::Other(format!(
            "{file} was measured on {device}, and the machine has {own}: give the machine of the profile (--topology)"
        ))),
    }
}

/// Refuses profiles of a job with another number of ranks than the workload has.
pub(super) fn check_ranks(inputs: &Inputs, profiles: &ProfileReport) -> Result<(), NotLearned> {
    let planned = u64::from(inputs.machine.devices());
    let mut ranks = profiles.ranks.iter().filter_map(|rank| Some((rank.file.as_str(), rank.world_size?)));
    match ranks.find(|(_, ranks)| *ranks != planned) {
        None => Ok(()),
        Some((file, ranks)) => Err(NotLearned::Other(format!(
            "{file} is of a job of {ranks} ranks, and the workload has {planned}: give its machine (-t)"
        ))),
    }
}

/// Refuses kernels that are not the plan's, by their number or by the device's limits. `planned` is the plan as it
/// runs.
pub(super) fn check_kernels(
    inputs: &Inputs,
    target: &StepSide,
    planned: &StepSide,
) -> Result<(), NotLearned> {
    // Experts may run one by one, and a pass of attention may be several kernels.
    let most =
        |work: &str| if work == "gemm" && inputs.model.moe.is_none() { COUNTS[1] } else { f64::INFINITY };
    for work in ["gemm", "attention"] {
        let [measured, in_plan] = [target.count(work), planned.count(work)];
        let times = measured / in_plan;
        if measured > 0.0 && in_plan > 0.0 && !(times > COUNTS[0] && times < most(work)) {
            return Err(NotLearned::Other(format!(
                "the profile has {measured:.0} {work} kernels a step and rank, and the plan {in_plan:.0}, \
                 {times:.2} times as many: more likely another model, batch or layout was measured, or a part \
                 of a step (--part)"
            )));
        }
        let (rate, peak) = (planned.flops(work) / target.work(work), peak(inputs));
        if target.work(work) > 0.0 && rate > peak {
            return Err(NotLearned::Other(format!(
                "the plan's {work} kernels in the {:.3} ms measured are {:.0} TFLOP/s, above the device's {:.0}: \
                 the profile does less than the plan, or the device is another",
                1e3 * target.work(work),
                rate / 1e12,
                peak / 1e12,
            )));
        }
    }
    Ok(())
}

/// The peak that no kernel of the workload exceeds: the peak of its format, or the highest of the device where several
/// are used.
fn peak(inputs: &Inputs) -> f64 {
    let device = inputs.machine.device(DeviceId(0));
    let (own, wide) =
        (inputs.peak().0, device.peak(inputs.workload.value.precision.compute).map(|peak| peak.0));
    let all = Dtype::ALL.iter().filter_map(|format| device.peak(*format)).map(|peak| peak.0);
    if wide == Some(own) { own } else { all.fold(own, f64::max) }
}
