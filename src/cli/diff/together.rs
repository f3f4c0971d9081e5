//! One timeline of both sides: a profile above a simulated step, or two profiles.

use std::path::Path;

use super::side::DiffSide;
use crate::Failure;
use crate::timeline::{Also, TimelineSelection, told, traced, write_trace};
use stepsim_core::units::Time;
use stepsim_measure::beside::Above;
use stepsim_measure::profile::RankEvents;
use stepsim_read::trace::writer::Sink;
use stepsim_read::trace::{RunMeta, TimelineError, TimelineSummary, write_with};
use stepsim_simulate::{Inputs, Options, Simulation};
use stepsim_spec::SpecError;

/// A side, what the person called it, and the settings of its workload.
type NamedSide<'a> = (&'a DiffSide, &'a str, &'a [String]);

/// Writes the timeline.
///
/// # Errors
/// A side has no ops, only a report; no side was measured; the step does not run, or the file cannot be written.
pub(super) fn write(sides: [NamedSide; 2], path: &Path) -> Result<(), Failure> {
    let measured: Vec<RankEvents> = sides.iter().filter_map(|side| side.0.profile()).cloned().collect();
    if measured.len() == 2 {
        return profiles(&measured, path);
    }
    if measured.is_empty() {
        let problem = "has no side that was measured";
        return Err(SpecError::file("--output", problem)
            .allowed("a profile and a workload or timeline")
            .into());
    }
    let simulated = sides.into_iter().find(|side| side.0.profile().is_none());
    let (_, name, sets) = simulated.filter(|side| side.0.is_workload()).ok_or_else(|| {
        let named = simulated.map_or("", |side| side.1);
        SpecError::file(named, "is a report, which does not hold when ops ran")
            .allowed("its workload, or the timeline that `stepsim run -o FILE.json.gz` wrote")
    })?;
    simulated_below(&measured, name, sets, path)
}

/// Two profiles; one of them may be a timeline of this program.
fn profiles(profiles: &[RankEvents], path: &Path) -> Result<(), Failure> {
    let write = &mut |sink: &mut dyn Sink| -> Result<TimelineSummary, TimelineError> {
        sink.begin(&[])?;
        let slices = Above::new(profiles, Time::ZERO).write(sink)?;
        sink.finish()?;
        Ok(TimelineSummary { slices, ..TimelineSummary::default() })
    };
    told(write_with(path, write))
}

/// Profiles above the timeline of a workload.
fn simulated_below(measured: &[RankEvents], name: &str, sets: &[String], path: &Path) -> Result<(), Failure> {
    let inputs = Inputs::load(name, None, sets)?;
    let run = Simulation::run(&inputs, &Options::default())?;
    let mut meta = RunMeta::default();
    meta.text("stepsim", env!("CARGO_PKG_VERSION"));
    meta.text("workload", &run.inputs.workload.name);
    meta.text("topology", &run.inputs.topology.name);
    meta.text("settings", sets.join(" "));
    for profile in measured {
        meta.text("measured", &profile.file);
    }
    let ranks = traced(None, &run)?;
    if let Some(note) =
        write_trace(&run, &meta, &TimelineSelection::of(&ranks), path, Also::Measured(measured))?
    {
        eprintln!("{note}");
    }
    Ok(())
}
