//! What several ranks hold: the copies of stages under two directions, and the embedding table at both ends of a
//! pipeline.

use std::collections::BTreeSet;

use serde_json::json;

use stepsim::core::ids::RankId;
use stepsim::core::program::MemoryClass;
use stepsim::form::compare::workload::closed_form;
use stepsim::plan::step::Plan;
use stepsim::plan::step::groups::Group;
use stepsim::price::model::ParameterCount;
use stepsim::read::analysis::links;
use stepsim::schedule::sharding::Exchange;
use stepsim::schedule::{ALL, Seat};
use stepsim::simulate::Inputs;
use stepsim::spec::Disk;

const RANKS: u64 = 4;

/// A step of 16 layers on four pipeline ranks under a schedule.
fn inputs(schedule: &str, devices: u64, over: &[&str]) -> Inputs {
    let value = json!({
        "model": {
            "name": "small", "layers": 16, "hidden": 256, "heads": 4, "ffn": 1024, "vocabulary": 4096, "sequence": 128,
        },
        "batch": { "global": 16 * devices / RANKS },
        "parallelism": { "pipeline": { "size": RANKS, "schedule": schedule } },
        "optimizer": { "clip_gradients": false },
    });
    let sets: Vec<String> = over.iter().map(ToString::to_string).collect();
    Inputs::from_json(&value.to_string(), Some(&format!("switch:{devices},100,2")), &sets, &Disk)
        .unwrap_or_else(|e| panic!("{schedule}: {e}"))
}

/// The stages of a rank, without their directions.
fn stages(plan: &Plan, rank: RankId) -> BTreeSet<u32> {
    let (placement, rank) = (&plan.order.placement, plan.stage(rank));
    (0..placement.chunks(rank)).map(|chunk| placement.stage(Seat { rank, chunk }).stage).collect()
}

/// All ranks that a rank shares sums with, by these groups, over as many hops as there are.
fn summed_with(plan: &Plan, rank: RankId, group: impl Fn(Exchange) -> Group) -> BTreeSet<RankId> {
    let (mut found, mut members) = (BTreeSet::from([rank]), Vec::new());
    loop {
        let before = found.len();
        for rank in found.clone() {
            for exchange in Exchange::ALL {
                plan.degrees.members(&plan.layout, rank, group(exchange), &mut members);
                found.extend(members.iter().copied());
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// Gradients of a weight are summed over all ranks that hold it, in whichever direction, and over no others.
#[test]
fn sums_reach_every_copy_of_a_weight() {
    let moe = [
        "model.moe={\"experts\":4,\"top_k\":2,\"ffn\":512}",
        "parallelism.expert=2",
        "parallelism.tensor=2",
        "parallelism.sharding.kind=zero1",
    ];
    for schedule in ALL.iter().map(|schedule| schedule.facts().name) {
        let inputs = inputs(schedule, 16, &moe);
        let plan = inputs.plan().unwrap_or_else(|e| panic!("{schedule}: {e}"));
        let ranks = || (0..plan.layout.ranks()).map(RankId);
        for rank in ranks() {
            // Two tensor-parallel ranks inside, then two data-parallel ones: experts lie over the former.
            let slice = |rank: RankId| (stages(&plan, rank), plan.layout.coords(rank)[0]);
            let holders: BTreeSet<RankId> = ranks().filter(|other| slice(*other) == slice(rank)).collect();
            assert_eq!(holders.len() as u32, plan.degrees.replicas(), "{schedule}");
            assert_eq!(summed_with(&plan, rank, Group::Dense), holders, "{schedule}, {rank:?}");
            assert_eq!(summed_with(&plan, rank, Group::Experts), holders, "{schedule}, experts of {rank:?}");
        }
    }
}

/// Under DualPipe two ranks hold each weight where data parallelism is 1, and sum its gradient: a ring of two sends it
/// once from each, to two of four ranks that hold a half of the model.
#[test]
fn two_directions_send_their_gradients() {
    let sent = |format: &str| {
        let inputs = inputs("dualpipe", RANKS, &[&format!("precision.gradient_communication={format}")]);
        let world = inputs.plan().expect("a plan").world;
        (links::bytes(&world).iter().sum::<f64>(), ParameterCount::of(&inputs.model).total() as f64)
    };
    let ((narrow, parameters), (wide, _)) = (sent("bf16"), sent("fp32"));
    // Each byte leaves a device and comes to one, over the switch between them.
    let hops = 2.0;
    let expected = hops * 2.0 * parameters * (4.0 - 2.0);
    assert!(((wide - narrow) / expected - 1.0).abs() < 1e-3, "{} of {expected}", wide - narrow);
}

/// All ranks together hold the model once for each direction, and beside it the table where the last stage reads it and
/// no rank has both ends.
#[test]
fn every_schedule_holds_what_it_counts() {
    for (tied, modules) in [(true, 0), (false, 1), (true, 1), (false, 0)] {
        let over = [format!("model.tied_embeddings={tied}"), format!("model.prediction_modules={modules}")];
        for schedule in ALL.iter().map(|schedule| schedule.facts()) {
            let name = schedule.name;
            let inputs = inputs(name, RANKS, &over.each_ref().map(String::as_str));
            let count = ParameterCount::of(&inputs.model);
            let table = 4096 * 256;
            let one_way = ["zb-v", "v-half", "v-min", "dualpipe", "dualpipe-v"].contains(&name);
            let apart = (tied || modules > 0) && !one_way;
            let expected = u64::from(schedule.directions) * (count.total() + count.prediction)
                + if apart { table } else { 0 };
            let world = inputs.plan().unwrap_or_else(|e| panic!("{name}: {e}")).world;
            let of_rank = |rank| {
                let effects = world.program_of(rank).resident.iter();
                effects.filter(|e| e.class == MemoryClass::Weights).map(|e| e.bytes).sum::<u64>()
            };
            let held: u64 = (0..RANKS as u32).map(|rank| of_rank(RankId(rank))).sum();
            assert_eq!(held, 2 * expected, "{name}, tied {tied}, {modules} prediction modules");
            let weights = closed_form(&inputs).expect("a closed form").fullest().weights;
            let fullest = (0..RANKS as u32).map(|rank| of_rank(RankId(rank))).max().unwrap_or(0) as f64;
            assert!(weights <= fullest, "{name}: {weights} of {fullest}");
        }
    }
}
