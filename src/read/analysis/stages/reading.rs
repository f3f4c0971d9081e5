//! The readings of stages and of ranks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::{LIST_ALL_RANKS, RankReport, StageReport};
use crate::analysis::cells::{SMALL, bar, merged, new_table, omitted, percent, shown};
use crate::analysis::memory::{Peak, by_tier, users};
use crate::analysis::overlap::communication;
use crate::analysis::reading::{Lines, Reading, Report, Run};
use crate::analysis::report::{RankInfo, RunInfo};
use crate::analysis::run::RankReading;
use crate::analysis::stalls::{Breakdown, RankTime, StallCause, compare, mean, seconds_of};
use stepsim_core::ids::RankId;
use stepsim_core::kernel_class::{KernelClass, MODULE_INPUT};
use stepsim_core::program::{Program, World};
use stepsim_core::units::Time;

/// Stages none of whose shares differ by this much share a row.
const ALIKE: f64 = 0.005;

/// The work of each pipeline stage.
pub struct StagesReading;

impl Reading for StagesReading {
    fn read(&self, run: &mut Run<'_, '_>, report: &mut Report) {
        report.stages = stages(run.world(), &run.ranks, run.info.ranks, &run.peaks);
    }

    fn table(&self, r: &Report, out: &mut String, width: u16) {
        if r.stages.len() < 2 {
            return;
        }
        let step = r.run_time_s.max(f64::MIN_POSITIVE);
        let share = |b: &Breakdown, cause: StallCause| b.stalls_s.get(&cause).copied().unwrap_or(0.0) / step;
        let matters = |cause: &StallCause| r.stages.iter().any(|s| share(&s.time, *cause) >= SMALL);
        let causes: Vec<_> = StallCause::ALL.into_iter().filter(matters).collect();
        let mut head = vec!["stage".to_string(), "".to_string(), "compute".to_string()];
        head.extend(causes.iter().map(|c| c.short().to_string()));
        let mut table = new_table(width, head);
        #[cfg(feature = "tables")]
        if let Some(bars) = table.column_mut(1) {
            bars.set_cell_alignment(comfy_table::CellAlignment::Left);
        }
        let bar_width = usize::from(width).saturating_sub(20 + 10 * causes.len()).min(20);
        let row = |stage: &StageReport| {
            let busy = stage.time.busy_s / step;
            let mut row = vec![bar(busy, bar_width), percent(busy)];
            row.extend(causes.iter().map(|&c| percent(share(&stage.time, c))));
            row
        };
        let shares = |s: &StageReport| {
            std::iter::once(s.time.busy_s / step).chain(causes.iter().map(|&c| share(&s.time, c))).collect()
        };
        let near = |a: &Vec<f64>, b: &Vec<f64>| a.iter().zip(b).all(|(a, b)| (a - b).abs() < ALIKE);
        let rows = merged(r.stages.iter().map(|s| (s.stage, shares(s), row(s))), near);
        let shown = shown(&rows);
        for (stages, cells) in &shown {
            table.add_row(std::iter::once(stages).chain(cells));
        }
        let _ = writeln!(out, "\nBy pipeline stage (% of the step){}", omitted(shown.len(), rows.len()));
        let _ = writeln!(out, "{table}");
    }

    fn compare(&self, a: &Report, b: &Report, lines: &mut Lines) {
        if a.stages.len() == b.stages.len() && a.stages.len() > 1 {
            for (x, y) in a.stages.iter().zip(&b.stages) {
                lines.section(format!("stage {}", x.stage));
                compare(lines, &x.time, &y.time);
            }
        }
    }
}

/// The work of each rank.
pub struct Ranks;

impl Reading for Ranks {
    fn read(&self, run: &mut Run<'_, '_>, report: &mut Report) {
        report.ranks = ranks(&run.ranks, run.info);
    }
}

fn stages(world: &World, readings: &[RankReading], ranks: &[RankInfo], peaks: &[Peak]) -> Vec<StageReport> {
    let mut counts = BTreeMap::new();
    for info in ranks {
        *counts.entry(info.stage).or_insert(0) += info.members.len() as u64;
    }
    let users = users(world);
    let first = |stage| ranks.iter().position(|info| info.stage == stage).unwrap_or(0) as u32;
    let of_stage = |(&stage, &count): (&u32, &u64)| StageReport {
        stage,
        ranks: count,
        layers: layers_of(world.program_of(RankId(first(stage)))),
        ends: ends_of(world.program_of(RankId(first(stage)))),
        time: mean(readings, ranks, |s| s == stage),
        communication: communication(readings, ranks, |s| s == stage),
        memory: by_tier(world, peaks, |tier| {
            users[tier].iter().any(|u| ranks[u.rank.index()].stage == stage)
        }),
    };
    counts.iter().map(of_stage).collect()
}

/// How many layers a program computes.
fn layers_of(program: &Program) -> u64 {
    let kernels = program.infos.iter().filter(|info| info.class.is_some());
    kernels.filter_map(|info| info.layer).collect::<BTreeSet<_>>().len() as u64
}

/// The ends of the model, and the modules in front of it, that a program computes.
fn ends_of(program: &Program) -> Vec<String> {
    let has = |class| program.infos.iter().any(|info| info.class == Some(class));
    let ends = [("embedding", KernelClass::Embedding), ("head", KernelClass::Loss)];
    let of_model = ends.into_iter().filter(|(_, class)| has(*class)).map(|(name, _)| name.to_owned());
    let modules = program.infos.iter().filter_map(|info| info.name.strip_suffix(MODULE_INPUT));
    let modules: BTreeSet<&str> = modules.map(str::trim_end).collect();
    modules.into_iter().map(str::to_owned).chain(of_model).collect()
}

/// Every rank of a small job; of a large one, each group of alike ranks.
fn ranks(readings: &[RankReading], info: &RunInfo) -> Vec<RankReport> {
    let entry = |rank: u32, stage: u32, count: u64, time: Breakdown| RankReport {
        rank,
        name: (info.rank_name)(rank),
        stage,
        count,
        time,
    };
    let simulated = || readings.iter().zip(info.ranks);
    let all: usize = info.ranks.iter().map(|r| r.members.len()).sum();
    let mut ranks: Vec<RankReport> = if all <= LIST_ALL_RANKS {
        let each = |(reading, of): (&RankReading, &RankInfo)| {
            let list = of.members.iter().map(|&m| entry(m, of.stage, 1, seconds_of(&reading.time)));
            list.collect::<Vec<_>>()
        };
        simulated().flat_map(each).collect()
    } else {
        /// Stage, busy and end time, stalls.
        type StageKey = (u32, [Time; 2], [Time; StallCause::COUNT]);
        let mut groups: BTreeMap<StageKey, (u32, u64)> = BTreeMap::new();
        for (reading, of) in simulated() {
            let Some(&lowest) = of.members.first() else {
                continue;
            };
            let RankTime { busy, slowed_by_memory, stalls } = reading.time;
            let key = (of.stage, [busy, slowed_by_memory], stalls);
            let group = groups.entry(key).or_insert((lowest, 0));
            *group = (group.0.min(lowest), group.1 + of.members.len() as u64);
        }
        let of_group = |((stage, times, stalls), (lowest, count)): ((u32, [Time; 2], _), (u32, u64))| {
            let [busy, slowed_by_memory] = times;
            entry(lowest, stage, count, seconds_of(&RankTime { busy, slowed_by_memory, stalls }))
        };
        groups.into_iter().map(of_group).collect()
    };
    ranks.sort_by_key(|r| r.rank);
    ranks
}
