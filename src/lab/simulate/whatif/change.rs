//! Changes that a what-if makes: a resource faster or slower, or something that costs time taken away.

use std::sync::Arc;

use crate::core::kernel_class::KernelClass;
use crate::core::program::{Edit, StreamKind};
use crate::lab::simulate::{Inputs, SimulationError};
use crate::read::analysis::kind::OpKind;
use crate::step::spec::workload::StackRef;
use crate::step::spec::{Loaded, SpecError, Topology};
use crate::step::topology::Machine;

/// What is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Matrix rate of all devices, in all formats.
    Matrix,
    /// Bandwidth of the devices' memories.
    Memory,
    /// Bandwidth of a class of links or a memory tier.
    Links(String),
    /// Latency of all transfers.
    Latency,
    /// Speed of the hosts.
    Host,
    /// Speed of one rank's kernels.
    Rank(u32),
    /// Speed of classes of kernels, by a name for them.
    Kernels(String, Vec<KernelClass>),
    /// Communication of a kind: free.
    Free(OpKind),
    /// All communication and copies but the pipeline's under kernels.
    Exposed,
    /// Waiting between stages.
    Bubble,
}

/// A subject and a factor on its rate (on its time, of latency); none for what is taken away.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What.
    pub subject: Subject,
    /// On its rate.
    pub factor: f64,
}

/// Kinds of communication that can be made free.
const KINDS: [OpKind; 7] = [
    OpKind::Tensor,
    OpKind::Context,
    OpKind::Expert,
    OpKind::Pipeline,
    OpKind::Data,
    OpKind::CopyIn,
    OpKind::CopyOut,
];

/// Families of kernel classes that have a name of their own.
fn family(name: &str) -> Option<Vec<KernelClass>> {
    let of = |wanted: &dyn Fn(KernelClass) -> bool| {
        Some(KernelClass::ALL.iter().copied().filter(|c| wanted(*c)).collect())
    };
    match name {
        "gemms" => of(&|c| c.name().starts_with("gemm")),
        "grouped-gemms" => of(&|c| c.name().starts_with("grouped")),
        "attention" => of(&|c| c.name().starts_with("attention")),
        "optimizer" => of(&|c| c.name().starts_with("optimizer")),
        "memory-bound" => of(&|c| !c.is_matrix() && !c.name().starts_with("optimizer")),
        _ => None,
    }
}

/// Names of families.
pub const FAMILIES: [&str; 5] = ["gemms", "grouped-gemms", "attention", "memory-bound", "optimizer"];

impl Subject {
    /// The subject of a name that has a rate.
    pub fn rate(name: &str, topology: &Topology) -> Option<Subject> {
        let class = || KernelClass::ALL.iter().copied().find(|c| c.name() == name);
        Some(match name {
            "matrix" => Subject::Matrix,
            "memory" => Subject::Memory,
            "latency" => Subject::Latency,
            "host" => Subject::Host,
            _ if topology.link_classes().iter().any(|c| c == name) => Subject::Links(name.into()),
            _ if name.starts_with("rank.") => Subject::Rank(name[5..].parse().ok()?),
            _ => Subject::Kernels(name.into(), family(name).or_else(|| class().map(|c| vec![c]))?),
        })
    }
    /// The subject of a name that can be taken away.
    pub fn cost(name: &str) -> Option<Subject> {
        match name {
            "exposed" => Some(Subject::Exposed),
            "bubble" => Some(Subject::Bubble),
            _ => KINDS.into_iter().find(|k| k.name() == name).map(Subject::Free),
        }
    }
    /// Names that have a rate.
    pub fn rates(topology: &Topology) -> Vec<String> {
        let mut names: Vec<String> = ["matrix", "memory", "latency", "host"].map(String::from).to_vec();
        names.extend(topology.link_classes());
        names.extend(FAMILIES.map(String::from));
        names.push("rank.N".into());
        names.push("a class of kernels (`stepsim kernels`)".into());
        names
    }
    /// Names that can be taken away.
    pub fn costs() -> Vec<String> {
        KINDS.iter().map(|k| k.name().to_string()).chain(["exposed".into(), "bubble".into()]).collect()
    }
    /// Whether it is taken away and has no factor.
    pub fn is_cost(&self) -> bool {
        matches!(self, Subject::Free(_) | Subject::Exposed | Subject::Bubble)
    }
    /// The name in reports.
    pub fn name(&self) -> String {
        match self {
            Subject::Matrix => "matrix".into(),
            Subject::Memory => "memory".into(),
            Subject::Links(class) => class.clone(),
            Subject::Latency => "latency".into(),
            Subject::Host => "host".into(),
            Subject::Rank(rank) => format!("rank.{rank}"),
            Subject::Kernels(name, _) => name.clone(),
            Subject::Free(kind) => format!("without {}", kind.name()),
            Subject::Exposed => "without exposed".into(),
            Subject::Bubble => "without bubble".into(),
        }
    }
}

