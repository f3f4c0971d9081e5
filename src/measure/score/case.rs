//! From a row to what is simulated.

use std::collections::BTreeMap;

use serde_json::Value;

use super::measured;
use super::rows::PublishedRow;
use stepsim_bring::describe::{
    AssumedField, MachineCase, Relief, RuleBook, Ruling, ValueClass, describe, inputs, reliefs,
};
use stepsim_core::ids::DeviceId;
use stepsim_fabric::topology::Machine;
use stepsim_price::cost::DeviceCost;
use stepsim_simulate::Inputs;
use stepsim_spec::rules::Pace;
use stepsim_spec::workload::Dtype;

/// A row as a workload on a machine, and what was measured.
#[derive(Clone, Debug)]
pub struct Case {
    /// The workload with its model.
    pub workload: Value,
    /// The machine.
    pub machine: MachineCase,
    /// Class of the device.
    pub class: String,
    /// The software stack.
    pub stack: String,
    /// True if the model has experts.
    pub moe: bool,
    /// True if one layer was measured and not a step.
    pub layer: bool,
    /// The work that the time of a step spans.
    pub pace: Pace,
    /// Seconds measured.
    pub measured_s: f64,
    /// From which column.
    pub measured_from: &'static str,
    /// Sequences measured over sequences simulated.
    pub scale: f64,
    /// Tokens of the measured step.
    pub tokens: f64,
    /// Model FLOPs over the peak below which a measured step is held apart: something else than its ops took most of
    /// it.
    pub apart_below_mfu: Option<f64>,
    /// Why the row is held apart whatever its time.
    pub apart: Option<String>,
    /// Measured peak memory in GiB.
    pub peak_mem_gib: Option<f64>,
    /// Of what that is the peak.
    pub memory_of: MemoryOf,
    /// Tokens of the longest sequence where their lengths differ: a micro-batch padded to it makes the peak.
    pub longest: Option<u64>,
    /// Model and machine, within which rows can be ranked.
    pub block: String,
    /// Model, machine, software, format and batch, within which layouts can be chosen from.
    pub choice: String,
    /// Source, software and device, within which one measured step tells something about another.
    pub family: String,
    /// The model: its name, layers and width.
    pub model: String,
    /// Devices of the job.
    pub devices: Option<f64>,
    /// Values that were filled in.
    pub assumed: Vec<AssumedField>,
    /// Statements that contradict each other.
    pub warnings: Vec<String>,
    /// The reliefs that the run may have used to fit, the least first.
    pub reliefs: Vec<Relief>,
    /// Columns of the row that nothing was made of.
    pub not_understood: BTreeMap<String, Value>,
}

/// The case of a row.
///
/// # Errors
/// Why it cannot be mapped.
pub fn case(row: &PublishedRow, book: &RuleBook) -> Result<Case, String> {
    let words = row.columns.as_ref().map_err(Clone::clone)?;
    let said = describe(words, &row.shapes, &row.id, book)?;
    let (ruling, layout) = (&said.ruling, said.layout);
    let layer = ruling.columns.text("kind") == "layer";
    let (measured_s, measured_from) = match layer {
        true => layer_seconds(ruling)?,
        false => measured::seconds(ruling, &layout, &said.model, peak(ruling, &said.machine)?)?,
    };
    let c = &ruling.columns;
    Ok(Case {
        moe: said.model.moe.is_some(),
        layer,
        pace: ruling.pace,
        measured_s,
        measured_from,
        scale: layout.printed / layout.global as f64,
        tokens: layout.printed * said.model.sequence as f64,
        apart_below_mfu: c.number("apart_below_mfu"),
        apart: Some(c.text("apart").to_string()).filter(|why| !why.is_empty()),
        peak_mem_gib: c.number("peak_mem_gib").filter(|_| c.text("memory_of") != "another batch"),
        memory_of: MemoryOf::of(&c.text("memory_of")),
        longest: c.number("longest_seq").map(|tokens| tokens as u64),
        block: ["source", "model", "device", "n_devices"].map(|name| c.text(name)).join(", "),
        choice: CHOICE.map(|name| c.text(name)).join(", "),
        family: ["source", "software", "device"].map(|name| c.text(name)).join(", "),
        model: format!(
            "{}, {} x {}",
            c.text("model"),
            said.workload["model"]["layers"],
            said.workload["model"]["hidden"]
        ),
        devices: c.number("n_devices"),
        assumed: c.assumed.clone(),
        warnings: said.warnings.clone(),
        reliefs: reliefs(&said),
        class: said.class.clone(),
        stack: said.stack.clone(),
        machine: said.machine.clone(),
        workload: said.workload.clone(),
        not_understood: said.not_understood.clone(),
    })
}

