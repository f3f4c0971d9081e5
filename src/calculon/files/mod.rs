//! Calculon's three JSON files, read unchanged: application, execution, system (`.json` or `.json.gz`).
//!
//! Calculon (calculon-ai/calculon, SC'23) is the closed-form model that the simulator is validated against. Its
//! files have exact field sets: a key too many or too few is refused, as Calculon refuses it. A [`Calculon`] has passed
//! every check that needs no arithmetic on layer costs; whether the run fits in memory is known to the closed form
//! only ([`super::closed_form`]).
//!
//! Hazards:
//! * `GBps` and `bandwidth` count 10⁹ bytes, `MB_efficiency` 10⁶ bytes, `GiB` 2³⁰ bytes.
//! * The three files are checked together: `num_procs` is the product of three fields, divisibility ties execution to
//!   application, and network indices tie execution to system.

mod checks;
mod import;
mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::spec::model::ModelSpec;
use crate::spec::{SpecError, json};

/// The model: six integers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// Model width h.
    pub hidden: u64,
    /// MLP inner width f.
    pub feedforward: u64,
    /// Tokens of a sequence s.
    pub seq_size: u64,
    /// Attention heads a.
    pub attn_heads: u64,
    /// Width of one head e; a·e need not equal h.
    pub attn_size: u64,
    /// Transformer blocks N.
    pub num_blocks: u64,
}

/// Number format of weights and activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Datatype {
    /// One byte.
    Float8,
    /// Two bytes, IEEE half.
    Float16,
    /// Two bytes, brain float.
    Bfloat16,
    /// Four bytes.
    Float32,
}

impl Datatype {
    /// Bytes of one element, β.
    pub fn bytes(self) -> u64 {
        match self {
            Datatype::Float8 => 1,
            Datatype::Float16 | Datatype::Bfloat16 => 2,
            Datatype::Float32 => 4,
        }
    }
    /// The key of this format in a system's `matrix` and `vector` tables.
    pub fn key(self) -> &'static str {
        match self {
            Datatype::Float8 => "float8",
            Datatype::Float16 => "float16",
            Datatype::Bfloat16 => "bfloat16",
            Datatype::Float32 => "float32",
        }
    }
}

/// Shape of the key and value projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attention {
    /// One key and value head per query head.
    Multihead,
    /// One key and value head in all, replicated over the tensor-parallel group.
    Multiquery,
}

/// Which activations are computed again in the backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recompute {
    /// The whole block.
    Full,
    /// Scores, softmax and their dropout (selective recomputation).
    AttnOnly,
    /// Nothing.
    None,
}

/// How the tensor-parallel group exchanges activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TensorComm {
    /// All-reduce.
    Ar,
    /// All-reduce, but reduce-scatter and all-gather in the last block of a chunk, so that p2p sends 1/t.
    P2pRsAg,
    /// Reduce-scatter and all-gather everywhere: sequence parallelism.
    RsAg,
}

/// Tiled overlap of a GEMM with its collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TensorOverlap {
    /// The collective runs alone.
    None,
    /// No exposed first tile.
    Ring,
    /// One exposed tile.
    Pipe,
}

/// The strategy: exactly 23 fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Execution {
    /// Processors: the product of the three parallelisms.
    pub num_procs: u64,
    /// Tensor parallelism t.
    pub tensor_par: u64,
    /// Pipeline parallelism p.
    pub pipeline_par: u64,
    /// Data parallelism d.
    pub data_par: u64,
    /// Index of the network that carries tensor parallelism.
    pub tensor_par_net: u64,
    /// Index of the network that carries pipeline parallelism.
    pub pipeline_par_net: u64,
    /// Index of the network that carries data parallelism.
    pub data_par_net: u64,
    /// Global batch B in sequences.
    pub batch_size: u64,
    /// Micro-batch b in sequences.
    pub microbatch_size: u64,
    /// Number format.
    pub datatype: Datatype,
    /// The activation function stores nothing.
    pub fused_activation: bool,
    /// Multihead or multiquery.
    pub attention_type: Attention,
    /// Full, selective or no recomputation.
    pub activation_recompute: Recompute,
    /// Model chunks per processor V.
    pub pipeline_interleaving: u64,
    /// Optimizer state sharded over d (ZeRO-1).
    pub optimizer_sharding: bool,
    /// Collectives of the tensor-parallel group.
    pub tensor_par_comm_type: TensorComm,
    /// Overlap of GEMMs with those collectives.
    pub tensor_par_overlap: TensorOverlap,
    /// Drop the gathered input and repeat the all-gather in the backward pass.
    pub seq_par_ag_redo: bool,
    /// Overlap data-parallel communication with the backward pass.
    pub data_par_overlap: bool,
    /// Weights live in tier 2.
    pub weight_offload: bool,
    /// Stored activations live in tier 2.
    pub activations_offload: bool,
    /// Optimizer state and gradients live in tier 2.
    pub optimizer_offload: bool,
    /// False: one forward pass.
    pub training: bool,
}

