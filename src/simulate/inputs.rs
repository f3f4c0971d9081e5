//! A workload and a machine, from names, paths, JSON texts or typed values.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::settings::{Settings, expanded, fitted_on, under};
use super::{Head, InputName, MachinePrices, OwnPrices};
use stepsim_core::ids::DeviceId;
use stepsim_fabric::collective::{Algorithm, Chooser, DeviceTuning, Fidelity, Lowering, OwnTimes};
use stepsim_plan::step::{Plan, PlanError, StepSeries, Templates, plan_on};
use stepsim_price::cost::DeviceCost;
use stepsim_price::model::flops::NarrowFlops;
use stepsim_read::analysis::reading::Reading;

use stepsim_core::units::FlopRate;
use stepsim_fabric::topology::{Layout, Machine};
use stepsim_read::analysis::head::Inert;
use stepsim_spec::workload::{CollectiveFidelity, Dtype, ModelRef, NoEffect};
use stepsim_spec::{
    Attachment, Device, Disk, Files, LoadedSpec, ModelSpec, SpecError, Topology, WorkloadSpec, blame_setting,
    content_hash, from_text, from_value, load, load_from,
};

/// A workload and a machine, read and found to fit each other.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The step.
    pub workload: LoadedSpec<WorkloadSpec>,
    /// Its model.
    pub model: Arc<ModelSpec>,
    /// The machine's description.
    pub topology: Arc<LoadedSpec<Topology>>,
    /// The machine.
    pub machine: Arc<Machine>,
    /// How the machine carries out collectives.
    pub chooser: Arc<Chooser>,
    /// How many of its devices the step has: all, unless others share the machine.
    pub(super) ranks: u32,
    /// Prices of the caller's own.
    pub own_prices: Option<Arc<dyn OwnPrices>>,
    /// Readings of the caller's own: their sections stand in every report of the step.
    pub readings: Vec<&'static dyn Reading>,
}

impl Inputs {
    /// Loads a workload and a machine by name, path or content. Without a topology the workload's own is taken.
    /// `sets` are `path=value` texts: a path that begins with `topology.` changes the machine, every other the
    /// workload.
    ///
    /// # Errors
    /// Anything wrong in the files, the settings, or between the two.
    pub fn load(workload: &str, topology: Option<&str>, sets: &[String]) -> Result<Inputs, SpecError> {
        let settings = Settings::of(&expanded(sets, &Disk)?);
        let workload = load(workload, &settings.workload)?;
        let inputs = Inputs::on_machine(workload, topology, &settings, &Disk)?;
        fitted_on(sets, &Disk, &inputs.model).map(|()| inputs)
    }

    /// The same from JSON texts: the content of a workload file, and a topology file's content (it begins with `{`) or
    /// the name of a machine. Names and bases in the texts mean shipped files; paths are read from `files`, which
    /// [`Disk`] or a map of texts can be.
    ///
    /// # Errors
    /// As [`Inputs::load`].
    pub fn from_json(
        workload: &str,
        topology: Option<&str>,
        sets: &[String],
        files: &dyn Files,
    ) -> Result<Inputs, SpecError> {
        let settings = Settings::of(&expanded(sets, files)?);
        let workload = from_text(workload, "workload", &settings.workload, files)?;
        let inputs = Inputs::on_machine(workload, topology, &settings, files)?;
        fitted_on(sets, files, &inputs.model).map(|()| inputs)
    }

    /// The same from typed values, for programs that build them.
    ///
    /// # Errors
    /// As [`Inputs::load`].
    pub fn of(workload: &WorkloadSpec, topology: &Topology) -> Result<Inputs, SpecError> {
        let value = |spec: serde_json::Result<Value>| spec.map_err(|e| SpecError::at("", e.to_string()));
        let name = |what: &str| (what.to_string(), what.to_string());
        let (label, file) = name(workload.name.as_deref().unwrap_or("workload"));
        let workload = from_value(value(stepsim_located::to_value(workload))?, label, file, &[])?;
        let (label, file) = name("topology");
        let topology: LoadedSpec<Topology> =
            from_value(value(stepsim_located::to_value(topology))?, label, file, &[])?;
        let machine = Machine::build(&topology.value).map_err(|e| e.in_file(&topology.file))?;
        Inputs::new(workload, topology, machine)
    }

