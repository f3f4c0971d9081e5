//! Collectives against golden values, and their three fidelities against each other.

mod collective_support;

use collective_support::{Box3, Nodes, Trial, time};
use proptest::prelude::*;
use serde_json::Value;
use stepsim::collective::{Chooser, Fabric, Fidelity, Network, Op, algorithm};

const ALL: [Fidelity; 3] = [Fidelity::Formula, Fidelity::Fluid, Fidelity::Steps];

/// The golden cases, if the shared folder is there.
fn golden() -> Option<Vec<Value>> {
    let root = env!("CARGO_MANIFEST_DIR");
    let folders = [
        std::env::var("STEPSIM_SHARED").unwrap_or_default(),
        format!("{root}/../shared"),
        format!("{root}/../../shared"),
    ];
    let text = folders
        .iter()
        .find_map(|f| std::fs::read_to_string(format!("{f}/hardware/collectives-golden.json")).ok());
    let Some(text) = text else {
        println!("skipped: no shared/hardware/collectives-golden.json beside the repository");
        return None;
    };
    let file: Value = serde_json::from_str(&text).expect("golden cases are JSON");
    Some(file["collectives"].as_array().expect("cases").clone())
}

/// Equal to `tolerance`, given that the ends of up to `rounds` transfers in a row were rounded to a picosecond.
fn close(measured: f64, expected: f64, tolerance: f64, rounds: u32) -> bool {
    (measured - expected).abs() <= tolerance * expected + 0.5e-12 * f64::from(rounds + 1)
}

/// The pipeline of the double binary tree is unstable: transfers of both trees that meet on a port by a hair stay
/// together or apart for good, so rounding times to a picosecond moves the end of 64 chunks by some 0.1 % (to a tenth
/// of one, by 0.002 %; an independent simulator with the same rounding shows the same).
const UNSTABLE: f64 = 2e-3;

/// The op, algorithm and network of a golden case, and which fidelities must give its value.
fn case(name: &str, p: &Value) -> (Op, &'static str, u32, Box<dyn Network>, Vec<Fidelity>) {
    let f = |key: &str| p[key].as_f64().unwrap_or(0.0);
    let (rate, alpha) = (f("B_Bps"), f("alpha_s"));
    let n = f("n") as u32;
    let all = ALL.to_vec();
    let switch = || Box::new(Nodes::switch(n, rate, alpha)) as Box<dyn Network>;
    let ring = |wraps| Box::new(Box3::new(&[(n, wraps)], rate, alpha)) as Box<dyn Network>;
    match name {
        "ring_all_reduce" => (Op::AllReduce, "ring", n, switch(), all),
        "ring_all_gather" => (Op::AllGather, "ring", n, switch(), all),
        "recursive_doubling_all_reduce" => (Op::AllReduce, "recursive-doubling", n, switch(), all),
        "halving_doubling_all_reduce" => (Op::AllReduce, "halving-doubling", n, switch(), all),
        "direct_all_to_all" => (Op::AllToAll, "direct", n, switch(), all),
        "one_shot_all_reduce" => (Op::AllReduce, "direct", n, switch(), all),
        "two_shot_all_reduce" => (Op::AllReduce, "two-shot", n, switch(), all),
        "pat_all_gather" => (Op::AllGather, "pat", n, switch(), all),
        "binomial_broadcast" => (Op::Broadcast, "binomial", n, switch(), all),
        "chain_broadcast" => (Op::Broadcast, "chain", n, switch(), all),
        "nvls_all_reduce" => (Op::AllReduce, "nvls", n, switch(), all),
        "double_binary_tree_all_reduce" => (Op::AllReduce, "tree", n, switch(), vec![Fidelity::Steps]),
        "bidirectional_ring_all_gather" => (Op::AllGather, "torus", n, ring(true), all),
        "bidirectional_line_all_gather" => (Op::AllGather, "torus", n, ring(false), all),
        "bidirectional_ring_all_to_all" => (Op::AllToAll, "torus", n, ring(true), all),
        "torus2d_all_gather" => {
            let (x, y) = (f("x") as u32, f("y") as u32);
            let net = Box::new(Box3::new(&[(x, true), (y, true)], rate, alpha));
            (Op::AllGather, "torus", x * y, net, if x == y { all } else { vec![Fidelity::Steps] })
        }
        "hierarchical_all_reduce" => {
            let (g, k) = (f("g") as u32, f("k") as u32);
            let net = Nodes {
                per_node: g,
                inside: (f("B_intra_Bps"), f("alpha_intra_s")),
                between: (f("B_inter_Bps"), f("alpha_inter_s")),
                fabric: Fabric::Switch { reduces: false },
            };
            (Op::AllReduce, "hierarchical", g * k, Box::new(net), all)
        }
        other => panic!("a golden algorithm without a test: {other}"),
    }
}

