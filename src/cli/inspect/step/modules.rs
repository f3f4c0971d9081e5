//! The modules of a step: how large they are, what is trained, how many images sequences have, and how unevenly these
//! fall on ranks.

use std::fmt::Write;

use serde::Serialize;

use stepsim_price::documents::{Images, items_of};
use stepsim_price::model::{module_parameters, trained_module_parameters};
pub use stepsim_read::analysis::table::grouped;
use stepsim_simulate::Inputs;
use stepsim_spec::workload::{ModuleDevices, ModuleParallelism, TrainedPart, UsedModule};

/// A module of a step.
#[derive(Debug, Serialize)]
pub(super) struct ModuleView {
    name: String,
    parameters: u64,
    trained_parameters: u64,
    trained: TrainedPart,
    parallelism: ModuleParallelism,
    /// Pipeline stages that it has to itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    stages: Option<u64>,
    /// Degrees of the devices that it has to itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    devices: Option<ModuleDevices>,
    /// True if every pipeline rank holds it and encodes in its bubbles.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    bubbles: bool,
    /// Images or clips of a sequence on average, patches or frames of one, and tokens that it becomes.
    items: f64,
    patches: u64,
    tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    uneven: Option<UnevenView>,
}

/// How unevenly images fall on micro-batches and on data-parallel ranks.
#[derive(Debug, Serialize)]
struct UnevenView {
    micro_batches_max_over_mean: f64,
    ranks_max_over_mean: f64,
}

impl ModuleView {
    /// The modules of a step, in order.
    pub(super) fn of_step(inputs: &Inputs) -> Vec<ModuleView> {
        let (workload, model) = (&inputs.workload.value, &inputs.model);
        let images = Images::new(workload, model, u64::from(inputs.machine.devices()));
        let global = workload.batch.global;
        let view = |(i, module): (usize, &UsedModule<'_>)| ModuleView {
            name: module.spec.name.clone(),
            parameters: module_parameters(module.spec),
            trained_parameters: trained_module_parameters(module),
            trained: module.usage.trained,
            parallelism: module.usage.parallelism,
            stages: module.usage.own_stages(),
            devices: module.usage.devices,
            bubbles: module.usage.bubbles,
            items: items_of(module, global).iter().sum::<u64>() as f64 / global as f64,
            patches: module.patches(),
            tokens: module.tokens(),
            uneven: images.as_ref().map(|images| UnevenView::of(images, i)),
        };
        workload.used_modules(model).iter().enumerate().map(view).collect()
    }
    pub(super) fn parameters(&self) -> u64 {
        self.parameters
    }
    pub(super) fn text(&self, out: &mut String) {
        let trained = match self.trained {
            TrainedPart::All => "all trained",
            TrainedPart::Projector => "the projector trained",
            TrainedPart::Nothing => "frozen",
        };
        let shared = match (self.devices, self.parallelism) {
            (None, ModuleParallelism::Data) => "images",
            _ => "layers",
        };
        let stages = match (self.devices, self.stages) {
            (Some(own), _) => {
                format!("; on {} devices of its own, tensor {} × data {}", own.ranks(), own.tensor, own.data)
            }
            (None, None) if self.bubbles => "; on every pipeline rank, in its bubbles".into(),
            (None, None) => String::new(),
            (None, Some(1)) => "; on the first stage alone".into(),
            (None, Some(n)) => format!("; on the first {n} stages alone"),
        };
        let (name, parameters, patches) = (&self.name, grouped(self.parameters), grouped(self.patches));
        let (items, tokens) = (self.items, grouped((self.items * self.tokens as f64).round() as u64));
        let _ = writeln!(
            out,
            "  module {name}: {parameters} parameters, {trained}; a sequence has {items} of {patches} \
             patches, {tokens} of its tokens; tensor-parallel ranks share {shared}{stages}"
        );
        if let Some(UnevenView { micro_batches_max_over_mean, ranks_max_over_mean }) = &self.uneven {
            let _ = writeln!(
                out,
                "  images of the fullest over the mean: micro-batch {micro_batches_max_over_mean:.2}, \
                 data-parallel rank {ranks_max_over_mean:.2}"
            );
        }
    }
}

impl UnevenView {
    fn of(images: &Images, module: usize) -> UnevenView {
        let ranks: Vec<Vec<u64>> = (0..images.ranks())
            .map(|rank| images.of_rank(rank).iter().map(|of| of[module]).collect())
            .collect();
        let over_mean = |values: &[u64]| {
            let (most, sum) = (values.iter().copied().max().unwrap_or(0), values.iter().sum::<u64>());
            (most * values.len() as u64) as f64 / sum.max(1) as f64
        };
        let sums: Vec<u64> = ranks.iter().map(|rank| rank.iter().sum()).collect();
        UnevenView {
            micro_batches_max_over_mean: over_mean(&ranks.concat()),
            ranks_max_over_mean: over_mean(&sums),
        }
    }
}
