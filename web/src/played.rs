//! Answers about a step that is played: what `stepsim run` and `stepsim whatif` write.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stepsim::measure::page::difference;
use stepsim::measure::score::ranges;
use stepsim::read::analysis::diff::diff;
use stepsim::read::analysis::report::{Extent, Report};
use stepsim::read::trace::writer::{Chrome, Perfetto, Sink};
use stepsim::read::trace::{Timeline, TimelineFormat};
use stepsim::simulate::behaviour::drawn;
use stepsim::simulate::timeline::{self, TimelineSelection};
use stepsim::simulate::whatif::WhatIfs;
use stepsim::simulate::{Fault, Head, Inputs, Options, Simulation, jump, map, ops_to_play, page};
use stepsim::spec::files::lend;
use stepsim::spec::{Topology, WorkloadSpec};
use stepsim::study::otherwise::{Depth, answer, with_candidates};
use stepsim::study::plan::SimulatedPlan;

use super::answer::{Texts, defect, of_run, of_spec};
use super::border::tell;

/// A step to be played.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Step {
    /// A shipped workload, or one of `files`.
    pub(crate) workload: String,
    /// The machine, unless the workload names it.
    pub(crate) on: Option<String>,
    /// `path=value` texts.
    pub(crate) sets: Vec<String>,
    pub(crate) files: Texts,
    /// The command line that does the same.
    command: Vec<String>,
}

impl Step {
    fn inputs(&self) -> Result<Inputs, Box<Fault>> {
        lend(self.files.clone());
        Inputs::load(&self.workload, self.on.as_deref(), &self.sets).map_err(of_spec)
    }

    /// The report with its range, and with what only the command line knows.
    fn told(&self, inputs: &Inputs, report: Report) -> Report {
        let run = Head { command: self.command.clone(), settings: self.sets.clone(), ..report.run };
        ranges::told(inputs, Report { run, ..report })
    }
}

thread_local! {
    /// The step that was played last, with its run: its page, its report and its timeline are read from one.
    static LAST: RefCell<Option<(Step, Rc<Simulation>)>> = const { RefCell::new(None) };
}

/// Plays a step, unless it was played last.
fn run(step: &Step) -> Result<Rc<Simulation>, Box<Fault>> {
    let known =
        LAST.with_borrow(|last| last.as_ref().filter(|(of, _)| of == step).map(|(_, run)| Rc::clone(run)));
    if let Some(run) = known {
        return Ok(run);
    }
    LAST.take();
    let inputs = step.inputs()?;
    let run = Simulation::run_edited(&inputs, &Options::default(), &[], &mut tell).map_err(of_run)?;
    let run = Rc::new(run);
    LAST.set(Some((step.clone(), Rc::clone(&run))));
    Ok(run)
}

/// What of a step one screen shows, and what the step was.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    report: Report,
    /// How long the step likely is, in words.
    range: String,
    /// Degrees, batch, sharding and recomputation, in words.
    layout: String,
    workload: WorkloadSpec,
    machine: Topology,
    /// Classes of links, whose bandwidth can be another.
    links: Vec<String>,
}

pub(crate) fn figures(step: &Step) -> Result<Figures, Box<Fault>> {
    let inputs = step.inputs()?;
    let report = match jump::report(&inputs, &Options::default(), Extent::Screen, false) {
        Some(report) => report,
        None => run(step)?.read(Extent::Screen, false),
    };
    let report = step.told(&inputs, report);
    let planned = SimulatedPlan::of_report(&inputs, report);
    let report = planned.report;
    let machine = inputs.topology.value.clone();
    Ok(Figures {
        range: report.answer.range.clone(),
        layout: planned.layout,
        links: machine.link_classes(),
        workload: inputs.workload.value,
        machine,
        report,
    })
}

/// The page; with `why` also what could be otherwise.
pub(crate) fn page(step: &Step, why: bool) -> Result<String, Box<Fault>> {
    let report = if why { compared(step, Depth::Tables)? } else { whole(step)? };
    let run = run(step)?;
    page::page(&run, &drawn(&run), &report).map_err(defect)
}

/// All readings of a step.
fn whole(step: &Step) -> Result<Report, Box<Fault>> {
    let run = run(step)?;
    Ok(step.told(&run.inputs, run.read(Extent::Whole, false)))
}

/// All readings of a step with its candidates.
fn compared(step: &Step, depth: Depth) -> Result<Report, Box<Fault>> {
    with_candidates(&run(step)?.inputs, &Options::default(), whole(step)?, depth).map_err(of_run)
}

/// What a step hangs on, in words.
pub(crate) fn hangs_on(step: &Step) -> Result<String, Box<Fault>> {
    Ok(compared(step, Depth::Answer)?.hangs_on)
}

/// The report, as the program writes it.
pub(crate) fn report(step: &Step) -> Result<Vec<u8>, Box<Fault>> {
    // A value is all that is written with indents: types are compiled for one way of writing.
    let value: Value = serde_json::to_vec(&compared(step, Depth::Answer)?)
        .and_then(|text| serde_json::from_slice(&text))
        .map_err(defect)?;
    let mut text = serde_json::to_vec_pretty(&value).map_err(defect)?;
    text.push(b'\n');
    Ok(text)
}

/// The timeline, as the program writes it.
pub(crate) fn timeline(step: &Step, file: &str) -> Result<Vec<u8>, Box<Fault>> {
    let (format, _) = TimelineFormat::of(Path::new(file)).map_err(defect)?;
    let run = run(step)?;
    let mut meta = timeline::meta(&run, None, &step.sets);
    timeline::results(&mut meta, &run);
    meta.hang_on(&hangs_on(step)?);
    let ranks = drawn(&run);
    let shown = TimelineSelection::of(&ranks);
    let doing = map::doing(&run, &shown, format);
    timeline::of_run(&run, &meta, &shown, |timeline| {
        let mut timeline = Timeline { doing: &doing, ..timeline };
        timeline::fit(&mut timeline, None, format);
        let mut bytes = Vec::new();
        let mut sink: Box<dyn Sink + '_> = match format {
            TimelineFormat::Chrome => Box::new(Chrome::new(&mut bytes)),
            TimelineFormat::Perfetto => Box::new(Perfetto::new(&mut bytes)),
        };
        let written = timeline.write(sink.as_mut()).map_err(defect);
        drop(sink);
        written.map(|_| bytes)
    })
}

/// How many ops are played.
pub(crate) fn size(step: &Step) -> Result<u64, Box<Fault>> {
    ops_to_play(&step.inputs()?, &Options::default()).map_err(of_run)
}

/// The page about two steps.
pub(crate) fn difference(a: &Step, b: &Step) -> Result<String, Box<Fault>> {
    let [a, b] = [whole(a)?, whole(b)?];
    let name = |report: &Report| format!("{} on {}", report.workload, report.topology);
    let differ = a.run.differences(&b.run).into_iter().map(|(what, a, b)| format!("{what}: {a} → {b}"));
    let differ: Vec<String> = differ.collect();
    difference::page([&name(&a), &name(&b)], &diff(&a, &b), &differ, &[], &[]).map_err(defect)
}

/// All that could be otherwise, each played.
pub(crate) fn whatif(step: &Step) -> Result<WhatIfs, Box<Fault>> {
    let (inputs, options) = (step.inputs()?, Options::default());
    let report = jump::glanced(&inputs, &options).map_err(of_run)?;
    Ok(WhatIfs::of(answer(&inputs, &options, report, Depth::All).map_err(of_run)?))
}
