//! Several sites: collectives in three levels, and pipelines over a slow edge.

use std::path::Path;

use serde_json::Value;
use stepsim::core::units::Time;
use stepsim::fabric::collective::{
    Chooser, DomainWiring, Geometry, NeighbourLink, Op, SiteLinks, Transfer, algorithm, in_chunks,
};
use stepsim::plan::pipeline::{Sends, abstract_world_over};
use stepsim::schedule::{PassTimes, Shape, SlowEdge};
use stepsim::simulate::{Inputs, Options, Simulation};

fn golden() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sites.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn close(a: f64, b: &Value, what: &str) {
    let b = b.as_f64().unwrap_or_else(|| panic!("{what}: {b}"));
    assert!((a - b).abs() <= 1e-5 * b.abs().max(1e-9), "{what}: {a}, expected {b}");
}

/// The group of a golden case: nodes of 8 in sites, the last level a whole site's rate.
fn group(levels: &[Value], joined: bool) -> Geometry {
    let number = |level: &Value, key: &str| level[key].as_f64().unwrap();
    let n: Vec<u32> = levels.iter().map(|l| l["n"].as_u64().unwrap() as u32).collect();
    let link = |l: &Value, share: f64| NeighbourLink::new(number(l, "alpha_s"), number(l, "Bps") / share);
    let of_site = f64::from(n[0] * n[1]);
    let across = link(&levels[2], of_site);
    // All of a site share its long link; a full mesh has one to each other site.
    let across = NeighbourLink::new(
        across.alpha(),
        across.bandwidth() / if joined { f64::from(n[2] - 1) } else { 1.0 },
    );
    // On a line the farthest is at its other end, and its middle carries what each half sends to the other.
    let (end, middle) = if joined { (1.0, 1.0) } else { (f64::from(n[2] - 1), f64::from(n[2] * n[2]) / 4.0) };
    let all = NeighbourLink::new(end * across.alpha(), across.bandwidth() / middle);
    let (within, wide) = (link(&levels[1], 1.0), link(&levels[2], f64::from(n[0])));
    Geometry {
        size: n.iter().product(),
        nodes: n[1] * n[2],
        per_node: n[0],
        ports: n[0],
        intra: link(&levels[0], 1.0),
        one_way: link(&levels[0], 1.0),
        hops: false,
        inter: NeighbourLink { latency: wide.latency, rate: within.rate.min(wide.rate) },
        alone: wide,
        uplinks: None,
        other_rails: None,
        pairs: None,
        sites: Some(SiteLinks { count: n[2], within, across, all }),
        fabric: DomainWiring::Switch { reduces: true },
    }
}

#[test]
fn three_levels_take_the_golden_time_and_are_chosen() {
    let golden = golden();
    let cases = golden["all_reduce"].as_array().unwrap();
    let mut seen = 0;
    for case in cases {
        let levels = case["levels"].as_array().unwrap();
        if levels.len() < 3 {
            continue;
        }
        let (sites, exchange) = (levels[2]["n"].as_u64().unwrap(), case["exchange"].as_str().unwrap());
        // Of two sites the direct exchange is always the better one.
        if sites == 2 && exchange == "ring" {
            continue;
        }
        let g = group(levels, exchange != "ring");
        let t = Transfer::new(Op::AllReduce, case["bytes"].as_u64().unwrap());
        let three = algorithm("three-level").unwrap();
        close(three.closed_form(&t, &g, 1), &case["seconds"], case["case"].as_str().unwrap());
        for chooser in [Chooser::best(), Chooser::for_device("NVIDIA H100 SXM5 80GB")] {
            assert_eq!(chooser.choose(&t, &g).unwrap().algorithm.name(), "three-level", "{}", case["case"]);
        }
        seen += 1;
    }
    assert!(seen >= 4, "{seen}");
    // A flat ring crosses the long way twice on each of its two ways round; in each of its rounds it would take 10 s.
    let g = group(cases[0]["levels"].as_array().unwrap(), true);
    let t = Transfer::new(Op::AllReduce, 1 << 30);
    let ring = algorithm("ring").unwrap().closed_form(&t, &g, 1);
    let long = g.sites.unwrap().across.alpha();
    assert!((4.0 * long..4.0 * long + 0.03).contains(&ring), "{ring}");
    assert!(ring < golden["flat_ring_s"].as_f64().unwrap() / 100.0, "{ring}");
}

