//! The critical path of what each op waited for, against the path of a record of the same run.

use proptest::prelude::*;
use stepsim_core::engine::{self, CauseRecord, CompiledPrograms, EngineError};
use stepsim_core::ids::RankId;
use stepsim_core::program::World;
use stepsim_core::units::Time;
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::critical::{PathWalk, critical_path};
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_simulate::{Inputs, Options, Simulation};

#[path = "../../core/tests/engine/random.rs"]
mod random;

type OnRanks = Vec<(RankId, Time)>;

/// The paths by rank, from the record and from causes.
fn paths(mut world: World) -> Result<(OnRanks, OnRanks), EngineError> {
    world.flatten();
    let record = engine::run(&world)?;
    let path = critical_path(&mut Causes::new(&world, &record), &mut IdleTimes::new(&world));
    let mut causes = CauseRecord::for_world(&world);
    let end = CompiledPrograms::of(&world)?.play(&world, &mut causes)?;
    assert_eq!(end, record.step_end);
    Ok((path.by_rank(), PathWalk::of(&world).by_rank(&causes, end)))
}

fn planned(workload: &str, sets: &[&str], seed: u64) -> World {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let inputs = Inputs::load(workload, None, &sets).unwrap_or_else(|e| panic!("{e}"));
    let options = Options { seed, ..Options::default() };
    Simulation::run(&inputs, &options).unwrap_or_else(|e| panic!("{e}")).plan.world
}

proptest! {
    #[test]
    fn the_path_of_causes_is_that_of_the_record(seed in any::<u64>()) {
        if let Ok((of_record, of_causes)) = paths(random::world(seed)) {
            prop_assert_eq!(of_record, of_causes);
        }
    }
}

/// Hosts that run ahead, copies that wait for room, pieces of collectives; ranks that are alike, so that ends tie, and
/// ranks that are not.
#[test]
fn so_it_is_in_steps() {
    let eight = ["parallelism.tensor=2", "parallelism.pipeline.size=2", "stack=megatron-te-2024"];
    let noisy: Vec<&str> = eight.iter().copied().chain(["noise.compute_sigma=0.05"]).collect();
    let cases: [(&str, &[&str]); 8] = [
        ("tiny-4", &eight),
        ("tiny-4", &noisy),
        ("gpt2-8", &[]),
        ("gpt2-8", &["noise.compute_sigma=0.02", "fidelity.collectives=steps"]),
        ("llama3-8b-fsdp", &["noise.compute_sigma=0.02"]),
        ("cxl-pool-8", &[]),
        ("cxl-pool-8", &["noise.compute_sigma=0.02"]),
        ("straggler-64", &["batch.global=64"]),
    ];
    for (workload, sets) in cases {
        for seed in 0..2 {
            let (of_record, of_causes) = paths(planned(workload, sets, seed)).unwrap();
            assert_eq!(of_record, of_causes, "{workload} {sets:?}");
        }
    }
}
