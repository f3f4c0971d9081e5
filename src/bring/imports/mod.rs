//! Argument and recipe files of training software as workloads.
//!
//! A format is a *syntax* (how arguments are read: `syntax`) and a *table* (what each argument means here:
//! `workloads/imports/*.json`, `table`). A reader turns a file into a flat list of names and values; the table turns
//! each into fields of a workload and of its model, or into a quantity that several arguments share (`$devices`,
//! `$accumulation`), or says why it has no counterpart and whether that matters; `finish` puts the quantities
//! together.
//!
//! Hazards:
//! * Defaults come from the software (`workload` of the table), not from us: a value that a file leaves out is listed
//!   as assumed only where it was computed.
//! * A name that the table does not know is reported as unknown; nothing is dropped in silence.

mod adapters;
mod argument;
mod beside;
pub mod budget;
mod draft;
pub mod files;
mod finish;
mod fused;
pub mod invocation;
mod jobs;
pub mod layers;
pub mod named;
mod opened;
mod readable;
mod recognise;
mod recompute;
mod stages;
pub mod syntax;
pub mod table;
mod unanswered;
mod unknown;
pub mod vocabulary;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use draft::{DraftResult, WorkloadDraft};
use stepsim_spec::{SpecError, is_called_like_a_file, json, nearest};
use syntax::{Open, TextStatements};
use table::{ArgumentRule, plain, truth};
use vocabulary::Vocabulary;

pub use argument::{Argument, Status};
pub use beside::Beside;
pub use invocation::{Counts, Invocation};
pub use jobs::unpacked;
use recognise::ArgumentNames;
pub use recognise::{FileKind, recognise, recognise_run, resembles};
pub use table::FormatTable;
use unanswered::{left_open, unanswered, where_open};
use unknown::few;
pub use unknown::{absent, open_programs, told_by};

/// A workload made of a file, with what became of each argument.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Import {
    /// The name of the format.
    pub format: String,
    /// The workload.
    pub workload: Value,
    /// Every argument of the file, in its order.
    pub arguments: Vec<Argument>,
    /// The software's defaults: `path = value`, without the ones that an argument changed.
    pub defaults: Vec<String>,
    /// Values that followed from several arguments or were assumed, in words.
    pub assumed: Vec<String>,
    /// How long the run is.
    #[serde(skip_serializing)]
    pub length: RunLength,
}

/// How long a run is, as far as it is stated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunLength {
    /// Optimizer steps.
    pub steps: Option<f64>,
    /// Samples of the data.
    pub samples: Option<f64>,
    /// Passes over the samples.
    pub epochs: Option<f64>,
}

impl RunLength {
    fn of(draft: &WorkloadDraft) -> RunLength {
        let number = |name: &str| draft.variables.get(name)?.as_f64().filter(|number| *number > 0.0);
        RunLength { steps: number("steps"), samples: number("samples"), epochs: number("epochs") }
    }
}

impl Import {
    /// The arguments of one status.
    pub fn of(&self, status: Status) -> impl Iterator<Item = &Argument> {
        self.arguments.iter().filter(move |a| a.status == status)
    }
}

/// Reads a file of a format ([`FormatTable`]); the workload is not checked.
///
/// # Errors
/// No such format, a text that is not of its syntax, or arguments that say too little; each names the software.
pub fn translate(format: &str, text: &str, file: &str, beside: &Beside) -> Result<Import, SpecError> {
    translated(format, text, file, beside).map_err(|error| {
        let words = FormatTable::words_of(format);
        let problem = match error.problem.contains(words) {
            true => error.problem,
            false => format!("as {words}: {}", error.problem),
        };
        SpecError { problem, ..error }
    })
}