    /// Another workload on the same machine, which is shared and not built again.
    ///
    /// # Errors
    /// The two do not fit.
    pub fn with_workload(&self, workload: LoadedSpec<WorkloadSpec>) -> Result<Inputs, SpecError> {
        let file = workload.file.clone();
        let ranks = self.ranks;
        Inputs::fit(workload, self.site(), ranks).map_err(|e| e.in_file(&file))
    }

    /// The same step with `more` settings (`path=value`) behind its own.
    ///
    /// # Errors
    /// As [`Inputs::load`].
    pub fn again(&self, more: &[String]) -> Result<Inputs, SpecError> {
        let settings = Settings::of(&expanded(more, &Disk)?);
        let workload = match settings.workload.as_slice() {
            [] => self.workload.clone(),
            sets => self.workload.again(sets)?,
        };
        let site = match settings.machine.as_slice() {
            [] => self.site(),
            sets => self.site().again(sets)?,
        };
        let whole = self.ranks == self.machine.devices();
        let ranks = if whole { site.machine.devices() } else { self.ranks };
        let file = workload.file.clone();
        let fitted = Inputs::fit(workload, site, ranks)
            .map_err(|e| blame_setting(e, &settings.workload).in_file(&file))?;
        Ok(Inputs { own_prices: self.own_prices.clone(), readings: self.readings.clone(), ..fitted })
    }
    fn site(&self) -> Site {
        Site {
            topology: Arc::clone(&self.topology),
            machine: Arc::clone(&self.machine),
            chooser: Arc::clone(&self.chooser),
        }
    }

    /// True if a workload that differs from this one in the size of its batch alone fits the machine too.
    pub fn takes(&self, workload: &WorkloadSpec) -> bool {
        let tiers = tiers(&self.machine);
        workload.validate(&self.model).is_empty()
            && workload.validate_on(u64::from(self.ranks), &tiers).is_empty()
    }

    /// The same step with `count` micro-batches, if it can have them.
    pub(super) fn with_micro_batches(&self, count: u32) -> Option<Inputs> {
        let devices = u64::from(self.ranks);
        let mut inputs = self.clone();
        let workload = &mut inputs.workload.value;
        let before = workload.micro_batches(devices);
        workload.batch.global = workload.batch.global / before.max(1) * u64::from(count);
        (workload.micro_batches(devices) == u64::from(count)).then_some(inputs)
    }

    /// The files on disk that they were read from.
    pub fn files(&self) -> Vec<PathBuf> {
        [self.workload.read.as_slice(), &self.topology.read].concat()
    }

    fn on_machine(
        workload: LoadedSpec<WorkloadSpec>,
        topology: Option<&str>,
        settings: &Settings,
        files: &dyn Files,
    ) -> Result<Inputs, SpecError> {
        let named = topology.map(str::to_string).or_else(|| workload.value.topology.clone());
        let Some(named) = named else {
            return Err(SpecError::at("topology", "the workload names no topology")
                .in_file(&workload.file)
                .hint("give one with --topology; `stepsim list` shows those that are shipped"));
        };
        let on = Site::read(&named, &settings.machine, files)?;
        let file = workload.file.clone();
        let ranks = on.machine.devices();
        Inputs::fit(workload, on, ranks).map_err(|e| blame_setting(e, &settings.workload).in_file(&file))
    }

