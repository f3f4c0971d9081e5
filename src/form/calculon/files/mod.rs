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
mod fields;
mod import;
mod read;
#[cfg(test)]
mod tests;

pub use fields::{
    Application, AttentionProjections, CalculonOverlap, Datatype, EfficiencyTable, Engine, Execution,
    FileNames, MemoryTier, NetworkOps, NetworkTier, ProcessingMode, Recompute, System, TensorComm,
};

use std::path::Path;

use serde_json::Value;

use stepsim_step::spec::{SpecError, json};

impl Application {
    /// Reads and checks an application file.
    ///
    /// # Errors
    /// It cannot be read, or is wrong.
    pub fn load(path: &Path) -> Result<Application, SpecError> {
        let names = FileNames { application: path.display().to_string(), ..FileNames::default() };
        let app = read::parse(&names.application, &read::text(path)?)?;
        checks::application(&app, &names)?;
        Ok(app)
    }
}

impl System {
    /// Reads and checks a system file, with values put in place of its own first: paths as `mem2.GBps` or
    /// `networks[0].bandwidth`.
    ///
    /// # Errors
    /// It cannot be read, or is wrong, or a path is none of its own.
    pub fn load(path: &Path, changes: &[(String, Value)]) -> Result<System, SpecError> {
        let names = FileNames { system: path.display().to_string(), ..FileNames::default() };
        let mut file: Value = json::read(&names.system, &read::text(path)?)?;
        for (field, value) in changes {
            json::set(&mut file, field, value.clone()).map_err(|e| e.in_file(&names.system))?;
        }
        let sys = read::parse(&names.system, &file.to_string())?;
        checks::system(&sys, &names)?;
        Ok(sys)
    }
}

/// Three files that belong together and have passed all checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Calculon {
    app: Application,
    exe: Execution,
    sys: System,
    names: FileNames,
}

impl Calculon {
    /// Reads and checks the three files.
    ///
    /// # Errors
    /// The first defect found, in the order application, execution, system, then what ties them together.
    pub fn load(application: &Path, execution: &Path, system: &Path) -> Result<Calculon, SpecError> {
        let names = FileNames {
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
    pub fn parse(names: FileNames, app: &str, exe: &str, sys: &str) -> Result<Calculon, SpecError> {
        let app: Application = read::parse(&names.application, app)?;
        let exe: Execution = read::parse(&names.execution, exe)?;
        let sys: System = read::parse(&names.system, sys)?;
        Calculon::new(names, app, exe, sys)
    }

    /// Checks three descriptions made in memory.
    ///
    /// # Errors
    /// As [`Calculon::load`].
    pub fn new(
        names: FileNames,
        app: Application,
        exe: Execution,
        sys: System,
    ) -> Result<Calculon, SpecError> {
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
    /// The names of the three files in errors.
    pub fn names(&self) -> &FileNames {
        &self.names
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