/// Of what a printed peak of memory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryOf {
    /// Tensors (`torch.cuda.max_memory_allocated`).
    #[default]
    Tensors,
    /// The framework's allocator (`torch.cuda.max_memory_reserved`).
    Allocator,
    /// All that the driver sees (`nvidia-smi`).
    Device,
}

impl MemoryOf {
    fn of(word: &str) -> MemoryOf {
        match word {
            "allocator" => MemoryOf::Allocator,
            "device" => MemoryOf::Device,
            _ => MemoryOf::Tensors,
        }
    }
    /// Its bytes, from the peak of tensors and context (`held`), the context, the allocator's cache and the capacity.
    pub fn bytes(self, held: f64, context: f64, cached: f64, capacity: f64) -> f64 {
        let device = (held + cached).min(capacity.max(held));
        match self {
            MemoryOf::Tensors => held - context,
            MemoryOf::Allocator => device - context,
            MemoryOf::Device => device,
        }
    }
}

/// Columns in which rows agree that differ in nothing but the layout.
const CHOICE: [&str; 8] =
    ["source", "model", "device", "n_devices", "gbs_seqs", "seq", "precision", "software"];

/// Forward and backward of one layer.
fn layer_seconds(ruling: &Ruling) -> Result<(f64, &'static str), String> {
    let c = &ruling.columns;
    let sum = || Some(c.number("forward_ms")? + c.number("backward_ms")?);
    let ms = c.number("combined_ms").or_else(sum).ok_or("no forward_ms and backward_ms")?;
    Ok((1e-3 * ms, "combined_ms"))
}

/// The peak that fractions refer to: as printed, or the device's in the format of its activations.
fn peak(ruling: &Ruling, machine: &MachineCase) -> Result<f64, String> {
    if let Some(tflops) = ruling.columns.number("peak_tflops") {
        return Ok(1e12 * tflops);
    }
    let (_, built) = Machine::load(&machine.topology, &machine.sets).map_err(|e| e.to_string())?;
    let format =
        serde_json::from_value(ruling.workload["precision"]["compute"].clone()).unwrap_or(Dtype::Bf16);
    Ok(DeviceCost::new(built.device(DeviceId(0))).peak(format).0)
}

impl Case {
    /// True if nothing says which software ran: the usual one stands for it.
    pub fn software_assumed(&self) -> bool {
        let guess = |value: &&AssumedField| value.origin.from == ValueClass::Assumed;
        self.assumed.iter().filter(guess).any(|value| value.column == "stack")
    }

    /// Workload and machine, read and found to fit each other. `layers` replaces the model's number of layers; `roomy`
    /// gives the device memory without end; `sets` are settings of the workload and, behind `topology.`, the machine.
    ///
    /// # Errors
    /// The simulator's refusal.
    pub fn inputs(
        &self,
        id: &str,
        layers: Option<u64>,
        roomy: bool,
        sets: &[String],
    ) -> Result<Inputs, String> {
        let mut all = sets.to_vec();
        if roomy {
            all.push("topology.device.hbm.GB=1000000".into());
            if !self.workload["offload"].is_null() {
                all.push("topology.node.memory[0].capacity_GiB=1000000".into());
            }
        }
        let mut workload = self.workload.clone();
        if let Some(layers) = layers {
            workload["model"]["layers"] = layers.into();
        }
        inputs(&workload, &self.machine, id, &all).map_err(|e| e.to_string().replace('\n', "; "))
    }
}
