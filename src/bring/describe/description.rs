//! The understanding of a described run.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::book::{RuleBook, Ruling, leaves};
use super::field_columns::columns;
use super::layout::{DescribedLayout, layout};
use super::machine::{MachineCase, machine};
use super::origin::{ValueClass, ValueOrigin};
use super::shapes::Shapes;
use super::workload::workload;
use super::{measurements, model, size};
use stepsim_fabric::topology::Machine;
use stepsim_simulate::Inputs;
use stepsim_spec::{ModelSpec, SpecError, WorkloadSpec, from_value};

/// A value of the step and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DescribedField {
    /// Its path in the workload; behind `machine.`, in the machine.
    pub path: String,
    /// Its value.
    pub value: Value,
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: ValueOrigin,
}

/// A run as it is understood.
#[derive(Clone, Debug)]
pub struct Description {
    /// Every field that is not as it is in any workload, with its value and origin.
    pub fields: Vec<DescribedField>,
    /// Columns, or phrases of columns that are lists, that nothing was made of.
    pub not_understood: BTreeMap<String, Value>,
    /// Statements that contradict each other, which lead every report.
    pub warnings: Vec<String>,
    /// The workload with its model.
    pub workload: Value,
    /// The machine.
    pub machine: MachineCase,
    /// Class of the device.
    pub class: String,
    /// The software stack; `none` where nothing names one.
    pub stack: String,
    /// The model, checked.
    pub model: ModelSpec,
    /// How the step is cut.
    pub layout: DescribedLayout,
    /// The vocabulary's ruling on the words.
    pub ruling: Ruling,
}

/// The understanding of columns of words. `shapes` are models that they may refer to by `model_ref`.
///
/// The model's number of parameters is held to what is stated: a shape that only a name gave, and that is more than a
/// tenth off, is dropped; what is more than three hundredths off leads the warnings.
///
/// # Errors
/// Why there is no step in it: devices, batch or model cannot be had.
pub fn describe(
    words: &Map<String, Value>,
    shapes: &Shapes,
    name: &str,
    book: &RuleBook,
) -> Result<Description, String> {
    let said = attempt(words, shapes, name, book, true)?;
    let Some(off) = size::off(&said.ruling, &said.model).filter(|off| off.by > size::WARNED) else {
        return Ok(said);
    };
    let guessed = said.ruling.columns.origin("layers").is_some_and(|o| o.from == ValueClass::Model);
    let (mut said, what) = if guessed && off.by > size::DROPPED {
        (attempt(words, shapes, name, book, false)?, "the shape of that name is dropped")
    } else {
        (said, "taken as it stands")
    };
    said.warnings.push(format!("{off}: {what}"));
    Ok(said)
}

fn attempt(
    words: &Map<String, Value>,
    shapes: &Shapes,
    name: &str,
    book: &RuleBook,
    by_name: bool,
) -> Result<Description, String> {
    let mut ruling = book.rule(words, shapes, by_name)?;
    if let Some(reason) = &ruling.skip {
        return Err(reason.clone());
    }
    // Without devices there is no step, whatever else is wrong: what `layout` would say, before the model is read.
    ruling.columns.needs("n_devices")?;
    let shape = model::model(&ruling)?;
    let model = model::checked(&shape, name)?;
    measurements::from_rate(&mut ruling.columns, &model);
    let layout = layout(&mut ruling.columns)?;
    let machine = machine(&ruling.machine, &mut ruling.columns)?;
    let workload = workload(&mut ruling, &layout, &model, shape)?;
    let stack = Some(ruling.columns.text("stack")).filter(|s| !s.is_empty()).unwrap_or_else(|| "none".into());
    Ok(Description {
        fields: fields(&ruling, &workload, &machine, &stack),
        not_understood: ruling.columns.unheeded(words, &book.silent(), &book.lists()),
        warnings: measurements::contradictions(&ruling.columns, &model),
        class: ruling.machine.class.clone().unwrap_or_else(|| "other".into()),
        stack,
        workload,
        machine,
        model,
        layout,
        ruling,
    })
}

impl Description {
    /// The fields of one class.
    pub fn of(&self, from: ValueClass) -> impl Iterator<Item = &DescribedField> {
        self.fields.iter().filter(move |f| f.origin.from == from)
    }

    /// Workload and machine, read and found to fit each other. `sets` are settings of the workload and, behind
    /// `topology.`, the machine.
    ///
    /// # Errors
    /// The simulator's refusal.
    pub fn inputs(&self, name: &str, sets: &[String]) -> Result<Inputs, SpecError> {
        inputs(&self.workload, &self.machine, name, sets)
    }
}

/// A workload on a machine, read and found to fit each other.
///
/// # Errors
/// The simulator's refusal.
pub fn inputs(
    workload: &Value,
    machine: &MachineCase,
    name: &str,
    sets: &[String],
) -> Result<Inputs, SpecError> {
    let mut of_machine = machine.sets.clone();
    of_machine.extend(sets.iter().filter_map(|s| s.strip_prefix("topology.").map(str::to_string)));
    let own: Vec<String> = sets.iter().filter(|s| !s.starts_with("topology.")).cloned().collect();
    let (topology, machine) = Machine::load(&machine.topology, &of_machine)?;
    let workload = from_value::<WorkloadSpec>(workload.clone(), name.into(), name.into(), &own)?;
    Inputs::new(workload, topology, machine)
}

/// All fields with their origins.
fn fields(ruling: &Ruling, workload: &Value, machine: &MachineCase, stack: &str) -> Vec<DescribedField> {
    let c = &ruling.columns;
    let mut fields = Vec::new();
    for (path, value, column) in [
        ("machine.name", Value::from(machine.topology.as_str()), "device"),
        ("machine.devices", c.get("n_devices").clone(), "n_devices"),
        ("machine.settings", machine.sets.clone().into(), "inter_node"),
        ("stack", stack.into(), "stack"),
    ] {
        let nothing = || ValueOrigin::assumed(format!("as the machine {} has it", machine.topology));
        let origin = c.origin(column).unwrap_or_else(nothing);
        fields.push(DescribedField { path: path.into(), value, origin });
    }
    leaves("", workload, &mut |path, value| {
        if path != "stack" && !path.starts_with("stack.") || ruling.origins.contains_key(path) {
            let origin = origin(ruling, path);
            fields.push(DescribedField { path: path.into(), value: value.clone(), origin });
        }
    });
    fields
}

/// Where a field comes from: a rule, a column, or the shipped model.
fn origin(ruling: &Ruling, path: &str) -> ValueOrigin {
    let of_column = || {
        let (_, column) = columns().find(|(field, _)| *field == path)?;
        ruling.columns.origin(column)
    };
    let of_model = || {
        let name = ruling.shape.get("name")?.as_str()?;
        path.starts_with("model.")
            .then(|| ValueOrigin { from: ValueClass::Model, why: format!("the model {name}") })
    };
    let found = ruling.origins.get(path).cloned().or_else(of_column).or_else(of_model);
    found.unwrap_or_else(|| ValueOrigin::assumed("follows from the other fields"))
}
