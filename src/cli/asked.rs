//! Arguments of all questions about the layouts of a workload: `search` and `fill` alike.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::outputs::WRITTEN;
use super::write::{write_json, write_report};
use super::{Failure, outputs};
use stepsim_spec::workload::WorkloadSpec;
use stepsim_study::{SearchOptions, StudyBase, space as units};

/// Options of a question about layouts.
#[derive(Debug, clap::Args)]
pub struct LayoutOptions {
    /// Keep a field at a value: `parallelism.tensor=8`, `batch.global=512`, `topology.nodes=16`; repeatable
    #[arg(long, value_name = "PATH=VALUE")]
    pub fix: Vec<String>,
    /// The same, and it is said
    #[arg(long = "set", hide = true)]
    sets: Vec<String>,
    /// Most device memory that a step may take, in GiB [default: all but 8 % of it, where that is possible]
    #[arg(long, value_name = "GIB", value_parser = above_zero)]
    pub max_memory: Option<f64>,
    /// Threads [default: one a processor]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1..=u16::MAX.into()))]
    pub threads: Option<u16>,
    /// Write all that was found as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    pub report: Option<PathBuf>,
    /// Write the best workload here, ready for `stepsim run`
    #[arg(short, long, value_name = "FILE", help_heading = WRITTEN)]
    pub output: Option<PathBuf>,
}

/// Reads whole numbers of a range as people write them: `1024`, `1e3`, `4Ki`.
pub(super) fn whole<N: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<N, String> + Clone {
    move |text| {
        let number = units::count(text).filter(|number| range.contains(number));
        number.and_then(|number| N::try_from(number).ok()).ok_or_else(|| {
            format!("a whole number from {} to {}: 1024, 1e3, 4Ki", range.start(), range.end())
        })
    }
}

/// A number above 0.
pub(super) fn above_zero(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "a number above 0".to_string())
}

/// Seconds that a search may take.
pub(super) fn budget(text: &str) -> Result<f64, String> {
    above_zero(text.strip_suffix('s').unwrap_or(text)).map_err(|e| format!("{e}, in seconds: 10s"))
}

impl LayoutOptions {
    /// Refuses outputs that are one file, or that the workload or its machine is read from.
    pub fn check_outputs(&self, workload: &str, topology: Option<&str>) -> Result<(), Failure> {
        for set in &self.sets {
            let path = set.split('=').next().unwrap_or_default();
            eprintln!("note: --set is --fix here: {path} stays as it is given, and is not turned");
        }
        let written = [("--report", self.report.as_deref()), ("--output", self.output.as_deref())];
        let read = StudyBase::load(workload, topology, &[]).map_err(Failure::input)?.files();
        outputs::apart(&written, &read)
    }

    /// The options of a study.
    pub fn options(&self) -> SearchOptions {
        SearchOptions {
            fix: self.fix.iter().chain(&self.sets).cloned().collect(),
            max_memory_bytes: self.max_memory.map(|gib| gib * (1u64 << 30) as f64),
            threads: self.threads.map(usize::from),
            ..SearchOptions::default()
        }
    }

    /// Writes what was found.
    pub fn write_report(&self, report: &impl serde::Serialize) -> Result<(), Failure> {
        write_report(self.report.as_deref(), report)
    }

    /// Writes the best workload, on the machine that it was found for; `sets` make it of the one that was given. A
    /// workload names its machine, and does not hold what of it was set.
    pub fn write_best(
        &self,
        mut best: WorkloadSpec,
        topology: Option<&str>,
        sets: &[String],
    ) -> Result<(), Failure> {
        let Some(path) = &self.output else { return Ok(()) };
        best.topology = topology.map(str::to_string).or(best.topology);
        let of_machine: Vec<String> = sets
            .iter()
            .filter(|set| set.starts_with("topology."))
            .map(|set| format!("--set {set}"))
            .collect();
        if !of_machine.is_empty() {
            eprintln!(
                "note: {} lacks the settings of its machine: run it with {}",
                path.display(),
                of_machine.join(" ")
            );
        }
        write_json(path, &best)
    }
}
