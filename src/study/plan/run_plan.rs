//! A run as it was understood: a workload, and where each part of it comes from.

use std::ops::ControlFlow;

use serde_json::Value;

use super::model_in::model_in;
use crate::options::BestHeard;
use crate::{Advice, RankedLayout, SearchOptions, SearchReport, StoppedSearch, StudyError, fill, search};
use stepsim_bring::describe::{DescribedField, ValueClass, ValueOrigin};
use stepsim_bring::imports::{Argument, Import, RunLength, Status};
use stepsim_core::ids::DeviceId;
use stepsim_core::interrupt::InterruptToken;
use stepsim_price::model::ParameterCount;
use stepsim_read::analysis::report::Report;
use stepsim_simulate::{Inputs, Site};
use stepsim_spec::workload::{OpenField, ReadingSpec};
use stepsim_spec::{SpecError, WorkloadSpec, set_at};

/// Where the layout comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayoutSource {
    /// It is stated, or the software's own.
    #[default]
    Stated,
    /// It is to be searched.
    Searched,
}

/// The changes that would make a layout fit that does not fit as stated.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// In words.
    pub gives_up: String,
    /// As settings.
    pub sets: Vec<String>,
    /// Seconds of the step then.
    pub step_s: f64,
}

/// A run as it was understood.
#[derive(Clone, Debug, Default)]
pub struct RunPlan {
    /// The file or name that says most of it.
    pub name: String,
    /// The machine, as it was asked for.
    pub on: String,
    /// Settings of the machine, behind `topology.`.
    pub machine_sets: Vec<String>,
    /// The workload.
    pub workload: Value,
    /// Where its layout comes from.
    pub layout: LayoutSource,
    /// The fields as understood, with the source of each value.
    pub fields: Vec<DescribedField>,
    /// The advice about the searched layout.
    pub advice: Option<Advice>,
    /// Two layouts of other kinds than the searched one, worth measuring beside it.
    pub beside: Vec<RankedLayout>,
    /// Words that were not understood, or have no counterpart and matter: each may change the step.
    pub not_understood: Vec<String>,
    /// Words that are only limits of what happens: the step is at most so long.
    pub limits: Vec<String>,
    /// Fields that words leave open, each with the words and with what it may be.
    pub open: Vec<(String, String, Vec<Value>)>,
    /// How long the whole run is, as far as its files say.
    pub length: RunLength,
    /// Seconds after which a search ends with the best so far.
    pub budget_s: Option<f64>,
    /// Ends a search with the best so far as soon as it is pulled.
    pub stop: InterruptToken,
    /// How far a search came that ended so.
    pub stopped: Option<StoppedSearch>,
    /// Threads; default: as many as processors.
    pub threads: Option<usize>,
    /// Hears of the best layout so far.
    pub hear: Option<BestHeard>,
    /// The step of the layout that was found.
    pub(super) played: Option<Report>,
    /// Fields that the command line states, as `path=value` texts: they stand whatever is searched.
    stated: Vec<String>,
}

impl RunPlan {
    pub(super) fn new(name: &str) -> RunPlan {
        RunPlan { name: name.to_string(), ..RunPlan::default() }
    }

    /// Adds a value with where it comes from.
    pub(super) fn put(&mut self, path: &str, value: Value, origin: ValueOrigin) {
        self.fields.push(DescribedField { path: path.to_string(), value, origin });
    }

    /// Takes what the reading of a plan before this one left open.
    pub(super) fn open_before(&mut self, reading: ReadingSpec) {
        self.not_understood = reading.not_understood;
        self.limits = reading.at_most;
        self.open = reading.open.into_iter().map(|open| (open.words, open.path, open.values)).collect();
    }

    /// Takes the machine.
    pub(super) fn machine(&mut self, on: &str, site: &Site) {
        self.on = on.to_string();
        let (machine, about) = (site.machine(), &site.topology().value.description);
        let device = &machine.device(DeviceId(0)).name;
        let stated = format!("machine = {on}: {} {device}", machine.devices());
        self.put("machine", on.into(), ValueOrigin::stated(stated));
        self.put(
            "machine.network",
            Value::Null,
            ValueOrigin::assumed(format!("network of the machine: {about}")),
        );
    }