fn translated(format: &str, text: &str, file: &str, beside: &Beside) -> Result<Import, SpecError> {
    let table = FormatTable::load(format)?;
    let typed = Invocation { counts: beside.counts, ..Invocation::of(file) };
    let file = typed.file.as_str();
    refuse_others(format, text, file)?;
    let names = ArgumentNames::of(&table.syntax, text).unwrap_or_default();
    let started = ArgumentNames::of_run(text, &typed);
    if !table.is_training(&names) && !started.as_ref().is_some_and(|names| table.is_training(names)) {
        let marks: Vec<&str> = table.trains.iter().map(|mark| mark.trim_start_matches('@')).collect();
        return Err(SpecError::file(file, format!("is of {format} and trains nothing"))
            .allowed(format!("a file with one of {}", marks.join(", "))));
    }
    let said = syntax::read(&table.syntax, text, &typed).map_err(|e| e.in_file(file))?;
    let (mut given, mut open) = (said.arguments, said.open);
    let is_short =
        |open: &Open| open.is_variable && open.arguments.iter().any(|name| name == syntax::PROGRAM);
    // Programs that are not run refuse nothing, nor those run for want of a word, nor names without a value.
    let silent = given.iter().filter(|(_, value)| says_nothing(value));
    let silent: Vec<String> = silent.map(|(name, _)| name.to_ascii_lowercase().replace('-', "_")).collect();
    let refusal = table.refusal(started.as_ref().unwrap_or(&names), &silent);
    if let Some((mark, why)) = refusal.filter(|_| !open.iter().any(is_short)) {
        return Err(SpecError::file(file, format!("{mark}: {why}")).allowed(table.description.clone()));
    }
    // A configuration whose options a script says may hang on its variables.
    given.retain(|(name, value)| {
        let variable = value.as_str().and_then(|text| syntax::shell::opens(text).next());
        open.extend(variable.map(|variable| Open::variable(variable, name)));
        variable.is_none()
    });
    for (file, text) in &beside.more {
        let over = beside_it(&table, text, file)?;
        given.retain(|(name, _)| over.arguments.iter().all(|(other, _)| other != name));
        given.extend(over.arguments);
        open.extend(over.open);
    }
    let of_shell = |name: &str| name == syntax::PROGRAM || name.starts_with("environment.");
    given.retain(|(name, _)| !of_shell(name) || table.rule(name).is_some());
    let written = syntax::shell::run(text, &typed).map(|(_, files)| files).unwrap_or_default();
    let mut opened = opened::open(&table, &mut given, &beside.more, file, &written);
    opened.extend(opened::usual(&table, &names, &mut given, file));
    if given.iter().any(|(name, _)| name.contains("zero_optimization") || name == "zero_stage") {
        given.retain(|(name, _)| table.rule(name).is_none_or(|rule| !rule.of_file));
    }
    if given.is_empty() {
        return Err(SpecError::file(file, format!("holds no argument of {format}"))
            .allowed(table.description.clone()));
    }
    let mut draft = WorkloadDraft::of(&table);
    table.followed(&names).for_each(|(path, value)| draft.lay(&path, value));
    let defaults = draft.defaults();
    let mut arguments: Vec<Argument> =
        given.into_iter().map(|(name, value)| draft.take(&table, name, value)).collect();
    if beside.model.is_none() {
        refuse_sizes(&table, &arguments, file)?;
    }
    if !arguments.iter().any(|a| a.status == Status::Taken) {
        let names: Vec<&str> = arguments.iter().take(5).map(|a| a.name.as_str()).collect();
        return Err(SpecError::file(
            file,
            format!("no argument of {format} is known here: {} ...", names.join(", ")),
        )
        .hint("is it of another format? `stepsim import --help` lists them"));
    }
    arguments.extend(opened.into_iter().map(|read| Argument { status: Status::NoEffect, ..read }));
    arguments.extend(unanswered(&table, &open, beside, file)?);
    let open = left_open(&table, open);
    let run_length = RunLength::of(&draft);
    let DraftResult { mut workload, mut assumed, doubts } =
        draft.finish(&table, beside, file).map_err(|e| where_open(e, file, &open))?;
    arguments.extend(doubts);
    adapters::without_experts(&mut workload);
    if let Some(why) = adapters::of_what_is_there(&mut workload) {
        arguments.push(Argument::doubted("adapters", workload["training"]["adapters"]["of"].clone(), why));
    }
    arguments.extend(longest(&table, &names, &arguments, &workload, beside));
    arguments.extend(launcher(&table, &arguments, text).filter(|_| beside.devices != Some(1)));
    arguments.extend(release(&table, &workload));
    arguments.extend(otherwise(&table, &arguments, &workload, beside));
    if !open.is_empty() {
        let open = few(open.iter().map(|(_, words)| words.as_str()));
        assumed.push(format!("nothing for what the script leaves to the line that runs it: {open}"));
    }
    Ok(Import { format: format.to_string(), workload, arguments, defaults, assumed, length: run_length })
}

