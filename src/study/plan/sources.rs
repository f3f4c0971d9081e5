//! The words of a request: files of any software, and shipped names.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::run_plan::{LayoutSource, RunPlan};
use stepsim_bring::describe::{ValueClass, ValueOrigin, model_named, of_another_size};
use stepsim_bring::hugging_face::model_of;
use stepsim_bring::imports::{
    Beside, Counts, FileKind, FormatTable, Invocation, absent, configuration, goes_with, machine_of,
    open_programs, recognise, recognise_run, resembles, software_of, told_by, unpacked,
};
use stepsim_bring::{FOREIGN, USUAL_BATCH, import, import_model};
use stepsim_core::ids::DeviceId;
use stepsim_read::page::sheet::quoted;
use stepsim_simulate::{Site, expanded};
use stepsim_spec::files::exists;
use stepsim_spec::{
    Disk, Draft, Files, Kind, SpecError, WorkloadSpec, catalog, is_called_like_a_file, read_of_others,
};

/// The request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Files and shipped names.
    pub words: Vec<String>,
    /// The machine; default: the one that a workload names.
    pub on: Option<String>,
    /// Sequences of a step.
    pub batch: Option<u64>,
    /// Tokens of a sequence.
    pub sequence: Option<u64>,
    /// The software stack.
    pub stack: Option<String>,
    /// `path=value` texts over all else.
    pub sets: Vec<String>,
    /// Search a layout also where one is stated.
    pub search: bool,
}

/// The parts of a run that words describe.
#[derive(Default)]
struct RunParts {
    workload: Option<String>,
    model: Option<(String, Value)>,
    /// Format, file and text of each.
    arguments: Vec<(&'static str, String, String)>,
}

impl Request {
    /// Reads all words.
    ///
    /// # Errors
    /// A file that cannot be read or is none of a run, words that do not belong together, or no machine.
    pub fn read(&self) -> Result<RunPlan, SpecError> {
        let mut parts = RunParts::default();
        for word in &self.words {
            self.part(word, &mut parts)?;
        }
        // A configuration of DeepSpeed stands behind the arguments that name it.
        parts.arguments.sort_by_key(|(format, ..)| *format == "deepspeed");
        match (parts.workload, parts.arguments.is_empty()) {
            (Some(workload), true) if parts.model.is_none() => self.of_workload(&workload),
            (Some(workload), _) => {
                Err(SpecError::file(workload, "is a whole workload: nothing can stand beside it")
                    .hint("change a field of it with --set"))
            }
            (None, _) => self.of_parts(parts.model, &parts.arguments),
        }
    }

    /// Sorts one word into its part.
    fn part(&self, word: &str, parts: &mut RunParts) -> Result<(), SpecError> {
        let word = &of_hub(word);
        if is_name(word) {
            return self.named(word, parts);
        }
        let typed = Invocation::of(word);
        let text = match typed.line.filter(|_| !exists(Path::new(word))) {
            Some(line) => return of_line(word, line, parts),
            None => unpacked(&text_of(word, &typed.file)?).into_owned(),
        };
        match recognise(text.as_bytes()) {
            Some(FileKind::Workload) => parts.workload = Some(word.to_string()),
            Some(FileKind::Model | FileKind::HuggingFace) => {
                parts.model = Some((word.to_string(), model_of(read_of_others(word, &text)?, word)?));
            }
            Some(FileKind::Arguments(format)) => {
                let given = configuration(&text, word, Some(format));
                parts.arguments.push(given.unwrap_or((format, word.to_string(), text)));
            }
            Some(kind @ FileKind::Foreign(software)) => {
                let problem = format!("is {}, which is not read here", kind.words());
                return Err(SpecError::file(word, problem).hint(software.way_out.as_str()));
            }
            Some(other) => {
                let hint = match other.import() {
                    Some(_) => format!("stepsim import {word}"),
                    None if other == FileKind::Kineto => format!("stepsim analyze {word}"),
                    None => format!("behind --on: stepsim plan MODEL --on {word}"),
                };
                return Err(
                    SpecError::file(word, format!("is {}, which is no run", other.words())).hint(hint)
                );
            }
            None => {
                let run = || Some((recognise_run(&text, word)?, word.to_string(), text.clone()));
                let known = configuration(&text, word, None).or_else(run);
                parts.arguments.push(known.ok_or_else(|| nothing_known(word, &text))?);
            }
        }
        Ok(())
    }

