//! Changes that a what-if makes: a resource faster or slower, or something that costs time taken away.

use std::sync::Arc;

use super::levels::StageLevels;
use crate::{Inputs, SimulationError};
use stepsim_core::ids::RankId;
use stepsim_core::kernel_class::KernelClass;
use stepsim_core::program::{Edit, StreamKind};
use stepsim_fabric::topology::Machine;
use stepsim_read::analysis::kind::OpKind;
use stepsim_spec::workload::{ModuleUseSpec, StackRef};
use stepsim_spec::{LoadedSpec, SpecError, Topology};

/// The subject of a change.
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
    /// Speed of the kernels of ranks, from the first to the last.
    Ranks(u32, u32),
    /// Speed of classes of kernels, by a name for them.
    Kernels(String, Vec<KernelClass>),
    /// Communication of a kind: free.
    Free(OpKind),
    /// All communication and copies but the pipeline's under kernels.
    Exposed,
    /// Waiting between stages.
    Bubble,
    /// Slow ranks: named and drawn stragglers, and the noise drawn for each worker.
    Stragglers,
    /// The noise drawn for each kernel.
    Jitter,
    /// Links that carry less than they should.
    SlowLinks,
    /// The excess (or lack) of a stage's kernels over the mean of the other stages.
    Stage(u32),
    /// The same of every stage against the mean of all: no work is taken away.
    Imbalance,
    /// Kernels repeated before the backward pass.
    Recomputation,
    /// Experts that get unlike numbers of tokens.
    Experts,
    /// Documents on the ranks as they are packed.
    Documents,
    /// Images on the ranks as they come.
    Images,
    /// Devices of another class than the machine's.
    DeviceClasses,
    /// The slowdown of kernels by communication and copies beside them.
    Interference,
    /// Waits for room on a tier.
    FullTier,
    /// Waits of ranks that have finished for those that have not.
    Tail,
}

/// So many times as fast is a resource that is taken away.
pub const ENDLESS: f64 = 1e6;

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

/// Costs in time that have a name of their own.
const COSTS: [(&str, Subject); 14] = [
    ("exposed", Subject::Exposed),
    ("bubble", Subject::Bubble),
    ("stragglers", Subject::Stragglers),
    ("jitter", Subject::Jitter),
    ("slow-links", Subject::SlowLinks),
    ("imbalance", Subject::Imbalance),
    ("recomputation", Subject::Recomputation),
    ("experts", Subject::Experts),
    ("documents", Subject::Documents),
    ("images", Subject::Images),
    ("device-classes", Subject::DeviceClasses),
    ("interference", Subject::Interference),
    ("full-tier", Subject::FullTier),
    ("tail", Subject::Tail),
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
            _ if name.starts_with("rank.") || name.starts_with("rank:") => {
                let (first, last) = name[5..].split_once('-').unwrap_or((&name[5..], &name[5..]));
                let (first, last) = (first.parse().ok()?, last.parse().ok()?);
                (first <= last).then_some(Subject::Ranks(first, last))?
            }
            _ => Subject::Kernels(name.into(), family(name).or_else(|| class().map(|c| vec![c]))?),
        })
    }
    /// The change that takes away what a name stands for: what costs time, or how long a resource takes.
    pub fn without(name: &str, topology: &Topology) -> Option<Change> {
        let kind = || KINDS.into_iter().find(|k| k.name() == name).map(Subject::Free);
        let cost = COSTS.into_iter().find(|(known, _)| *known == name).map(|(_, cost)| cost);
        let stage = || Some(Subject::Stage(name.strip_prefix("stage.")?.parse().ok()?));
        if let Some(subject) = cost.or_else(kind).or_else(stage) {
            return Some(Change { subject, factor: 1.0 });
        }
        let resource = Subject::rate(name, topology);
        let resource =
            resource.filter(|s| matches!(s, Subject::Links(_) | Subject::Host | Subject::Kernels(..)));
        resource.map(|subject| Change { subject, factor: ENDLESS })
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
    pub fn costs(topology: &Topology) -> Vec<String> {
        let kinds = KINDS.iter().map(|k| k.name());
        let mut names: Vec<String> = kinds.chain(COSTS.iter().map(|c| c.0)).map(String::from).collect();
        names.extend(["stage.N".into(), "host".into()]);
        names.extend(topology.link_classes());
        names.extend(FAMILIES.map(String::from));
        names.push("a class of kernels (`stepsim kernels`)".into());
        names
    }
    /// True if it is taken away and has no factor.
    pub fn is_cost(&self) -> bool {
        use Subject::{Host, Kernels, Latency, Links, Matrix, Memory, Ranks};
        !matches!(self, Host | Kernels(..) | Latency | Links(_) | Matrix | Memory | Ranks(..))
    }
    /// The name in reports.
    pub fn name(&self) -> String {
        match self {
            Subject::Matrix => "matrix".into(),
            Subject::Memory => "memory".into(),
            Subject::Links(class) => class.clone(),
            Subject::Latency => "latency".into(),
            Subject::Host => "host".into(),
            Subject::Ranks(first, last) if first == last => format!("rank.{first}"),
            Subject::Ranks(first, last) => format!("rank.{first}-{last}"),
            Subject::Kernels(name, _) => name.clone(),
            Subject::Free(kind) => kind.name().into(),
            Subject::Stage(stage) => format!("stage.{stage}"),
            cost => COSTS.iter().find(|c| c.1 == *cost).map_or(String::new(), |c| c.0.into()),
        }
    }
}