/// The sequence as a limit, where nothing says that samples fill it, or how long they are.
fn longest(
    table: &FormatTable,
    names: &ArgumentNames,
    arguments: &[Argument],
    workload: &Value,
    beside: &Beside,
) -> Option<Argument> {
    let is_filled = |mark: &String| mark.starts_with('@') && names.get(mark).is_some();
    let is_length = |path: &String| path.ends_with("sequence");
    let of_model = beside.model.is_some()
        && workload.get("sequence").is_none()
        && !arguments.iter().flat_map(|a| &a.fields).chain(&beside.stated).any(is_length);
    // Positions of a model are no length of samples.
    let is_position =
        |a: &Argument| a.name.contains("position") && a.fields.iter().any(|path| path == "model.sequence");
    let is_unsaid = workload.get("sequence").is_none() && !beside.stated.iter().any(is_length);
    let of_positions = is_unsaid && arguments.iter().any(is_position);
    let of_model = of_model || of_positions;
    let said = arguments.iter().map(|a| (a.name.as_str(), &a.value));
    let short = table.short.as_ref().filter(|short| !short.unless.iter().any(is_filled));
    let why = short.and_then(|short| short.why(said));
    let why = why.or(of_model.then_some("nothing says how long samples are"))?;
    let told = arguments.iter().any(|a| a.status == Status::Taken && !a.why.is_empty());
    let own = workload.get("sequence").or(workload.pointer("/model/sequence")).filter(|_| !of_model);
    let value = own.cloned().unwrap_or_else(|| "the model's".into());
    let limit = Argument::doubted("sequence", value, why).limit(BTreeMap::new());
    (of_positions || !told).then_some(limit)
}

/// How weights are cut, where a file leaves that to a configuration of its launcher.
fn launcher(table: &FormatTable, arguments: &[Argument], text: &str) -> Option<Argument> {
    let syntax = syntax::suiting(&table.syntax, text);
    let is_file = [Some(syntax::Syntax::Yaml), Some(syntax::Syntax::Json)].contains(&syntax);
    let rule = table.launcher.as_ref().filter(|_| is_file)?;
    let why = rule.why(arguments.iter().map(|a| (a.name.as_str(), &a.value)))?;
    Some(Argument::doubted("launcher", "unsaid".into(), why).limit(rule.open.clone()))
}

/// The software's release, where nothing says which one runs a file and several have stacks.
fn release(table: &FormatTable, workload: &Value) -> Option<Argument> {
    let stack = workload.get("stack").filter(|stack| table.workload.get("stack") == Some(stack))?;
    let others: Vec<Value> = table.releases.iter().map(|other| other.as_str().into()).collect();
    let doubt = Argument::doubted("stack", stack.clone(), "a file does not say which release runs it");
    (!others.is_empty()).then(|| doubt.limit(BTreeMap::from([("stack".to_string(), others)])))
}

