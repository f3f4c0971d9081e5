//! Chakra execution traces of what was simulated: one a rank, for the tools that read those.
//!
//! Each op is a node behind the op before it on its stream (`ctrl_deps`) and those that it waits for (`data_deps`),
//! with the time that it took in this run: `duration_micros` as the format has it, and `duration_ns` exactly. Kernels
//! carry `num_ops`, `tensor_size` (bytes) and their stream as `tid`; collectives `comm_type`, `comm_size` (of an
//! all-gather what one rank has) and the group as `pg_name`, whose ranks [`groups`] lists; messages their peer and
//! the channel as `comm_tag`. A round of a ring is a send and a receive.
//!
//! Left out: memory, and how much later a launch is seen by the device.

use std::collections::BTreeMap;
use std::io::{self, Write};

use prost::Message;

use super::names;
use super::places::span;
use super::shown::{Timeline, TimelineSummary, TracedRank};
use crate::trace::chakra_messages::{AnyValue, Attribute, GlobalMetadata, RawNode, node_type};
use stepsim_core::ids::{CommId, OpId};
use stepsim_core::program::{NO_MICRO_BATCH, Op, Program, StreamKind, Work};

/// Version of the schema.
const VERSION: &str = "0.0.4";
/// Collectives by the beginning of their names, with their numbers in the format, and true where their size is one
/// rank's share.
const COLLECTIVES: [(&str, i64, bool); 6] = [
    ("all-reduce", 0, false),
    ("reduce-scatter", 7, false),
    ("reduce", 1, false),
    ("all-gather", 2, true),
    ("broadcast", 5, false),
    ("all-to-all", 6, false),
];
const ALL_TO_ALL: i64 = 6;

/// Ranks of the groups that shown ranks communicate with, by name.
pub fn groups(timeline: &Timeline) -> BTreeMap<String, Vec<u32>> {
    let world = timeline.world;
    let comms = timeline.ranks.iter().flat_map(|traced| world.slots_of(traced.rank));
    let members = |comm: &CommId| world.members_of(*comm).iter().map(|rank| rank.0).collect();
    comms
        .filter(|comm| comm.0 != u32::MAX && world.members_of(**comm).len() > 1)
        .map(|comm| (comm.0.to_string(), members(comm)))
        .collect()
}

/// Writes the file of one rank.
pub fn write<W: Write>(timeline: &Timeline, traced: &TracedRank, mut out: W) -> io::Result<TimelineSummary> {
    let program = timeline.world.program_of(traced.rank);
    let mut summary = TimelineSummary::default();
    let mut bytes = Vec::new();
    let mut put = |message: &dyn Fn(&mut Vec<u8>)| {
        bytes.clear();
        message(&mut bytes);
        out.write_all(&bytes)
    };
    let head = GlobalMetadata { version: VERSION.into(), attr: vec![text("producer", "stepsim")] };
    put(&|bytes| head.encode_length_delimited(bytes).unwrap_or_default())?;
    let mut last: Vec<Option<OpId>> = vec![None; program.streams.len()];
    for (i, op) in (0u32..).zip(&program.ops) {
        let id = OpId(i);
        for node in nodes(timeline, traced, program, id, last[usize::from(op.stream)]) {
            put(&|bytes| node.encode_length_delimited(bytes).unwrap_or_default())?;
            summary.slices += 1;
        }
        last[usize::from(op.stream)] = Some(id);
    }
    out.flush()?;
    Ok(summary)
}

/// The members of a round of a ring in which a rank sends to the next and receives from the one before.
fn is_ring(program: &Program, op: &Op) -> bool {
    let name = &program.infos[op.info as usize].name;
    let kind = program.streams[usize::from(op.stream)].kind;
    matches!(op.work, Work::Comm { .. })
        && matches!(kind, StreamKind::Tensor | StreamKind::Context)
        && !COLLECTIVES.iter().any(|known| name.starts_with(known.0))
}

/// The numbers of the nodes of an op: a round of a ring is two.
fn numbers(program: &Program, op: OpId) -> Vec<u64> {
    let first = 2 * u64::from(op.0);
    if is_ring(program, &program.ops[op.index()]) { vec![first, first + 1] } else { vec![first] }
}

