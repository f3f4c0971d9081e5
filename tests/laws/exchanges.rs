//! No valid file comes to a standstill: every schedule under every stack with every way to exchange runs, or is refused with the
//! cycle of waits and what to do; what a stack does by itself runs.

use serde_json::{Value, json};
use stepsim::core::engine::EngineError;
use stepsim::simulate::{Inputs, Options, Simulation, SimulationError};
use stepsim::step::plan::step::PlanError;
use stepsim::step::schedule::ALL;
use stepsim::step::spec::{Disk, Kind, catalog};

fn workload(schedule: &str, stack: &str, p2p: Option<&str>, stages: u64) -> Value {
    let mut workload = json!({
        "topology": format!("switch:{stages},100,2"),
        "stack": stack,
        "model": {
            "name": "tiny", "source": "made up", "layers": 4 * stages, "hidden": 256, "heads": 4, "ffn": 1024,
            "vocabulary": 512, "sequence": 128,
        },
        "batch": {"global": 3 * stages, "micro_batch": 1},
        "parallelism": {"pipeline": {"size": stages, "schedule": schedule}},
    });
    if let Some(p2p) = p2p {
        workload["parallelism"]["pipeline"]["p2p"] = p2p.into();
    }
    workload
}

#[test]
fn every_schedule_runs_under_every_stack_or_says_why_not() {
    let every = if super::steps::count() >= 5000 { 1 } else { 7 };
    let stacks: Vec<&str> = catalog::names(Kind::Stack).collect();
    let (mut at, mut played, mut refused) = (0, 0, 0);
    for (schedule, stack) in ALL.iter().flat_map(|s| stacks.iter().map(move |stack| (s.name(), *stack))) {
        for (p2p, stages) in [None, Some("async"), Some("blocking"), Some("batched")]
            .into_iter()
            .flat_map(|p2p| [4, 8].map(|stages| (p2p, stages)))
        {
            at += 1;
            let by_default = p2p.is_none() && stages == 4;
            if at % every != 0 && !by_default {
                continue;
            }
            let text = workload(schedule, stack, p2p, stages).to_string();
            let played_to_end = Inputs::from_json(&text, None, &[], &Disk)
                .map_err(SimulationError::from)
                .and_then(|inputs| Simulation::run(&inputs, &Options::default()));
            match played_to_end {
                Ok(_) => played += 1,
                Err(SimulationError::Spec(e) | SimulationError::Plan(PlanError::Spec(e)))
                    if p2p.is_some() =>
                {
                    assert!(
                        e.path == "parallelism.pipeline.p2p" && e.allowed.contains("async"),
                        "{text}: {e}"
                    );
                    refused += 1;
                }
                Err(e) => panic!("{text}: {e}"),
            }
        }
    }
    println!("{played} played, {refused} refused");
    assert!(played > 2 * refused);
}

/// Stages that hold no layer take part in what all do.
#[test]
fn stages_without_layers_run() {
    for stack in ["simple", "nanotron", "megatron-2021"] {
        let mut w = workload("1f1b", stack, None, 32);
        w["model"]["layers"] = 28.into();
        w["batch"]["global"] = 64.into();
        w["parallelism"]["pipeline"]["layer_split"] = [vec![1; 28], vec![0; 4]].concat().into();
        let inputs = Inputs::from_json(&w.to_string(), None, &[], &Disk).unwrap();
        match Simulation::run(&inputs, &Options::default()) {
            Err(SimulationError::Engine(EngineError::Deadlock { .. })) => panic!("{stack}: a standstill"),
            run => drop(run.unwrap()),
        }
    }
}

/// What nobody can play is refused before anything is played, with the way out.
#[test]
fn a_standstill_is_refused_with_the_cycle_and_a_remedy() {
    let text = workload("interleaved", "nanotron", Some("blocking"), 4).to_string();
    let inputs = Inputs::from_json(&text, None, &[], &Disk).unwrap();
    let error = inputs.plan().unwrap_err().to_string();
    for part in ["comes to a standstill", "waits for", "async or batched"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(matches!(inputs.plan(), Err(PlanError::Spec(_))));
}