    /// Puts a workload and a machine together.
    ///
    /// # Errors
    /// The two do not fit: degrees that do not multiply to the devices, or a tier that the machine lacks.
    pub fn new(
        workload: LoadedSpec<WorkloadSpec>,
        topology: LoadedSpec<Topology>,
        machine: Machine,
    ) -> Result<Inputs, SpecError> {
        let file = workload.file.clone();
        let chooser = chooser(&topology, &machine).map_err(|e| e.in_file(&topology.file))?;
        let ranks = machine.devices();
        Inputs::fit(workload, Site::new(topology, machine, chooser), ranks).map_err(|e| e.in_file(&file))
    }

    /// The same; errors name no file yet.
    fn fit(workload: LoadedSpec<WorkloadSpec>, site: Site, ranks: u32) -> Result<Inputs, SpecError> {
        let Site { topology, machine, chooser } = site;
        let ModelRef::Inline(model) = &workload.value.model else {
            return Err(SpecError::at("model", "the model was not resolved"));
        };
        let model = Arc::new(workload.value.seen_by(model));
        let problems = workload.value.validate_on(u64::from(ranks), &tiers(&machine));
        let lacking = machine.device_classes().iter().find_map(|device| {
            let of_recipe = || workload.value.lacking_formats(|format| device.peak(format).is_some());
            workload.value.precision.lacking(device).or_else(of_recipe)
        });
        if let Some(p) = problems.into_iter().chain(lacking).next() {
            return Err(p.into());
        }
        Ok(Inputs {
            workload,
            model,
            topology,
            machine,
            chooser,
            ranks,
            own_prices: None,
            readings: Vec::new(),
        })
    }

    /// The statements that change nothing about this step, each with its reason.
    pub fn without_effect(&self) -> Vec<NoEffect> {
        let of_workload = self.workload.without_effect(&self.model, u64::from(self.ranks));
        let of_machine = self.topology.settings_without_effect();
        let whole = |inert: NoEffect| NoEffect { field: format!("topology.{}", inert.field), ..inert };
        of_workload
            .into_iter()
            .chain(of_machine.into_iter().chain(self.hidden_latencies()).map(whole))
            .collect()
    }
    /// A limit of what a step on one device says of several: it keeps the clock that was measured of one device alone,
    /// steps of several are priced as published ones (docs/developers/one-gpu.md). `None` where both prices are the same.
    pub fn of_one_device_alone(&self) -> Option<String> {
        let cost = DeviceCost::new(self.machine.device(DeviceId(0))).spec;
        let known = self.machine.devices() == 1 && cost.power_beside_products.is_some();
        let slower = |share: f64| 100.0 * (1.0 / share - 1.0);
        known.then(|| {
            format!(
                "one device alone keeps its clock (measured); kernels of eight and more are priced as in published \
                 steps, up to {:.0} % slower (products {:.0}): that difference is no loss of scaling",
                slower(cost.sustained_memory.min(cost.sustained)),
                slower(cost.sustained),
            )
        })
    }
    /// Latencies of the network that settings change and that do not show: NCCL's steps between nodes, as measured,
    /// take longer ways.
    fn hidden_latencies(&self) -> Vec<NoEffect> {
        let Some(measured) = self.chooser.tuning.map(DeviceTuning::network_way) else { return Vec::new() };
        let of_network = |set: &&String| {
            let (path, _) = set.split_once('=').unwrap_or((set, ""));
            path.ends_with("latency_us") && (path.starts_with("node.nics") || path.starts_with("fabric"))
        };
        let sets: Vec<&String> = self.topology.sets.iter().filter(of_network).collect();
        let ways = || {
            let others = (1..self.machine.devices()).map(DeviceId);
            others.filter_map(|other| self.machine.route(DeviceId(0), other, &mut Vec::new()).ok())
        };
        if sets.is_empty() || ways().any(|way| way > measured) {
            return Vec::new();
        }
        let why = format!(
            "NCCL's steps between nodes were measured over ways of {measured}, and no way here is longer; \
             `stepsim whatif --scale latency=0.5` changes them all"
        );
        sets.into_iter().map(|set| NoEffect { field: set.clone(), why: why.clone() }).collect()
    }

