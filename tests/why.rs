//! Why a step takes as long as it does: waterfalls, critical paths and slack of shipped workloads.

use stepsim::analysis::report::Report;
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::spec::{Kind, catalog};

/// Op executions up to which a workload is run.
const SMALL: u64 = 30_000_000;

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs().max(1e-9)
}

/// The runs of all shipped workloads that are small enough and fit.
fn shipped() -> impl Iterator<Item = (String, Simulation)> {
    catalog::names(Kind::Workload).into_iter().filter_map(|name| {
        let inputs = Inputs::load(name, None, &[]).unwrap_or_else(|e| panic!("{name}: {e}"));
        let small = inputs.plan().is_ok_and(|plan| plan.world.op_instances() <= SMALL);
        let run = small.then(|| Simulation::run(&inputs, &Options::default()).ok()).flatten();
        if run.is_none() {
            println!("skipped: {name}");
        }
        Some((name.to_string(), run?))
    })
}

fn holds(name: &str, report: &Report) {
    let waterfall = report.waterfall.as_ref().unwrap_or_else(|| panic!("{name} has no waterfall"));
    assert!(close(waterfall.mean.mfu, report.mfu), "{name}: {} {}", waterfall.mean.mfu, report.mfu);
    assert_eq!(waterfall.stages.len(), report.stages.len(), "{name}");
    for bars in std::iter::once(&waterfall.mean).chain(&waterfall.stages) {
        let sum: f64 = bars.bars.iter().map(|b| b.share).sum();
        assert!(close(sum + bars.mfu, 1.0), "{name}: {}", sum + bars.mfu);
        let seconds: f64 = bars.bars.iter().map(|b| b.time_s).sum();
        assert!(close(seconds, report.step_time_s * (1.0 - bars.mfu)), "{name}: {seconds}");
    }
    let of_kernels: f64 = report.kernels.iter().map(|k| k.time_s).sum();
    assert!(of_kernels <= report.mean.busy_s * (1.0 + 1e-9), "{name}: {of_kernels}");
    let path = &report.critical_path;
    let stretches = &path.stretches;
    assert_eq!(stretches.first().map(|s| s.start_s), Some(0.0), "{name}");
    assert_eq!(stretches.last().map(|s| s.end_s), Some(report.step_time_s), "{name}");
    assert!(stretches.windows(2).all(|w| w[0].end_s == w[1].start_s), "{name}");
    let length: f64 = stretches.iter().flat_map(|s| s.by_kind_s.values()).sum();
    assert!(close(length, report.step_time_s), "{name}: {length}");
}

#[test]
fn waterfalls_and_paths_of_shipped_workloads_fill_the_step() {
    let mut seen = 0;
    for (name, run) in shipped() {
        holds(&name, &run.report(false));
        seen += 1;
    }
    assert!(seen >= 10, "{seen} workloads are small enough");
}
