//! Low-rank adapters beside frozen matrices (LoRA): y = W·x + B·(A·x), A of r × c_in, B of c_out × r.
//!
//! Each adapted matrix has its own two small products, also where the frozen ones run as one kernel; B's adds to the
//! output of W's. Backward: the gradient through B, W's input gradient, and the gradient through A added to it; and
//! the weight gradients of both, for which the input of W is kept (once for matrices that share it) and A·x.
//!
//! Tensor parallelism cuts B with a matrix that is cut by columns, and A with one that is cut by rows; the other is
//! whole on every rank. Both commute with the sums of W's own communication, so adapters add no sums. The gradient of
//! the whole one is summed over tensor-parallel ranks once a step; this sum is left out, as it is for norms.
//!
//! Source: Hu et al. 2021 (arXiv 2106.09685); what eager software does around the products: huggingface/peft,
//! tuners/lora/layer.py; compiled: PrimeIntellect-ai/prime-rl @559b447, trainer/models/layers/lora/multi_linear.py.

use super::blocks::LayerBuilder;
use super::item::{CommOp, Item, Kernel};
use super::linear::{Linear, PassItems};
use super::{KernelClass, Shard};
use stepsim_spec::facts::facts;
use stepsim_spec::stack::FusedPart;
use stepsim_spec::workload::{AdapterSpec, Dtype, KernelFusion, TrainedWeights};

/// Kernels of the adapters of one linear layer.
#[derive(Default)]
pub(super) struct Adapters {
    forward: Vec<Item>,
    /// Before the input gradient of the frozen product, and behind it.
    input_grad: [Vec<Item>; 2],
    pub(super) weight_grad: Vec<Item>,
}

impl LayerBuilder<'_> {
    /// The adapters of a linear layer on `tokens`; their weights, and the tensors that they keep, are noted.
    pub(super) fn adapters_of(&mut self, l: &Linear, tokens: u64) -> Adapters {
        let s = self.shard;
        let mut adapters = Adapters::default();
        let TrainedWeights::Adapters(spec) = &s.trained else { return adapters };
        let rank = spec.rank;
        let outputs = l.parts.iter().filter(|(matrix, _)| spec.adapts(*matrix)).map(|(_, outputs)| *outputs);
        for outputs in outputs {
            adapters.add(s, spec, tokens, [l.inputs, rank, outputs]);
            let weights = rank * (l.inputs + outputs);
            self.adapters += weights;
            self.parameters.dense += weights;
            let kept = (tokens * rank) as f64 * s.act();
            self.save("adapter between its products", kept, l.modules, true);
            let own = own_input(s, spec);
            if own > 0.0 {
                self.save("adapter input", (tokens * l.inputs) as f64 * own, l.modules, true);
            }
        }
        adapters
    }
}

/// Scaling, casts and additions around an adapter's products are separate kernels (PEFT's `lora.Linear`).
fn is_eager(s: &Shard) -> bool {
    !s.fuses_chains() && !s.has_kernel_of(FusedPart::Adapters)
}

/// Bytes of an element of activations, of an adapter's weights, and of what its products read.
fn formats(s: &Shard, spec: &AdapterSpec) -> [f64; 3] {
    let [own, read] = [spec.format, spec.products].map(|format| format.map_or(s.act(), Dtype::bytes));
    [s.act(), own, read]
}

/// Bytes that an adapter keeps for each element of its input: the copy that its product reads, where the input was
/// cast or dropped out, and the mask.
fn own_input(s: &Shard, spec: &AdapterSpec) -> f64 {
    let [act, own, read] = formats(s, spec);
    let copied = spec.dropout || (is_eager(s) && own > act);
    (if copied { read } else { 0.0 }) + if spec.dropout { 1.0 } else { 0.0 }
}

