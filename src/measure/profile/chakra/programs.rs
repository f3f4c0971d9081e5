//! Chakra traces as rank programs.
//!
//! A kernel takes what was measured, or else the longer of its operations at the device's peak and its bytes at the
//! memory's rate (ASTRA-sim's roofline). A device computes one kernel after another, on each of its streams where the
//! trace names them; groups, sends and receives have streams of their own. The machine decides the times of
//! collectives and messages (`stepsim replay --on`).
//!
//! Sizes are ASTRA-sim's: `comm_size` of an all-gather is one rank's part, of all else the whole buffer of a rank.
//! Collectives of a group meet in their order, messages by sender, receiver and tag. A collective may be cut into
//! pieces, a number of them in flight at once (`preferred-dataset-splits`, `active-chunks-per-dimension`).
//!
//! Left out: that among collectives that are ready at once the youngest goes first (`LIFO`), and memory nodes that
//! nobody measured.

use std::collections::{BTreeMap, HashMap};

use super::order::{DroppedDependencies, in_order};
use super::{AstraSystem, ChakraNode, DeviceRates, NodeKind};
use crate::profile::classes::Family;
use crate::profile::own;
use crate::profile::programs::{ProgramOp, RankProgram, StepPrograms, TracedCollective, counted};
use stepsim_spec::SpecError;

/// Largest size of a message or collective, and most operations or bytes of a kernel.
const MOST_BYTES: f64 = 1e15;
const MOST_WORK: f64 = 1e21;
/// The bytes of a barrier.
const BARRIER_BYTES: f64 = 4.0;

/// The traces of ranks 0, 1, … (with the names of their files) as one step. `groups` are the members of the groups that
/// traces name; without any, every group is all ranks.
///
/// # Errors
/// A node is of a kind that cannot be played, says too little, or communicates with a group that is not its own.
pub fn programs(
    traces: &[(String, Vec<ChakraNode>)],
    groups: &BTreeMap<String, Vec<u64>>,
    rates: DeviceRates,
    system: &AstraSystem,
) -> Result<StepPrograms, SpecError> {
    let mut writer = ChakraWriter {
        ranks: traces.len() as u64,
        groups,
        rates,
        system,
        meets: HashMap::new(),
        doubts: ChakraDoubts::default(),
    };
    let mut ranks = Vec::new();
    for (rank, (file, nodes)) in (0..).zip(traces) {
        ranks.push(writer.rank(rank, nodes).map_err(|e| e.in_file(file))?);
    }
    let unknown = writer.doubts.said(groups.is_empty());
    Ok(StepPrograms { step: "chakra".into(), measured_ns: 0, ranks, unknown })
}

#[derive(Default)]
struct ChakraDoubts {
    dropped: DroppedDependencies,
    unmeasured: u64,
    grouped: u64,
    memory: u64,
}

impl ChakraDoubts {
    fn said(&self, no_groups: bool) -> Vec<String> {
        let groups = if no_groups { self.grouped } else { 0 };
        let said = counted([
            (groups, "collectives name a group, whose ranks no file says: all ranks are taken (--groups)"),
            (
                self.unmeasured,
                "kernels without a measured time take what their operations and bytes take at the device's rates",
            ),
            (self.memory, "reads and writes of other memories that nobody measured take nothing"),
            (
                self.dropped.dangling,
                "dependencies on no node of the file, or on the node itself, are dropped",
            ),
            (
                self.dropped.circles,
                "dependencies that close a circle are dropped: the node of the lowest number goes first",
            ),
        ]);
        said.collect()
    }
}

struct ChakraWriter<'a> {
    ranks: u64,
    groups: &'a BTreeMap<String, Vec<u64>>,
    rates: DeviceRates,
    system: &'a AstraSystem,
    /// Numbers of what ranks begin together, by what it is and which of its kind.
    meets: HashMap<(String, u64), u32>,
    doubts: ChakraDoubts,
}

/// A rank's program on its way.
#[derive(Default)]
struct ChakraRank {
    program: RankProgram,
    /// Ops of each node.
    ops_of: HashMap<u64, std::ops::Range<u32>>,
    turns: HashMap<String, u64>,
}

impl ChakraRank {
    fn stream(&mut self, name: String) -> u32 {
        own::number(&mut self.program.streams, name)
    }
}

