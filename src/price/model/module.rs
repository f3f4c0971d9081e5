//! Modules in front of the language model: what a rank computes, sends and keeps of the images of one micro-batch.
//!
//! A module is three kinds of units: its input (the patch embedding), its layers, and its projector. With b images on
//! a rank, p patches each, x learned vectors beside them, and m patches to a token:
//! * input: rows b·p (the rows before the last convolution: times its stride); the same on all tensor-parallel ranks
//!   that cut layers;
//! * layers: a transformer of b sequences of p + x, attention without a causal mask, inside windows where there are
//!   any;
//! * projector: rows b·p / m. Its matrices are cut in pairs, columns then rows, where tensor-parallel ranks cut
//!   layers; one left over is whole on each.
//!
//! Layers are not cut along the sequence (no sequence parallelism), and compute in the format of `precision.compute`:
//! recipes for narrow formats are of the language model.
//!
//! Tokens come to all ranks that hold a part of the sequence (`module_travel`): gathered over tensor-parallel ranks
//! that share images, then over context-parallel ranks, which always do. Their gradients go back: gathered over
//! tensor-parallel ranks where each has the gradients of a part of the sequence (sequence parallelism), then scattered
//! over context-parallel ranks.
//!
//! On devices of its own, a module has other degrees: a rank encodes its share of the images of all replicas of the
//! language model.
//!
//! Where ranks share images, b is the images of the fullest rank. Weights that every tensor-parallel rank holds whole
//! have gradients of other images on each: [`LayerPlan::sums_over_tensor`].

use super::KernelClass;
use super::blocks::{Block, LayerBuilder};
use super::layer::{LayerKind, LayerPlan};
use super::linear::{Linear, LinearSplit, products};
use super::mlp::activation;
use super::shard::Shard;
use stepsim_spec::model::{ModelSpec, ModuleSpec, ProjectorSpec};
use stepsim_spec::workload::{
    ContextSpec, Fp8Gemm, ModuleParallelism, TrainedPart, TrainedWeights, UsedModule, WorkloadSpec,
};

const PATCH_EMBEDDING: [&str; 3] = products!("patch embedding");

/// A module on one rank.
#[derive(Clone, Debug)]
pub struct ModuleShard<'a> {
    pub(super) module: UsedModule<'a>,
    /// Its layers as a transformer.
    pub(super) stack: ModelSpec,
    /// The language model.
    pub(super) model: &'a ModelSpec,
    /// The rank's share of its layers.
    pub(super) layers: Shard,
    /// Sizes of the groups over which tokens are gathered: tensor- and context-parallel.
    pub(super) gathers: [u64; 2],
    /// True if each tensor-parallel rank has gradients of a part of the sequence.
    pub(super) cuts_sequence: bool,
    /// Images whose tokens come to a rank of the language model before it gathers the others.
    pub(super) arriving: u64,
    /// Tensor-parallel degree of the language model.
    pub(super) tensor: u64,
    /// True if tensor-parallel ranks hold the same weights and encode other images.
    replicated: bool,
    /// True if it has devices of its own.
    is_apart: bool,
}

