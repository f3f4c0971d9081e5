//! The closed form's device memory beside the peak of the simulation, for every shipped workload.

use stepsim::form::compare::workload::closed_form;
use stepsim::simulate::jump::figures;
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::spec::{Kind, catalog};

/// How far the two may be apart.
const CLOSE: f64 = 0.01;

/// Where they are farther apart, in percent of the simulated peak (least and most), and what makes the difference.
const NAMED: [(&str, [f64; 2], &str); 6] = [
    ("11t-offload", [0.0, 10.0], "gradients of the pass before are taken to wait still"),
    (
        "95t-offload",
        [0.0, 27.0],
        "two layers' gathered weights are taken to be there where one is: 25.1 GiB, not 12.6",
    ),
    ("cxl-pool-8", [-3.0, 1.0], "eight devices share the pool's port: more activations wait for it"),
    ("kimi-k2", [-7.0, 1.0], "activations of two more layers on their way to the host"),
    ("llama3-70b-offload", [-3.0, 1.0], "shards on their way to the gather"),
    (
        "qwen-vl-7b",
        [-2.0, 1.0],
        "the first gather of a backward pass runs beside the end of the forward pass before it",
    ),
];

/// Simulated for minutes where nothing is optimised.
const SLOW: [&str; 2] = ["11t-offload", "95t-offload"];
/// Beside those of few ops: a deep pipeline, experts and images.
const TRIED: [&str; 3] = ["gpt3-175b", "mixtral-8x7b", "qwen-vl-7b"];

/// Pipelines whose stages keep the activations of several micro-batches on the device.
const KEEPING: [&str; 2] = ["gpt3-175b", "megatron-1t"];

