//! All ranks of a run over time in one picture: by pass what they do, by cause what they wait for.
//!
//! Ranks that do the same at the same times have one row, which says how many they are. Of very many rows only waits
//! that can be seen have a cause.

use crate::Simulation;
use crate::behaviour::alike;
use crate::page::{pass_number, step_looks};
use crate::timeline::TimelineSelection;
use stepsim_core::program::StreamKind;
use stepsim_core::units::{Time, grouped};
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_read::analysis::stalls::long_stalls;
use stepsim_read::page::lane::{ItemStyle, Looks};
use stepsim_read::page::map::{COLUMNS, MapRow, RankMap};
use stepsim_read::trace::TimelineFormat;

/// Rows of which every wait has its cause.
const ALL_CAUSES: usize = 256;

/// The map of all ranks.
pub fn rank_map(run: &Simulation) -> RankMap {
    let world = &run.plan.world;
    let mut causes = Causes::unfolded(world, &run.record, &run.folded.ranks.of);
    let mut idle = IdleTimes::new(world);
    let rows = alike(run);
    let mut map = RankMap { step: run.record.step_end, ..RankMap::default() };
    let least = if rows.len() > ALL_CAUSES { Time(map.step.0 / COLUMNS as u64) } else { Time::ZERO };
    let looks = step_looks();
    let mut stalls = Vec::new();
    for drawn in &rows {
        stalls.clear();
        long_stalls(&mut causes, &mut idle, drawn.rank, least, &mut stalls);
        let (program, source) = (world.program_of(drawn.rank), run.folded.source(drawn.rank));
        let kernels = program.streams.iter().filter(|stream| stream.kind == StreamKind::Compute);
        let kernel = |op: &stepsim_core::ids::OpId| {
            let (start, end) = run.record.span(source, *op);
            let phase = program.infos[program.ops[op.index()].info as usize].phase;
            (start, end, pass_number(phase) as usize)
        };
        let waits =
            stalls.iter().map(|stall| (stall.start, stall.end, looks.passes.len() + stall.cause as usize));
        let mut spans: Vec<_> = kernels.flat_map(|stream| &stream.ops).map(kernel).chain(waits).collect();
        spans.sort();
        let mut row = MapRow::new(
            &mut map,
            (drawn.name(run), drawn.like_it + 1),
            looks.passes.len() + looks.stalls.len(),
        );
        let mut covered = Time::ZERO;
        for (start, end, kind) in spans {
            row.add(kind, start.max(covered), end);
            covered = covered.max(end);
        }
        row.finish();
    }
    map
}

/// The map with its legend.
fn drawn(
    run: &Simulation,
    map: &RankMap,
    as_svg: fn(&RankMap, &str, &[(&str, &'static str)]) -> String,
) -> String {
    let ranks = grouped(run.plan.world.ranks.len() as u64);
    let title = format!("{} on {}: {ranks} ranks", run.inputs.workload.name, run.inputs.topology.name);
    let looks = step_looks();
    as_svg(map, &title, &kinds(&looks))
}

fn kinds(looks: &Looks) -> Vec<(&str, &'static str)> {
    let looks = looks.passes.iter().chain(&looks.stalls);
    looks.map(|ItemStyle { name, colour }| (name.as_str(), *colour)).collect()
}

/// How many ranks do each thing, or wait for it, from when on, as a file of this format says it beside a whole step;
/// nothing where all do the same.
pub fn doing(
    run: &Simulation,
    shown: &TimelineSelection,
    format: TimelineFormat,
) -> Vec<(String, Vec<(Time, u64)>)> {
    if format != TimelineFormat::Perfetto || shown.kineto || !shown.complete {
        return Vec::new();
    }
    let map = rank_map(run);
    if map.names.len() > 1 { map.counted(&kinds(&step_looks())) } else { Vec::new() }
}

/// The map as a file.
pub fn file(run: &Simulation) -> String {
    drawn(run, &rank_map(run), RankMap::file)
}

/// The map inside a page, of at most so many rows; nothing of more.
pub fn section(run: &Simulation, most: usize) -> Option<String> {
    let map = rank_map(run);
    (map.names.len() <= most).then(|| drawn(run, &map, RankMap::svg))
}
