//! The goldens: what Calculon itself wrote, at relative 1e-9.

use serde_json::Value;

use stepsim_around::calculon::*;
use stepsim_bring::calculon::{
    Calculon, CalculonOverlap, Execution, FileNames, ProcessingMode, Recompute, System, TensorComm,
};

/// A golden: its name, its inputs, what Calculon wrote.
fn cases() -> Vec<(String, Calculon, Value)> {
    let path = "tests/calculon.json";
    cases_of(&serde_json::from_slice(&std::fs::read(path).expect("readable goldens")).expect("JSON"))
}

fn cases_of(goldens: &Value) -> Vec<(String, Calculon, Value)> {
    let case = |case: &Value| {
        let of = |table: &str, key: &str| goldens[table][case[key].as_str().expect("a name")].to_string();
        let [app, sys] = [of("applications", "application"), of("systems", "system")];
        let inputs = Calculon::parse(FileNames::default(), &app, &case["execution"].to_string(), &sys);
        let name = case["name"].as_str().expect("a name").to_string();
        (name, inputs.expect("a valid golden"), case["outputs"].clone())
    };
    goldens["cases"].as_array().expect("cases").iter().map(case).collect()
}

/// Equal at relative 1e-9; integers and nulls exactly.
fn agrees(ours: f64, golden: &Value) -> bool {
    match golden {
        Value::Null => ours.is_nan(),
        Value::Number(n) if n.is_f64() => {
            let theirs = n.as_f64().expect("a float");
            (ours - theirs).abs() <= 1e-9 * theirs.abs()
        }
        Value::Number(n) => n.as_i64().is_some_and(|i| ours == i as f64 && ours as i64 == i),
        _ => false,
    }
}

/// Configurations drawn at random, with what Calculon makes of them: inference, every kind of offload and of
/// communication are among them.
#[test]
fn every_output_of_random_configurations_agrees() {
    let path = "tests/calculon-random.json.gz";
    let file = std::fs::File::open(path).expect("readable goldens");
    let goldens: Value = serde_json::from_reader(flate2::read::GzDecoder::new(file)).expect("JSON");
    let cases = cases_of(&goldens);
    let count = |wanted: &dyn Fn(&Execution) -> bool| cases.iter().filter(|case| wanted(&case.1.exe)).count();
    assert_eq!(cases.len(), 320);
    assert!(count(&|e| !e.training) > 100);
    assert!(count(&|e| !e.training && (e.weight_offload || e.activations_offload)) > 50);
    assert!(count(&|e| e.weight_offload && e.activations_offload) > 50);
    assert!(count(&|e| e.tensor_par_comm_type == TensorComm::P2pRsAg) > 50);
    agree(&cases, 96);
}

#[test]
fn every_output_of_every_golden_agrees() {
    agree(&cases(), 97); // 96 outputs and the layers
}

