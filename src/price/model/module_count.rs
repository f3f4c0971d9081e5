//! Parameters of modules, and the FLOPs of a step's images as MFU counts them.
//!
//! FLOPs of an image forward: 2 for each weight of the input and row of it, of the layers and position, of the
//! projector and token; and attention between positions. Trained parts count three times, but for the first trained
//! matrix, which has no input gradient. Frozen parts count once.

use super::flops::{StepFlops, TokenFlops};
use super::parameters::layer_parameters;
use stepsim_spec::model::{ModelSpec, ModuleSpec, ProjectorSpec};
use stepsim_spec::workload::{ModuleUseSpec, TrainedPart, UsedModule, WorkloadSpec};

/// Weights and biases of matrices.
fn matrices(list: &[[u64; 2]], biases: bool) -> u64 {
    list.iter().map(|[inputs, outputs]| inputs * outputs + if biases { *outputs } else { 0 }).sum()
}

impl ModuleSpec {
    /// How many parameters it has.
    pub fn parameters(&self) -> u64 {
        self.encoder_parameters() + self.projector_parameters()
    }
    /// Parameters of the input and the layers.
    pub fn encoder_parameters(&self) -> u64 {
        let (input, h) = (&self.input, self.hidden);
        let stack = self.stack();
        let own = if self.layer_scale { 2 * h } else { 0 };
        let missing = if self.biases && !self.key_biases { self.heads * self.head_size() } else { 0 };
        let layers: u64 = (stack.layer_counts().iter())
            .map(|(layer, count)| count * (layer_parameters(layer) + own - missing))
            .sum();
        matrices(&input.matrices, input.biases)
            + (input.position_rows + input.extra_tokens) * h
            + input.gates
            + input.norms * self.norm.parameters(h)
            + layers
    }
    /// Parameters of the projectors, and of the norms behind the layers.
    pub fn projector_parameters(&self) -> u64 {
        let of = |projector: &ProjectorSpec| {
            let norm = projector.token_norm.map_or(0, |norm| norm.norm.parameters(norm.width));
            projector.norms * self.norm.parameters(self.hidden)
                + norm
                + matrices(&projector.matrices, projector.biases)
        };
        self.projectors().map(of).sum()
    }
}

impl UsedModule<'_> {
    /// How many of its parameters a step trains.
    pub fn trained_parameters(&self) -> u64 {
        match self.usage.trained {
            TrainedPart::All => self.spec.parameters(),
            TrainedPart::Projector => self.spec.projector_parameters(),
            TrainedPart::Nothing => 0,
        }
    }
    /// FLOPs of an image, forward alone.
    pub fn forward_flops(&self) -> f64 {
        let nothing = ModuleUseSpec { trained: TrainedPart::Nothing, ..self.usage.clone() };
        UsedModule { usage: &nothing, ..*self }.flops().model
    }
    /// FLOPs of an image, forward and backward.
    fn flops(&self) -> StepFlops {
        let weights = |list: &[[u64; 2]]| list.iter().map(|[i, o]| (i * o) as f64).collect::<Vec<f64>>();
        let input = weights(&self.spec.input.matrices);
        let (patches, tokens) = (self.patches() as f64, self.tokens() as f64);
        let last = input.len().saturating_sub(1);
        let strided = |(i, w): (usize, &f64)| w * if i == last { 1.0 } else { self.spec.input.stride as f64 };
        let of_input: f64 = 2.0 * patches * input.iter().enumerate().map(strided).sum::<f64>();
        let first_of_input = input.first().map_or(0.0, |w| 2.0 * patches * strided((0, w)));
        let (mut of_projector, mut first_of_projector) = (0.0, 0.0);
        for projector in self.spec.projectors() {
            let weights = weights(&projector.matrices);
            of_projector += 2.0 * tokens * weights.iter().sum::<f64>();
            // A norm before it needs the gradient of its input.
            let reads_norm = projector.norms > 0 || projector.token_norm.is_some();
            first_of_projector += weights.first().filter(|_| !reads_norm).map_or(0.0, |w| 2.0 * tokens * w);
        }
        let of_layers = TokenFlops::of(&self.stack(), self.unpadded());
        let (positions, trained) = (self.unpadded() as f64, self.usage.trained);
        let encoder = if trained == TrainedPart::All { 3.0 } else { 1.0 };
        let matrices = encoder * (of_input + positions * of_layers.matrices)
            + if self.is_trained() { 3.0 } else { 1.0 } * of_projector
            - match trained {
                TrainedPart::All => first_of_input,
                TrainedPart::Projector => first_of_projector,
                TrainedPart::Nothing => 0.0,
            };
        let mixing = encoder * positions * of_layers.mixing;
        StepFlops { model: matrices + mixing, model_causal: matrices + mixing, mixing }
    }
}

impl StepFlops {
    /// FLOPs of the images of the sequences.
    pub fn of_modules(workload: &WorkloadSpec, model: &ModelSpec, sequences: u64) -> StepFlops {
        let mut sum = StepFlops::default();
        for module in workload.used_modules(model) {
            let images: u64 = match module.usage.items {
                Some(items) => sequences * items,
                None => module.of_sequences(sequences).iter().sum(),
            };
            sum += module.flops().times(images as f64);
        }
        sum
    }
    /// So many sequences with their images.
    pub fn of_step(workload: &WorkloadSpec, model: &ModelSpec, sequences: u64) -> StepFlops {
        let (training, below) = (&workload.training, workload.trains_modules());
        let mut sum = StepFlops::of_training(model, training, below, sequences, workload.sequence(model));
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
