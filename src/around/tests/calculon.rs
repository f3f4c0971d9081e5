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
        let outputs = estimate(case, Quirks::AS_PUBLISHED).outputs();
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
    estimate(case, Quirks::AS_PUBLISHED)
}

/// Calculon's record of a layer, field by field, as far as it adds up to the block's sums: its exposed repeated
/// collectives do not, as it computes them in another order.
fn layer_record(layer: &CalculonLayer) -> Vec<(String, f64)> {
    let mut record: Vec<(String, f64)> = vec![
        ("inputs_size".into(), layer.shape.inputs),
        ("outputs_size".into(), layer.shape.outputs),
        ("weight".into(), layer.weight_bytes),
        ("activation".into(), layer.shape.stored_bytes),
        ("weight_grad".into(), layer.weight_grad_bytes),
        ("activation_grad".into(), layer.shape.gradient_bytes),
        ("optimizer".into(), layer.optimizer_bytes),
    ];
    for (key, stage) in [
        ("fw", &layer.forward),
        ("agrad", &layer.agrad),
        ("wgrad", &layer.wgrad),
        ("optim", &layer.optimizer),
    ] {
        record.push((format!("{key}_flops"), stage.flops));
        record.push((format!("{key}_mem_accessed"), stage.bytes));
        record.push((format!("{key}_processing_time"), stage.time));
    }
    let comm = &layer.comm;
    for (key, comm) in [("fw_tp_comm", &comm.forward), ("bw_tp_comm", &comm.agrad), ("recomm", &comm.redo)] {
        for (block, comm) in [("base", &comm.base), ("edge", &comm.edge)] {
            record.push((format!("{block}block_{key}_size"), comm.bytes));
            record.push((format!("{block}block_{key}_time"), comm.link_time));
            if key != "recomm" {
                record.push((format!("{block}block_{key}_time_exposed"), comm.exposed_time));
            }
        }
    }
    record
}