impl Change {
    /// Its name in tables: `matrix × 1.1`, `without nic`.
    pub fn name(&self) -> String {
        let taken_away = self.subject.is_cost() || self.factor == ENDLESS;
        match taken_away {
            true => format!("without {}", self.subject.name()),
            false => format!("{} × {}", self.subject.name(), rounded(self.factor)),
        }
    }
}

/// A factor with as many digits as people read.
fn rounded(factor: f64) -> f64 {
    (factor * 1e4).round() / 1e4
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

impl Subject {
    /// The settings that take it away, or deal it out evenly, in this workload; none where no field does.
    pub fn sets(&self, inputs: &Inputs) -> Vec<String> {
        let workload = &inputs.workload.value;
        let of_modules = |set: &str, is: fn(&ModuleUseSpec) -> bool| -> Vec<String> {
            let modules = workload.modules.iter().filter(|(_, module)| is(module));
            modules.map(|(name, _)| format!("modules.{name}.{set}")).collect()
        };
        let sets: &[&str] = match self {
            Subject::Recomputation => {
                let modules = of_modules("recompute=null", |module| module.recompute.is_some());
                return [vec!["recompute.granularity=none".to_owned()], modules].concat();
            }
            Subject::Images => {
                let vary = |module: &ModuleUseSpec| module.counts.is_some() || module.drawn.is_some();
                return of_modules("order=balanced", vary);
            }
            Subject::Documents if workload.documents.is_some() => &["documents.order=balanced"],
            Subject::Experts if inputs.model.moe.is_some() => {
                let load = &workload.expert_load;
                let spread = (load.rows_cv > 0.0).then_some("expert_load.rows_cv=0");
                let counts = load.counts_file.is_some().then_some("expert_load.counts_file=null");
                let sets = [Some("expert_load.balance=even"), spread, counts];
                return sets.into_iter().flatten().map(str::to_owned).collect();
            }
            Subject::DeviceClasses => &["topology.other_nodes=[]"],
            Subject::Stragglers => &["noise.stragglers=[]"],
            Subject::Jitter => &["noise.compute_sigma=0"],
            Subject::SlowLinks => &["noise.slow_links=[]"],
            _ => &[],
        };
        sets.iter().map(|set| (*set).to_owned()).collect()
    }
}

/// The inputs and the edits of the planned world that several changes come to.
///
/// # Errors
/// A factor leads to a machine that cannot be, or a rank is none of the job's.
pub fn apply(
    inputs: &Inputs,
    levels: &StageLevels,
    changes: &[Change],
) -> Result<(Inputs, Vec<Edit>), SimulationError> {
    let sets: Vec<String> = changes.iter().flat_map(|change| change.subject.sets(inputs)).collect();
    let read_again = if sets.is_empty() { None } else { Some(inputs.again(&sets)?) };
    let inputs = read_again.as_ref().unwrap_or(inputs);
    let mut topology: LoadedSpec<Topology> = (*inputs.topology).clone();
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
            Subject::Ranks(_, last) if *last >= inputs.machine.devices() => {
                return Err(SpecError::file(subject.name(), "is not a rank of the job")
                    .allowed(format!("rank.0 to rank.{}", inputs.machine.devices() - 1))
                    .into());
            }
            Subject::Ranks(first, last) => {
                edits.extend((*first..=*last).map(|rank| Edit::SlowRank(RankId(rank), 1.0 / factor)));
            }
            Subject::Kernels(_, classes) => edits.push(Edit::Kernels(classes.clone(), *factor)),
            Subject::Free(kind) => edits.push(Edit::Free(streams(*kind))),
            Subject::Exposed => {
                let all = KINDS.into_iter().filter(|k| *k != OpKind::Pipeline);
                edits.push(Edit::Free(all.flat_map(streams).collect()));
            }
            Subject::Bubble => edits.push(Edit::NoPipeline),
            Subject::Stage(stage) => edits.extend(levels.one(*stage)?),
            Subject::Imbalance => edits.extend(levels.all()),
            Subject::Interference => edits.push(Edit::Undisturbed),
            Subject::FullTier => edits.push(Edit::EndlessMemory),
            // Fields that were set above, or what is taken off the end of the run.
            Subject::Stragglers
            | Subject::Jitter
            | Subject::SlowLinks
            | Subject::Recomputation
            | Subject::Experts
            | Subject::Documents
            | Subject::Images
            | Subject::DeviceClasses
            | Subject::Tail => {}
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
