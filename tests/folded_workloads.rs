//! Folded runs of shipped workloads equal unfolded ones, span by span, also with one link slowed.

use stepsim::core::ids::{OpId, RankId, ResourceId};
use stepsim::read::analysis::links;
use stepsim::simulate::{Inputs, Options, Simulation, SimulationError};
use stepsim::spec::workload::SlowLinkSpec;
use stepsim::spec::{Kind, catalog};

use crate::slow::tried;

/// Op executions up to which a workload is run unfolded.
const SMALL: u64 = 2_000_000;

fn run(inputs: Inputs, fold: bool) -> Result<Simulation, SimulationError> {
    let options = Options { fold, ..Options::default() };
    Simulation::run(&inputs, &options)
}

fn inputs(name: &str, slow: Option<&str>) -> Inputs {
    let mut inputs = Inputs::load(name, None, &[]).unwrap_or_else(|e| panic!("{name}: {e}"));
    inputs
        .workload
        .value
        .noise
        .slow_links
        .extend(slow.map(|link| SlowLinkSpec { link: link.into(), slowness: 2.0 }));
    inputs
}

fn assert_equal(what: &str, folded: &Simulation, full: &Simulation) {
    assert_eq!(folded.record.step_end, full.record.step_end, "{what}: step");
    for rank in (0..full.plan.world.ranks().len() as u32).map(RankId) {
        let played = folded.folded.source(rank);
        for op in (0..full.plan.world.program_of(rank).ops.len() as u32).map(OpId) {
            let (a, b) = (folded.record.span(played, op), full.record.span(rank, op));
            assert_eq!(a, b, "{what}: rank {} op {}", rank.0, op.0);
        }
    }
}

#[test]
fn shipped_workloads_fold_exactly() {
    let mut compared = 0;
    for name in catalog::names(Kind::Workload).filter(|name| tried(name)) {
        let folded = match run(inputs(name, None), true) {
            Ok(run) => run,
            Err(error) => {
                println!("skipped: {name} ends with an error: {error}");
                continue;
            }
        };
        let ops = folded.plan.world.op_instances();
        if ops > SMALL {
            println!("skipped: {name} has {ops} op executions");
            continue;
        }
        let full = run(inputs(name, None), false).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_equal(name, &folded, &full);
        compared += 1;

        let busiest = links::busiest(&full.folded.world, &full.record);
        let Some(link) = busiest.first() else {
            continue;
        };
        let slow: ResourceId = link.resource;
        let link = folded.inputs.machine.resource_name(slow);
        let what = format!("{name} with {link} slowed");
        let slowed = |fold| run(inputs(name, Some(&link)), fold).unwrap_or_else(|e| panic!("{what}: {e}"));
        let (folded_slowed, full_slowed) = (slowed(true), slowed(false));
        assert_equal(&what, &folded_slowed, &full_slowed);
        let (before, after) = (folded.folded.resources.len(), folded_slowed.folded.resources.len());
        // A link that was alone in its class has nothing to split from.
        let alone = folded.folded.resources.size[folded.folded.resources.of[slow.index()] as usize] == 1;
        assert!(after > before || alone, "{what}: {after} classes of links, {before} without");
    }
    assert!(compared >= 5, "{compared} workloads are small enough");
}