fn nodes(
    timeline: &Timeline,
    traced: &TracedRank,
    program: &Program,
    id: OpId,
    before: Option<OpId>,
) -> Vec<RawNode> {
    let op = &program.ops[id.index()];
    let info = &program.infos[op.info as usize];
    let kind = program.streams[usize::from(op.stream)].kind;
    let (start, end) = span(timeline, traced, id);
    let ns = (end - start).round_ns();
    let waits = &program.waits[op.waits.range()];
    let mut attr = vec![
        Attribute { name: "is_cpu_op".into(), value: Some(AnyValue::Bool(kind == StreamKind::Host)) },
        unsigned("duration_ns", ns),
        unsigned("tid", u64::from(op.stream)),
    ];
    if op.micro_batch != NO_MICRO_BATCH {
        attr.push(unsigned("micro_batch", u64::from(op.micro_batch)));
    }
    let node = RawNode {
        id: 2 * u64::from(id.0),
        name: names::op(kind, info),
        kind: node_type::COMPUTE,
        ctrl_deps: before.map(|op| numbers(program, op)).unwrap_or_default(),
        data_deps: waits.iter().flat_map(|wait| numbers(program, *wait)).collect(),
        start_time_micros: start.round_ns() / 1000,
        duration_micros: (ns + 500) / 1000,
        attr,
    };
    let world = timeline.world;
    let comm = match op.work {
        Work::Comm { slot, .. } => Some(world.slots_of(traced.rank)[usize::from(slot)]),
        Work::Compute { .. } => None,
    };
    let with = |kind: i32, more: Vec<Attribute>| RawNode {
        kind,
        attr: [node.attr.clone(), more].concat(),
        ..node.clone()
    };
    let bytes = info.bytes.round() as u64;
    let members = comm.map(|comm| world.members_of(comm)).unwrap_or_default();
    let (Some(comm), 2..) = (comm, members.len()) else {
        let kind = match kind {
            StreamKind::CopyIn => node_type::LOAD,
            StreamKind::CopyOut => node_type::STORE,
            _ => node_type::COMPUTE,
        };
        let ops = unsigned("num_ops", info.flops.round() as u64);
        return vec![with(kind, vec![ops, unsigned("tensor_size", bytes)])];
    };
    let peer = |name: &str, rank: u32| {
        vec![
            Attribute { name: name.into(), value: Some(AnyValue::Int32(rank as i32)) },
            Attribute { name: "comm_tag".into(), value: Some(AnyValue::Int32(comm.0 as i32)) },
            unsigned("comm_size", bytes),
        ]
    };
    let send = |rank: u32| with(node_type::SEND, peer("comm_dst", rank));
    let receive = |rank: u32| with(node_type::RECEIVE, peer("comm_src", rank));
    if is_ring(program, op) {
        let at = members.iter().position(|rank| *rank == traced.rank).unwrap_or_default();
        let n = members.len();
        let other = RawNode { id: node.id + 1, ..receive(members[(at + n - 1) % n].0) };
        return vec![send(members[(at + 1) % n].0), other];
    }
    match kind {
        // A send that holds up its rank is one of the compute stream.
        StreamKind::PipelineSend | StreamKind::Compute => vec![send(members[1].0)],
        StreamKind::PipelineRecv => vec![receive(members[0].0)],
        _ => {
            let known = COLLECTIVES.iter().find(|known| info.name.starts_with(known.0));
            let (number, share) = known.map_or((ALL_TO_ALL, false), |known| (known.1, known.2));
            let size = if share { bytes / members.len() as u64 } else { bytes };
            let number = Attribute { name: "comm_type".into(), value: Some(AnyValue::Int64(number)) };
            vec![with(
                node_type::COLLECTIVE,
                vec![number, unsigned("comm_size", size), text("pg_name", &comm.0.to_string())],
            )]
        }
    }
}

fn unsigned(name: &str, value: u64) -> Attribute {
    Attribute { name: name.into(), value: Some(AnyValue::Uint64(value)) }
}

fn text(name: &str, value: &str) -> Attribute {
    Attribute { name: name.into(), value: Some(AnyValue::Text(value.into())) }
}
