//! Communication between nodes as it flows: rings over hops of unlike latency, and every algorithm against its own
//! play.

use std::path::Path;

use proptest::prelude::*;
use serde::Deserialize;
use stepsim_core::ids::{DeviceId, ResourceId};
use stepsim_core::units::{Bandwidth, Time};
use stepsim_fabric::collective::{
    Chooser, DomainWiring, Fidelity, Geometry, Lowering, NeighbourLink, Network, Op, Transfer, algorithm,
};
use stepsim_fabric::topology::Machine;

use crate::fabrics::{Nodes, time};
use crate::messages::Trial;

/// A ring of nodes with one way out each, as `rings.md` beside the project has it.
#[derive(Clone, Debug, Deserialize)]
struct Case {
    nodes: u32,
    ranks_per_node: u32,
    alpha_in_s: f64,
    alpha_net_s: f64,
    #[serde(rename = "beta_in_Bps")]
    beta_in: f64,
    #[serde(rename = "beta_net_Bps")]
    beta_net: f64,
    bytes: u64,
    passes: u32,
    slices: u32,
    #[serde(default)]
    seconds: f64,
}

impl Network for Case {
    fn route(&self, from: DeviceId, to: DeviceId, path: &mut Vec<ResourceId>) -> Result<Time, String> {
        let last = self.ranks_per_node - 1;
        let round = self.nodes == 1 && from.0 == last && to.0 == 0;
        if self.node_of(from) != self.node_of(to) || round {
            path.push(ResourceId(2 * (self.node_of(from) * self.ranks_per_node) + 1));
            return Ok(Time::from_s(self.alpha_net_s));
        }
        path.push(ResourceId(2 * from.0));
        Ok(Time::from_s(self.alpha_in_s))
    }
    fn capacity(&self, r: ResourceId) -> Bandwidth {
        Bandwidth(if r.0.is_multiple_of(2) { self.beta_in } else { self.beta_net })
    }
    fn node_of(&self, d: DeviceId) -> u32 {
        d.0 / self.ranks_per_node
    }
    fn port_of(&self, d: DeviceId) -> u32 {
        self.node_of(d)
    }
    fn fabric(&self) -> DomainWiring {
        DomainWiring::Switch { reduces: false }
    }
}

impl Case {
    fn op(&self) -> Op {
        if self.passes == 2 { Op::AllReduce } else { Op::AllGather }
    }
    fn played(&self, fidelity: Fidelity) -> f64 {
        let n = self.nodes * self.ranks_per_node;
        time(self, n, self.op(), self.bytes, "ring", Some(self.slices), fidelity)
    }
    /// The closed form; of one node, whose ring leaves it all the same, by a geometry made by hand.
    fn formula(&self) -> f64 {
        if self.nodes > 1 {
            return self.played(Fidelity::Formula);
        }
        let share = self.beta_net / f64::from(self.ranks_per_node);
        let g = Geometry {
            nodes: 2,
            ports: 1,
            inter: NeighbourLink::new(self.alpha_net_s, share),
            ..Geometry::switch(self.ranks_per_node, self.beta_in, self.alpha_in_s)
        };
        let ring = algorithm("ring").expect("the ring");
        ring.closed_form(&Transfer::new(self.op(), self.bytes), &g, self.slices)
    }
    /// The same by a recursion over steps, ranks and slices: a slice leaves when it is there and its link is free.
    fn expected(&self) -> f64 {
        let (n, k, slices) = (self.nodes * self.ranks_per_node, self.ranks_per_node, self.slices as usize);
        let leaves = |rank: u32| rank % k == k - 1;
        let slice = self.bytes as f64 / f64::from(n) / f64::from(self.slices);
        let mut free = vec![0.0f64; n as usize];
        let mut held = vec![vec![0.0f64; slices]; n as usize];
        let mut last = 0.0f64;
        for _ in 0..self.passes * (n - 1) {
            let mut next = held.clone();
            for rank in 0..n {
                let (rate, alpha) = match leaves(rank) {
                    true => (self.beta_net, self.alpha_net_s),
                    false => (self.beta_in, self.alpha_in_s),
                };
                for j in 0..slices {
                    let free = &mut free[rank as usize];
                    *free = held[rank as usize][j].max(*free) + slice / rate;
                    next[((rank + 1) % n) as usize][j] = *free + alpha;
                    last = last.max(*free + alpha);
                }
            }
            held = next;
        }
        last
    }
}

fn read(path: &Path) -> Option<serde_json::Value> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(serde_json::from_str(&text).expect("JSON"))
}

