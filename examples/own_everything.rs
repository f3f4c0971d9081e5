//! A schedule, a kind of sharding, a collective, a price list and a reading that the library does not know, run and
//! drawn.
//!
//! `cargo run --example own_everything`

use std::sync::Arc;

use serde_json::json;
use stepsim::core::program::MemoryClass;
use stepsim::core::units::Time;
use stepsim::fabric::collective::{
    Algorithm, Geometry, Op, OwnPattern, Pattern, RoundGroup, Route, Transfer,
};
use stepsim::price::model::Kernel;
use stepsim::read::analysis::reading::{PageContents, Reading, Report, Run, Sheet};
use stepsim::read::analysis::table::table;
use stepsim::schedule::sharding::{self, CutExtent, Cuts, ShardingKind};
use stepsim::schedule::{
    Bubble, Order, Pass, PassTimes, Schedule, ScheduleChoice, ScheduleError, ScheduleFacts, Shape, Slot,
    SlotPass, StagePlacement,
};
use stepsim::simulate::behaviour::drawn;
use stepsim::simulate::page::page;
use stepsim::simulate::page::sheet::bars;
use stepsim::simulate::{Inputs, Options, OwnPrices, Simulation};
use stepsim::spec::Device;
use stepsim::spec::topology::{Link, Topology};

/// A schedule: all forward passes, then all backward passes, the oldest micro-batch first.
struct OldestFirst;

impl Schedule for OldestFirst {
    fn facts(&self) -> ScheduleFacts {
        ScheduleFacts::new("oldest-first", "all forwards, then all backwards in the same order")
    }
    fn order(&self, shape: &Shape) -> Result<Order, ScheduleError> {
        let m = shape.micro_batches;
        let all =
            |pass| (0..m).map(move |micro_batch| Slot::Single(SlotPass { pass, chunk: 0, micro_batch }));
        let slots: Vec<Slot> = all(Pass::Forward).chain(all(Pass::Backward)).collect();
        let ranks = vec![slots; shape.ranks as usize];
        Ok(Order { placement: StagePlacement::looped(shape.ranks, 1), micro_batches: m, ranks })
    }
    fn bubble(&self, _: &Shape, _: &PassTimes) -> Option<Bubble> {
        None
    }
    fn peak(&self, shape: &Shape) -> Option<Vec<u32>> {
        Some(vec![shape.micro_batches; shape.ranks as usize])
    }
}

/// A sharding: optimizer state in pairs of ranks.
const IN_PAIRS: sharding::ShardingFacts = sharding::ShardingFacts::new(
    "in-pairs",
    "optimizer state, in groups",
    Cuts::of(CutExtent::Nobody, CutExtent::Nobody, CutExtent::Group),
);

/// A collective: an all-reduce through the first member. All send to it, then it sends to all: 2·(α + (n − 1)·S/B).
#[derive(Debug)]
struct Star;

/// The routes of a round: to the first member (0), or from it (1).
fn star(g: &Geometry, [outward, _]: [u32; 2], each: &mut dyn FnMut(Route<'_>, u32)) {
    for other in 1..g.size {
        let walk = if outward == 1 { [0, other] } else { [other, 0] };
        each(Route::Walk(&walk), 1);
    }
}

impl Algorithm for Star {
    fn name(&self) -> &'static str {
        "star"
    }
    fn supports(&self, op: Op, _: &Geometry) -> Result<(), String> {
        if op == Op::AllReduce { Ok(()) } else { Err("it is an all-reduce".into()) }
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, _: u32) -> f64 {
        2.0 * g.intra.time(1.0, f64::from(g.size - 1) * t.bytes as f64)
    }
    fn phases(&self, t: &Transfer, _: &Geometry, _: u32) -> Vec<RoundGroup> {
        let round = |outward| Pattern::Own(OwnPattern { name: "star", numbers: [outward, 0], routes: star });
        [0, 1].map(|outward| RoundGroup::new(round(outward), 1, t.bytes as f64)).into()
    }
}

/// A price list: every kernel with FLOPs runs at 100 TFLOP/s; others are priced as the workload has it.
#[derive(Debug)]
struct Flat;