    /// Takes what was made of arguments or of a model.
    pub(super) fn take(&mut self, made: Import) {
        let changed = |default: &String| {
            let path = default.split(" = ").next().unwrap_or_default();
            made.arguments.iter().any(|a| a.fields.iter().any(|field| field == path))
        };
        for default in made.defaults.iter().filter(|default| !changed(default)) {
            let path = default.split(" = ").next().unwrap_or_default();
            let origin = ValueOrigin { from: ValueClass::Software, why: default.clone() };
            self.put(path, Value::Null, origin);
        }
        for argument in &made.arguments {
            let words = format!("{} = {}", argument.name, plain(&argument.value));
            match argument.status {
                Status::Taken => {
                    if !argument.fields.is_empty() || argument.why.is_empty() {
                        let origin = ValueOrigin::stated(&words);
                        self.put(&argument.fields.join(", "), argument.value.clone(), origin);
                    }
                    self.unsettled(argument, &words);
                }
                Status::Matters => self.not_understood.push(format!("{words} ({})", argument.why)),
                Status::Unknown => self.not_understood.push(words),
                Status::Assumed | Status::NoEffect | Status::NotGiven => {}
            }
        }
        for line in &made.assumed {
            self.put(line.split(" = ").next().unwrap_or_default(), Value::Null, ValueOrigin::assumed(line));
        }
        self.length = made.length;
        self.workload = made.workload;
        self.workload["topology"] = self.on.as_str().into();
    }

    /// Keeps what a word leaves open: of what it is only a limit, or fields that may be otherwise.
    fn unsettled(&mut self, argument: &Argument, words: &str) {
        let Argument { why, open, .. } = argument;
        for (path, values) in open {
            self.put(
                path,
                Value::Null,
                ValueOrigin::assumed(format!("{path}, which {words} leaves open: {why}")),
            );
            self.open.push((format!("{words} ({why})"), path.clone(), values.clone()));
        }
        if open.is_empty() && !why.is_empty() {
            self.put(
                "",
                Value::Null,
                ValueOrigin::assumed(format!("all as long as {words} lets them be: {why}")),
            );
            self.limits.push(format!("{words} ({why})"));
        }
    }

    /// Words that settle a part of the step only.
    pub fn half_settled(&self) -> impl Iterator<Item = &String> {
        self.limits.iter().chain(self.open.iter().map(|(words, ..)| words))
    }

    /// Sets a field that the command line states.
    pub(super) fn state(&mut self, path: &str, value: Value, option: &str) -> Result<(), SpecError> {
        // A word without counterpart says which field settles it.
        let settled = leaf_paths(path, &value);
        self.not_understood
            .retain(|word| !settled.iter().any(|path| word.contains(&format!("{path} by --set"))));
        let inside = format!("{path}.");
        self.fields.retain(|field| field.path != path && !field.path.starts_with(&inside));
        let told = format!("{path} = {} ({option})", plain(&value));
        self.put(path, value.clone(), ValueOrigin::stated(told));
        leaves(path, &value, &mut self.stated);
        set_at(&mut self.workload, path, value)
    }

    /// Says what the model is.
    pub(super) fn tell_model(&mut self) {
        let Some(model) = model_in(&self.workload) else { return };
        let count = ParameterCount::of(&model);
        let (active, moe) = model.moe.as_ref().map_or_else(Default::default, |moe| {
            let active = format!(", {:.2} B active", count.active as f64 / 1e9);
            (active, format!(", {} experts, {} a token", moe.experts, moe.top_k))
        });
        let why = format!(
            "{}: {:.2} B parameters{active}; {} layers, hidden {}, {} heads, ffn {}{moe}, vocabulary {}, sequence {}",
            model.name,
            count.total() as f64 / 1e9,
            model.layers,
            model.hidden,
            model.heads,
            model.ffn,
            model.vocabulary,
            self.workload["sequence"].as_u64().unwrap_or(model.sequence),
        );
        self.put("model", model.name.as_str().into(), ValueOrigin { from: ValueClass::Model, why });
        let used = self.workload["modules"].as_object().is_some_and(|used| !used.is_empty());
        if let Some(module) = model.modules.first().filter(|_| !used) {
            let name = &module.name;
            let why = format!(
                "modules: text alone, without `{name}`; with N images in each sequence: --set modules.{name}.items=N"
            );
            self.put("modules", Value::Null, ValueOrigin::assumed(why));
        }
    }