#[test]
fn memory_of_the_closed_form_is_the_peak_of_the_simulation() {
    let mut wrong = Vec::new();
    for name in catalog::names(Kind::Workload) {
        let tried = TRIED.contains(&name) || crate::slow::tried(name);
        if !tried || cfg!(debug_assertions) && SLOW.contains(&name) {
            println!("skipped: {name}");
            continue;
        }
        let inputs = Inputs::load(name, None, &[]).unwrap_or_else(|e| panic!("{name}: {e}"));
        let fullest = closed_form(&inputs).unwrap_or_else(|e| panic!("{name}: {e}")).fullest();
        let estimated = fullest.total();
        let run = Simulation::run(&inputs, &Options::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let peak = run.report(false).memory["hbm"].peak_bytes as f64;
        let off = 100.0 * (estimated / peak - 1.0);
        // What is held for certain is held, and most of what passes keep for each other is.
        assert!(fullest.certain <= peak, "{name}: {} B of {peak} B", fullest.certain);
        let state = fullest.weights + fullest.gradients + fullest.optimizer;
        let keeps = KEEPING.contains(&name);
        assert!(!keeps || fullest.certain > state + 0.5 * fullest.activations, "{name}: {fullest:?}");
        let named = NAMED.iter().find(|n| n.0 == name);
        let [least, most] = named.map_or([-100.0 * CLOSE, 100.0 * CLOSE], |n| n.1);
        println!("{name:<22} {off:+7.2} % {}", named.map_or("", |n| n.2));
        if !(least..=most).contains(&off) {
            wrong.push(format!("{name}: {off:+.2} %, not {least} to {most} %"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Exchanged matrix by matrix, a layer of ZeRO-3 is never whole on the device: of the weights gathered and of the
/// gradients that wait, the widest matrix is. The simulation and the closed form say the same.
#[test]
fn a_layer_exchanged_by_matrix_is_there_by_its_widest() {
    let held = |by_matrix: bool| {
        let sharding = format!("parallelism.sharding={{\"kind\":\"zero3\",\"by_matrix\":{by_matrix}}}");
        let sets = [sharding, "batch.global=8".into(), "fidelity.launch_overhead=false".into()];
        let inputs = Inputs::load("llama3-8b-fsdp", None, &sets).unwrap_or_else(|e| panic!("{e}"));
        let form = closed_form(&inputs).unwrap_or_else(|e| panic!("{e}")).fullest().total();
        let run = Simulation::run(&inputs, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        (run.report(false).memory["hbm"].peak_bytes as f64, form)
    };
    let ((whole, whole_form), (cut, cut_form)) = (held(false), held(true));
    assert!((whole_form / whole - 1.0).abs() < CLOSE && (cut_form / cut - 1.0).abs() < CLOSE);
    // The fullest moment is the head's backward pass, beside the gather of one layer: 218,112,000 weights, 4096 ×
    // 14336 of them in the widest matrix, two bytes each.
    assert_eq!(whole - cut, 2.0 * (218_112_000.0 - 4096.0 * 14336.0));
}

/// Hugging Face's Trainer: gradients come with their backward pass and go with the update, which holds the roots of
/// the second moments;
/// the context is there all the time. The simulation and the closed form say the same, of all weights and of adapters.
#[test]
fn what_eager_software_holds_is_the_same_in_both() {
    let held = |sets: &[&str]| {
        let eager = ["stack=hf-trainer", "batch.global=16", "batch.micro_batch=2"];
        let all: Vec<String> = eager.iter().chain(sets).map(ToString::to_string).collect();
        let inputs = Inputs::load("gpt2-8", None, &all).unwrap_or_else(|e| panic!("{e}"));
        let form = closed_form(&inputs).unwrap_or_else(|e| panic!("{e}")).fullest();
        let run = Simulation::run(&inputs, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        (run.report(false).memory["hbm"].peak_bytes as f64, form)
    };
    for sets in [&[][..], &["batch.micro_batch=1"], &["training.adapters={\"rank\":8}"]] {
        let (peak, form) = held(sets);
        assert!((form.total() / peak - 1.0).abs() < CLOSE, "{sets:?}: {form:?} of {peak}");
    }
    // Gradients wait only where there are more micro-batches to come.
    let (one, two) = (held(&[]).1, held(&["batch.global=32"]).1);
    assert!(one.certain < two.certain, "{one:?} {two:?}");
}

/// FSDP1 holds on to the checkpointed inputs of layers whose weights are frozen, and to their gradients, until the
/// backward pass has ended: at its end there are those of all 48 layers, of 1,024 tokens by 1,600 in 2 bytes.
#[test]
fn inputs_of_frozen_layers_stay_through_a_backward_pass() {
    let held = |stays: bool| {
        let sets = [
            "stack=hf-trainer".to_string(),
            format!("stack.memory.frozen_inputs_stay={stays}"),
            "training.adapters={\"rank\":8}".into(),
            "parallelism.sharding.kind=zero3".into(),
            "recompute.granularity=full".into(),
            "batch.global=64".into(),
            "batch.micro_batch=8".into(),
            "loss.tiles=64".into(),
        ];
        let inputs = Inputs::load("gpt2-8", None, &sets).unwrap_or_else(|e| panic!("{e}"));
        let form = closed_form(&inputs).unwrap_or_else(|e| panic!("{e}")).fullest().total();
        let run = Simulation::run(&inputs, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        let peak = run.report(false).memory["hbm"].peak_bytes as f64;
        // The form holds one gather more.
        assert!((form / peak - 1.0).abs() < 2.0 * CLOSE, "{stays}: {form} of {peak}");
        peak
    };
    let gradients = 48.0 * (8 * 1024 * 1600) as f64 * 2.0;
    let more = held(true) - held(false);
    assert!((more / gradients - 1.0).abs() < 0.03, "{more} of {gradients}");
}

/// What is held for certain decides which choices are not played: more of it than there is, and no run fits.
#[test]
fn no_step_fits_whose_certain_memory_does_not() {
    let (mut full, mut fit) = (0, 0);
    for schedule in ["gpipe", "looped-bfs", "1f1b", "interleaved-1f1b"] {
        for micro_batch in [1, 2, 4] {
            let sets = [
                format!("parallelism.pipeline.schedule={schedule}"),
                format!("batch.micro_batch={micro_batch}"),
            ];
            let inputs = Inputs::load("gpt3-175b", None, &sets).unwrap_or_else(|e| panic!("{sets:?}: {e}"));
            let form = closed_form(&inputs).unwrap_or_else(|e| panic!("{sets:?}: {e}"));
            let run = figures(&inputs, &Options::default(), false);
            if form.memory.iter().any(|rank| rank.certain > form.capacity) {
                assert!(run.is_err(), "{sets:?}: {run:?}");
                full += 1;
            }
            fit += usize::from(run.is_ok());
        }
    }
    assert!(full > 3 && fit > 2, "{full} are certain not to fit, {fit} fit");
}
