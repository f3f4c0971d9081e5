//! No valid file comes to a standstill: every schedule under every stack with every way to exchange runs, or is
//! refused with the cycle of waits and what to do; what a stack does by itself runs.

use serde_json::{Value, json};
use stepsim::core::engine::EngineError;
use stepsim::plan::step::PlanError;
use stepsim::schedule::ALL;
use stepsim::simulate::jump::figures;
use stepsim::simulate::{Inputs, Options, Simulation, SimulationError};
use stepsim::spec::{Disk, Kind, catalog};

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
    let every = if super::steps::count() >= 5000 { 1 } else { 21 };
    let stacks: Vec<&str> = catalog::names(Kind::Stack).collect();
    let (mut at, mut played, mut refused) = (0, 0, 0);
    for (schedule, stack) in ALL.iter().flat_map(|s| stacks.iter().map(move |stack| (s.name(), *stack))) {
        for (p2p, stages) in [None, Some("async"), Some("blocking"), Some("batched")]
            .into_iter()
            .flat_map(|p2p| [4, 8].map(|stages| (p2p, stages)))
        {
            at += 1;
            let by_default = p2p.is_none() && stages == 4;
            if at % every != 0 && !(by_default && at % 3 == 1) {
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

/// At the depth of a model of life, where a pass has more kernels than a queue has room: every schedule under every
/// stack with every way to exchange runs to its end, or is refused before it is played, with what runs.
#[test]
fn no_schedule_comes_to_a_standstill_at_real_depth() {
    let slow = super::steps::count() >= 5000;
    let models: &[&str] = if slow { &["llama3-70b", "gpt3-175b"] } else { &["llama3-70b"] };
    let stacks: Vec<&str> = catalog::names(Kind::Stack).collect();
    let memory = "topology.device.hbm.GB=65536".to_string();
    let (mut at, mut played, mut refused) = (0, 0, 0);
    for (model, schedule, stack) in models.iter().flat_map(|model| {
        let stacks = &stacks;
        ALL.iter().flat_map(move |s| stacks.iter().map(move |stack| (*model, s.name(), *stack)))
    }) {
        for p2p in ["blocking", "batched"] {
            at += 1;
            // What stood still once is always played.
            let stood = schedule == "looped-bfs" && p2p == "batched" && stack == "fsdp2-eager";
            if !slow && !stood && at % 29 != 0 {
                continue;
            }
            let set = |field: &str, value: &str| format!("{field}={value}");
            let sets = [
                memory.clone(),
                set("stack", stack),
                set("parallelism.pipeline.schedule", schedule),
                set("parallelism.pipeline.p2p", p2p),
            ];
            match Inputs::load(model, None, &sets)
                .map_err(SimulationError::from)
                .and_then(|inputs| figures(&inputs, &Options::default(), false))
            {
                Ok(_) => played += 1,
                Err(SimulationError::Spec(e) | SimulationError::Plan(PlanError::Spec(e))) => {
                    assert!(!e.path.is_empty() && !e.allowed.is_empty(), "{model} {sets:?}: {e}");
                    refused += 1;
                }
                Err(e) => panic!("{model} {sets:?}: {e}"),
            }
        }
    }
    println!("{played} played, {refused} refused");
    assert!(played > 0);
}

/// However short the queue of a host, and whether or not it waits for every kernel: what is not refused runs to its
/// end. Hosts that wait for every kernel run every schedule: `CUDA_LAUNCH_BLOCKING=1` did so for BLOOM.
#[test]
fn no_queue_is_too_short() {
    let hosts = [json!({"queue": 1}), json!({"queue": 2}), json!({"queue": 64}), json!({"blocking": true})];
    let mut played = 0;
    for (schedule, p2p, host) in ALL.iter().flat_map(|s| {
        let hosts = &hosts;
        let on_hosts = move |p2p| hosts.iter().map(move |host| (s.name(), p2p, host));
        ["async", "blocking", "batched"].into_iter().flat_map(on_hosts)
    }) {
        for (stages, layers) in [(2, 2), (4, 8)] {
            let mut w = workload(schedule, "simple", Some(p2p), stages);
            w["model"]["layers"] = layers.into();
            w["stack"] = json!({"base": "simple", "host": host});
            let played_to_end = Inputs::from_json(&w.to_string(), None, &[], &Disk)
                .map_err(SimulationError::from)
                .and_then(|inputs| Simulation::run(&inputs, &Options::default()));
            match played_to_end {
                Ok(_) => played += 1,
                Err(SimulationError::Spec(e) | SimulationError::Plan(PlanError::Spec(e))) => {
                    assert!(!e.allowed.is_empty() || !e.hint.is_empty(), "{w}: {e}");
                    let blocks = p2p == "async" && host["blocking"] == true;
                    assert!(!blocks || !e.to_string().contains("standstill"), "{w}: {e}");
                }
                Err(e) => panic!("{w}: {e}"),
            }
        }
    }
    assert!(played > 80, "{played} played");
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