impl<'a> ModuleShard<'a> {
    /// The share of every rank of the module's stages, of `images` in a micro-batch or as many as each has. Without
    /// any, ranks encode one that is thrown away, to stay in step with others.
    pub fn new(
        workload: &WorkloadSpec,
        model: &'a ModelSpec,
        module: UsedModule<'a>,
        images: Option<u64>,
    ) -> ModuleShard<'a> {
        let par = &workload.parallelism;
        let apart = module.usage.devices;
        let shared = apart.is_some() || module.usage.parallelism == ModuleParallelism::Data;
        let shares = if shared { par.tensor } else { 1 };
        let replicated = shares > 1 && apart.is_none();
        let usual = workload.batch.micro_batch * module.most_items();
        let images = images.unwrap_or(usual).max(1);
        let stack = module.stack();
        let arriving = images.div_ceil(shares * par.context.size.max(1));
        let [encoded, tensor] = match apart {
            Some(own) => [(images * par.data.unwrap_or(1)).div_ceil(own.data.max(1)), own.tensor],
            None => [arriving, if replicated { 1 } else { par.tensor }],
        };
        let layers = Shard {
            micro_batch: encoded,
            sequence: module.positions(),
            tensor,
            sequence_parallel: false,
            context: ContextSpec::default(),
            context_rank: 0,
            fp8: None,
            recipe: None,
            pad_rows_to: 1,
            ..Shard::new(workload, &stack)
        };
        ModuleShard {
            module,
            stack,
            model,
            layers,
            gathers: [shares, par.context.size],
            cuts_sequence: par.sequence_parallel && par.tensor > 1,
            arriving,
            tensor: par.tensor,
            replicated,
            is_apart: apart.is_some(),
        }
    }
    /// Its layers, as a transformer has them.
    pub fn stack(&self) -> &ModelSpec {
        &self.stack
    }

    /// The patch embedding, with positions and the norms before the layers.
    pub fn input(&self) -> LayerPlan {
        let input = &self.module.spec.input;
        let rows = |stride| Shard { sequence: self.module.patches() * stride, ..self.of_encoder(true) };
        let (strided, whole, positions) = (rows(input.stride), rows(1), self.of_encoder(true));
        let mut b = LayerBuilder::new(&self.stack, &strided);
        let last = input.matrices.len().saturating_sub(1);
        for (i, [inputs, outputs]) in input.matrices.iter().enumerate() {
            b.shard = if i == last { &whole } else { &strided };
            if i > 0 {
                let made = strided.tokens() * input.matrices[i - 1][1];
                b.save("activation input", made as f64 * b.shard.act(), &[], false);
                activation(&mut b, ["activation", "activation backward"], made, false, &[]);
            }
            let kept = b.shard.tokens() as f64 * *inputs as f64 * b.shard.act();
            b.save_input("patches", kept, &[], &[]);
            b.linear(linear(PATCH_EMBEDDING, *inputs, *outputs, LinearSplit::No, input.biases));
        }
        b.shard = &positions;
        add_positions(&mut b, self.module.spec);
        (0..input.norms).for_each(|_| b.norm("norm"));
        self.finished(b, LayerKind::ModuleInput)
    }

    /// A layer.
    pub fn layer(&self, number: u64) -> LayerPlan {
        let spec = self.module.spec;
        let shard = self.of_encoder(false);
        let mut plan = LayerPlan::transformer(&self.stack.layer(number), &shard);
        let scales = if spec.layer_scale { 2 * spec.hidden } else { 0 };
        let keys = spec.heads * spec.head_size() / shard.tensor;
        let missing = if spec.biases && !spec.key_biases { keys } else { 0 };
        plan.parameters.dense = (plan.parameters.dense + scales).saturating_sub(missing);
        if shard.trained.weights() {
            plan.trained = plan.parameters;
        }
        self.shared(plan)
    }

    /// The norms behind the layers, the merging of positions, the projector, and the way of its tokens to all ranks. A
    /// module on stages of its own sends them to the language model first.
    pub fn projector(&self) -> LayerPlan {
        self.projected(&self.module.spec.projector, !self.module.is_elsewhere())
    }
    /// The projector behind a layer of the encoder, where there are such.
    pub fn deep_projector(&self) -> Option<LayerPlan> {
        self.module.spec.deepstack.as_ref().map(|deep| self.projected(&deep.projector, false))
    }

    fn projected(&self, projector: &ProjectorSpec, travels: bool) -> LayerPlan {
        let trained =
            if self.module.is_trained() { TrainedWeights::Weights } else { TrainedWeights::Nothing };
        let lowest = self.module.usage.trained == TrainedPart::Projector;
        let positions = Shard { trained, lowest, ..self.layers.clone() };
        let tokens = Shard { sequence: self.module.tokens(), ..positions.clone() };
        let width = projector.matrices.first().map_or(self.stack.hidden, |first| first[0]);
        let norm = projector.token_norm.map_or(self.stack.norm, |norm| norm.norm);
        let merged = ModelSpec { hidden: width, norm, ..self.stack.clone() };
        let mut b = LayerBuilder::new(&self.stack, &positions);
        (0..projector.norms).for_each(|_| b.norm("norm"));
        let beside = projector.beside_layers.len() as u64;
        merge(&mut b, tokens.tokens() * width, beside);
        (b.model, b.shard) = (&merged, &tokens);
        if projector.token_norm.is_some() {
            b.norm("norm");
        }
        project(&mut b, &projector.matrices, projector.biases);
        if travels {
            self.travel(&mut b);
        }
        self.finished(b, LayerKind::Projector)
    }

    /// The share of the encoder; of its first unit nothing below is trained.
    fn of_encoder(&self, first: bool) -> Shard {
        let trains = self.module.usage.trained == TrainedPart::All;
        let trained = if trains { TrainedWeights::Weights } else { TrainedWeights::Nothing };
        Shard { trained, lowest: first, ..self.layers.clone() }
    }
    fn finished(&self, blocks: LayerBuilder<'_>, kind: LayerKind) -> LayerPlan {
        self.shared(blocks.finish(kind))
    }
    /// A unit whose state is shared as the module's is.
    fn shared(&self, plan: LayerPlan) -> LayerPlan {
        LayerPlan {
            sums_over_tensor: self.replicated,
            sums_over_pipeline: self.module.usage.bubbles,
            is_apart: self.is_apart,
            ..plan
        }
    }
}