impl ChakraWriter<'_> {
    fn rank(&mut self, number: u64, nodes: &[ChakraNode]) -> Result<RankProgram, SpecError> {
        let mut rank = ChakraRank::default();
        rank.program =
            RankProgram { rank: number, streams: vec!["host".into(), "compute".into()], ops: Vec::new() };
        for node in in_order(nodes, &mut self.doubts.dropped) {
            let after = node.after.iter().filter_map(|id| rank.ops_of.get(id)).cloned().flatten().collect();
            let first = rank.program.ops.len() as u32;
            let op = ProgramOp {
                name: node.name.clone(),
                after,
                ns: node.ns.unwrap_or(0),
                ..ProgramOp::default()
            };
            match node.kind {
                NodeKind::Collective | NodeKind::Send | NodeKind::Receive if !node.on_host() => {
                    self.communication(&mut rank, node, op, number).map_err(|e| at_node(e, node))?;
                }
                _ => {
                    let op = self.alone(&mut rank, node, op).map_err(|e| at_node(e, node))?;
                    rank.program.ops.push(op);
                }
            }
            rank.ops_of.insert(node.id, first..rank.program.ops.len() as u32);
        }
        Ok(rank.program)
    }

    /// The op of a rank's work by itself.
    fn alone(
        &mut self,
        rank: &mut ChakraRank,
        node: &ChakraNode,
        op: ProgramOp,
    ) -> Result<ProgramOp, SpecError> {
        let place = |what: &str, or: &str| match node.number("tid") {
            Some(thread) => format!("{what} {thread}"),
            None => or.to_string(),
        };
        let own = if node.kind == NodeKind::Memory { "memory" } else { "compute" };
        if node.on_host() {
            return Ok(ProgramOp {
                stream: rank.stream(place("host thread", "host")),
                class: "host".into(),
                ..op
            });
        }
        let stream = rank.stream(place("stream", own));
        let (class, family) = match node.kind {
            NodeKind::Memory => ("memory", Family::Memory),
            _ => ("kernel", Family::Compute),
        };
        let mut op = ProgramOp { stream, class: class.into(), family: Some(family), ..op };
        if node.ns.is_none() {
            match node.kind {
                NodeKind::Compute => {
                    op.ns = self.computes(node)?;
                    self.doubts.unmeasured += 1;
                }
                NodeKind::Memory => self.doubts.memory += 1,
                _ => {}
            }
        }
        Ok(op)
    }

    fn computes(&self, node: &ChakraNode) -> Result<u64, SpecError> {
        let of = |name: &str, rate: Option<f64>, option: &str| {
            let amount = number(node, name, 0.0..=MOST_WORK)?.unwrap_or(0.0);
            match rate {
                _ if amount == 0.0 => Ok(0.0),
                Some(rate) => Ok(amount / rate),
                None => {
                    Err(SpecError::at("", format!("has no duration, and what `{name}` takes is not known"))
                        .hint(format!("give {option}, or --system")))
                }
            }
        };
        let ns = 1e9
            * of("num_ops", self.rates.flops, "--peak-tflops")?.max(of(
                "tensor_size",
                self.rates.bytes,
                "--memory-GBps",
            )?);
        Ok(ns as u64)
    }

    fn communication(
        &mut self,
        rank: &mut ChakraRank,
        node: &ChakraNode,
        op: ProgramOp,
        own: u64,
    ) -> Result<(), SpecError> {
        let op = ProgramOp { family: Some(Family::Communication), ..op };
        let peer = |name: &str| {
            let peer = number(node, name, 0.0..=MOST_BYTES)?.unwrap_or(0.0) as u64;
            if peer < self.ranks && peer != own {
                return Ok(peer);
            }
            Err(SpecError::at("", format!("`{name}` is {peer}"))
                .allowed(format!("another rank, from 0 to {}", self.ranks.saturating_sub(1))))
        };
        let ends = match node.kind {
            NodeKind::Send => Some((own, peer("comm_dst")?)),
            NodeKind::Receive => Some((peer("comm_src")?, own)),
            _ => None,
        };
        if let Some((from, to)) = ends {
            let size = sized(node)?;
            let what = format!("{from} to {to} by {}", node.text("comm_tag").unwrap_or_default());
            let name = if from == own { format!("send to {to}") } else { format!("receive from {from}") };
            let collective = TracedCollective {
                kind: "send-recv".into(),
                bytes: Some(size as u64),
                group_size: 2,
                ranks: vec![from, to],
                ..TracedCollective::default()
            };
            let stream = rank.stream(name);
            self.push(rank, ProgramOp { stream, class: "send-recv".into(), ..op }, what, collective);
            return Ok(());
        }
        let group = node.text("pg_name").filter(|name| !name.is_empty());
        self.doubts.grouped += u64::from(group.is_some());
        let ranks = self.members(group.as_deref(), own)?;
        let (kind, bytes) = collective(node, ranks.len() as f64)?;
        let whole = TracedCollective {
            kind: kind.into(),
            bytes: Some(bytes as u64),
            group: group.clone().unwrap_or_default(),
            group_size: ranks.len() as i64,
            ranks,
            meets: None,
        };
        let pieces = if whole.ranks.len() > 1 { self.system.splits } else { 1 };
        for piece in 0..pieces {
            let lane = piece % self.system.active;
            let name = format!("group {}", group.as_deref().unwrap_or("of all"));
            let stream = rank.stream(if lane == 0 { name.clone() } else { format!("{name}, {}", lane + 1) });
            let op =
                ProgramOp { stream, class: whole.kind.clone(), ns: op.ns / u64::from(pieces), ..op.clone() };
            // Those that run beside each other do so on communicators of their own.
            let beside = (lane > 0).then(|| format!("{}#{}", whole.group, lane + 1));
            let part = TracedCollective {
                bytes: Some((bytes / f64::from(pieces)).ceil() as u64),
                group: beside.unwrap_or_else(|| whole.group.clone()),
                ..whole.clone()
            };
            self.push(rank, op, format!("{name}, {lane}"), part);
        }
        Ok(())
    }

    /// Queues the next communication of these ranks.
    fn push(&mut self, rank: &mut ChakraRank, op: ProgramOp, what: String, collective: TracedCollective) {
        let turn = rank.turns.entry(what.clone()).or_default();
        let next = self.meets.len() as u32;
        let meets = *self.meets.entry((what, *turn)).or_insert(next);
        *turn += 1;
        let meets = Some(meets).filter(|_| collective.ranks.len() > 1);
        rank.program.ops.push(ProgramOp { collective: Some(TracedCollective { meets, ..collective }), ..op });
    }

    fn members(&self, group: Option<&str>, own: u64) -> Result<Vec<u64>, SpecError> {
        let Some(group) = group.filter(|_| !self.groups.is_empty()) else {
            return Ok((0..self.ranks).collect());
        };
        let hint = "which ranks a group has stands in the file of groups (--groups)";
        let members = self.groups.get(group).ok_or_else(|| {
            let known: Vec<&str> = self.groups.keys().map(String::as_str).collect();
            SpecError::at("pg_name", format!("{group:?} is no group")).allowed(known.join(", ")).hint(hint)
        })?;
        let wrong =
            |problem: String| Err(SpecError::at("pg_name", format!("group {group:?} {problem}")).hint(hint));
        if !members.contains(&own) {
            return wrong(format!("is without rank {own}"));
        }
        match members.iter().find(|rank| **rank >= self.ranks) {
            Some(rank) => wrong(format!("has rank {rank}, and there are traces of {}", self.ranks)),
            None => Ok(members.clone()),
        }
    }
}