/// On the built machine the collective takes the closed form's time over the real links, at both fidelities.
#[test]
fn the_simulated_exchange_shares_the_long_link() {
    let sets = ["topology.nodes=2", "parallelism.data=32", "batch.global=128"].map(String::from);
    let step = |more: &[&str]| {
        let sets: Vec<String> = sets.iter().cloned().chain(more.iter().map(|s| s.to_string())).collect();
        let inputs = Inputs::load("gpt2-8", Some("h100-two-sites"), &sets).unwrap();
        Simulation::run(&inputs, &Options::default()).unwrap()
    };
    let chosen = step(&[]);
    let exposed = |s: &Simulation| s.speed().step_time_s;
    let ring = r#"topology.collectives.rules=[{"op":"all-reduce","algorithm":"ring"}]"#;
    let flat = step(&[ring]);
    assert!(exposed(&flat) > 1.2 * exposed(&chosen), "{} {}", exposed(&flat), exposed(&chosen));
    let steps = step(&["fidelity.collectives=steps"]);
    assert!(
        (exposed(&steps) / exposed(&chosen) - 1.0).abs() < 0.02,
        "{} {}",
        exposed(&steps),
        exposed(&chosen)
    );
    // Twice the way, two more times the light.
    let far = step(&["topology.sites.link_km=9600"]);
    assert!(exposed(&far) > exposed(&chosen) + 0.02);
}

/// Chunks follow each other through the levels; the best number is the golden one.
#[test]
fn chunked_all_reduces_over_sites_have_the_golden_times() {
    let golden = golden();
    let mut seen = 0;
    for case in golden["all_reduce"].as_array().unwrap() {
        let levels = case["levels"].as_array().unwrap();
        let exchange = case["exchange"].as_str().unwrap();
        let t = Transfer::new(Op::AllReduce, case["bytes"].as_u64().unwrap());
        let g = match levels.len() {
            3 => group(levels, exchange != "ring"),
            _ => {
                let link = |l: &Value, share: f64| {
                    NeighbourLink::new(l["alpha_s"].as_f64().unwrap(), l["Bps"].as_f64().unwrap() / share)
                };
                let [n, nodes] = [0, 1].map(|i| levels[i]["n"].as_u64().unwrap() as u32);
                Geometry {
                    size: n * nodes,
                    nodes,
                    per_node: n,
                    ports: n,
                    intra: link(&levels[0], 1.0),
                    one_way: link(&levels[0], 1.0),
                    hops: false,
                    inter: link(&levels[1], f64::from(n)),
                    alone: link(&levels[1], 1.0),
                    uplinks: None,
                    other_rails: None,
                    pairs: None,
                    sites: None,
                    fabric: DomainWiring::Switch { reduces: true },
                }
            }
        };
        let what = case["case"].as_str().unwrap();
        // Of two sites the direct exchange is always the better one.
        if levels.len() == 3 && exchange == "ring" && levels[2]["n"] == 2 {
            continue;
        }
        close(in_chunks(&t, &g, 1).unwrap(), &case["seconds"], what);
        let best = case["chunks_best"].as_u64().unwrap() as u32;
        let at = |chunks| in_chunks(&t, &g, chunks).unwrap();
        close(at(best), &case["seconds_chunked"], what);
        assert!(at(best) <= at(best / 2) && at(best) <= at(best * 2), "{what}");
        seen += 1;
    }
    assert_eq!(seen, 6);
}

