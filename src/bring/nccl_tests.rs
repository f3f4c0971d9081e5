//! The output of nccl-tests (and of rccl-tests) as a table of measured collectives.
//!
//! Columns are found by their names in the header; `size` is what nccl-tests calls so: one rank's buffer, for
//! all-gather and reduce-scatter the full one, as here. Ranks are counted in the list `Using devices`, nodes by its
//! host names. Times that fall as sizes grow are noise: neighbours are averaged until none falls.
//!
//! Source: NVIDIA/nccl-tests, src/common.cu and doc/PERFORMANCE.md.

use std::collections::BTreeSet;

use stepsim_spec::SpecError;
use stepsim_spec::collectives::{Op, OpTimes, Point};

/// The facts that the output lacks.
#[derive(Clone, Copy, Debug, Default)]
pub struct MissingHeadings {
    /// The collective, where no line names it.
    pub op: Option<Op>,
    /// Ranks, where no devices are listed.
    pub ranks: Option<u32>,
    /// Nodes, where no hosts are listed.
    pub nodes: Option<u32>,
    /// True if the times in place are taken.
    pub in_place: bool,
}

/// Names of programs and the collectives that they time.
const PROGRAMS: [(&str, Op); 5] = [
    ("all_reduce", Op::AllReduce),
    ("all_gather", Op::AllGather),
    ("reduce_scatter", Op::ReduceScatter),
    ("alltoall", Op::AllToAll),
    ("sendrecv", Op::SendRecv),
];

/// The collective that a text names: a line of the output, or the name of its file.
pub fn op_in(text: &str) -> Option<Op> {
    PROGRAMS.into_iter().find(|(name, _)| text.contains(name)).map(|p| p.1)
}

/// Reads one output.
///
/// # Errors
/// It has no header or fewer than two sizes, or neither it nor `asked` says what was measured on how many ranks.
pub fn read(text: &str, file: &str, asked: &MissingHeadings) -> Result<OpTimes, SpecError> {
    let text = &without_labels(text);
    let wrong = |problem: &str, hint: &str| SpecError::file(file, problem).hint(hint);
    let comments = || text.lines().filter(|line| line.trim_start().starts_with('#'));
    let columns = comments()
        .map(|line| line.trim_start_matches(['#', ' ']).split_whitespace().collect::<Vec<&str>>())
        .find(|names| names.first() == Some(&"size") && names.contains(&"time"))
        .ok_or_else(|| {
            wrong(
                "has no header of nccl-tests (size ... time algbw busbw)",
                "give the whole output of all_reduce_perf or its like",
            )
        })?;
    let times: Vec<usize> = (0..columns.len()).filter(|i| columns[*i] == "time").collect();
    let column = if asked.in_place { times.get(1) } else { times.first() };
    let column = *column.ok_or_else(|| wrong("has no times in place", "leave out --in-place"))?;
    let named = comments().find_map(op_in).or_else(|| op_in(file));
    let op = asked
        .op
        .or(named)
        .ok_or_else(|| wrong("does not say which collective it timed", "give --op all-reduce or its like"))?;
    let hosts: Vec<&str> = comments().filter_map(host).collect();
    let ranks = asked.ranks.or((!hosts.is_empty()).then_some(hosts.len() as u32));
    let ranks = ranks.ok_or_else(|| wrong("lists no devices", "give --ranks N"))?;
    let distinct: BTreeSet<&str> = hosts.iter().copied().collect();
    let nodes = asked.nodes.unwrap_or(distinct.len().max(1) as u32);
    let mut points = Vec::new();
    for line in text.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| cells.get(i).and_then(|c| c.parse::<f64>().ok());
        if let (Some(bytes), Some(time_us)) = (number(0), number(column))
            && bytes > 0.0
            && time_us > 0.0
        {
            points.push(Point { bytes, time_us });
        }
    }
    points.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
    let points = rising(points);
    if points.len() < 2 {
        return Err(wrong(
            &format!("has {} size(s) with a time", points.len()),
            "measure at least two: -b 8 -e 1G -f 2",
        ));
    }
    Ok(OpTimes { op, ranks, nodes, source: Some(format!("nccl-tests: {file}")), points })
}

/// The lines without what a launcher writes before them: ` 0: ` of `srun --label`, `[1,0]<stdout>:` of `mpirun
/// --tag-output`, a time or a host in brackets. The first rank that prints a header has them all.
fn without_labels(text: &str) -> String {
    let bare = |line: &str| line.trim_start().starts_with('#');
    if text.lines().any(|line| bare(line) && line.contains("algbw")) {
        return text.to_owned();
    }
    let header = text.lines().find(|line| line.contains('#') && line.contains("algbw"));
    let Some((label, _)) = header.and_then(|line| line.split_once('#')) else { return text.to_owned() };
    let label = label.trim();
    let cut = |line: &str| {
        let rest = line.trim_start().strip_prefix(label);
        rest.map_or_else(String::new, |rest| format!("{rest}\n"))
    };
    text.lines().map(cut).collect()
}

/// `#  Rank  0 Group  0 Pid  123 on  host1 device  0 [...]`: the host.
fn host(line: &str) -> Option<&str> {
    let mut words = line.trim_start_matches(['#', ' ']).split_whitespace();
    if words.next()? != "Rank" {
        return None;
    }
    words.by_ref().find(|word| *word == "on")?;
    words.next()
}

/// One point a size, no time below an earlier one: neighbours that fall are averaged (pool adjacent violators).
fn rising(points: Vec<Point>) -> Vec<Point> {
    let mut sizes: Vec<(f64, f64, f64)> = Vec::new();
    for p in points {
        match sizes.last_mut() {
            Some(last) if last.0 == p.bytes => *last = (last.0, last.1 + p.time_us, last.2 + 1.0),
            _ => sizes.push((p.bytes, p.time_us, 1.0)),
        }
    }
    // Blocks of neighbours with one time: sum, count, sizes.
    let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
    for (_, sum, count) in &sizes {
        let mut block = (*sum, *count, 1);
        while let Some(last) = blocks.last().filter(|last| last.0 / last.1 > block.0 / block.1) {
            block = (block.0 + last.0, block.1 + last.1, block.2 + last.2);
            blocks.pop();
        }
        blocks.push(block);
    }
    let times = blocks.into_iter().flat_map(|(sum, count, n)| std::iter::repeat_n(sum / count, n));
    sizes.iter().zip(times).map(|(size, time_us)| Point { bytes: size.0, time_us }).collect()
}
