//! Linear layers: their GEMMs, what casts the operands, and the tensor-parallel communication around them.

use super::KernelClass;
use super::blocks::{Block, LayerBuilder};
use super::casts::{OperandCasts, Operands};
use super::item::{CommGroup, CommOp, CommPoint, Item, Kernel, KernelShape};
use stepsim_spec::recipe::CastRole;
use stepsim_spec::workload::{AdaptedMatrix, Fp8Gemm, RecomputeModule};

/// How a linear layer meets tensor parallelism.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LinearSplit {
    /// Output columns are cut: the input is gathered (or its gradient summed).
    Columns,
    /// Inner products are cut: the output is summed.
    Rows,
    /// The same as `Rows`, but another layer's communication sums the output too.
    RowsUnsummed,
    /// The same as `Columns`, on an input that another layer has gathered.
    ColumnsGathered,
    /// Not cut: the same weights on all ranks, each on its own tokens.
    No,
}

/// Lists of one block: forward, input gradient, weight gradient, fused backward.
pub(super) type PassItems = (ItemList, ItemList, ItemList, ItemList);
pub(super) type ItemList = Vec<Item>;

/// Names of a layer's product, of its input gradient and of its weight gradient.
macro_rules! products {
    ($name:literal) => {
        [$name, concat!($name, " input gradient"), concat!($name, " weight gradient")]
    };
}
pub(super) use products;