/// 1F1B over a slow edge takes the golden time where it is played, and by its laws where those hold.
#[test]
fn pipelines_over_a_slow_edge_take_the_golden_time() {
    let golden = golden();
    let cases = golden["pipeline"].as_array().unwrap();
    assert_eq!(cases.len(), 9);
    for case in cases {
        let number = |key: &str| case[key].as_f64().unwrap();
        let shape =
            Shape { ranks: number("p") as u32, micro_batches: number("m") as u32, chunks: None, group: None };
        let times = PassTimes::new(
            Time::from_s(number("tF")),
            Time::from_s(number("tB") / 2.0),
            Time::from_s(number("tB") / 2.0),
            1.0,
        );
        let edge = SlowEdge {
            after: number("slow_edge") as u32,
            delay: Time::from_s(number("delay")),
            more_warm_up: number("extra_warm_up_before_it") as u32,
        };
        let order = edge.order(&shape).unwrap();
        let step = abstract_world_over(&order, &times, Time::ZERO, Some(edge), Sends::Asynchronous);
        let played = stepsim::core::engine::run(&step.world).unwrap().step_end;
        assert_eq!(played, Time::from_s(number("makespan")), "{case}");
        let law = edge.makespan(&shape, &times);
        assert_eq!(law.is_some(), !case["law"].is_null(), "{case}");
        assert!(law.is_none_or(|law| law == played), "{case}: {law:?}");
    }
}

/// The laws on pipelines of any size: what they offer is what is played.
#[test]
fn the_laws_of_a_slow_edge_hold_wherever_they_are_offered() {
    let mut seen = [0, 0];
    for p in 2..7u32 {
        for (m, after) in (p..p + 7).flat_map(|m| (0..p - 1).map(move |after| (m, after))) {
            for (tenths, k) in [(0, 0), (4, 0), (4, 1), (17, 0), (17, 1), (31, 2), (60, 4), (60, 0)] {
                let shape = Shape { ranks: p, micro_batches: m, chunks: None, group: None };
                let times = PassTimes::new(Time::from_s(1.0), Time::from_s(1.0), Time::from_s(1.0), 1.0);
                let edge = SlowEdge { after, delay: Time::from_s(0.1 * f64::from(tenths)), more_warm_up: k };
                let Some(law) = edge.makespan(&shape, &times) else { continue };
                let order = edge.order(&shape).unwrap();
                let step = abstract_world_over(&order, &times, Time::ZERO, Some(edge), Sends::Asynchronous);
                let played = stepsim::core::engine::run(&step.world).unwrap().step_end;
                assert_eq!(played, law, "p {p} m {m} {edge:?}");
                seen[usize::from(k > 0)] += 1;
            }
        }
    }
    assert!(seen.iter().all(|n| *n > 50), "{seen:?}");
}

/// The first level is the machine's own node: any smaller one is dearer.
#[test]
fn levels_of_any_size_take_the_golden_time() {
    let golden = golden();
    let case = &golden["all_reduce"][1];
    let t = Transfer::new(Op::AllReduce, case["bytes"].as_u64().unwrap());
    let shapes = golden["shape"].as_array().unwrap();
    assert_eq!(shapes.len(), 4);
    for shape in shapes {
        let first = shape["first_level"].as_u64().unwrap() as u32;
        let whole = group(case["levels"].as_array().unwrap(), true);
        let nodes = whole.size / first;
        let sites = whole.sites.unwrap();
        let g = Geometry { per_node: first, ports: first, nodes, sites: Some(sites), ..whole };
        close(
            algorithm("three-level").unwrap().closed_form(&t, &g, 1),
            &shape["seconds"],
            &first.to_string(),
        );
    }
}

/// A ring of 23 sites that sums 72T parameters in bf16 both ways around, latency left out.
#[test]
fn a_ring_of_sites_takes_the_golden_time() {
    for case in golden()["epoch_ring"].as_array().unwrap() {
        let gbps = case["Bps_per_direction"].as_f64().unwrap() / 1e9;
        let sites = case["sites"].as_u64().unwrap() as u32;
        let (_, machine) =
            stepsim::fabric::topology::Machine::load(&format!("ring:{sites},{gbps},0"), &[]).unwrap();
        let devices: Vec<_> = (0..sites).map(stepsim::core::ids::DeviceId).collect();
        let g = Geometry::of(&machine, &devices).unwrap();
        let t = Transfer::new(Op::AllReduce, case["bytes"].as_f64().unwrap() as u64);
        let times = stepsim::fabric::collective::ALGORITHMS.iter().filter(|a| a.supports(t.op, &g).is_ok());
        let best = times.map(|a| a.closed_form(&t, &g, 1)).fold(f64::INFINITY, f64::min);
        close(best, &case["seconds"], "ring of sites");
    }
}