    /// The head of a report of these inputs.
    pub fn head(&self, seed: u64) -> Head {
        let of = |name: &str, hash: &str| InputName { name: name.to_string(), hash: hash.to_string() };
        Head {
            stepsim: env!("CARGO_PKG_VERSION").to_string(),
            seed,
            workload: of(&self.workload.name, &self.workload.hash),
            model: of(&self.model.name, &content_hash(&*self.model)),
            topology: of(&self.topology.name, &self.topology.hash),
            without_effect: self
                .without_effect()
                .into_iter()
                .map(|NoEffect { field, why }| Inert { field, why })
                .collect(),
            ..Head::default()
        }
    }

    /// Dense peak of a device for the products of this workload, in the format in which it computes; with products in
    /// narrower formats, all FLOPs over the time that they take at the peaks of their formats; of several classes of
    /// devices, the mean.
    pub fn peak(&self) -> FlopRate {
        self.peak_with(&self.narrow_flops())
    }
    fn narrow_flops(&self) -> NarrowFlops {
        NarrowFlops::of(&self.workload.value, &self.model, u64::from(self.ranks))
    }
    fn peak_with(&self, narrow: &NarrowFlops) -> FlopRate {
        let (machine, compute) = (&self.machine, self.workload.value.precision.compute);
        let of = |device: &Device| {
            let wide = device.peak(compute)?.0;
            // How much less time a part takes than at the wide peak.
            let saved = |(format, part): &(Dtype, f64)| {
                device.peak(*format).map_or(0.0, |narrow| part * (1.0 - wide / narrow.0))
            };
            Some(wide / (1.0 - narrow.0.iter().map(saved).sum::<f64>()))
        };
        let peaks: Vec<f64> =
            (0..machine.devices()).filter_map(|d| of(machine.device(DeviceId(d)))).collect();
        let alike = peaks.iter().all(|peak| *peak == peaks[0]);
        FlopRate(if alike { peaks[0] } else { peaks.iter().sum::<f64>() / peaks.len() as f64 })
    }
    /// The convention of the peak that a report holds `model` FLOP/s of a device against.
    pub fn peak_convention(&self, model: FlopRate) -> String {
        let device = self.machine.device(DeviceId(0));
        let compute = self.workload.value.precision.compute;
        let narrow = self.narrow_flops();
        let (peak, wide) = (self.peak_with(&narrow), self.peak_with(&NarrowFlops::default()));
        let alike = device.peak(compute) == Some(wide);
        let of = if alike { device.name.as_str() } else { "mean of all devices" };
        let (tflops, name) = (peak.0 / 1e12, compute.name());
        let part = |(format, part): &(Dtype, f64)| format!("{:.1} % in {}", 100.0 * part, format.name());
        match narrow.0.iter().map(part).collect::<Vec<_>>()[..] {
            [] => format!("peak: {tflops:.1} TFLOP/s a device, dense {name} ({of})"),
            ref parts => format!(
                "peak: {tflops:.1} TFLOP/s a device, dense ({of}): of the model's FLOPs, attention as its mask leaves \
                 it, run {}, the rest in {name}; held against {name} alone ({:.1}) mfu would be {:.1} %",
                parts.join(", "),
                wide.0 / 1e12,
                100.0 * model.0 / wide.0,
            ),
        }
    }

    /// The same with a workload changed by typed values: a schedule (`Choice::Named`) or a kind of sharding
    /// (`ShardingKind::of`) of the caller's own needs no name that files know.
    ///
    /// # Errors
    /// The changed workload is wrong, or does not fit the machine.
    pub fn changed(&self, change: impl FnOnce(&mut WorkloadSpec)) -> Result<Inputs, SpecError> {
        let mut workload = self.workload.clone();
        change(&mut workload.value);
        if let Some(problem) = workload.value.validate(&self.model).into_iter().next() {
            return Err(SpecError::from(problem).in_file(&workload.file));
        }
        let (own_prices, readings) = (self.own_prices.clone(), self.readings.clone());
        Ok(Inputs { own_prices, readings, ..self.with_workload(workload)? })
    }