fn agree(cases: &[(String, Calculon, Value)], fields: usize) {
    let mut wrong = Vec::new();
    for (name, case, golden) in cases {
        let outputs = estimate(case, true).outputs();
        assert_eq!(golden.as_object().expect("an object").len(), fields, "{name}");
        let keys = golden.as_object().expect("an object").keys().filter(|key| *key != "layers");
        assert!(outputs.keys().eq(keys), "{name}");
        for (field, ours) in outputs {
            if !agrees(ours.as_f64().unwrap_or(f64::NAN), &golden[&field]) {
                wrong.push(format!("{name} {field}: {ours:?}, Calculon {}", golden[&field]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// A golden with a changed execution and system.
fn changed(name: &str, change: impl Fn(&mut Execution, &mut System)) -> Calculon {
    let (_, case, _) = cases().into_iter().find(|case| case.0.starts_with(name)).expect("a golden");
    let (mut exe, mut sys) = (case.exe.clone(), case.sys.clone());
    change(&mut exe, &mut sys);
    Calculon { exe, sys, ..case }
}

fn published(case: &Calculon) -> CalculonEstimate {
    estimate(case, true)
}

#[test]
fn goldens_fit_in_memory_and_one_byte_less_does_not() {
    for (name, case, _) in cases() {
        assert_eq!(published(&case).fits(), Ok(()), "{name}");
    }
    let gib = (1u64 << 30) as f64;
    let case = changed("d09", |_, sys| sys.mem1.capacity_gib = 71_260_795_199.0 / gib);
    let over = OverCapacity { tier: 1, needed: 71_260_795_200.0, capacity: 71_260_795_199.0 };
    assert_eq!(published(&case).fits(), Err(over));
    let case = changed("d09", |_, sys| sys.mem2.capacity_gib = 1.0);
    assert_eq!(published(&case).fits().expect_err("too small").tier, 2);
}

/// Effect of repairing all defects on the total, in percent: of goldens that show one or two of them, and of runs where
/// each other defect must show.
#[test]
fn repairs_have_their_known_effects() {
    let golden = |name| changed(name, |_, _| {});
    // p2p_rs_ag in tiles: the edge block's reduce-scatter carries half of what the base block's all-reduce does.
    let edges = changed("d11", |exe, sys| {
        exe.tensor_par_overlap = CalculonOverlap::Ring;
        sys.networks[0].bandwidth = 60.0;
    });
    // A repeated all-gather hides behind a weight gradient that no reduction delays.
    let repeated = changed("d12", |exe, sys| {
        exe.activation_recompute = Recompute::Full;
        exe.tensor_par_overlap = CalculonOverlap::Ring;
        sys.networks[0].bandwidth = 60.0;
    });
    let windows = changed("d11", |_, sys| {
        sys.processing_mode = ProcessingMode::Roofline;
        sys.networks[1].bandwidth = 1.0;
    });
    let cases = [
        ("d10, prefix sums and the optimizer's window", golden("d10"), -7.645906),
        ("d09, prefix sums", golden("d09"), -0.030527),
        ("d11, prefix sums", golden("d11"), -0.027272),
        ("d12, a tile twice", golden("d12"), -3.029520),
        (
            "optimizer in every micro-batch",
            changed("d14", |_, sys| sys.mem2.bandwidth_gbps = 25.0),
            -7.662706,
        ),
        ("edges", edges, -0.150843),
        ("repeated collectives", repeated, -0.017051),
        ("windows of a roofline", windows, -0.916146),
    ];
    let effect =
        |case: &Calculon| 100.0 * (estimate(case, false).terms.total() / published(case).terms.total() - 1.0);
    let wrong: Vec<String> = cases
        .iter()
        .filter(|(_, case, percent)| (effect(case) - percent).abs() > 1e-6)
        .map(|(what, case, percent)| format!("{what}: {} %, expected {percent} %", effect(case)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// From Calculon's total to the imported step nothing is left out: the causes add up to the difference, and the terms to
/// both totals.
#[test]
fn the_same_step_beside_it_is_explained_whole() {
    let (_, case, golden) = cases().into_iter().find(|case| case.0.starts_with("d02")).expect("a golden");
    let both = CalculonBeside::new(&case, &mut |_| {}).expect("a step");
    let total = golden["total_time"].as_f64().expect("seconds");
    let causes: f64 = both.causes.iter().map(|cause| cause.seconds).sum();
    assert!((total + causes - both.imported_s).abs() < 1e-5 * both.causes.len() as f64, "{:?}", both.causes);
    let sums = both.terms().fold([0.0; 3], |sums, (_, s)| [0, 1, 2].map(|i| sums[i] + s[i]));
    for (sum, whole) in sums.iter().zip([total, both.ours.closed_form_s, both.ours.simulated_s]) {
        assert!((sum / whole - 1.0).abs() < 1e-9, "{sum} of {whole}");
    }
}

/// A pass without training is counted and not played, and the refusal says so.
#[test]
fn an_inference_pass_is_counted_and_not_played() {
    let (_, case, _) = cases().into_iter().find(|case| !case.1.exe.training).expect("a golden");
    let why = CalculonBeside::new(&case, &mut |_| {}).err().expect("no training step").to_string();
    assert!(why.contains("training") && why.contains("inference"), "{why}");
}