    /// A name: of a shipped workload as it stands, or of a model where a machine is given, in anybody's spelling.
    fn named(&self, word: &str, parts: &mut RunParts) -> Result<(), SpecError> {
        if let Some(method) = word.split_whitespace().find(|part| is_method(part)) {
            return Err(SpecError::file(word, format!("`{method}` is no part of a model's name"))
                .allowed("a model's name alone, a file, or the line that starts the training")
                .hint("stepsim plan MODEL --on 8xh100 --stack hf-trainer --set training.adapters.rank=16"));
        }
        let is = |kind| catalog::text(kind, word).is_some();
        if is(Kind::Workload) && (self.on.is_none() || !is(Kind::Model)) {
            parts.workload = Some(word.to_string());
        } else if is(Kind::Model) {
            parts.model = Some((word.to_string(), word.into()));
        } else if let Some(model) = model_named(word) {
            parts.model = Some((word.to_string(), model));
        } else {
            return Err(unknown(word));
        }
        Ok(())
    }

    /// A workload of ours: all that it says is stated.
    fn of_workload(&self, word: &str) -> Result<RunPlan, SpecError> {
        let mut plan = RunPlan::new(word);
        let draft = Draft::<WorkloadSpec>::load(word)?;
        let spec = draft.unchecked(&[])?;
        let on = self.on.clone().or_else(|| spec.topology.clone()).ok_or_else(|| self.no_machine(None))?;
        plan.machine(&on, &Site::load(&on, &[])?);
        plan.workload = stepsim_located::to_value(&spec).map_err(|e| SpecError::file(word, e.to_string()))?;
        plan.open_before(spec.reading);
        plan.put("", word.into(), ValueOrigin::stated(format!("all of {word}")));
        plan.layout = if self.search { LayoutSource::Searched } else { LayoutSource::Stated };
        self.over(&mut plan)?;
        Ok(plan)
    }