/// Step function: the efficiency of the first row whose threshold is not above the size.
pub type EfficiencyTable = Vec<(f64, f64)>;

/// A compute engine for one number format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// Peak rate in 10¹² FLOP/s.
    pub tflops: f64,
    /// Efficiency by operation size in 10⁹ FLOP.
    pub gflops_efficiency: EfficiencyTable,
}

/// A memory tier of one processor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Capacity in 2³⁰ bytes.
    #[serde(rename = "GiB")]
    pub capacity_gib: f64,
    /// Peak bandwidth in 10⁹ B/s.
    #[serde(rename = "GBps")]
    pub bandwidth_gbps: f64,
    /// Efficiency by transfer size in 10⁶ bytes.
    #[serde(rename = "MB_efficiency")]
    pub mb_efficiency: EfficiencyTable,
}

/// How compute and memory time of one layer combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessingMode {
    /// The larger of the two.
    Roofline,
    /// Their sum.
    NoOverlap,
}

/// Traffic factors `[scalar, offset]` of the four operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkOps {
    /// Point to point; its offset is null.
    pub p2p: (f64, Option<f64>),
    /// Reduce-scatter.
    pub reduce_scatter: (f64, Option<f64>),
    /// All-gather.
    pub all_gather: (f64, Option<f64>),
    /// All-reduce.
    pub all_reduce: (f64, Option<f64>),
}

/// A network tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Bandwidth of one processor in one direction, in 10⁹ B/s.
    pub bandwidth: f64,
    /// Share of the bandwidth that is reached, in (0, 1].
    pub efficiency: f64,
    /// Largest group in processors.
    pub size: u64,
    /// Seconds added once per operation.
    pub latency: f64,
    /// Traffic factors.
    pub ops: NetworkOps,
    /// The size must be a multiple of the group that uses it.
    pub must_be_filled: bool,
    /// Share of compute lost while communicating, in [0, 1).
    pub processor_usage: f64,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Matrix engine by number format.
    pub matrix: BTreeMap<String, Engine>,
    /// Vector engine by number format.
    pub vector: BTreeMap<String, Engine>,
    /// HBM.
    pub mem1: Memory,
    /// Offload memory; capacity 0 means there is none.
    pub mem2: Memory,
    /// How compute and memory time combine.
    pub processing_mode: ProcessingMode,
    /// Network tiers, the fastest first.
    pub networks: Vec<Network>,
}

/// Where the three files came from: the names that errors print.
#[derive(Clone, Debug, PartialEq)]
pub struct Names {
    /// The application file.
    pub application: String,
    /// The execution file.
    pub execution: String,
    /// The system file.
    pub system: String,
}

impl Application {
    /// Reads and checks an application file.
    ///
    /// # Errors
    /// It cannot be read, or is wrong.
    pub fn load(path: &Path) -> Result<Application, SpecError> {
        let names = Names { application: path.display().to_string(), ..Names::default() };
        let app = read::parse(&names.application, &read::text(path)?)?;
        checks::application(&app, &names)?;
        Ok(app)
    }
    /// What the six integers keep of a model.
    pub fn of(model: &ModelSpec) -> Application {
        Application {
            hidden: model.hidden,
            feedforward: model.ffn,
            seq_size: model.sequence,
            attn_heads: model.heads,
            attn_size: model.head_size(),
            num_blocks: model.layers,
        }
    }
}