#[test]
fn every_layer_of_every_golden_agrees() {
    let mut wrong = Vec::new();
    for (name, case, golden) in cases() {
        let ours = layers(&case, Quirks::AS_PUBLISHED);
        let theirs = golden["layers"].as_array().expect("layers");
        let names: Vec<_> = theirs.iter().map(|layer| layer["name"].as_str().expect("a name")).collect();
        assert_eq!(ours.iter().map(|layer| layer.name).collect::<Vec<_>>(), names, "{name}");
        for (layer, golden) in ours.iter().zip(theirs) {
            for (field, value) in layer_record(layer) {
                if !agrees(value, &golden[&field]) {
                    let golden = &golden[&field];
                    wrong.push(format!("{name} {} {field}: {value:?}, Calculon {golden}", layer.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
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

/// Effect of repairing one defect on the total, in percent.
fn effect_of_repair(case: &Calculon, quirk: &str) -> f64 {
    let mut quirks = Quirks::AS_PUBLISHED;
    assert!(quirks.set(quirk, false), "{quirk}");
    100.0 * (estimate(case, quirks).terms.total() / published(case).terms.total() - 1.0)
}

#[test]
fn each_defect_has_its_known_effect_on_the_goldens() {
    for (name, quirk, percent) in [
        ("d10", "recompute_prefix_sums", -7.65),
        ("d09", "recompute_prefix_sums", -0.03),
        ("d11", "recompute_prefix_sums", -0.03),
        ("d12", "pipe_tile_twice", -3.03),
        ("d10", "optimizer_window_twice", 0.002),
    ] {
        let case = changed(name, |_, _| {});
        let effect = effect_of_repair(&case, quirk);
        assert!((effect - percent).abs() < 0.005, "{name} {quirk}: {effect} %, expected {percent} %");
    }
}

/// Every defect that the goldens do not show, on a run where it must show, and in the direction in which it must.
#[test]
fn each_other_defect_shows_where_it_can() {
    let slow_link = changed("d14", |_, sys| sys.mem2.bandwidth_gbps = 25.0);
    assert!(effect_of_repair(&slow_link, "optimizer_offload_every_microbatch") < -1.0);

    // p2p_rs_ag in tiles: the edge block's reduce-scatter carries half of what the base block's all-reduce does.
    let case = changed("d11", |exe, sys| {
        exe.tensor_par_overlap = CalculonOverlap::Ring;
        sys.networks[0].bandwidth = 60.0;
    });
    assert!(effect_of_repair(&case, "edge_takes_base_exposure").abs() > 0.01);

    // A repeated all-gather hides behind a weight gradient that no reduction delays: less is exposed, never more.
    let case = changed("d12", |exe, sys| {
        exe.activation_recompute = Recompute::Full;
        exe.tensor_par_overlap = CalculonOverlap::Ring;
        sys.networks[0].bandwidth = 60.0;
    });
    assert!(effect_of_repair(&case, "redo_takes_forward_exposure") < 0.0);

    let case = changed("d11", |_, sys| {
        sys.processing_mode = ProcessingMode::Roofline;
        sys.networks[1].bandwidth = 1.0;
    });
    assert!(effect_of_repair(&case, "roofline_windows_lose_memory_time") < 0.0);
}

/// Without a backward pass nothing crosses the link for it: only the forward pass needs bandwidth.
#[test]
fn inference_offloads_in_its_forward_pass_alone() {
    for (weights, activations) in [(true, false), (false, true), (true, true)] {
        let case = changed("d14", |exe, sys| {
            exe.training = false;
            exe.optimizer_offload = false;
            exe.optimizer_sharding = false;
            exe.data_par_overlap = false;
            exe.seq_par_ag_redo = false;
            exe.activation_recompute = Recompute::None;
            (exe.weight_offload, exe.activations_offload) = (weights, activations);
            sys.mem2.bandwidth_gbps = 10.0;
        });
        let step = published(&case);
        let required = step.pipeline.offload.required;
        assert!(step.terms.forward_offload > 0.0);
        assert_eq!(step.terms.backward_offload, 0.0);
        let [w, a] = [(weights, required.weights), (activations, required.activations)]
            .map(|(on, bandwidth)| if on { bandwidth } else { 0.0 });
        assert_eq!(required.all, w.max(a));
        assert!(step.outputs()["offload_mem_bw_req"].is_number());
    }
}

/// With p2p_rs_ag the gathering side of a base block moves nothing, the edge block's does.
#[test]
fn bandwidth_that_hides_tiles_is_that_of_the_busier_block() {
    let need = |comm: TensorComm| {
        let case = changed("d11", |exe, _| {
            exe.tensor_par_overlap = CalculonOverlap::Ring;
            exe.tensor_par_comm_type = comm;
            exe.seq_par_ag_redo = false;
        });
        let layers = layers(&case, Quirks::AS_PUBLISHED);
        let group = layers.iter().filter(|layer| layer.tiled);
        // Bytes over the slowed time of the GEMM: every tiled layer's larger message, forward and backward.
        let costs = Costs::new(&case);
        let slowed = |flops: f64| costs.matrix.time(flops) / (1.0 - costs.nets[0].processor_usage);
        let needs = group.flat_map(|layer| {
            let both = [(&layer.forward, &layer.comm.forward), (&layer.agrad, &layer.comm.agrad)];
            both.map(|(stage, comm)| comm.base.bytes.max(comm.edge.bytes) / slowed(stage.flops))
        });
        (published(&case).block.tp_bandwidth_to_hide, needs.fold(0.0, f64::max))
    };
    for comm in [TensorComm::Ar, TensorComm::P2pRsAg, TensorComm::RsAg] {
        let (ours, expected) = need(comm);
        assert!((ours / expected - 1.0).abs() < 1e-12, "{comm:?}: {ours}, not {expected}");
    }
}

#[test]
fn each_defect_can_be_named() {
    let mut quirks = Quirks::REPAIRED;
    for name in Quirks::NAMES {
        assert!(quirks.set(name, true));
    }
    assert_eq!(quirks, Quirks::AS_PUBLISHED);
    assert!(!quirks.set("no_such_quirk", true));
    assert_eq!(
        (quirks.to_string(), Quirks::REPAIRED.to_string()),
        ("as published".into(), "repaired".into())
    );
}

/// Rows that Calculon itself gave for the 11T model on 4,096 GPUs: total and exposed offload by bandwidth of the
/// offload link; total, exposed data-parallel, bubble and p2p by chunks per processor.
#[test]
fn curves_of_the_eleven_trillion_model() {
    for (gbps, total, exposed) in [
        (12.5, 3383.8, 2827.0),
        (25.0, 1722.9, 1174.0),
        (50.0, 892.6, 347.0),
        (75.0, 623.2, 79.0),
        (100.0, 563.9, 20.0),
        (125.0, 543.9, 0.0),
    ] {
        let case = changed("d14", |_, sys| sys.mem2.bandwidth_gbps = gbps);
        let terms = published(&case).terms;
        assert!((terms.total() - total).abs() < 0.05, "{gbps} GB/s: {}", terms.total());
        let offload = terms.forward_offload + terms.backward_offload;
        assert!((offload - exposed).abs() < 0.5, "{gbps} GB/s: {offload}");
    }
    for (chunks, total, data_parallel, bubble, p2p) in [
        (1, 604.4, 4.91, 40.7, 0.27),
        (2, 581.9, 2.59, 20.4, 0.54),
        (4, 570.8, 1.43, 10.2, 1.07),
        (8, 565.7, 0.85, 5.1, 2.14),
        (16, 563.9, 0.56, 2.6, 4.28),
        (32, 564.6, 0.40, 1.3, 8.57),
    ] {
        let case = changed("d14", |exe, _| exe.pipeline_interleaving = chunks);
        let terms = published(&case).terms;
        assert!((terms.total() - total).abs() < 0.05, "V={chunks}: {}", terms.total());
        assert!((terms.data_parallel - data_parallel).abs() < 0.006, "V={chunks}: {}", terms.data_parallel);
        assert!((terms.bubble - bubble).abs() < 0.05, "V={chunks}: {}", terms.bubble);
        assert!((terms.pipeline_parallel - p2p).abs() < 0.005, "V={chunks}: {}", terms.pipeline_parallel);
    }
}

/// Three strategies for 1T parameters on 4,096 H100 (SC'23, figure 10 and table 4): seconds, MFU, GiB of HBM.
#[test]
fn strategies_of_the_one_trillion_model() {
    for (comm, recompute, redo, total, mfu, gib) in [
        (TensorComm::Ar, Recompute::Full, false, 27.44, 0.3430, 52.4),
        (TensorComm::P2pRsAg, Recompute::Full, false, 25.67, 0.3667, 52.4),
        (TensorComm::RsAg, Recompute::AttnOnly, true, 18.97, 0.4961, 72.2),
    ] {
        let case = changed("d08", |exe, _| {
            exe.tensor_par_comm_type = comm;
            exe.activation_recompute = recompute;
            exe.seq_par_ag_redo = redo;
        });
        let step = published(&case);
        assert!((step.terms.total() - total).abs() < 0.005, "{comm:?}: {} s", step.terms.total());
        assert!((step.efficiency.total - mfu).abs() < 5e-5, "{comm:?}: MFU {}", step.efficiency.total);
        let hbm = step.memory.tier1.total() / (1u64 << 30) as f64;
        assert!((hbm - gib).abs() < 0.05, "{comm:?}: {hbm} GiB");
    }
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