    /// Arguments of one software, a model, or both.
    fn of_parts(
        &self,
        model: Option<(String, Value)>,
        arguments: &[(&'static str, String, String)],
    ) -> Result<RunPlan, SpecError> {
        let said = || arguments.first().and_then(|(_, file, _)| machine_of(file));
        let on = self.on.clone().or_else(said).ok_or_else(|| self.no_machine(arguments.first()))?;
        let site = Site::load(&on, &[])?;
        let machine = site.machine();
        let devices = u64::from(machine.devices());
        let nodes = u64::from(machine.node_of(DeviceId(machine.devices().saturating_sub(1)))) + 1;
        let mut beside = Beside {
            model: model.as_ref().map(|(_, model)| model.clone()),
            devices: Some(devices),
            counts: Some(Counts { nodes, devices_per_node: devices / nodes }),
            device: Some(machine.device(DeviceId(0)).name.clone()),
            stated: self
                .sets
                .iter()
                .filter_map(|set| Some(set.split_once('=')?.0.to_owned()))
                .chain(self.sequence.map(|_| "sequence".to_owned()))
                .collect(),
            batch: self.batch,
            models: Some(model_named),
            ..Beside::default()
        };
        let (name, made) = match arguments {
            [] => {
                let name = model.as_ref().map_or("model", |(name, _)| name.as_str());
                beside.usual_batch = Some(USUAL_BATCH);
                (name.to_string(), import_model(self.software(&site), name, &beside)?)
            }
            [(format, file, text), more @ ..] => {
                if let Some((other, next, _)) = more.iter().find(|(other, ..)| !goes_with(format, other)) {
                    let problem = format!("is of {other}, but {file} of {format}");
                    return Err(SpecError::file(next, problem).hint("give files of one software"));
                }
                beside.more = more.iter().map(|(_, file, text)| (file.clone(), text.clone())).collect();
                (file.clone(), import(format, text, file, &beside).map_err(|e| self.beside_it(e, file))?)
            }
        };
        let mut plan = RunPlan::new(&name);
        plan.machine(&on, &site);
        if let Some((word, model)) = &model {
            let why = match model["source"].as_str() {
                Some(source) if is_name(word) => format!("the name {word}: {source}"),
                _ => format!("read from {word}"),
            };
            plan.put("model", word.as_str().into(), ValueOrigin { from: ValueClass::Model, why });
        }
        let laid_out = !arguments.is_empty() && !self.search;
        plan.layout = if laid_out { LayoutSource::Stated } else { LayoutSource::Searched };
        plan.take(made);
        self.over(&mut plan)?;
        Ok(plan)
    }

    /// The software of a model alone: the stated stack's, or what most runs on such devices use.
    fn software(&self, site: &Site) -> &'static str {
        let set = self.sets.iter().find_map(|set| set.strip_prefix("stack="));
        let vendor = site.machine().device(DeviceId(0)).vendor.as_deref();
        let usual = if vendor == Some("Google") { "maxtext" } else { "megatron-bridge" };
        self.stack.as_deref().or(set).and_then(software_of).unwrap_or(usual)
    }

    /// The remedy where a file says too little.
    fn beside_it(&self, error: SpecError, file: &str) -> SpecError {
        if error.hint.is_empty() {
            return error.hint(FOREIGN);
        }
        if !error.hint.starts_with("give --model") {
            return error;
        }
        let on = self.on.as_deref().unwrap_or("64xh100");
        error.hint(format!(
            "name it beside the file, a shipped one or a config.json: stepsim plan {} llama3-8b --on '{on}'",
            quoted(file)
        ))
    }

    /// Lays the command line over the files.
    fn over(&self, plan: &mut RunPlan) -> Result<(), SpecError> {
        if let Some(batch) = self.batch {
            plan.state("batch.global", batch.into(), "--batch")?;
        }
        if let Some(sequence) = self.sequence {
            plan.state("sequence", sequence.into(), "--sequence")?;
        }
        if let Some(stack) = &self.stack {
            plan.state("stack", stack.as_str().into(), "--stack")?;
        }
        for set in &expanded(&self.sets, &Disk)? {
            if set.starts_with("topology.") {
                plan.machine_sets.push(set.clone());
                plan.put("machine", Value::Null, ValueOrigin::stated(format!("{set} (--set)")));
                continue;
            }
            let (path, value) = stepsim_spec::setting(set)?;
            plan.state(path, value, "--set")?;
        }
        plan.tell_model();
        Ok(())
    }

    fn no_machine(&self, arguments: Option<&(&'static str, String, String)>) -> SpecError {
        let words = self.words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        let about = arguments.map_or_else(|| words.clone(), |(_, file, _)| file.clone());
        let devices = arguments.and_then(stated_devices).unwrap_or(64);
        SpecError::file(about, "on which machine?").hint(format!("stepsim plan {words} --on {devices}xh100"))
    }
}

/// The devices that a file is for by its own degrees.
fn stated_devices((format, file, text): &(&'static str, String, String)) -> Option<u64> {
    let beside = Beside { models: Some(model_named), ..Beside::default() };
    let made = import(format, text, file, &beside).ok()?.workload;
    let degree = |path| made.pointer(path).and_then(Value::as_u64);
    let others = ["/parallelism/tensor", "/parallelism/pipeline/size", "/parallelism/context/size"];
    let others = others.into_iter().filter_map(degree).fold(1, u64::saturating_mul);
    Some(degree("/parallelism/data")?.saturating_mul(others))
}

/// The text of a file that a word names.
fn text_of(word: &str, path: &str) -> Result<String, SpecError> {
    Disk.read(Path::new(path)).map_err(|e| SpecError::file(word, format!("cannot be read: {e}")))
}

/// Takes a command line as the script of one line that it is, with the files that it names.
fn of_line(word: &str, line: String, parts: &mut RunParts) -> Result<(), SpecError> {
    let is_file = |part: &&str| is_called_like_a_file(part) && exists(Path::new(part));
    let mut beside = Vec::new();
    for part in line.split([' ', '=']).filter(is_file) {
        let text = text_of(part, part)?;
        if let Some(FileKind::Arguments(format)) = recognise(text.as_bytes()) {
            beside.push((format, part.to_owned(), text));
        }
    }
    let Some(FileKind::Arguments(own)) = recognise(line.as_bytes()) else {
        if let Some(known) = configuration(&line, "", None) {
            parts.arguments.push(known);
            return Ok(());
        }
        let error =
            SpecError::file(word, "is a command line, and of no software that is known by its options");
        return Err(error.hint(match beside.first() {
            Some((_, file, _)) => {
                format!("its file is known: stepsim plan {file}; write the line's options into it")
            }
            None => "give the script or the configuration that it runs as a file, or a model by its name"
                .to_owned(),
        }));
    };
    beside.retain(|(format, ..)| goes_with(own, format));
    parts.arguments.push((own, word.to_owned(), line));
    parts.arguments.append(&mut beside);
    Ok(())
}

/// True if a word of a phrase says how a model is trained.
fn is_method(word: &str) -> bool {
    const METHODS: &str = "lora qlora peft sft dpo grpo finetune finetuning train training of on";
    METHODS.split(' ').any(|method| method == word.to_lowercase().replace('-', ""))
}

/// A file of software that is not known: what it holds, and what would be read.
fn nothing_known(word: &str, text: &str) -> SpecError {
    let known: Vec<&str> = FormatTable::all().values().map(|table| table.words.as_str()).collect();
    let holds = told_by(text, word).map_or_else(String::new, |words| format!(" (it {words})"));
    let kind = resembles(text, false).map_or_else(
        || format!("is of no known kind, its software is unknown{holds}"),
        |software| format!("has names of {software}, and not its form: fill in what stands for values"),
    );
    let error = SpecError::file(word, kind)
        .allowed(format!("a model (config.json), a workload, {}", known.join(", ")));
    if let Some(variable) = open_programs(text, word).first() {
        let problem = format!("hangs on what nothing sets: {variable} (the program that it starts)");
        return SpecError::file(word, problem)
            .hint(format!("type the line that runs it: '{variable}=... {word} ...'"));
    }
    match absent(text, word).first() {
        Some(path) => error
            .hint(format!("its configuration {path} is not beside it: stepsim plan THAT_FILE --on 64xh100")),
        None => error.hint(FOREIGN),
    }
}

/// The name in a hub's address of a model, or the configuration in a folder; other words as they stand.
fn of_hub(word: &str) -> String {
    let address = word.strip_prefix("https://").or(word.strip_prefix("http://"));
    if let Some((_, path)) = address.and_then(|address| address.split_once('/')) {
        let parts: Vec<&str> = path.split('/').take(2).collect();
        return parts.join("/");
    }
    let config = Path::new(word).join("config.json");
    if config.is_file() { config.display().to_string() } else { word.to_owned() }
}

/// True if a word is a name, and no file.
fn is_name(word: &str) -> bool {
    let Invocation { file, line, .. } = &Invocation::of(word);
    line.is_none() && !is_called_like_a_file(word) && !is_called_like_a_file(file) && !exists(Path::new(file))
}

/// A word that is neither a file nor a name of anything.
fn unknown(word: &str) -> SpecError {
    let error = SpecError::file(word, "is no file, and no model or workload that is known by name");
    let names: BTreeSet<&str> = catalog::names(Kind::Model).chain(catalog::names(Kind::Workload)).collect();
    let near = stepsim_spec::nearest(word, names);
    let near = of_another_size(word).unwrap_or_else(|| near.join("`, `"));
    error.hint(match near.as_str() {
        near if !near.is_empty() => format!("did you mean `{near}`? or give the path of its config.json"),
        _ => "give the path of its config.json; `stepsim list models` shows what is shipped".to_string(),
    })
}
