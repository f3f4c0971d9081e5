//! Calculon's three JSON files (calculon-ai/calculon, SC'23): application, execution and system, as a workload and a
//! machine.
//!
//! Its files have exact field sets: a key too many or too few is refused, as Calculon refuses it. `GBps` and
//! `bandwidth` count 10⁹ bytes, `MB_efficiency` 10⁶, `GiB` 2³⁰.

mod checks;
mod fields;
mod import;

pub use fields::{
    Application, AttentionProjections, CalculonOverlap, Datatype, EfficiencyTable, Engine, Execution,
    FileNames, MemoryTier, NetworkOps, NetworkTier, ProcessingMode, Recompute, System, TensorComm,
};

use serde::de::DeserializeOwned;

use stepsim_spec::{SpecError, json};

/// Three files that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Calculon {
    /// The model.
    pub app: Application,
    /// The strategy.
    pub exe: Execution,
    /// The machine.
    pub sys: System,
    /// Their names in errors.
    pub names: FileNames,
}

impl Calculon {
    /// Reads three texts.
    ///
    /// # Errors
    /// One is not what Calculon writes, or they do not belong together.
    pub fn parse(names: FileNames, app: &str, exe: &str, sys: &str) -> Result<Calculon, SpecError> {
        let (app, exe) = (parse(&names.application, app)?, parse(&names.execution, exe)?);
        let case = Calculon { app, exe, sys: parse(&names.system, sys)?, names };
        case.check()?;
        Ok(case)
    }

    /// The matrix and the vector engine of the execution's number format.
    pub fn engines(&self) -> (&Engine, &Engine) {
        let key = self.exe.datatype.key();
        (&self.sys.matrix[key], &self.sys.vector[key])
    }

    /// The networks of tensor, pipeline and data parallelism.
    pub fn networks(&self) -> [&NetworkTier; 3] {
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

fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, SpecError> {
    json::typed(&json::read(file, text)?).map_err(|e| e.in_file(file))
}