    /// The same with an algorithm of the caller's own for all collectives that it supports.
    #[must_use]
    pub fn carried_by(self, own: &'static dyn Algorithm) -> Inputs {
        let chooser = Arc::new((*self.chooser).clone().carried_by(own));
        Inputs { chooser, ..self }
    }

    /// The same with prices of the caller's own.
    #[must_use]
    pub fn priced_by(self, own: Arc<dyn OwnPrices>) -> Inputs {
        Inputs { own_prices: Some(own), ..self }
    }

    /// The same with one more reading, of the caller's own.
    #[must_use]
    pub fn read_by(mut self, own: &'static dyn Reading) -> Inputs {
        self.readings.push(own);
        self
    }

    /// The same with times of collectives of the caller's own.
    #[must_use]
    pub fn timed_by(self, own: Arc<dyn OwnTimes>) -> Inputs {
        let chooser = Arc::new((*self.chooser).clone().timed_by(own));
        Inputs { chooser, ..self }
    }

    /// The prices of kernels on the machine.
    pub fn prices(&self) -> MachinePrices {
        let own = self.own_prices.as_ref();
        MachinePrices::new(&self.workload.value, &self.model, &self.machine, &self.chooser, own)
    }

    /// How collectives are lowered for this workload on this machine.
    pub fn lowering(&self) -> Lowering<'_> {
        let fidelity = match self.workload.value.fidelity.collectives {
            CollectiveFidelity::Formula => Fidelity::Formula,
            CollectiveFidelity::Fluid => Fidelity::Fluid,
            CollectiveFidelity::Steps => Fidelity::Steps,
        };
        Lowering::new(&*self.machine, fidelity, (*self.chooser).clone())
    }

    /// The step as rank programs.
    ///
    /// # Errors
    /// As [`plan_on`].
    pub fn plan(&self) -> Result<Plan, PlanError> {
        self.plan_with(&mut self.lowering(), 1)
    }
    /// The first `steps` steps of a run, with a lowering that tells afterwards what each transfer is and what was
    /// chosen for it.
    ///
    /// # Errors
    /// As [`Inputs::plan`].
    pub fn plan_with(&self, lowering: &mut Lowering<'_>, steps: u32) -> Result<Plan, PlanError> {
        self.plan_among(lowering, steps, None)
    }
    /// The same of one of many runs, which share what programs they can.
    pub(super) fn plan_among(
        &self,
        lowering: &mut Lowering<'_>,
        steps: u32,
        templates: Option<&Templates>,
    ) -> Result<Plan, PlanError> {
        let (workload, model, machine) = (&self.workload.value, &*self.model, &*self.machine);
        let run = StepSeries { workload, model, machine, devices: u64::from(self.ranks), steps };
        let placed = |e: SpecError| {
            PlanError::Spec(blame_setting(e, &self.workload.sets).in_file(&self.workload.file))
        };
        let of_pipeline = |problem: String| {
            let hint = "`stepsim list schedules` says what each asks for";
            placed(SpecError::at("parallelism.pipeline", problem).hint(hint))
        };
        plan_on(&run, lowering, &self.prices(), templates).map_err(|e| match e {
            PlanError::Spec(e) => placed(e),
            PlanError::Schedule(e) => of_pipeline(e.to_string()),
            PlanError::Split(e) => of_pipeline(e.to_string()),
            PlanError::Collective(_) | PlanError::NotExecuted(..) => e,
        })
    }
}

/// A machine that workloads share: built once.
#[derive(Clone, Debug)]
pub struct Site {
    topology: Arc<LoadedSpec<Topology>>,
    machine: Arc<Machine>,
    chooser: Arc<Chooser>,
}

