//! Parameters of modules, and the FLOPs of a step's images as MFU counts them.
//!
//! FLOPs of an image forward: 2 for each weight of the input and row of it, of the layers and position, of the
//! projector and token; and attention between positions. Trained parts count three times, but for the first trained
//! matrix, which has no input gradient. Frozen parts count once.

use super::flops::{StepFlops, TokenFlops};
use super::layer_count::layer_parameters;
use crate::documents::{Dealt, items_of};
use stepsim_spec::model::{ModelSpec, ModuleSpec, ProjectorSpec};
use stepsim_spec::workload::{ModuleUseSpec, TrainedPart, UsedModule, WorkloadSpec};

/// Weights and biases of matrices.
fn matrices(list: &[[u64; 2]], biases: bool) -> u64 {
    list.iter().map(|[inputs, outputs]| inputs * outputs + if biases { *outputs } else { 0 }).sum()
}

/// Parameters of a module.
pub fn module_parameters(module: &ModuleSpec) -> u64 {
    encoder_parameters(module) + projector_parameters(module)
}

/// Parameters of the input and the layers.
fn encoder_parameters(module: &ModuleSpec) -> u64 {
    let (input, h) = (&module.input, module.hidden);
    let stack = module.stack();
    let own = if module.layer_scale { 2 * h } else { 0 };
    let missing = if module.biases && !module.key_biases { module.heads * module.head_size() } else { 0 };
    let layers: u64 = (stack.layer_counts().iter())
        .map(|(layer, count)| count * (layer_parameters(layer) + own - missing))
        .sum();
    matrices(&input.matrices, input.biases)
        + (input.position_rows + input.extra_tokens) * h
        + input.gates
        + input.norms * module.norm.parameters(h)
        + layers
}

/// Parameters of the projectors, and of the norms behind the layers.
fn projector_parameters(module: &ModuleSpec) -> u64 {
    let of = |projector: &ProjectorSpec| {
        let norm = projector.token_norm.map_or(0, |norm| norm.norm.parameters(norm.width));
        projector.norms * module.norm.parameters(module.hidden)
            + norm
            + matrices(&projector.matrices, projector.biases)
    };
    module.projectors().map(of).sum()
}

/// Parameters of a module that a step trains.
pub fn trained_module_parameters(module: &UsedModule) -> u64 {
    match module.usage.trained {
        TrainedPart::All => module_parameters(module.spec),
        TrainedPart::Projector => projector_parameters(module.spec),
        TrainedPart::Nothing => 0,
    }
}

/// FLOPs of an image, forward alone.
pub fn forward_image_flops(module: &UsedModule) -> f64 {
    let nothing = ModuleUseSpec { trained: TrainedPart::Nothing, ..module.usage.clone() };
    StepFlops::of_image(&UsedModule { usage: &nothing, ..*module }).model
}

impl StepFlops {
    /// FLOPs of an image, forward and backward.
    fn of_image(module: &UsedModule) -> StepFlops {
        let weights = |list: &[[u64; 2]]| list.iter().map(|[i, o]| (i * o) as f64).collect::<Vec<f64>>();
        let input = weights(&module.spec.input.matrices);
        let (patches, tokens) = (module.patches() as f64, module.tokens() as f64);
        let last = input.len().saturating_sub(1);
        let strided =
            |(i, w): (usize, &f64)| w * if i == last { 1.0 } else { module.spec.input.stride as f64 };
        let of_input: f64 = 2.0 * patches * input.iter().enumerate().map(strided).sum::<f64>();
        let first_of_input = input.first().map_or(0.0, |w| 2.0 * patches * strided((0, w)));
        let (mut of_projector, mut first_of_projector) = (0.0, 0.0);
        for projector in module.spec.projectors() {
            let weights = weights(&projector.matrices);
            of_projector += 2.0 * tokens * weights.iter().sum::<f64>();
            // A norm before it needs the gradient of its input.
            let reads_norm = projector.norms > 0 || projector.token_norm.is_some();
            first_of_projector += weights.first().filter(|_| !reads_norm).map_or(0.0, |w| 2.0 * tokens * w);
        }
        let of_layers = TokenFlops::of(&module.stack(), module.unpadded());
        let (positions, trained) = (module.unpadded() as f64, module.usage.trained);
        let encoder = if trained == TrainedPart::All { 3.0 } else { 1.0 };
        let matrices = encoder * (of_input + positions * of_layers.matrices)
            + if module.is_trained() { 3.0 } else { 1.0 } * of_projector
            - match trained {
                TrainedPart::All => first_of_input,
                TrainedPart::Projector => first_of_projector,
                TrainedPart::Nothing => 0.0,
            };
        let mixing = encoder * positions * of_layers.mixing;
        StepFlops { model: matrices + mixing, model_causal: matrices + mixing, mixing }
    }
    /// FLOPs of the images of the sequences.
    pub fn of_modules(workload: &WorkloadSpec, model: &ModelSpec, sequences: u64) -> StepFlops {
        let mut sum = StepFlops::default();
        for module in workload.used_modules(model) {
            let images: u64 = match module.usage.items {
                Some(items) => sequences * items,
                None => items_of(&module, sequences).iter().sum(),
            };
            sum += StepFlops::of_image(&module).times(images as f64);
        }
        sum
    }
    /// So many sequences with their images; of those that hold documents, those that were dealt.
    pub fn of_step(
        workload: &WorkloadSpec,
        model: &ModelSpec,
        sequences: u64,
        dealt: Option<&Dealt>,
    ) -> StepFlops {
        let (training, below) = (&workload.training, workload.trains_modules());
        let mut sum = match dealt {
            Some(dealt) => StepFlops::of_documents(model, training, below, &dealt.sequences),
            None => StepFlops::of_training(model, training, below, sequences, workload.sequence(model)),
        };
        sum += StepFlops::of_modules(workload, model, sequences);
        sum
    }
}

impl std::ops::AddAssign for StepFlops {
    fn add_assign(&mut self, more: StepFlops) {
        self.model += more.model;
        self.model_causal += more.model_causal;
        self.mixing += more.mixing;
    }
}