/// Defaults of fields that a file does not say and that other releases have otherwise.
fn otherwise(
    table: &FormatTable,
    arguments: &[Argument],
    workload: &Value,
    beside: &Beside,
) -> Vec<Argument> {
    let is_said = |path: &String| {
        beside.stated.contains(path) || arguments.iter().any(|argument| argument.fields.contains(path))
    };
    let unsaid = table.otherwise.iter().filter(|(path, _)| !is_said(path));
    let doubt = |(path, why): (&String, &String)| {
        let value = workload.pointer(&format!("/{}", path.replace('.', "/")))?.clone();
        Some(Argument::doubted(path, value, why))
    };
    unsaid.filter_map(doubt).collect()
}

/// The contents of a further file: one of the same software, or the configuration of DeepSpeed that its arguments
/// name.
fn beside_it(table: &FormatTable, text: &str, file: &str) -> Result<TextStatements, SpecError> {
    let typed = Invocation::of(file);
    let is_deepspeed = recognise(text.as_bytes()) == Some(FileKind::Arguments(DEEPSPEED));
    if !is_deepspeed || !table.bases.iter().any(|base| base == DEEPSPEED) {
        return syntax::read(&table.syntax, text, &typed).map_err(|e| e.in_file(file));
    }
    let mut said = syntax::read(&[syntax::Syntax::Json], text, &typed).map_err(|e| e.in_file(file))?;
    said.arguments.iter_mut().for_each(|(name, _)| *name = format!("deepspeed_config.{name}"));
    Ok(said)
}

/// The software whose configuration stands beside the arguments of others.
const DEEPSPEED: &str = "deepspeed";

/// True if arguments of one software may stand beside another's.
pub fn goes_with(format: &str, other: &str) -> bool {
    format == other || other == DEEPSPEED && lies_over(format, other)
}

/// True if a software takes up another's arguments.
fn lies_over(format: &str, base: &str) -> bool {
    FormatTable::all().get(format).is_some_and(|table| table.bases.iter().any(|other| other == base))
}

/// The configuration that a script's programs are given, where it is of known software: its format, file and text.
/// Where the script is of `own` software, it is a word by itself, of that software or of one that takes its arguments
/// up.
pub fn configuration(text: &str, word: &str, own: Option<&str>) -> Option<(&'static str, String, String)> {
    let given = opened::launched(text, word, own.is_some()).into_iter();
    let is_own = |format| own.is_none_or(|own| format == own || lies_over(format, own));
    let mut known = given.filter_map(|(file, text)| match recognise(text.as_bytes()) {
        Some(FileKind::Arguments(format)) => Some((format, file, text)),
        _ => None,
    });
    known.find(|(format, ..)| is_own(format))
}

/// Refuses a file with a word that changes the sizes of its model and has no counterpart.
fn refuse_sizes(table: &FormatTable, arguments: &[Argument], file: &str) -> Result<(), SpecError> {
    let size = |a: &&Argument| match a.status {
        Status::Matters => table.rule(&a.name).is_some_and(|rule| rule.size),
        Status::Unknown => Vocabulary::shipped().is_size(&a.name),
        _ => false,
    };
    let Some(found) = arguments.iter().find(size) else { return Ok(()) };
    let near = nearest(&found.name, table.names());
    let hint = match near.first().filter(|near| **near != found.name) {
        Some(near) => {
            format!("did you mean `{near}`? or give the model beside the file: a name, or its config.json")
        }
        None => "give the model beside the file: a name, or its config.json".to_string(),
    };
    let word = format!("{} = {}", found.name, found.value);
    let problem = match found.status {
        Status::Unknown => format!("{word} changes the size of the model and is not known here"),
        _ => format!("{word}: {}", found.why),
    };
    Err(SpecError::file(file, problem).hint(hint))
}

/// The machine that the name of a recipe says: `64xh100` of `llama3_70b_pretrain_64gpu_h100_bf16_config`.
pub fn machine_of(file: &str) -> Option<String> {
    let typed = Invocation::of(file);
    let (devices, device) = syntax::job(typed.function.as_deref()?)?;
    Some(format!("{devices}x{device}"))
}