/// Kernels around the products of an adapter, forward and backward: the input is cast to the adapter's format, dropped
/// out, and cast back by autocast; the output is scaled, added to the frozen product's, and the sum cast back. Backward
/// the same in turn, and the input's gradient is added to the frozen product's.
pub(super) fn around(
    s: &Shard,
    spec: &AdapterSpec,
    tokens: u64,
    [inputs, outputs]: [u64; 2],
) -> [Option<Item>; 2] {
    let compiled = s.fusion == KernelFusion::Compiled;
    if s.has_kernel_of(FusedPart::Adapters) || s.fuses_chains() && !compiled {
        return [None, None];
    }
    let [act, own, read] = formats(s, spec);
    let narrow = |from: f64, to: f64| if from > to { from + to } else { 0.0 };
    let wide = |from: f64, to: f64| *facts().wider_casts * narrow(to, from);
    let dropout = if spec.dropout { 2.0 * own + 1.0 } else { 0.0 };
    let (scaled, added) = (2.0 * read, act + read + act.max(read));
    let ahead = [wide(act, own) + dropout + narrow(own, read), scaled + added + narrow(read, act)];
    let back = [
        wide(read, own) + dropout + narrow(own, act) + 3.0 * act,
        wide(act, read) + narrow(read, act) + scaled,
    ];
    // TorchInductor has one kernel behind each product and before the next: the sum is written beside both, one of
    // which its product counts as read; the scaled gradient is written.
    let [ahead, back] = if compiled { [[0.0, 2.0 * act], [2.0 * act; 2]] } else { [ahead, back] };
    let [wide, elements] = [inputs, outputs].map(|width| (tokens * width) as f64);
    let kernel = |name, [of_input, of_output]: [f64; 2]| {
        let bytes = of_input * wide + of_output * elements;
        (bytes > 0.0).then(|| s.elementwise(KernelClass::Other, name, tokens * inputs.max(outputs), bytes))
    };
    [kernel("adapter chain", ahead), kernel("adapter chain backward", back)]
}

impl Adapters {
    /// One more, between these widths.
    fn add(&mut self, s: &Shard, spec: &AdapterSpec, tokens: u64, [inputs, rank, outputs]: [u64; 3]) {
        let compute = spec.products.unwrap_or(s.compute);
        let act = spec.products.map_or(s.act(), Dtype::bytes);
        let product = |name, n, k| Kernel::gemm(name, tokens, n, k, 1, compute, act);
        // Adds to what the frozen product has made, where no kernel of its own does.
        let added = |kernel: Kernel, width: u64| {
            let read = if is_eager(s) { 0.0 } else { (tokens * width) as f64 * act };
            Item::Kernel(Kernel { bytes: kernel.bytes + read, ..kernel })
        };
        let gradient = |name, n, k| product(name, n, k).of(KernelClass::GemmInputGrad);
        let weight_grad =
            |name, m, n| Item::Kernel(Kernel::weight_gradient(name, m, n, tokens, compute, s.gradient_bytes));
        let [around, around_backward] = around(s, spec, tokens, [inputs, outputs]);
        self.forward.push(Item::Kernel(product("adapter down", rank, inputs)));
        self.forward.push(added(product("adapter up", outputs, rank), outputs));
        self.forward.extend(around);
        self.input_grad[0].push(Item::Kernel(gradient("adapter up input gradient", rank, outputs)));
        self.input_grad[1].push(added(gradient("adapter down input gradient", inputs, rank), inputs));
        self.input_grad[1].extend(around_backward);
        self.weight_grad.push(weight_grad("adapter up weight gradient", outputs, rank));
        self.weight_grad.push(weight_grad("adapter down weight gradient", rank, inputs));
    }

    /// Puts them around the products of a frozen layer, whose weight gradient they stand in for. Without any, nothing
    /// reads what was gathered for it.
    pub(super) fn around(
        &self,
        l: &Linear,
        (forward, input_grad, weight_grad, backward): PassItems,
    ) -> PassItems {
        let is = |item: &Item, name: &str| item.kernel().is_some_and(|k| k.name == name);
        let [product, input, weight] = l.names;
        let [before, behind] = &self.input_grad;
        let replaced = |items: Vec<Item>| -> Vec<Item> {
            let with = |item: Item| match item {
                item if is(&item, product) => [vec![item], self.forward.clone()].concat(),
                item if is(&item, input) => [before.clone(), vec![item], behind.clone()].concat(),
                item if is(&item, weight) => self.weight_grad.clone(),
                item => vec![item],
            };
            items.into_iter().flat_map(with).collect()
        };
        if self.weight_grad.is_empty() {
            // No weight gradient beside which the sum of the input gradient could run.
            return (forward, input_grad.clone(), Vec::new(), input_grad);
        }
        assert!(weight_grad.iter().all(|i| i.comm().is_none_or(|c| c.op == CommOp::AllGather)));
        (replaced(forward), replaced(input_grad), replaced(weight_grad), replaced(backward))
    }
}
