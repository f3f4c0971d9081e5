//! The base that all points of a study share: files read once, machines built once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use super::outcome::StudyCache;
use stepsim_read::analysis::reading::Reading;
use stepsim_simulate::{Inputs, Settings, Site, expanded, under};
use stepsim_spec::{Disk, Draft, SpecError, Topology, Variations, WorkloadSpec, blame_setting};

/// Machines by name and settings.
type MachinesByName = BTreeMap<(String, Vec<String>), Result<Site, SpecError>>;

/// A workload with settings, on the machine that it names or on another.
#[derive(Debug)]
pub struct StudyBase {
    workload: Variations,
    topology: Option<String>,
    sets: Vec<String>,
    sites: Mutex<MachinesByName>,
    readings: Vec<&'static dyn Reading>,
    /// The part that its points share.
    pub(super) shared: StudyCache,
}

impl StudyBase {
    /// Reads a workload by name or path; `topology` is taken in the place of the machine that it names, `sets` hold for
    /// all points.
    ///
    /// # Errors
    /// The file cannot be read, or a setting names no field or a value of another type.
    pub fn load(workload: &str, topology: Option<&str>, sets: &[String]) -> Result<StudyBase, SpecError> {
        let sets = expanded(sets, &Disk)?;
        let base = StudyBase {
            workload: Variations::new(Draft::load(workload)?, Settings::of(&sets).workload),
            topology: topology.map(str::to_string),
            sets,
            sites: Mutex::default(),
            readings: Vec::new(),
            shared: StudyCache::default(),
        };
        base.understands(&[])?;
        Ok(base)
    }

    /// The same with one more reading of the caller's own, for columns (`own.NAME.…`).
    #[must_use]
    pub fn read_by(mut self, own: &'static dyn Reading) -> StudyBase {
        self.readings.push(own);
        self
    }

    /// The files on disk that the workload and its machine are read from.
    pub fn files(&self) -> Vec<PathBuf> {
        let settings = self.settings(&[]);
        let named = || {
            self.workload.draft().unchecked(&settings.workload).ok().and_then(|workload| workload.topology)
        };
        let machine =
            self.topology.clone().or_else(named).and_then(|name| Draft::<Topology>::load(&name).ok());
        [self.workload.draft().files(), machine.as_ref().map_or(&[], Draft::files)].concat()
    }

    /// Checks that settings have a meaning: see [`Draft::unchecked`].
    ///
    /// # Errors
    /// A field that does not exist, or a value that it cannot take.
    pub fn understands(&self, sets: &[String]) -> Result<(), SpecError> {
        let settings = self.settings(sets);
        let workload = self.workload.draft().unchecked(&settings.workload)?;
        if settings.machine.is_empty() {
            return Ok(());
        }
        let Some(named) = self.topology.clone().or(workload.topology) else { return Ok(()) };
        let machine = Draft::<Topology>::load(&named)?.unchecked(&settings.machine);
        machine.map(|_| ()).map_err(|e| under("topology", e))
    }

    /// The inputs of a point.
    ///
    /// # Errors
    /// The point is infeasible.
    pub fn inputs(&self, sets: &[String]) -> Result<Inputs, SpecError> {
        let settings = self.settings(sets);
        let workload = self.workload.with(&settings.workload)?;
        let site = self.site(workload.value.topology.as_ref(), &settings.machine)?;
        let mut inputs = site.inputs(workload).map_err(|e| blame_setting(e, &settings.workload))?;
        inputs.readings.clone_from(&self.readings);
        Ok(inputs)
    }

    /// Workload and machine of a point, not held against each other; the workload is not validated.
    ///
    /// # Errors
    /// Either means nothing.
    pub fn unchecked(&self, sets: &[String]) -> Result<(WorkloadSpec, Site), SpecError> {
        let settings = self.settings(sets);
        let workload = self.workload.draft().unchecked(&settings.workload)?;
        let site = self.site(workload.topology.as_ref(), &settings.machine)?;
        Ok((workload, site))
    }

    /// The workload of a point, typed and not validated.
    ///
    /// # Errors
    /// It means nothing.
    pub fn unchecked_workload(&self, sets: &[String]) -> Result<WorkloadSpec, SpecError> {
        self.workload.draft().unchecked(&self.settings(sets).workload)
    }

    /// Name of the workload.
    pub fn name(&self) -> &str {
        self.workload.draft().name()
    }

    /// The settings of a point, the common ones first.
    fn settings(&self, sets: &[String]) -> Settings {
        Settings::of(&[&self.sets, sets].concat())
    }

    fn site(&self, own: Option<&String>, sets: &[String]) -> Result<Site, SpecError> {
        let Some(named) = self.topology.as_ref().or(own) else {
            return Err(SpecError::at("topology", "the workload names no topology")
                .in_file(self.name())
                .hint("give one with --topology; `stepsim list` shows those that are shipped"));
        };
        // A thread that panicked while it held the lock has left a whole map.
        let mut sites = self.sites.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let site = sites.entry((named.clone(), sets.to_vec())).or_insert_with(|| Site::load(named, sets));
        site.clone()
    }
}