/// Golden rings: a few of this project, and 300 where they lie beside it.
#[test]
fn golden_rings_flow() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let own = read(&root.join("tests/data/rings.json")).expect("the file")["cases"].clone();
    let beside = read(&root.join("../shared/reference/rings-golden.json"));
    let mut worst = [0.0f64; 3];
    for cases in [Some(own), beside].into_iter().flatten() {
        let cases: Vec<Case> = serde_json::from_value(cases).expect("cases");
        for case in &cases {
            let off = |seconds: f64| (seconds / case.seconds - 1.0).abs();
            let (steps, formula) = (off(case.played(Fidelity::Steps)), off(case.formula()));
            let fluid = if case.nodes > 1 { off(case.played(Fidelity::Fluid)) } else { 0.0 };
            assert!(steps < 1e-6, "{case:?}: {steps} off");
            assert!(formula < 0.05 && fluid < 0.05, "{case:?}: {formula} and {fluid} off");
            [steps, formula, fluid].iter().zip(&mut worst).for_each(|(off, worst)| *worst = worst.max(*off));
        }
        println!("{} rings: steps, formula and fluid at most {worst:?} off", cases.len());
    }
}

fn link() -> impl Strategy<Value = (f64, f64)> {
    (0u32..30_000, 1e9..1e12f64).prop_map(|(ns, rate)| (f64::from(ns) * 1e-9, rate.round()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any latencies and rates, the network faster or slower than the node: all fidelities are the recursion.
    #[test]
    fn rings_of_one_port_a_node_are_the_recursion(
        (nodes, ranks_per_node) in (2u32..6, 1u32..6), (alpha_in_s, beta_in) in link(), (alpha_net_s, beta_net) in link(),
        bytes in 0u64..1 << 30, passes in 1u32..3, slices in 1u32..5,
    ) {
        let case = Case {
            nodes, ranks_per_node, alpha_in_s, alpha_net_s, beta_in, beta_net, bytes, passes, slices, seconds: 0.0,
        };
        let expected = case.expected();
        let rounded = 1e-12 * f64::from(4 * nodes * ranks_per_node * slices + 4);
        for fidelity in [Fidelity::Formula, Fidelity::Fluid, Fidelity::Steps] {
            let played = case.played(fidelity);
            prop_assert!((played - expected).abs() <= 1e-6 * expected + rounded, "{case:?} {fidelity:?}: {played}, not {expected}");
        }
    }

    /// More slices are never slower, and a latency is never paid more often than there are hops.
    #[test]
    fn more_slices_are_never_slower((alpha, rate) in link(), bytes in 0u64..1 << 30, nodes in 2u32..6, slices in 1u32..6) {
        let case = |slices| Case {
            nodes, ranks_per_node: 4, alpha_in_s: 1e-6, alpha_net_s: alpha, beta_in: 3e11, beta_net: rate, bytes, passes: 1,
            slices, seconds: 0.0,
        };
        let played = |slices| case(slices).played(Fidelity::Steps);
        prop_assert!(played(slices + 1) <= played(slices) * (1.0 + 1e-9) + 1e-10);
        let hops = f64::from(4 * nodes - 1);
        let bytes_s = hops * bytes as f64 / (hops + 1.0) / rate.min(3e11);
        prop_assert!(played(1) <= hops * alpha.max(1e-6) + 2.0 * bytes_s + 1e-10);
    }
}

/// How far the closed form is from the play in steps, over random groups of nodes: the mean and the worst by algorithm.
#[test]
fn every_algorithm_is_met_by_its_own_play() {
    let cases: [(&str, Op, f64, f64); 9] = [
        ("ring", Op::AllReduce, 0.04, 0.20),
        ("ring", Op::AllGather, 0.04, 0.20),
        ("hierarchical", Op::AllReduce, 1e-6, 1e-6),
        ("hierarchical", Op::ReduceScatter, 1e-6, 1e-6),
        ("tree", Op::AllReduce, 0.10, 0.30),
        ("halving-doubling", Op::AllReduce, 1e-6, 1e-6),
        ("recursive-doubling", Op::AllReduce, 1e-6, 1e-6),
        ("pat", Op::AllGather, 0.05, 0.30),
        ("two-shot", Op::AllReduce, 0.10, 0.50),
    ];
    let mut wrong = Vec::new();
    for (name, op, mean_limit, worst_limit) in cases {
        let (mut sum, mut worst, mut count, mut at) = (0.0, 0.0f64, 0.0, String::new());
        for (nodes, per_node) in [(2u32, 2u32), (2, 8), (4, 4), (4, 8), (8, 2)] {
            for (inside, between) in [((370e9, 1e-6), (50e9, 16e-6)), ((240e9, 1e-6), (25e9, 2.8e-6))] {
                for bytes in [1u64 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 28] {
                    let fabric = DomainWiring::Switch { reduces: false };
                    let net = Nodes { per_node, inside, between, fabric };
                    let n = nodes * per_node;
                    let [formula, fluid, steps] = [Fidelity::Formula, Fidelity::Fluid, Fidelity::Steps]
                        .map(|fidelity| time(&net, n, op, bytes, name, None, fidelity));
                    let agree = (fluid / formula - 1.0).abs();
                    if agree > 1e-6 {
                        wrong.push(format!(
                            "{name} {nodes}x{per_node} {bytes} B: fluid {fluid}, formula {formula}"
                        ));
                    }
                    let off = (formula / steps - 1.0).abs();
                    (sum, count) = (sum + off, count + 1.0);
                    if off > worst {
                        (worst, at) = (off, format!("{nodes}x{per_node} {bytes} B: {formula} for {steps}"));
                    }
                }
            }
        }
        let mean = sum / count;
        println!("{name:20} {:15} mean {:.4} worst {:.4} ({at})", op.name(), mean, worst);
        if mean > mean_limit || worst > worst_limit {
            wrong.push(format!("{name} {}: mean {mean}, worst {worst} ({at})", op.name()));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn machine(name: &str, sets: &[&str]) -> Machine {
    let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
    Machine::load(name, &sets).expect("a machine").1
}

/// What is chosen on a machine for an all-reduce over all its devices.
fn chosen(machine: &Machine, chooser: Chooser, bytes: u64) -> (String, f64) {
    let devices: Vec<DeviceId> = (0..machine.devices()).map(DeviceId).collect();
    let lowering = Lowering::new(machine, Fidelity::Fluid, chooser);
    let (_, choice) = lowering.explain(&Transfer::new(Op::AllReduce, bytes), &devices).expect("a choice");
    (choice.algorithm.name().to_owned(), choice.expected_s)
}

#[test]
fn the_chooser_takes_what_is_cheapest_between_nodes() {
    for name in ["h100-superpod", "p6-b200", "dgx-a100"] {
        let machine = machine(name, &["nodes=4"]);
        let device = machine.device(DeviceId(0)).name.clone();
        let mut last = String::new();
        for bytes in [1 << 12, 32 << 10, 1 << 20, 16 << 20, 1 << 30] {
            let best = chosen(&machine, Chooser::for_device(&device), bytes);
            for other in ["ring", "tree"] {
                let mut asked = Chooser::for_device(&device);
                asked.always = Some((algorithm(other).expect("known"), None));
                assert!(
                    best.1 <= chosen(&machine, asked, bytes).1 * (1.0 + 1e-9),
                    "{name} {bytes}: {best:?} is not best"
                );
            }
            last = best.0;
        }
        assert_eq!(
            (chosen(&machine, Chooser::for_device(&device), 4096).0, last),
            ("tree".into(), "ring".into()),
            "{name}"
        );
    }
}

/// A measured time wins over what links and kernels would take, at every fidelity.
#[test]
fn measured_tables_win_over_every_floor() {
    let machine = machine("p6-b200", &["nodes=4"]);
    let text = std::fs::read_to_string(
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .join("topologies/collectives/b200-measured.json"),
    );
    let own = serde_json::from_str(&text.expect("the table")).expect("a table");
    let chooser = Chooser::of_machine("NVIDIA B200", Some(&own)).expect("a chooser");
    for (bytes, us) in [(1 << 20, 378.33), (64 << 20, 829.55), (1 << 30, 5747.05)] {
        for (fidelity, tolerance) in
            [(Fidelity::Formula, 1e-6), (Fidelity::Fluid, 1e-4), (Fidelity::Steps, 0.03)]
        {
            let mut trial = Trial::new(&machine, fidelity, chooser.clone());
            trial.group(&machine, &(0..32).collect::<Vec<_>>(), Op::AllReduce, bytes);
            let off = trial.ends()[0] * 1e6 / us - 1.0;
            assert!(off.abs() < tolerance, "{bytes} bytes, {fidelity:?}: {off} off");
        }
    }
    // Shorter than the light on its way: even that gives way.
    let own = serde_json::json!({"measured": [{"op": "all-reduce", "ranks": 32, "nodes": 4, "points":
        [{"bytes": 1 << 10, "time_us": 3.0}, {"bytes": 1 << 14, "time_us": 4.0}]}]});
    let own = serde_json::from_value(own).expect("a table");
    let chooser = Chooser::of_machine("NVIDIA B200", Some(&own)).expect("a chooser");
    for fidelity in [Fidelity::Formula, Fidelity::Fluid, Fidelity::Steps] {
        let mut trial = Trial::new(&machine, fidelity, chooser.clone());
        trial.group(&machine, &(0..32).collect::<Vec<_>>(), Op::AllReduce, 1 << 10);
        assert!((trial.ends()[0] * 1e6 / 3.0 - 1.0).abs() < 0.05, "{fidelity:?}: {:?}", trial.ends()[0]);
    }
}
