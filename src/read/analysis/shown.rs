//! The parts of a run that a page shows beside the report.

use std::collections::BTreeMap;

use serde::Serialize;

use super::memory::BytesByClass;
use crate::page::lane::TimeRow;
use crate::page::sheet::{SheetPlace, places, seconds};
use stepsim_core::units::grouped;

/// How full a tier was.
#[derive(Debug, Serialize)]
pub struct TierCurve {
    /// The tier, and the rank or how many ranks that hold it.
    pub name: String,
    /// The bytes that it can hold.
    pub capacity_bytes: u64,
    /// Nanoseconds and bytes by class.
    pub points: Vec<(u64, BytesByClass)>,
}

/// Kernels of one class, over the ranks that are drawn.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct KernelTotals {
    /// How many ran.
    pub count: u64,
    /// How long.
    pub seconds: f64,
    /// Their FLOPs.
    pub flops: f64,
    /// Bytes that they moved to and from device memory.
    pub bytes: f64,
}

/// Ops of one kind that the step's length hangs on, or that ranks waited for.
#[derive(Debug, Serialize)]
pub struct OpTotals {
    /// What.
    pub what: String,
    /// Of which kind, or the cause.
    pub kind: &'static str,
    /// How often.
    pub count: u64,
    /// How long in all.
    pub seconds: f64,
    /// Where the longest of a rank that is drawn lies.
    #[serde(skip)]
    pub place: Option<SheetPlace>,
}

/// All that a page shows beside the report.
#[derive(Debug, Serialize)]
pub struct PageContents {
    /// The step in nanoseconds.
    #[serde(skip)]
    pub step_ns: u64,
    /// Ranks of the job.
    pub of_ranks: usize,
    /// The ranks drawn.
    #[serde(skip)]
    pub rows: Vec<TimeRow>,
    /// The tiers that they use.
    pub memory: Vec<TierCurve>,
    /// Kernels by class.
    pub kernels: BTreeMap<&'static str, KernelTotals>,
    /// Dense peak of a device in FLOP/s.
    pub peak_flops: f64,
    /// Bandwidth of device memory in bytes per second; absent if it is without limit.
    pub memory_bandwidth: Option<f64>,
    /// The critical path by kernel or transfer, longest first.
    pub critical: Vec<OpTotals>,
    /// Stalls by cause and by what was waited for, longest first, mean of the ranks drawn.
    pub stalls: Vec<OpTotals>,
}

/// A table of the longest, with their part of a step of `step_s` seconds.
pub(super) fn longest(out: &mut String, heads: [&str; 2], lines: &[OpTotals], step_s: f64) {
    let rows = lines.iter().map(|line| {
        let share = format!("{:.1} %", 100.0 * line.seconds / step_s);
        let cells = [line.kind.to_owned(), grouped(line.count), seconds(line.seconds), share];
        (line.place, [vec![line.what.clone()], cells.to_vec()].concat())
    });
    places(out, &[heads[0], heads[1], "times", "time", "of the step"], 2, rows);
}