impl Site {
    fn new(topology: LoadedSpec<Topology>, machine: Machine, chooser: Chooser) -> Site {
        Site { topology: Arc::new(topology), machine: Arc::new(machine), chooser: Arc::new(chooser) }
    }
    /// Loads a machine by name, path or form; `sets` are `path=value` texts of its fields, without `topology.`.
    ///
    /// # Errors
    /// Anything wrong in the file or the settings.
    pub fn load(named: &str, sets: &[String]) -> Result<Site, SpecError> {
        Site::read(named, sets, &Disk)
    }
    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
    /// Its description.
    pub fn topology(&self) -> &LoadedSpec<Topology> {
        &self.topology
    }
    /// A workload on it.
    ///
    /// # Errors
    /// The two do not fit.
    pub fn inputs(&self, workload: LoadedSpec<WorkloadSpec>) -> Result<Inputs, SpecError> {
        let file = workload.file.clone();
        Inputs::fit(workload, self.clone(), self.machine.devices()).map_err(|e| e.in_file(&file))
    }
    /// A workload on some of its devices, rank i on the i-th; its own `rank_map` counts those.
    ///
    /// # Errors
    /// The two do not fit.
    pub fn inputs_on(
        &self,
        mut workload: LoadedSpec<WorkloadSpec>,
        devices: &[DeviceId],
    ) -> Result<Inputs, SpecError> {
        let file = workload.file.clone();
        let map = &mut workload.value.parallelism.rank_map;
        let chosen = match map.as_ref().map(Attachment::content).transpose().map_err(|e| e.in_file(&file))? {
            None => devices.to_vec(),
            Some(own) => {
                let missing = |at: DeviceId| {
                    SpecError::at("parallelism.rank_map", format!("{} is not allowed", at.0))
                        .in_file(&file)
                        .allowed(format!(
                            "0 to {}: the devices of the job in order",
                            devices.len().saturating_sub(1)
                        ))
                };
                let own = Layout::rank_map(own).map_err(|e| e.under("parallelism").in_file(&file))?;
                let place = |at: &DeviceId| devices.get(at.index()).copied().ok_or_else(|| missing(*at));
                own.iter().map(place).collect::<Result<_, _>>()?
            }
        };
        let list: Vec<u32> = chosen.iter().map(|device| device.0).collect();
        *map = Some(Attachment::Content(list.into()));
        Inputs::fit(workload, self.clone(), devices.len() as u32).map_err(|e| e.in_file(&file))
    }
    fn read(named: &str, sets: &[String], files: &dyn Files) -> Result<Site, SpecError> {
        let whole = |e| under("topology", e);
        let topology: LoadedSpec<Topology> = load_from(named, sets, files).map_err(whole)?;
        let machine = Machine::build(&topology.value).map_err(|e| e.in_file(&topology.file))?;
        let chooser = chooser(&topology, &machine)
            .map_err(|e| whole(blame_setting(e, sets)).in_file(&topology.file))?;
        Ok(Site::new(topology, machine, chooser))
    }
    /// The same machine with more settings; what is the caller's own stays.
    fn again(&self, sets: &[String]) -> Result<Site, SpecError> {
        let topology = self.topology.again(sets).map_err(|e| under("topology", e))?;
        let machine = Machine::build(&topology.value).map_err(|e| e.in_file(&topology.file))?;
        let chooser = chooser(&topology, &machine).map_err(|e| e.in_file(&topology.file))?;
        Ok(Site::new(topology, machine, chooser.with_own_of(&self.chooser)))
    }
}

/// Names of the memory tiers of a device.
fn tiers(machine: &Machine) -> Vec<&str> {
    machine.tiers_of(DeviceId(0)).map(|t| machine.tier(t).0).collect()
}

/// How a machine carries out collectives.
fn chooser(topology: &LoadedSpec<Topology>, machine: &Machine) -> Result<Chooser, SpecError> {
    Chooser::of_machine(&machine.device(DeviceId(0)).name, topology.value.collectives.as_ref())
}