fn at_node(error: SpecError, node: &ChakraNode) -> SpecError {
    error.under(&format!("node {} ({})", node.id, node.name))
}

/// An attribute that must be a number in a range, if it is there.
fn number(
    node: &ChakraNode,
    name: &str,
    range: std::ops::RangeInclusive<f64>,
) -> Result<Option<f64>, SpecError> {
    match node.number(name) {
        Some(number) if !range.contains(&number) => Err(SpecError::at("", format!("`{name}` is {number}"))
            .allowed(format!("{} to {:e}", range.start(), range.end()))),
        number => Ok(number),
    }
}

fn sized(node: &ChakraNode) -> Result<f64, SpecError> {
    number(node, "comm_size", 0.0..=MOST_BYTES)?
        .ok_or_else(|| SpecError::at("", "has no `comm_size`").allowed("bytes of the message"))
}

/// The kind of a collective, and the bytes of the whole buffer.
fn collective(node: &ChakraNode, ranks: f64) -> Result<(&'static str, f64), SpecError> {
    let kind = node.number("comm_type");
    if kind == Some(9.0) {
        return Ok(("all-reduce", BARRIER_BYTES));
    }
    let size = sized(node)?;
    let known = [
        (0.0, "all-reduce", size),
        (1.0, "reduce", size),
        (2.0, "all-gather", size * ranks),
        (5.0, "broadcast", size),
        (6.0, "all-to-all", size),
        (7.0, "reduce-scatter", size),
        (8.0, "reduce-scatter", size),
    ];
    let found = known.into_iter().find(|known| kind == Some(known.0));
    found.map(|(_, kind, bytes)| (kind, bytes)).ok_or_else(|| {
        let kind = kind.map_or("not there".to_owned(), |kind| kind.to_string());
        SpecError::at("", format!("`comm_type` is {kind}")).allowed(
            "0 all-reduce, 1 reduce, 2 all-gather, 5 broadcast, 6 all-to-all, 7 or 8 reduce-scatter, 9 barrier",
        )
    })
}