/// A linear layer of a module.
fn linear(names: [&'static str; 3], inputs: u64, outputs: u64, cut: LinearSplit, biases: bool) -> Linear {
    Linear { biases, ..Linear::new(names, inputs, outputs, cut, Fp8Gemm::Projection) }
}

/// Learned positions added to patches, and learned vectors put beside them.
fn add_positions(b: &mut LayerBuilder, spec: &ModuleSpec) {
    let (rows, s) = (spec.input.position_rows + spec.input.extra_tokens, b.shard);
    if rows == 0 {
        return;
    }
    b.parameters.dense += rows * spec.hidden + spec.input.gates;
    let elements = s.tokens() * spec.hidden;
    let gradient = vec![s.pass(KernelClass::Reduction, "position gradient", elements, 1.0)];
    b.push(Block {
        forward: vec![s.pass(KernelClass::Residual, "add positions", elements, 3.0)],
        weight_grad: gradient.clone(),
        backward: gradient,
        ..Block::default()
    });
}

/// Positions put side by side, or their mean: reads them and the same positions of `beside` other layers, and writes
/// `written` elements. Backward, the gradients of other layers are added to the gradient that comes from above.
fn merge(b: &mut LayerBuilder, written: u64, beside: u64) {
    let s = b.shard;
    let of_layer = s.tokens() * b.model.hidden;
    let elements = (1 + beside) * of_layer;
    let bytes = (elements + written) as f64 * s.act();
    let copy = |name| vec![s.elementwise(KernelClass::Copy, name, elements, bytes)];
    let mut backward = copy("merge gradient");
    let name = "add gradients of layers beside";
    let sum = || s.pass(KernelClass::Residual, name, beside * of_layer, 3.0);
    backward.extend((beside > 0).then(sum));
    b.push(Block::of(copy("merge"), backward, &[]));
}

/// The matrices of the projector, an activation function between two.
fn project(b: &mut LayerBuilder, matrices: &[[u64; 2]], biases: bool) {
    let (tensor, pairs) = (b.shard.tensor, matrices.len() / 2 * 2);
    for (i, [inputs, outputs]) in matrices.iter().enumerate() {
        let (cut, share) = match i {
            i if i >= pairs => (LinearSplit::No, [1, 1]),
            i if i % 2 == 0 => (LinearSplit::Columns, [1, tensor]),
            _ => (LinearSplit::Rows, [tensor, 1]),
        };
        let (inputs, outputs) = (inputs / share[0], outputs / share[1]);
        let (tokens, act) = (b.shard.tokens(), b.shard.act());
        if i > 0 {
            let elements = tokens * inputs;
            b.save("activation input", elements as f64 * act, &[], false);
            activation(b, ["projector activation", "projector activation backward"], elements, false, &[]);
        }
        b.save_input("projector input", (tokens * inputs) as f64 * act, &[], &[]);
        b.linear(linear(products!("projector"), inputs, outputs, cut, biases));
    }
}
