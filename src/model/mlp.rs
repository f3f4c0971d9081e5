//! The dense MLP (and the shared experts, which are one).

use super::KernelClass;
use super::item::{Item, Kernel};
use super::layer::{Block, Blocks, Cut, Linear};
use crate::spec::workload::{Fp8Gemm, RecomputeModule};

/// Adds an MLP of width `ffn` (before tensor parallelism cuts it). `own_input`: whether its input is a tensor of its
/// own that must be kept and gathered.
pub(super) fn add(
    b: &mut Blocks,
    name: &'static str,
    ffn: u64,
    gemm: Fp8Gemm,
    modules: &'static [RecomputeModule],
    own_input: bool,
) {
    let (m, s) = (b.model, b.shard);
    let own_input = own_input && !m.parallel_block;
    let width = ffn / s.tensor;
    let up = if m.gated_mlp { 2 * width } else { width };
    let t = s.tokens();
    if own_input {
        let bytes = s.local_tokens() as f64 * m.hidden as f64 * s.saved_input(gemm);
        b.save("MLP input", bytes, &[RecomputeModule::Norm], true);
    }
    let shared = name == "shared expert";
    b.linear(Linear {
        name: if shared { "shared expert up" } else { "mlp up" },
        grad_names: if shared {
            ["shared expert up input gradient", "shared expert up weight gradient"]
        } else {
            ["mlp up input gradient", "mlp up weight gradient"]
        },
        inputs: m.hidden,
        outputs: up,
        cut: if m.parallel_block { Cut::ColumnsGathered } else { Cut::Columns },
        biases: m.mlp_biases(),
        gemm,
        modules,
    });
    b.save("activation input", t as f64 * up as f64 * s.saved_activation(), modules, false);
    let with_activation: &[RecomputeModule] = &[&[RecomputeModule::Activation], modules].concat();
    activation(b, t * width, m.gated_mlp, with_activation);
    b.save("MLP down input", t as f64 * width as f64 * s.saved_input(gemm), with_activation, true);
    b.linear(Linear {
        name: if shared { "shared expert down" } else { "mlp down" },
        grad_names: if shared {
            ["shared expert down input gradient", "shared expert down weight gradient"]
        } else {
            ["mlp down input gradient", "mlp down weight gradient"]
        },
        inputs: width,
        outputs: m.hidden,
        cut: Cut::Rows,
        biases: m.mlp_biases(),
        gemm,
        modules,
    });
}

/// The activation function: reads one (gated: two) and writes one element for each of `elements`; backward reads the
/// gradient as well and writes one (two) back.
pub(super) fn activation(b: &mut Blocks, elements: u64, gated: bool, modules: &[RecomputeModule]) {
    let s = b.shard;
    let moved = elements as f64 * s.act();
    let (reads_and_writes, backward) = match (gated, s.fuses_chains()) {
        (false, _) => (2.0, 3.0),
        (true, true) => (3.0, 5.0),
        // The function, then the product; backward both gradients of the product, then that of the function.
        (true, false) => (2.0 + 3.0, 3.0 + 3.0 + 3.0),
    };
    let pass = |name, times: f64| {
        let class = KernelClass::Activation;
        vec![Item::Kernel(Kernel::elementwise(class, name, elements, times * moved, s.compute))]
    };
    let (forward, backward) = (pass("activation", reads_and_writes), pass("activation backward", backward));
    b.push(Block {
        forward,
        input_grad: backward.clone(),
        backward,
        modules: modules.to_vec(),
        ..Block::default()
    });
}