#[test]
fn golden_cases_hold_at_every_fidelity() {
    let mut wrong = Vec::new();
    for c in golden().unwrap_or_default() {
        let (name, p) = (c["algorithm"].as_str().expect("name"), &c["params"]);
        let (op, algorithm, n, net, fidelities) = case(name, p);
        let expected = c["expect_s"].as_f64().or(c["reference_des_s"].as_f64()).expect("a value");
        let chunks = p["chunks"].as_u64().map(|k| k as u32);
        let tolerance = match chunks {
            Some(64) if algorithm == "tree" => UNSTABLE,
            _ => c["rel_tol"].as_f64().unwrap_or(1e-9),
        };
        for f in fidelities {
            let bytes = p["S_bytes"].as_f64().expect("size") as u64;
            let measured = time(net.as_ref(), n, op, bytes, algorithm, chunks, f);
            if !close(measured, expected, tolerance, 2 * n) {
                wrong.push(format!("{name} {p} {f:?}: {measured} for {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Time at a fidelity of an algorithm that suits a network, as `(n, op, name)`.
fn agree(net: &dyn Network, n: u32, op: Op, bytes: u64, name: &str, chunks: Option<u32>) {
    let [formula, fluid, steps] = ALL.map(|f| time(net, n, op, bytes, name, chunks, f));
    let what = format!("{name} {} of {bytes} B on {n}: {formula} {fluid} {steps}", op.name());
    assert!(close(fluid, formula, 1e-9, 4 * n + chunks.unwrap_or(0)), "fluid is not the closed form: {what}");
    assert!(close(steps, formula, 1e-9, 4 * n + chunks.unwrap_or(0)), "steps is not the closed form: {what}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn on_a_switch_all_fidelities_agree(
        n in 2u32..20, bytes in 0u64..1 << 32, rate in 1e9..1e12f64, alpha_ns in 0u32..9000, chunks in 1u32..12,
    ) {
        let net = Nodes::switch(n, rate.round(), f64::from(alpha_ns) * 1e-9);
        for op in [Op::AllReduce, Op::AllGather, Op::ReduceScatter] {
            agree(&net, n, op, bytes, "ring", None);
            agree(&net, n, op, bytes, "direct", None);
        }
        for op in [Op::AllGather, Op::ReduceScatter] {
            agree(&net, n, op, bytes, "pat", None);
            agree(&net, n, op, bytes, "nvls", None);
        }
        for name in ["two-shot", "recursive-doubling", "halving-doubling"] {
            agree(&net, n, Op::AllReduce, bytes, name, None);
        }
        agree(&net, n, Op::AllReduce, bytes, "nvls", Some(chunks));
        agree(&net, n, Op::AllToAll, bytes, "direct", None);
        agree(&net, n, Op::Broadcast, bytes, "binomial", None);
        agree(&net, n, Op::Reduce, bytes, "binomial", None);
        agree(&net, n, Op::Broadcast, bytes, "chain", Some(chunks));
        agree(&net, 2, Op::SendRecv, bytes, "send-recv", None);
    }

    #[test]
    fn on_nodes_all_fidelities_agree(
        g in 2u32..5, k in 2u32..5, bytes in 0u64..1 << 32, rate in 1e10..1e11f64, faster in 4.0..20.0f64,
    ) {
        let fabric = Fabric::Switch { reduces: false };
        let inside = ((rate * faster).round(), 1e-6);
        let mut net = Nodes { per_node: g, inside, between: (rate.round(), 3e-6), fabric };
        for op in [Op::AllReduce, Op::AllGather, Op::ReduceScatter] {
            agree(&net, g * k, op, bytes, "hierarchical", None);
        }
        // With a latency, what needs no hop inside the node is on the rail before the rest.
        net.inside.1 = 0.0;
        agree(&net, g * k, Op::AllToAll, bytes, "rail", None);
    }

    #[test]
    fn on_a_torus_all_fidelities_agree(
        len in 2u32..9, axes in 1usize..4, bytes in 0u64..1 << 32, rate in 1e9..1e12f64, alpha_ns in 0u32..9000,
    ) {
        let len = if axes == 3 { len.min(4) } else { len };
        let alpha = f64::from(alpha_ns) * 1e-9;
        // A ring of two would be two links between one pair; such axes are lines.
        let net = Box3::new(&vec![(len, len > 2); axes], rate.round(), alpha);
        let n = len.pow(axes as u32);
        for op in [Op::AllReduce, Op::AllGather, Op::ReduceScatter] {
            agree(&net, n, op, bytes, "torus", None);
        }
        let line = Box3::new(&[(len, false)], rate.round(), alpha);
        for op in [Op::AllReduce, Op::AllGather, Op::ReduceScatter] {
            agree(&line, len, op, bytes, "torus", None);
        }
        // Pairs that are near start to share before those that are far; without latency all links are busy to the end.
        if len > 2 {
            agree(&Box3::new(&vec![(len, true); axes], rate.round(), 0.0), n, Op::AllToAll, bytes, "torus", None);
        }
    }
}

/// Two 8 MB ring all-reduces over 4 ranks at 100 GB/s and 0 s: 2·3/4·8e6/1e11 = 120 us each.
fn two_all_reduces(first: &[u32], second: &[u32], f: Fidelity) -> Vec<f64> {
    let net = Nodes::switch(8, 1e11, 0.0);
    let algorithm = algorithm("ring").expect("known");
    let mut trial = Trial::new(&net, f, Chooser::Always { algorithm, chunks: None });
    trial.group(&net, first, Op::AllReduce, 8_000_000);
    trial.group(&net, second, Op::AllReduce, 8_000_000);
    trial.ends()
}

#[test]
fn all_reduces_on_different_links_overlap_fully() {
    for f in [Fidelity::Fluid, Fidelity::Steps] {
        assert!(two_all_reduces(&[0, 1, 2, 3], &[4, 5, 6, 7], f).iter().all(|&t| close(t, 120e-6, 1e-9, 9)));
    }
}

#[test]
fn all_reduces_on_the_same_links_share_them() {
    for f in [Fidelity::Fluid, Fidelity::Steps] {
        assert!(two_all_reduces(&[0, 1, 2, 3], &[0, 1, 2, 3], f).iter().all(|&t| close(t, 240e-6, 1e-9, 18)));
    }
}
