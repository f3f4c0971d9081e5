//! How a report is made of a run.

use super::{FoldedRanks, Report};
use crate::analysis::reading::Reading;
use crate::analysis::registry;
use crate::analysis::run::Run;
use stepsim_core::units::Flops;

/// Has all readings read a run, the caller's own last.
pub fn report(mut run: Run<'_, '_>, own: &[&'static dyn Reading]) -> Report {
    let mut report = headline(&run);
    registry::all(own).for_each(|reading| reading.read(&mut run, &mut report));
    report.answered()
}

/// The report's facts of the step as a whole.
fn headline(run: &Run<'_, '_>) -> Report {
    let (info, world, run_time_s) = (run.info, run.world(), run.end().s());
    let rate = |flops: Flops| {
        if run_time_s > 0.0 { flops.0 / run_time_s / info.devices as f64 } else { 0.0 }
    };
    Report {
        workload: info.workload.to_string(),
        topology: info.topology.to_string(),
        step_time_s: run_time_s,
        run_time_s,
        tokens_per_step: info.tokens,
        tokens_per_s: if run_time_s > 0.0 { info.tokens as f64 / run_time_s } else { 0.0 },
        mfu: rate(info.model_flops) / info.peak.0,
        mfu_causal: rate(info.model_flops_causal) / info.peak.0,
        hfu: rate(info.hardware_flops) / info.peak.0,
        hfu_causal: rate(info.hardware_flops_causal) / info.peak.0,
        model_tflops_per_device: rate(info.model_flops) / 1e12,
        devices: info.devices,
        ops: run.ranks.iter().zip(&run.weights).map(|(rank, weight)| rank.ops * weight).sum(),
        events: run.record().events,
        simulation_wall_s: info.simulation_wall_s,
        classes: FoldedRanks { simulated_ranks: world.ranks.len() as u64, ranks: run.ranks_of_job() },
        conventions: info.conventions.clone(),
        ..Report::default()
    }
}