/// A run of software from its model alone, whose sequence it takes, and the files beside it.
///
/// # Errors
/// No such format, or a model that makes no workload.
pub fn translate_model(format: &str, file: &str, beside: &Beside) -> Result<Import, SpecError> {
    let table = FormatTable::load(format)?;
    let mut draft = WorkloadDraft::of(&table);
    draft.workload.as_object_mut().map(|fields| fields.remove("sequence"));
    for (name, value) in table.usual.clone() {
        draft.take(&table, name, value);
    }
    let defaults = draft.defaults();
    let DraftResult { workload, assumed, doubts } = draft.finish(&table, beside, file)?;
    Ok(Import {
        format: format.to_string(),
        workload,
        arguments: doubts,
        defaults,
        assumed,
        length: RunLength::default(),
    })
}

/// The software whose stack this is.
pub fn software_of(stack: &str) -> Option<&'static str> {
    FormatTable::all().iter().find(|(_, table)| table.has_stack(stack)).map(|(format, _)| *format)
}

/// A file of other software than `format`, by its marks, is not read with the wrong table.
fn refuse_others(format: &str, text: &str, file: &str) -> Result<(), SpecError> {
    let Some(kind) = recognise(text.as_bytes()) else { return Ok(()) };
    if recognise::has_marks(format, text) && !matches!(kind, FileKind::Foreign(_)) {
        return Ok(());
    }
    let name = FileKind::words(kind);
    let asked = FormatTable::words_of(format);
    Err(SpecError::file(file, format!("is {name}, not {asked}")).hint(format!("stepsim import {file}")))
}

/// The fields and quantities (behind `$`) that a name and its value set in a format ([`FormatTable`]). Empty where they
/// change nothing; `None` where the table does not know them.
pub fn word(format: &str, name: &str, value: &Value) -> Option<Vec<(String, Value)>> {
    let rule = FormatTable::all().get(format)?.exact(name)?;
    match rule.puts(value) {
        None => rule.no_effect.then(Vec::new),
        puts => puts,
    }
}