impl OwnPrices for Flat {
    fn time(&self, kernel: &Kernel, _device: &str) -> Option<Time> {
        (kernel.flops > 0.0).then(|| Time::from_s(kernel.flops / 100e12))
    }
}

/// A reading: how full the fullest device is at its peak. Its section stands in the report, its line among the
/// tables, its chart on the page.
struct Fullness;

impl Reading for Fullness {
    fn read(&self, _: &mut Run<'_, '_>, report: &mut Report) {
        let Some(memory) = report.memory.get("hbm") else { return };
        let full = memory.peak_bytes as f64 / memory.capacity_bytes as f64;
        report.own.insert(
            "fullness".into(),
            json!({"full": full, "free_bytes": memory.capacity_bytes - memory.peak_bytes}),
        );
    }
    fn table(&self, report: &Report, out: &mut String, _: u16) {
        if let Some(section) = report.own.get("fullness") {
            *out += &format!("\nFullness: {:.3} of the device\n", section["full"].as_f64().unwrap_or(0.0));
        }
    }
    fn page(&self, report: &Report, _: &PageContents, sheet: &mut Sheet) {
        let Some(memory) = report.memory.get("hbm") else { return };
        let class = |class: &MemoryClass| {
            let bytes = *memory.by_class.get(class.name()).unwrap_or(&0) as f64;
            (format!("m{}", *class as usize), bytes, class.name().to_string())
        };
        let parts = MemoryClass::ALL.iter().map(class).collect();
        let line = ("fullest device".to_string(), parts, "at the peak".to_string());
        sheet.section("Fullness", "A reading of our own.", |out| {
            out.push_str(&bars("fullness", "memory by class", memory.capacity_bytes as f64, &[line]));
        });
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    stepsim::register_shipped()?;
    let text = r#"{"model": "gpt2-1.5b", "batch": {"global": 32},
        "parallelism": {"pipeline": {"size": 2}, "data": 4}, "fidelity": {"interference": false}}"#;
    let topology = Topology::of(Device::of("mine", 500.0, 96.0, 3000.0)).switch(8, Link::of(100.0, 1.0));
    let known = Inputs::of(&serde_json::from_str(text)?, &topology)?;
    let seconds =
        |inputs: &Inputs| Simulation::run(inputs, &Options::default()).map(|run| run.record.step_end.s());
    let before = seconds(&known)?;
    println!("1f1b, chosen collectives, tile-wave prices: {before:.3} s");

    let ordered = known.changed(|w| w.parallelism.pipeline.schedule = ScheduleChoice::Named(&OldestFirst))?;
    println!("our schedule:    {:.3} s", seconds(&ordered)?);
    let priced = ordered.priced_by(Arc::new(Flat));
    let at_flat_prices = seconds(&priced)?;
    println!("our prices:      {at_flat_prices:.3} s");
    let starry = priced.clone().carried_by(&Star);
    println!("our collective:  {:.3} s", seconds(&starry)?);
    assert!(seconds(&starry)? > at_flat_prices, "a star has one port for all");
    let sharded = starry.changed(|w| {
        w.parallelism.sharding.kind = ShardingKind::of(&IN_PAIRS);
        w.parallelism.sharding.group = Some(2);
    })?;

    let run = Simulation::run(&sharded.read_by(&Fullness), &Options::default())?;
    let report = run.report(false);
    println!("our sharding:    {:.3} s", report.step_time_s);
    assert_eq!(run.plan.degrees.dense.optimizer, 2);
    let first_backward =
        run.plan.order.ranks[0].iter().flat_map(Slot::parts).find(|part| part.pass == Pass::Backward);
    assert_eq!(first_backward.map(|part| part.micro_batch), Some(0), "the oldest first");
    assert!(report.own["fullness"]["full"].as_f64().is_some_and(|full| full > 0.0 && full < 1.0));
    assert!(table(&report, &run.inputs.readings, 100).contains("\nFullness: 0."));
    let html = page(&run, &drawn(&run), &report)?;
    assert!(html.contains("A reading of our own."));
    let file = std::env::temp_dir().join("own_everything.html");
    std::fs::write(&file, html)?;
    println!("our reading: {}", file.display());
    Ok(())
}