    /// The workload with a layout: as stated, or the best that is found.
    ///
    /// # Errors
    /// Nothing fits, or the workload is wrong.
    pub fn laid_out(&mut self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<(), StudyError> {
        if self.layout == LayoutSource::Searched {
            self.searched(progress)?;
        }
        self.keep_reading();
        Ok(())
    }

    /// Writes into the workload what its reading left open, and where each part of it comes from.
    fn keep_reading(&mut self) {
        let open = |(words, path, values): &(String, String, Vec<Value>)| OpenField {
            words: words.clone(),
            path: path.clone(),
            values: values.clone(),
        };
        let sources = self.classes().into_iter().filter(|(_, lines)| !lines.is_empty());
        let is_open = |path: &str| self.workload.pointer(&format!("/{}", path.replace('.', "/"))).is_none();
        let reading = ReadingSpec {
            not_understood: self.not_understood.clone(),
            at_most: self.limits.clone(),
            open: self.open.iter().filter(|(_, path, _)| is_open(path)).map(open).collect(),
            sources: sources
                .map(|(class, lines)| (class.to_owned(), lines.into_iter().map(str::to_owned).collect()))
                .collect(),
        };
        self.workload["reading"] = stepsim_located::to_value(reading).unwrap_or_default();
    }

    /// Takes the best layout that is found.
    fn searched(&mut self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<(), StudyError> {
        let options = self.search_options();
        let found = search(&self.workload.to_string(), Some(&self.on), &options, progress)?;
        self.beside.clone_from(&found.report.unlike);
        self.played = found.played;
        let (Some(best), Some(first)) = (found.best, found.report.ranking.first()) else {
            return Err(self.fits_nowhere(&found.report, progress));
        };
        self.advice.clone_from(&first.advice);
        self.stopped = found.report.stopped;
        let why =
            format!("layout: the best of {} ({} simulated)", found.report.points, found.report.simulated);
        let chosen = |path: &str| path.starts_with("parallelism.") || path == "batch.micro_batch";
        self.fields.retain(|field| field.origin.from != ValueClass::Assumed || !chosen(&field.path));
        self.put("parallelism", Value::Null, ValueOrigin::assumed(why));
        Ok(self.take_whole(best)?)
    }

    /// No layout fits: because of memory, with how many devices one would; else because of what is stated.
    fn fits_nowhere(
        &self,
        report: &SearchReport,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> StudyError {
        let stated = match self.stated.as_slice() {
            [] => String::new(),
            stated => format!(" with {}", stated.join(", ")),
        };
        let (points, simulated, on) = (report.points, report.simulated, &self.on);
        let problem = match report.pruned.get("limit").copied().unwrap_or(0) {
            0 => format!("none of {points} layouts fits on {on}{stated}"),
            left => format!(
                "of {points} layouts none fits that was simulated on {on}{stated}: {simulated} ran out of memory, \
                 {left} that may be short of it too were not tried"
            ),
        };
        if points == 0 {
            return SpecError::file(&self.name, format!("no layout of {on} goes{stated}"))
                .allowed("degrees whose product divides the number of devices, with the batch a multiple of the rest")
                .hint("leave out what no layout can have, or take more devices")
                .into();
        }
        let error = SpecError::file(&self.name, problem);
        let memory = report.pruned.get("memory").copied().unwrap_or(0)
            + report.unfit.get("out_of_memory").copied().unwrap_or(0);
        if memory == 0 {
            // A fault that no layout changes is in the way of the plain one, too.
            let plain = Inputs::load(&self.workload.to_string(), Some(&self.on), &self.machine_sets).err();
            let Some(e) = plain.filter(|e| !e.path.is_empty()) else {
                return error.hint("the batch, the model and what is stated must divide one another").into();
            };
            let problem = format!("no layout can be played on {on}{stated}: {}: {}", e.path, e.problem);
            // Formats stand in the order of their rates.
            let formats = e.allowed.split(" (").next().unwrap_or_default();
            let hint = match formats.rsplit(", ").next().filter(|_| e.path.starts_with("precision.")) {
                Some(fastest) => format!("--set {}={fastest}", e.path),
                None => e.hint.clone(),
            };
            return SpecError::file(&self.name, problem).allowed(e.allowed).hint(hint).into();
        }
        StudyError::NothingFits(error.hint(self.would_fit(progress)))
    }

    /// What would let a layout fit, each tried: more devices, or adapters instead of all weights.
    fn would_fit(&self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> String {
        let options = SearchOptions { top: 1, most_simulated: 1, hear: None, ..self.search_options() };
        let mut fits = |on: &str, options: &SearchOptions| {
            let mut workload = self.workload.clone();
            workload["topology"] = on.into();
            search(&workload.to_string(), Some(on), options, progress).is_ok_and(|found| found.best.is_some())
        };
        let name = self.on.trim_start_matches(|c: char| c.is_ascii_digit());
        let count: u64 = self.on[..self.on.len() - name.len()].parse().unwrap_or(0);
        let mut sizes = (1..=6).filter(|_| count > 0).map(|doubled| format!("{}{name}", count << doubled));
        let machine = sizes.find(|on| fits(on, &options));
        let fix = [options.fix.clone(), vec![ADAPTERS.to_owned()]].concat();
        let adapters =
            self.workload["training"].is_null() && fits(&self.on, &SearchOptions { fix, ..options.clone() });
        let adapters = adapters.then(|| format!("adapters beside frozen weights (--set {ADAPTERS})"));
        let would: Vec<String> = [machine, adapters].into_iter().flatten().collect();
        let would = match would.as_slice() {
            [] if count == 0 => String::new(),
            [] => "none was found on up to 64 times the devices; ".to_owned(),
            _ => format!("would do: {}; ", would.join(", or ")),
        };
        format!("{would}not tried: state in another memory (stepsim search --offload)")
    }

    /// The search options that hold the layout.
    fn search_options(&self) -> SearchOptions {
        let has_experts = model_in(&self.workload).is_none_or(|model| model.moe.is_some());
        SearchOptions {
            fix: [self.machine_sets.clone(), self.stated.clone()].concat(),
            top: 1,
            most_simulated: MOST_SIMULATED,
            most_passes: (!has_experts).then_some(MOST_PASSES),
            most_ops: has_experts.then_some(MOST_OPS),
            // The closed form orders layouts with experts least well.
            first_played: if has_experts { 4 } else { 2 },
            budget_s: self.budget_s,
            stop: self.stop.clone(),
            threads: self.threads,
            hear: self.hear,
            answers: false,
            ..SearchOptions::default()
        }
    }

    /// The least recomputation or offload with which the layout would fit, where it does not as it is stated, or else
    /// another micro-batch; `None` where nothing does.
    ///
    /// # Errors
    /// The workload is wrong.
    pub fn proposal(
        &self,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Option<Proposal>, StudyError> {
        let micro_batch = self.workload["batch"]["micro_batch"].as_u64().unwrap_or(1);
        // A pipeline's micro-batch decides its bubble; without one a smaller micro-batch is more accumulation.
        if self.workload["parallelism"]["pipeline"]["size"].as_u64().unwrap_or(1) > 1 {
            let same = self.fitting(&[format!("batch.micro_batch={micro_batch}")], progress)?;
            if same.is_some() {
                return Ok(same);
            }
        }
        self.fitting(&[], progress)
    }

    /// The shortest step that fits with the least sacrifice, beside what is fixed.
    fn fitting(
        &self,
        fixed: &[String],
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Option<Proposal>, StudyError> {
        let mut fix = [&self.machine_sets, &self.stated, fixed].concat();
        let placed = ["activations", "optimizer"].into_iter().filter_map(|class| {
            let places = self.workload["offload"].get(class).filter(|places| !places.is_null())?;
            Some(format!("offload.{class}={places}"))
        });
        fix.extend(placed);
        let options = SearchOptions { fix, threads: self.threads, ..SearchOptions::default() };
        let (report, _) = fill(&self.workload.to_string(), Some(&self.on), &options, progress)?;
        let Some(first) = report.fits.into_iter().next() else { return Ok(None) };
        let micro_batch = format!("micro-batches of {}", first.micro_batch);
        let gives_up = [fixed.is_empty().then_some(micro_batch), first.gives_up];
        Ok(first.outcome.step_time_s.map(|step_s| Proposal {
            gives_up: gives_up.into_iter().flatten().collect::<Vec<String>>().join(", "),
            sets: first.sets,
            step_s,
        }))
    }

    /// Takes a workload that was found, on the machine that it was found for.
    fn take_whole(&mut self, found: WorkloadSpec) -> Result<(), SpecError> {
        self.workload =
            stepsim_located::to_value(found).map_err(|e| SpecError::file(&self.name, e.to_string()))?;
        self.workload["topology"] = self.on.as_str().into();
        Ok(())
    }

    /// The classes of values, each with the words of its own.
    pub fn classes(&self) -> [(&'static str, Vec<&str>); 4] {
        CLASSES.map(|(class, from)| {
            let of_class = self.fields.iter().filter(|field| field.origin.from == from);
            (class, of_class.map(|field| field.origin.why.as_str()).collect())
        })
    }

    /// The assumptions, in words; the network of the machine, which is always one, last.
    pub fn assumed(&self) -> Vec<&str> {
        let of_class = self.fields.iter().filter(|field| field.origin.from == ValueClass::Assumed);
        let mut assumed: Vec<&DescribedField> = of_class.collect();
        assumed.sort_by_key(|field| field.path == "machine.network");
        assumed.into_iter().map(|field| field.origin.why.as_str()).collect()
    }

    /// The words that take the layout into doubt: not understood, or leaving a degree open.
    pub fn doubt_of_layout(&self) -> Option<String> {
        let open = self.open.iter().filter(|(_, path, _)| path.starts_with("parallelism."));
        let open = open.map(|(words, path, _)| format!("{path} is left open by {words}"));
        let unread = self.not_understood.iter().map(|words| format!("{words} is not read"));
        let unsaid = self.limits.iter().filter(|words| words.starts_with("sequence = the model's"));
        let is_paged = self.fields.iter().any(|field| field.origin.why.contains("= paged_"));
        let paged =
            is_paged.then(|| "a paged optimizer's state moves to the host where memory is full".to_owned());
        let all: Vec<String> = open.chain(unread).chain(unsaid.cloned()).chain(paged).collect();
        let more = all.len().saturating_sub(MOST_DOUBTS);
        let rest = if more > 0 { format!("; and {more} more: --sources") } else { String::new() };
        (!all.is_empty()).then(|| all[..all.len() - more].join("; ") + &rest)
    }

    /// The classes as text.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.name);
        let told = self.classes().into_iter().zip(CLASSES).filter(|((_, lines), _)| !lines.is_empty());
        for ((class, lines), (_, from)) in told {
            let apart = if matches!(from, ValueClass::Stated | ValueClass::Software) { "; " } else { LINE };
            text += &format!("  {class:<16} {}\n", lines.join(apart));
        }
        if !self.not_understood.is_empty() {
            text += &format!("  {:<16} {}\n", "not understood", self.not_understood.join("; "));
        }
        text
    }
}

/// Words that a screen names at most.
const MOST_DOUBTS: usize = 4;

/// The adapters that are tried where not all weights can be trained.
const ADAPTERS: &str = "training.adapters.rank=16";

/// The classes as they are printed.
const CLASSES: [(&str, ValueClass); 4] = [
    ("stated", ValueClass::Stated),
    ("from the model", ValueClass::Model),
    ("software default", ValueClass::Software),
    ("assumed", ValueClass::Assumed),
];

/// A line of a class below its first.
const LINE: &str = "\n                   ";

/// Layouts that are simulated at most: a plan is for a first look, `stepsim search` for the rest.
const MOST_SIMULATED: usize = 24;
/// Layers of micro-batches that are played at most of layouts without experts, beyond the first ones: some ten
/// CPU-seconds. Where a step is long, the closed form chooses among all but the first.
const MOST_PASSES: u64 = 100_000;

/// Ops that are played at most of layouts with experts, whose ranks are least alike: some ten CPU-seconds, unless the
/// first alone take more.
const MOST_OPS: u64 = 80_000_000;

/// A value without the quotes of JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The paths of the fields inside a value.
fn leaf_paths(path: &str, value: &Value) -> Vec<String> {
    let mut sets = Vec::new();
    leaves(path, value, &mut sets);
    sets.iter().filter_map(|set| Some(set.split_once('=')?.0.to_string())).collect()
}

/// A value as `path=value` texts, one for each field inside it.
fn leaves(path: &str, value: &Value, sets: &mut Vec<String>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            map.iter().for_each(|(key, value)| leaves(&format!("{path}.{key}"), value, sets));
        }
        value => sets.push(format!("{path}={value}")),
    }
}