impl System {
    /// Reads and checks a system file, with values put in place of its own first: paths as `mem2.GBps` or
    /// `networks[0].bandwidth`.
    ///
    /// # Errors
    /// It cannot be read, or is wrong, or a path is none of its own.
    pub fn load(path: &Path, changes: &[(String, Value)]) -> Result<System, SpecError> {
        let names = Names { system: path.display().to_string(), ..Names::default() };
        let mut file: Value = json::read(&names.system, &read::text(path)?)?;
        for (field, value) in changes {
            json::set(&mut file, field, value.clone()).map_err(|e| e.in_file(&names.system))?;
        }
        let sys = read::parse(&names.system, &file.to_string())?;
        checks::system(&sys, &names)?;
        Ok(sys)
    }
}

impl Default for Names {
    fn default() -> Names {
        Names { application: "application".into(), execution: "execution".into(), system: "system".into() }
    }
}

/// Three files that belong together and have passed all checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Calculon {
    app: Application,
    exe: Execution,
    sys: System,
    names: Names,
}

impl Calculon {
    /// Reads and checks the three files.
    ///
    /// # Errors
    /// The first defect found, in the order application, execution, system, then what ties them together.
    pub fn load(application: &Path, execution: &Path, system: &Path) -> Result<Calculon, SpecError> {
        let names = Names {
            application: application.display().to_string(),
            execution: execution.display().to_string(),
            system: system.display().to_string(),
        };
        let texts = (read::text(application)?, read::text(execution)?, read::text(system)?);
        Calculon::parse(names, &texts.0, &texts.1, &texts.2)
    }

    /// Checks three texts; `names` are what errors call them.
    ///
    /// # Errors
    /// As [`Calculon::load`].
    pub fn parse(names: Names, app: &str, exe: &str, sys: &str) -> Result<Calculon, SpecError> {
        let app: Application = read::parse(&names.application, app)?;
        let exe: Execution = read::parse(&names.execution, exe)?;
        let sys: System = read::parse(&names.system, sys)?;
        Calculon::new(names, app, exe, sys)
    }

    /// Checks three descriptions made in memory.
    ///
    /// # Errors
    /// As [`Calculon::load`].
    pub fn new(names: Names, app: Application, exe: Execution, sys: System) -> Result<Calculon, SpecError> {
        checks::application(&app, &names)?;
        checks::execution(&exe, &names)?;
        checks::system(&sys, &names)?;
        checks::together(&app, &exe, &sys, &names)?;
        Ok(Calculon { app, exe, sys, names })
    }

    /// Puts another strategy in the place of this one.
    ///
    /// # Errors
    /// The strategy is wrong, alone or with the model and the machine; nothing is changed then.
    pub fn set_execution(&mut self, exe: Execution) -> Result<(), SpecError> {
        checks::execution(&exe, &self.names)?;
        checks::together(&self.app, &exe, &self.sys, &self.names)?;
        self.exe = exe;
        Ok(())
    }

    /// The model.
    pub fn app(&self) -> &Application {
        &self.app
    }
    /// The strategy.
    pub fn exe(&self) -> &Execution {
        &self.exe
    }
    /// The machine.
    pub fn sys(&self) -> &System {
        &self.sys
    }
    /// What errors call the three files.
    pub fn names(&self) -> &Names {
        &self.names
    }
    /// The matrix and the vector engine of the execution's number format.
    pub fn engines(&self) -> (&Engine, &Engine) {
        let key = self.exe.datatype.key();
        (&self.sys.matrix[key], &self.sys.vector[key])
    }
    /// The networks of tensor, pipeline and data parallelism.
    pub fn networks(&self) -> [&Network; 3] {
        let e = &self.exe;
        [e.tensor_par_net, e.pipeline_par_net, e.data_par_net].map(|i| &self.sys.networks[i as usize])
    }
    /// Blocks per processor, n = ⌈N / p⌉.
    pub fn blocks_per_proc(&self) -> u64 {
        self.app.num_blocks.div_ceil(self.exe.pipeline_par)
    }
    /// Micro-batches of a step on one pipeline, M = B / (d·b).
    pub fn microbatches(&self) -> u64 {
        self.exe.batch_size / self.exe.data_par / self.exe.microbatch_size
    }
}