impl WorkloadDraft {
    /// Before any argument: the software's defaults.
    fn of(table: &FormatTable) -> WorkloadDraft {
        let mut laid = table.workload.clone();
        let model = laid.shift_remove("model").unwrap_or_default();
        let variables = table.quantities.clone();
        WorkloadDraft { workload: Value::Object(laid), model, variables, ..WorkloadDraft::default() }
    }
    /// The software's defaults, a line each.
    fn defaults(&self) -> Vec<String> {
        let mut all = Vec::new();
        // Tables are not as deep as a file may be.
        let _ = syntax::flatten("", self.workload.clone(), 0, &mut all);
        all.into_iter().map(|(path, value)| format!("{path} = {}", plain(&value))).collect()
    }
    /// Puts a field, or sets a quantity, whatever it was.
    fn lay(&mut self, path: &str, value: Value) {
        match path.strip_prefix('$') {
            Some(variable) => drop(self.variables.insert(variable.to_string(), value)),
            // Paths come from tables, whose fields a test holds to the types.
            None => drop(json::set(&mut self.workload, path, value)),
        }
    }
    /// Takes one argument up.
    fn take(&mut self, table: &FormatTable, name: String, value: Value) -> Argument {
        let argument = |status, fields, why: &str| Argument {
            name: name.clone(),
            value: value.clone(),
            status,
            fields,
            why: why.to_string(),
            open: BTreeMap::new(),
        };
        let rule = table.rule(&name);
        if says_nothing(&value) {
            return argument(Status::NotGiven, Vec::new(), "");
        }
        if syntax::is_unknown(&value) && !rule.as_ref().is_some_and(ArgumentRule::takes_any) {
            let counts = rule.is_some_and(|rule| rule.targets().any(readable::is_number));
            return match counts {
                true => argument(Status::Matters, Vec::new(), "its number is not worked out here"),
                false => argument(Status::NotGiven, Vec::new(), ""),
            };
        }
        if rule.as_ref().is_none_or(|rule| rule.no_effect)
            && let Some(meant) = table.meant(&name)
        {
            return argument(Status::Unknown, Vec::new(), &format!("did you mean {meant}?"));
        }
        let words = Vocabulary::shipped();
        if table.sweeps(&name) && words.stirs(&name, &value) {
            return argument(Status::Unknown, Vec::new(), "");
        }
        let Some(rule) = rule else {
            // A switch that is on by itself may be known by its last part alone.
            let last = name.rsplit('.').next().unwrap_or_default();
            let is_known = table.rule(last).is_some_and(|rule| rule.changes_a_step());
            let (status, why) = if words.is_harmless(&name) {
                (Status::NoEffect, "outside of a step, by its name")
            } else if words.is_off(&name, &value) && !is_known {
                (Status::NoEffect, "it is off, as in what is planned")
            } else {
                (Status::Unknown, "")
            };
            return argument(status, Vec::new(), why);
        };
        let Some(puts) = rule.puts(&value) else {
            if rule.says_why_alone() && value == Value::Bool(false) && words.is_off(&name, &value) {
                return argument(Status::NoEffect, Vec::new(), "it is off, as in what is planned");
            }
            if !rule.open.is_empty() {
                return Argument { open: rule.open, ..argument(Status::Taken, Vec::new(), &rule.why) };
            }
            let status = match rule {
                ArgumentRule { no_effect: true, .. } => Status::NoEffect,
                _ => Status::Matters,
            };
            let why = if rule.why.is_empty() && status == Status::Matters {
                "this value has no counterpart"
            } else {
                &rule.why
            };
            return argument(status, Vec::new(), why);
        };
        let mut fields = Vec::new();
        for (path, value) in puts {
            let value = match readable::read(&path, &name, value) {
                Ok(value) => value,
                Err(unread) => {
                    self.unread.push(unread);
                    continue;
                }
            };
            match path.strip_prefix('$') {
                Some(variable) => self.multiply(variable, value),
                None => {
                    self.lay(&path, value);
                    fields.push(path);
                }
            }
        }
        if rule.of_file && value.as_str().is_some_and(is_called_like_a_file) {
            let of_it =
                fields.iter().filter_map(|path| Some(format!("{path} = {}", at(&self.workload, path)?)));
            let of_it = of_it.collect::<Vec<String>>().join(", ");
            self.assumed.push(format!("{of_it}: by the name of {}, a file that is not here", plain(&value)));
            return argument(Status::Assumed, fields, &rule.why);
        }
        let why = if rule.at_most && truth(&value) { &rule.why } else { "" };
        argument(Status::Taken, fields, why)
    }

    /// Quantities that are given twice (degrees inside and between slices) multiply; −1 (all that is left) stays; lists
    /// join.
    fn multiply(&mut self, variable: &str, value: Value) {
        let before = self.variables.get(variable).filter(|_| self.said.contains(variable)).cloned();
        self.said.insert(variable.to_string());
        let product = match (before, value) {
            (Some(Value::Array(a)), Value::Array(b)) => {
                let new: Vec<Value> = b.into_iter().filter(|part| !a.contains(part)).collect();
                [a, new].concat().into()
            }
            (before, value) => match (before.as_ref().and_then(Value::as_i64), value.as_i64()) {
                (Some(a), Some(b)) if a >= 0 && b >= 0 => a.saturating_mul(b).into(),
                (Some(a), Some(b)) => a.min(b).into(),
                _ => value,
            },
        };
        self.variables.insert(variable.to_string(), product);
    }
}

/// The value at a path, as a table writes it.
fn at(value: &Value, path: &str) -> Option<String> {
    value.pointer(&format!("/{}", path.replace('.', "/"))).map(plain)
}

/// True if a value leaves the choice to the software.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(section) => section.is_empty(),
        Value::String(text) => matches!(text.as_str(), "" | "auto" | "null" | "None" | "none" | "default"),
        _ => false,
    }
}

/// The object at a field of an object, made where it is not.
fn object<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Map<String, Value>> {
    value.as_object_mut()?.entry(key).or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}