/// A linear layer on one rank.
pub(super) struct Linear {
    /// Of its product, its input gradient and its weight gradient.
    pub(super) names: [&'static str; 3],
    /// Input width on this rank.
    pub(super) inputs: u64,
    /// Output width on this rank.
    pub(super) outputs: u64,
    pub(super) cut: LinearSplit,
    pub(super) biases: bool,
    pub(super) gemm: Fp8Gemm,
    pub(super) modules: &'static [RecomputeModule],
    /// Its matrices that may have adapters, each with its output width on this rank.
    pub(super) parts: Vec<(AdaptedMatrix, u64)>,
}

impl Linear {
    /// One without biases, whose matrices have no adapters and which only a whole layer computes again.
    pub(super) fn new(
        names: [&'static str; 3],
        inputs: u64,
        outputs: u64,
        cut: LinearSplit,
        gemm: Fp8Gemm,
    ) -> Linear {
        Linear { names, inputs, outputs, cut, biases: false, gemm, modules: &[], parts: Vec::new() }
    }
}

impl LayerBuilder<'_> {
    /// A linear layer of `inputs`×`outputs` weights on this rank, with its tensor-parallel communication.
    pub(super) fn linear(&mut self, l: Linear) {
        let s = self.shard;
        let tokens = if l.cut == LinearSplit::No { s.local_tokens() } else { s.tokens() };
        let (inputs, outputs) = (l.inputs, l.outputs);
        let t = tokens as f64;
        let dtype = s.gemm_dtype(l.gemm);
        let scaling = s.scaling(dtype);
        let [name, input, weight] = l.names;
        let forward = Kernel::gemm(name, tokens, outputs, inputs, 1, dtype, s.act()).scaled(scaling);
        let input_grad = Kernel::gemm(input, tokens, inputs, outputs, 1, dtype, s.act())
            .of(KernelClass::GemmInputGrad)
            .scaled(scaling);
        let weight_grad = if s.fuses_accumulation() {
            Kernel::weight_gradient(weight, outputs, inputs, tokens, dtype, s.gradient_bytes)
        } else {
            Kernel::gemm(weight, outputs, inputs, tokens, 1, dtype, s.act()).of(KernelClass::GemmWeightGrad)
        }
        .scaled(scaling);
        self.parameters.dense += inputs * outputs + if l.biases { outputs } else { 0 };
        let output = t * outputs as f64;
        let adapters = self.adapters_of(&l, tokens);
        let gradient = if s.trained.weights() || !adapters.weight_grad.is_empty() {
            output * dtype.bytes()
        } else {
            0.0
        };
        self.note_gemm(t * inputs as f64 * s.act(), output * s.act(), gradient);
        let prepared = self.prepare(&l, tokens);
        let gathered = t * inputs as f64;
        let products = [forward, input_grad, weight_grad].map(Item::Kernel);
        let (f, i, w, b) = match (l.cut, products) {
            (LinearSplit::Columns, products) if s.tensor > 1 => self.columns(products, gathered, l.gemm),
            (LinearSplit::Rows, products) if s.tensor > 1 => self.rows(products, t * outputs as f64, l.gemm),
            (LinearSplit::ColumnsGathered, products) if s.sequence_parallel => {
                // The layer that gathered sums the input gradient; the saved shard is gathered anew for this weight
                // gradient.
                let (_, _, w, b) = self.columns(products, gathered, l.gemm);
                let b =
                    b.into_iter().filter(|i| i.comm().is_none_or(|c| c.op == CommOp::AllGather)).collect();
                (vec![Item::Kernel(forward)], vec![Item::Kernel(input_grad)], w, b)
            }
            (_, [f, i, w]) => (vec![f], vec![i.clone()], vec![w.clone()], vec![i, w]),
        };
        let (sums, bias) = self.unfused_gradients(&l, tokens);
        let behind = |items: ItemList, name: &str, more: &[&ItemList]| -> ItemList {
            let made = |i: &Item| i.kernel().is_some_and(|k| k.name == name);
            let more = more.iter().flat_map(|items| items.iter().cloned());
            items
                .into_iter()
                .flat_map(
                    |i| if made(&i) { std::iter::once(i).chain(more.clone()).collect() } else { vec![i] },
                )
                .collect()
        };
        let modules = l.modules.to_vec();
        let (f, i, w, b) = match s.trained.weights() {
            true => (f, i, w, b),
            false => adapters.around(&l, (f, i, w, b)),
        };
        let input_grad = behind(i, input, &[&bias]);
        let weight_grad = behind(w, weight, &[&sums]);
        let backward = behind(b, weight, &[&sums, &bias]);
        let after = |prepared: &[&ItemList], items: ItemList| -> ItemList {
            prepared.iter().flat_map(|p| p.iter().cloned()).chain(items).collect()
        };
        let prepared = match s.trained.weights() {
            true => prepared,
            // Frozen weights were cast once and for all.
            false => OperandCasts { weight_grad: Vec::new(), per_step: Vec::new(), ..prepared },
        };
        let back = self.converts_back(l.gemm, inputs * outputs, 0);
        let prepared = prepared.with_weights_back(&back, s.converts_frozen_again());
        let reads_norm = matches!(l.cut, LinearSplit::Columns | LinearSplit::ColumnsGathered);
        let wide = reads_norm.then_some((tokens * inputs, l.parts.len()));
        let [casts, casts_back] = s.autocasts(inputs * outputs, wide);
        self.weight_casts.extend(prepared.per_step);
        let spared = |items: &ItemList| -> ItemList {
            let of_input = |item: &Item| match item {
                Item::Kernel(k) => k.name == input || k.name == "adapter down input gradient",
                Item::Comm(c) => c.name.ends_with(" input gradient"),
            };
            items.iter().filter(|item| !of_input(item)).cloned().collect()
        };
        let trains = !weight_grad.is_empty();
        self.push(Block {
            lowest: trains.then(|| [spared(&input_grad), spared(&backward)]),
            forward: after(&[&prepared.forward, &casts.forward], f),
            input_grad: after(&[&prepared.input_grad, &input_grad], casts_back.input_grad.clone()),
            backward: after(&[&prepared.input_grad, &prepared.weight_grad, &backward], casts_back.input_grad),
            weight_grad: after(&[&prepared.weight_grad], weight_grad),
            modules,
            again: None,
        });
        self.every_second(&l, forward);
    }
    /// Notes that these weights, dense ones and of experts, are kept in the format of frozen ones; what converts them
    /// back before a product.
    pub(super) fn converts_back(&mut self, gemm: Fp8Gemm, dense: u64, expert: u64) -> Vec<Item> {
        let s = self.shard;
        let frozen = s.frozen_format.filter(|_| gemm != Fp8Gemm::LmHead && !s.trained.weights());
        let Some(format) = frozen else { return Vec::new() };
        self.quantised.dense += dense;
        self.quantised.expert += expert;
        let weights = dense + expert;
        let (between, kernels) = format.between();
        let bytes = weights as f64 * (format.bytes() + between + s.act()) / kernels as f64;
        let kernel =
            s.elementwise(KernelClass::Cast, "frozen weights to activations' format", weights, bytes);
        vec![kernel; kernels]
    }
    /// Notes which of a layer's matrices are multiplied again where every second one is.
    fn every_second(&mut self, l: &Linear, forward: Kernel) {
        let whole = [l.outputs];
        let widths = l.parts.iter().map(|(_, width)| *width);
        let widths: Vec<u64> = if l.parts.is_empty() { whole.to_vec() } else { widths.collect() };
        let from = self.matrices;
        self.matrices += widths.len();
        let outputs: u64 =
            widths.iter().enumerate().filter(|(i, _)| (from + i) % 2 == 1).map(|(_, w)| w).sum();
        if let (KernelShape::Gemm { m, k, .. }, true) = (forward.shape, outputs > 0) {
            let again = Kernel::gemm(l.names[0], m, outputs, k, 1, forward.dtype, self.shard.act());
            self.push(Block {
                modules: vec![RecomputeModule::EverySecondMatrix],
                again: Some(vec![Item::Kernel(again.scaled(forward.scaling))]),
                ..Block::default()
            });
        }
    }
    /// The casts of the operands of a linear layer.
    fn prepare(&self, l: &Linear, tokens: u64) -> OperandCasts {
        let s = self.shard;
        let share = |width: u64, cut: bool| {
            let cut = cut && s.sequence_parallel && s.tensor > 1;
            [width * if cut { s.local_tokens() } else { tokens }, width * tokens]
        };
        let columns = matches!(l.cut, LinearSplit::Columns | LinearSplit::ColumnsGathered);
        let rows = matches!(l.cut, LinearSplit::Rows | LinearSplit::RowsUnsummed);
        let of = Operands {
            input: share(l.inputs, columns),
            gradient: share(l.outputs, rows),
            weights: l.inputs * l.outputs,
            groups: 1,
            grouped: false,
        };
        let cut = |operand: [u64; 2]| operand[0] < operand[1];
        let whole = super::casts::input_role(l.names[0]);
        let input = if cut(of.input) { CastRole::InputGathered } else { whole };
        let gradient =
            if cut(of.gradient) { CastRole::OutputGradientGathered } else { CastRole::OutputGradient };
        s.casts(l.gemm, [input, gradient], &of)
    }
    /// The kernels behind a weight gradient that is not added up where it is made: its sum with the gradients of the
    /// micro-batches before; and the sum over tokens for the bias, which stays in place where weight gradients are put
    /// off (the zero-bubble authors' store of delayed work takes products alone).
    fn unfused_gradients(&self, l: &Linear, tokens: u64) -> (ItemList, ItemList) {
        let s = self.shard;
        if s.fuses_gradients() || !s.trained.weights() {
            return (Vec::new(), Vec::new());
        }
        let sums = s.accumulate(l.inputs * l.outputs);
        let bias = s.pass(KernelClass::Reduction, "bias gradient", tokens * l.outputs, 1.0);
        (sums.into_iter().collect(), l.biases.then_some(bias).into_iter().collect())
    }
    /// Column-cut: gather the input before; sum its gradient after, beside the weight gradient or behind it.
    fn columns(&self, [fwd, igrad, wgrad]: [Item; 3], gathered: f64, gemm: Fp8Gemm) -> PassItems {
        let s = self.shard;
        let tensor = |name, op, bytes| CommPoint::new(name, CommGroup::Tensor, op, bytes);
        let gather = tensor("all-gather input", CommOp::AllGather, gathered * s.gathered_input(gemm));
        if s.sequence_parallel {
            let again = CommPoint { name: "all-gather saved input", ..gather };
            let scatter = tensor("reduce-scatter input gradient", CommOp::ReduceScatter, gathered * s.act());
            let again = (!s.keep_gathered).then_some(again);
            (
                vec![Item::Comm(gather), fwd],
                vec![igrad.clone(), Item::Comm(scatter)],
                again.map(Item::Comm).into_iter().chain([wgrad.clone()]).collect(),
                self.both_gradients(again, igrad, wgrad, scatter),
            )
        } else {
            let sum = tensor("all-reduce input gradient", CommOp::AllReduce, gathered * s.act());
            (
                vec![fwd],
                vec![igrad.clone(), Item::Comm(sum)],
                vec![wgrad.clone()],
                self.both_gradients(None, igrad, wgrad, sum),
            )
        }
    }
    /// The gradients of input and weights, with what gathers the input again and what sums its gradient.
    fn both_gradients(
        &self,
        again: Option<CommPoint>,
        input: Item,
        weights: Item,
        sum: CommPoint,
    ) -> Vec<Item> {
        let again = |beside| again.map(|again| Item::Comm(again.behind(beside)));
        let order = match self.shard.waits_for_tensor {
            true => [Some(input), again(0), Some(weights), Some(Item::Comm(sum))],
            false => [again(1), Some(input), Some(Item::Comm(sum.behind(1))), Some(weights)],
        };
        order.into_iter().flatten().collect()
    }
    /// Row-cut: sum the output after; gather its gradient before.
    fn rows(&self, [fwd, igrad, wgrad]: [Item; 3], output: f64, gemm: Fp8Gemm) -> PassItems {
        let s = self.shard;
        let tensor = |name, op, bytes| Item::Comm(CommPoint::new(name, CommGroup::Tensor, op, bytes));
        if s.sequence_parallel {
            let scatter = tensor("reduce-scatter output", CommOp::ReduceScatter, output * s.act());
            let gathered = output * s.gathered_gradient(gemm);
            let gather = tensor("all-gather output gradient", CommOp::AllGather, gathered);
            (
                vec![fwd, scatter],
                vec![gather.clone(), igrad.clone()],
                vec![wgrad.clone()],
                vec![gather, igrad, wgrad],
            )
        } else {
            let sum = tensor("all-reduce output", CommOp::AllReduce, output * s.act());
            (vec![fwd, sum], vec![igrad.clone()], vec![wgrad.clone()], vec![igrad, wgrad])
        }
    }
}
