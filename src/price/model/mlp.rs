//! The dense MLP (and the shared experts, which are one).

use super::KernelClass;
use super::blocks::{Block, LayerBuilder};
use super::linear::{Linear, LinearSplit, products};
use super::shard::Shard;
use stepsim_spec::facts::facts;
use stepsim_spec::recipe::CastRole;
use stepsim_spec::stack::FusedPart;
use stepsim_spec::workload::AdaptedMatrix::{Down, Gate, Up};
use stepsim_spec::workload::{Fp8Gemm, RecomputeModule};

/// An MLP.
pub(super) struct Mlp {
    /// The first word of its kernels' names: `mlp` or `shared expert`.
    pub(super) name: &'static str,
    /// Its width before tensor parallelism cuts it.
    pub(super) ffn: u64,
    pub(super) gemm: Fp8Gemm,
    pub(super) modules: &'static [RecomputeModule],
    /// True if it has its own input tensor, which must be kept and gathered.
    pub(super) own_input: bool,
}

impl Mlp {
    /// Adds all of it.
    pub(super) fn add(&self, b: &mut LayerBuilder) {
        self.up(b);
        self.down(b);
    }
    fn is_shared(&self) -> bool {
        self.name == "shared expert"
    }
    fn width(&self, b: &LayerBuilder) -> u64 {
        self.ffn / b.shard.tensor
    }

    /// Adds the first product (or two) and the activation.
    pub(super) fn up(&self, b: &mut LayerBuilder) {
        let (m, s, modules, gemm) = (b.model, b.shard, self.modules, self.gemm);
        let width = self.width(b);
        let up = if m.gated_mlp { 2 * width } else { width };
        let t = s.tokens();
        if self.own_input && !m.parallel_block {
            let copies = s.copies_of_input(if m.gated_mlp { 2 } else { 1 });
            let bytes = copies * s.kept_tokens() as f64 * m.hidden as f64 * s.saved_input(gemm);
            b.save_input("MLP input", bytes, &[RecomputeModule::Norm], &[Gate, Up]);
        }
        let names = if self.is_shared() { products!("shared expert up") } else { products!("mlp up") };
        let cut = if m.parallel_block { LinearSplit::ColumnsGathered } else { LinearSplit::Columns };
        b.linear(Linear {
            biases: m.mlp_biases(),
            modules,
            parts: if m.gated_mlp { vec![(Gate, width), (Up, width)] } else { vec![(Up, width)] },
            ..Linear::new(names, m.hidden, up, cut, gemm)
        });
        let input = t as f64 * width as f64 * s.saved_activation();
        b.save("activation input", input, modules, false);
        if m.gated_mlp {
            b.save("gated input", input, &[&[RecomputeModule::EverySecondMatrix], modules].concat(), false);
        }
        let with_activation: &[RecomputeModule] = &[&[RecomputeModule::Activation], modules].concat();
        if is_by_operations(s, m.gated_mlp) {
            let [_, _, kept] = gelu_by_operations(s);
            b.save("between operations of GELU", t as f64 * width as f64 * kept, with_activation, false);
        }
        if m.gated_mlp && !s.fuses_activation() {
            // The function and the product are operations of their own: the product keeps both factors.
            b.save("gate output", t as f64 * width as f64 * s.act(), with_activation, false);
        }
        let names = if self.is_shared() {
            ["shared expert activation", "shared expert activation backward"]
        } else {
            ["activation", "activation backward"]
        };
        activation(b, names, t * width, m.gated_mlp, with_activation);
        let bytes = t as f64 * width as f64 * s.saved_input(gemm);
        b.save_input("MLP down input", bytes, with_activation, &[Down]);
    }

    /// Adds the last product.
    pub(super) fn down(&self, b: &mut LayerBuilder) {
        let names = if self.is_shared() { products!("shared expert down") } else { products!("mlp down") };
        b.linear(Linear {
            biases: b.model.mlp_biases(),
            modules: self.modules,
            parts: vec![(Down, b.model.hidden)],
            ..Linear::new(names, self.width(b), b.model.hidden, LinearSplit::Rows, self.gemm)
        });
    }
}

/// True if GELU runs operation by operation.
fn is_by_operations(s: &Shard, gated: bool) -> bool {
    !gated && !s.fuses_chains() && s.eager.contains(&FusedPart::Activation)
}

/// Bytes an element of GELU by tanh, operation by operation: forward, backward, and kept beside its input
/// (transformers activations.py, `NewGELUActivation`: half, cube, factor, sum, factor, tanh, sum, product). Under
/// autocast the cube and all behind it are fp32; one H100: 40 ms of GPT-2's 12 layers of 16,384 tokens
/// (docs/developers/one-gpu.md).
fn gelu_by_operations(s: &Shard) -> [f64; 3] {
    let wider = *facts().wider_casts * 6.0;
    if s.works_in_fp32() {
        [64.0 + wider, 112.0 + wider, 12.0]
    } else {
        [18.0, 28.0, 3.0].map(|x| x * s.act())
    }
}

/// The activation function: reads one (gated: two) and writes one element for each of `elements`; backward reads the
/// gradient as well and writes one (two) back.
pub(super) fn activation(
    b: &mut LayerBuilder,
    names: [&'static str; 2],
    elements: u64,
    gated: bool,
    modules: &[RecomputeModule],
) {
    let s = b.shard;
    let (reads_and_writes, backward) = match (gated, s.fuses_activation()) {
        (false, _) => (2.0, 3.0),
        (true, true) => (3.0, 5.0),
        // The function, then the product; backward, both gradients of the product, then the gradient of the function.
        (true, false) => (2.0 + 3.0, 3.0 + 3.0 + 3.0),
    };
    let [ahead, back] = match is_by_operations(s, gated) {
        true => {
            let [ahead, back, _] = gelu_by_operations(s);
            [ahead, back]
        }
        false => [reads_and_writes, backward].map(|times| times * s.act()),
    };
    let pass = |name, each: f64| {
        let bytes = each * elements as f64;
        vec![s.made(FusedPart::Activation, s.elementwise(KernelClass::Activation, name, elements, bytes))]
    };
    let (forward, backward) = (pass(names[0], ahead), pass(names[1], back));
    let (keep, back) = match s.fp8.as_ref().is_some_and(|fp8| fp8.saved_activations) {
        true => s.casts_beside(CastRole::ActivationInput, elements * if gated { 2 } else { 1 }).into(),
        false => Default::default(),
    };
    // The kept tensor is cast once, not again where the function is.
    let modules_of_cast: Vec<RecomputeModule> =
        modules.iter().copied().filter(|m| *m != RecomputeModule::Activation).collect();
    b.push(Block { forward: keep, modules: modules_of_cast, ..Block::default() });
    b.push(Block::of(forward, [back, backward].concat(), modules));
}