/// The streams of a kind of communication.
fn streams(kind: OpKind) -> Vec<StreamKind> {
    match kind {
        OpKind::Tensor => vec![StreamKind::Tensor],
        OpKind::Context => vec![StreamKind::Context],
        OpKind::Expert => vec![StreamKind::Expert],
        OpKind::Pipeline => vec![StreamKind::PipelineSend, StreamKind::PipelineRecv],
        OpKind::Data => vec![StreamKind::Data],
        OpKind::CopyIn => vec![StreamKind::CopyIn],
        OpKind::CopyOut => vec![StreamKind::CopyOut],
        OpKind::Compute | OpKind::Host => Vec::new(),
    }
}

/// The inputs and the edits of the planned world that several changes come to.
///
/// # Errors
/// A factor leads to a machine that cannot be, or a rank is none of the job's.
pub fn apply(inputs: &Inputs, changes: &[Change]) -> Result<(Inputs, Vec<Edit>), SimulationError> {
    let mut topology: Loaded<Topology> = (*inputs.topology).clone();
    let mut workload = inputs.workload.clone();
    let mut edits = Vec::new();
    let mut rebuilt = false;
    for Change { subject, factor } in changes {
        let machine = &mut topology.value;
        match subject {
            Subject::Matrix => machine.scale_matrix_rate(*factor),
            Subject::Memory => machine.scale_memory_rate(*factor),
            Subject::Links(class) => machine.scale_links(class, *factor),
            Subject::Latency => edits.push(Edit::Latency(*factor)),
            Subject::Host => {
                if let Some(StackRef::Inline(stack)) = &mut workload.value.stack {
                    stack.host.iter_mut().for_each(|host| host.slowness /= factor);
                }
            }
            Subject::Rank(rank) if *rank >= inputs.machine.devices() => {
                return Err(SpecError::file(format!("rank.{rank}"), "is not a rank of the job")
                    .allowed(format!("rank.0 to rank.{}", inputs.machine.devices() - 1))
                    .into());
            }
            Subject::Rank(rank) => edits.push(Edit::SlowRank(crate::core::ids::RankId(*rank), 1.0 / factor)),
            Subject::Kernels(_, classes) => edits.push(Edit::Kernels(classes.clone(), *factor)),
            Subject::Free(kind) => edits.push(Edit::Free(streams(*kind))),
            Subject::Exposed => {
                let all = KINDS.into_iter().filter(|k| *k != OpKind::Pipeline);
                edits.push(Edit::Free(all.flat_map(streams).collect()));
            }
            Subject::Bubble => edits.push(Edit::NoPipeline),
        }
        rebuilt |= matches!(subject, Subject::Matrix | Subject::Memory | Subject::Links(_));
    }
    if !rebuilt {
        let changed = Inputs { workload, ..inputs.clone() };
        return Ok((changed, edits));
    }
    let machine = Machine::build(&topology.value).map_err(|e| e.in_file(&topology.file))?;
    let topology = Arc::new(topology);
    let ranks = machine.devices();
    let changed = Inputs { workload, topology, machine: Arc::new(machine), ranks, ..inputs.clone() };
    Ok((changed, edits))
}
