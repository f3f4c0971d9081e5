//! Mixture of experts: router, dispatch, experts, combine.
//!
//! How many rows travel, and in which format, says [`crate::moe::Travel`]. With an even load a rank's experts receive
//! as many rows as it sends. A load factor λ (fullest over mean) stretches both the exchanges and the grouped GEMMs
//! of the rank that has it; a capacity factor caps it and drops the rest.
//!
//! Kernels around the exchanges (T tokens, M = k·T rows of experts, D_r distinct ranks a token):
//! * a copy for each expert: tokens permuted to M rows before the dispatch, received chunks sorted by local expert
//!   where a rank has several; the same undone behind the combine;
//! * a row for each rank: nothing before the dispatch; behind it the places of the T·D_r rows among the experts are
//!   found (DeepEP; others know them beforehand), the rows are expanded to M, and before the combine weighed and
//!   summed to T·D_r again.

use super::blocks::{Block, LayerBuilder};
use super::casts::{OperandCasts, Operands};
use super::item::{CommGroup, CommOp, CommPoint, Item, Kernel, KernelShape};
use super::linear::{Linear, LinearSplit, products};
use super::mlp::Mlp;
use super::{KernelClass, adapters, mlp};
use crate::moe::{MoeExchange, Travel, payload_bytes};
use stepsim_spec::model::MoeSpec;
use stepsim_spec::recipe::CastRole;
use stepsim_spec::workload::AdaptedMatrix::{Down, Gate, Up};
use stepsim_spec::workload::{
    AdaptedMatrix, DispatcherKind, Dtype, ExpertOverlap, Fp8Gemm, KernelFusion, RecomputeModule, RowFormat,
    TrainedWeights,
};

/// An expert's number (PyTorch's integers).
const INDEX_BYTES: f64 = 8.0;
const MOE: &[RecomputeModule] = &[RecomputeModule::Moe];

/// Adds router, shared experts, dispatch, experts and combine.
pub(super) fn add(b: &mut LayerBuilder, moe: &MoeSpec) {
    let (m, s) = (b.model, b.shard);
    let ffn = moe.ffn.unwrap_or(m.ffn);
    let elements = s.local_tokens() as f64 * m.hidden as f64;
    // The router reads it in a wide format.
    b.save_input("MoE input", elements * s.act(), &[RecomputeModule::Norm], &[]);
    if moe.shared_experts > 0 && s.keeps_copy(Fp8Gemm::Experts) {
        let copy = elements * s.saved_input(Fp8Gemm::Experts);
        b.save_input("narrow MoE input", copy, &[RecomputeModule::Norm], &[]);
    }
    // Gradients from the router, the routed experts and the shared one meet.
    b.sum_of_branches(if moe.shared_experts > 0 { 3 } else { 2 });
    router(b, moe);
    let (name, gemm, modules, width) = ("shared expert", Fp8Gemm::Experts, MOE, moe.shared_width(m));
    let shared = (width > 0).then_some(Mlp { name, ffn: width, gemm, modules, own_input: false });
    b.parameters.dense += if shared.is_some() && moe.shared_gate { m.hidden } else { 0 };
    let routed = RoutedExperts::new(b, moe, ffn);
    let project = |b: &mut LayerBuilder, names, inputs, outputs| {
        let linear = Linear::new(names, inputs, outputs, LinearSplit::No, Fp8Gemm::Experts);
        b.linear(Linear { modules: MOE, ..linear });
    };
    let narrow = |b: &mut LayerBuilder| {
        if let Some(latent) = moe.latent {
            project(b, products!("latent down"), m.hidden, latent);
        }
    };
    let widen = |b: &mut LayerBuilder| {
        if let Some(latent) = moe.latent {
            let rows = s.local_tokens() as f64 * latent as f64;
            b.save_input("latent output", rows * s.saved_input(Fp8Gemm::Experts), MOE, &[]);
            project(b, products!("latent up"), latent, m.hidden);
        }
    };
    let beside = s.expert_overlap == ExpertOverlap::SharedExpert;
    let between = s.shared_between || beside;
    shared.iter().filter(|_| !between).for_each(|shared| shared.add(b));
    narrow(b);
    routed.dispatch(b);
    if beside {
        // Its first product runs beside the dispatch, its second beside the combine.
        shared.iter().for_each(|shared| shared.up(b));
        routed.experts(b);
        routed.combine(b);
        widen(b);
        shared.iter().for_each(|shared| shared.down(b));
    } else {
        shared.iter().filter(|_| between).for_each(|shared| shared.add(b));
        routed.experts(b);
        routed.combine(b);
        widen(b);
    }
}

/// The router: one small GEMM in fp32 on each rank's own tokens, softmax and top-k.
fn router(b: &mut LayerBuilder, moe: &MoeSpec) {
    let (m, s) = (b.model, b.shard);
    let t = s.local_tokens();
    let gemm = |name, rows, columns, inner| {
        Item::Kernel(Kernel::gemm(name, rows, columns, inner, 1, Dtype::Tf32, Dtype::Fp32.bytes()))
    };
    let scores = t * moe.experts;
    b.parameters.dense += m.hidden * moe.experts + if moe.router_bias { moe.experts } else { 0 };
    b.save("router scores", scores as f64 * 4.0, MOE, s.trained.weights());
    let over_scores = |class, name| {
        Item::Kernel(Kernel::elementwise(class, name, scores, 8.0 * scores as f64, Dtype::Fp32))
    };
    let input_grad = vec![
        over_scores(KernelClass::Router, "top-k backward"),
        gemm("router input gradient", t, m.hidden, moe.experts),
    ];
    let (name, rows) = ("router weight gradient", moe.experts);
    let weight_grad = Kernel::weight_gradient(name, rows, m.hidden, t, Dtype::Tf32, s.gradient_bytes);
    let weight_grad: Vec<Item> =
        s.trained.weights().then_some(Item::Kernel(weight_grad)).into_iter().collect();
    let mut forward = vec![gemm("router", t, moe.experts, m.hidden)];
    if moe.group_limit.is_some_and(|limit| limit < moe.groups) {
        forward.push(over_scores(KernelClass::TopK, "group scores"));
    }
    forward.push(over_scores(KernelClass::TopK, "top-k"));
    b.push(Block {
        forward,
        backward: [input_grad.clone(), weight_grad.clone()].concat(),
        input_grad,
        weight_grad,
        modules: MOE.to_vec(),
        ..Block::default()
    });
}

/// The routed experts of one rank.
struct RoutedExperts<'a> {
    /// Rows that this rank sends where each expert gets a copy: one per token and expert visited.
    sent: u64,
    /// Rows that its experts work on, padding included.
    rows: u64,
    /// Experts of this rank.
    experts: u64,
    /// Width of its share of one expert.
    width: u64,
    /// Width in which tokens travel and reach experts.
    token: u64,
    /// True if experts' matrices have biases.
    biases: bool,
    /// Received over sent.
    load: f64,
    /// True if the ranks that cut an expert have tokens of their own, which are gathered for it.
    gathers: bool,
    travel: Option<&'a Travel>,
}

impl<'a> RoutedExperts<'a> {
    fn new(b: &LayerBuilder<'a>, moe: &MoeSpec, ffn: u64) -> RoutedExperts<'a> {
        let s = b.shard;
        let capped = moe.capacity_factor.unwrap_or(f64::INFINITY);
        let load = s.expert_load.min(capped);
        let sent = s.local_tokens() * moe.top_k;
        let gathered = s.expert_tensor / s.alike_in_expert();
        let experts = moe.experts / s.expert;
        // The mean padding of an expert's rows to a multiple of a is (a − 1)/2.
        let padding = experts * (s.pad_rows_to.max(1) - 1) / 2;
        let received = sent as f64 * load;
        // A capacity is whole rows, and no fewer.
        let received = if capped < s.expert_load { received.ceil() } else { received.round() } as u64;
        RoutedExperts {
            sent,
            rows: received * gathered + padding,
            experts,
            width: ffn / s.expert_tensor,
            token: moe.width(b.model),
            biases: moe.expert_biases,
            load,
            gathers: gathered > 1,
            travel: s.travel.as_ref(),
        }
    }

    /// True if the rows of a token for one rank are one.
    fn sums_per_rank(&self, b: &LayerBuilder) -> bool {
        b.shard.expert > 1 && self.travel.is_some_and(|t| t.dispatcher().sums_per_rank())
    }
    /// Rows that arrive from other ranks (and this one).
    fn arrived(&self) -> f64 {
        self.travel.map_or(self.sent as f64, |t| t.rows_received()) * self.load
    }
    /// Bytes of a row in device memory, in the format of an exchange.
    fn row(&self, b: &LayerBuilder, exchange: MoeExchange) -> f64 {
        let plain = self.token as f64 * b.shard.act();
        match self.travel.map(|t| t.format(exchange)) {
            None | Some(RowFormat::Bf16) => plain,
            Some(format) => payload_bytes(format, self.token) as f64,
        }
    }

    /// True if rows travel in a narrow format.
    fn is_narrow(&self, b: &LayerBuilder, exchange: MoeExchange) -> bool {
        b.shard.expert > 1 && self.travel.is_some_and(|t| t.format(exchange) != RowFormat::Bf16)
    }
    /// The casts of the tokens (or gradients) that an exchange sends from this rank.
    fn casts_sent(&self, b: &LayerBuilder, exchange: MoeExchange) -> Vec<Item> {
        let elements = b.shard.local_tokens() * self.token;
        let [forward, backward] = b.shard.casts_beside(CastRole::Dispatched, elements);
        match exchange {
            _ if !self.is_narrow(b, exchange) => Vec::new(),
            MoeExchange::Dispatch => forward,
            _ => backward,
        }
    }

    /// The communication of an exchange; none where all experts are here.
    fn exchange(&self, b: &LayerBuilder, exchange: MoeExchange) -> Option<Item> {
        let s = b.shard;
        let name = match exchange {
            MoeExchange::Dispatch => "dispatch tokens",
            MoeExchange::Combine => "combine tokens",
            MoeExchange::CombineBackward => "combine backward tokens",
            MoeExchange::DispatchBackward => "dispatch backward",
        };
        let plain = (self.sent * self.token) as f64 * self.load * s.act();
        let (op, bytes, staged) = match self.travel {
            None => (CommOp::AllToAll, plain, None),
            Some(travel) => {
                let bytes = travel.bytes(exchange, self.load);
                match (travel.staged(exchange, self.load), travel.dispatcher().kind()) {
                    (Some(staged), _) => (CommOp::ExpertExchange, bytes.network, Some(staged)),
                    (None, DispatcherKind::Allgather) if exchange.is_dispatch() => {
                        (CommOp::AllGather, bytes.handled, None)
                    }
                    (None, DispatcherKind::Allgather) => (CommOp::ReduceScatter, bytes.handled, None),
                    (None, _) => (CommOp::AllToAll, bytes.handled, None),
                }
            }
        };
        let point = CommPoint::new(name, CommGroup::Expert, op, bytes);
        (s.expert > 1).then_some(Item::Comm(CommPoint { exchange: Some(exchange), staged, ..point }))
    }

    /// A kernel that reads and writes `rows` rows together.
    fn moves(&self, b: &LayerBuilder, class: KernelClass, name: &'static str, rows: f64, row: f64) -> Item {
        b.shard.elementwise(class, name, (rows * self.token as f64) as u64, rows * row)
    }
    /// Where each received row goes among the experts, from the k indices that came with it.
    fn row_map(&self) -> Option<Item> {
        let travel = self.travel.filter(|t| t.dispatcher().maps_rows())?;
        let indices = self.arrived() * travel.traffic.top_k;
        let bytes = indices * INDEX_BYTES;
        let (class, name) = (KernelClass::RowMap, "row map");
        Some(Item::Kernel(Kernel::elementwise(class, name, indices as u64, bytes, Dtype::Fp32)))
    }
    fn tensor(&self, b: &LayerBuilder, name: &'static str, op: CommOp) -> Item {
        let bytes = (self.rows * self.token) as f64 * b.shard.act();
        Item::Comm(CommPoint::new(name, CommGroup::ExpertTensor, op, bytes))
    }

    /// Tokens sent to the ranks of their experts (and gathered inside the expert), in the order of experts.
    fn dispatch(&self, b: &mut LayerBuilder) {
        let tokens = b.shard.local_tokens() as f64;
        let (sent, rows) = (self.sent as f64, self.rows as f64);
        let (there, back) = (self.row(b, MoeExchange::Dispatch), self.row(b, MoeExchange::DispatchBackward));
        let (mut forward, mut backward) = (self.casts_sent(b, MoeExchange::Dispatch), Vec::new());
        if self.gathers {
            backward.push(self.tensor(b, "reduce-scatter expert input gradient", CommOp::ReduceScatter));
        }
        let gather = self.gathers.then(|| self.tensor(b, "all-gather expert input", CommOp::AllGather));
        if self.sums_per_rank(b) {
            forward.extend(self.exchange(b, MoeExchange::Dispatch));
            forward.extend(gather);
            forward.extend(self.row_map());
            let moved = self.arrived() + rows;
            forward.push(self.moves(b, KernelClass::Permute, "permute rows", moved, there));
            backward.push(self.moves(b, KernelClass::Unpermute, "permute backward", moved, back));
            backward.extend(self.exchange(b, MoeExchange::DispatchBackward));
        } else {
            let sorts = self.experts > 1 && b.shard.expert > 1;
            forward.push(self.moves(b, KernelClass::Permute, "permute tokens", tokens + sent, there));
            forward.extend(self.exchange(b, MoeExchange::Dispatch));
            forward.extend(gather);
            if sorts {
                forward.push(self.moves(b, KernelClass::Permute, "sort rows", 2.0 * rows, there));
                backward.push(self.moves(b, KernelClass::Permute, "unsort rows", 2.0 * rows, back));
            }
            backward.extend(self.exchange(b, MoeExchange::DispatchBackward));
            backward.push(self.moves(b, KernelClass::Unpermute, "permute backward", tokens + sent, back));
        }
        self.push(b, forward, backward);
    }
    fn push(&self, b: &mut LayerBuilder, forward: Vec<Item>, backward: Vec<Item>) {
        b.push(Block::of(forward, backward, MOE));
    }

    /// The experts' GEMMs, grouped.
    fn experts(&self, b: &mut LayerBuilder) {
        let (m, s) = (b.model, b.shard);
        let up = if m.gated_mlp { 2 * self.width } else { self.width };
        let matrices = up * self.token + self.width * self.token;
        // Biases behind a cut of the inner products are whole on every rank.
        let biases = if self.biases { up + self.token } else { 0 };
        b.parameters.expert += self.experts * (matrices + biases);
        let rows = self.rows as f64;
        let element = s.saved_input(Fp8Gemm::Experts);
        self.pad(b, ["pad rows", "unpad rows backward"]);
        b.save_input("expert input", rows * self.token as f64 * element, MOE, &[Gate, Up]);
        let halves = [(Gate, self.width), (Up, self.width)];
        let parts = if m.gated_mlp { &halves[..] } else { &halves[1..] };
        self.grouped(b, products!("expert up"), [self.token, up], parts);
        b.save("expert activation input", rows * up as f64 * s.saved_activation(), MOE, false);
        let with_activation = [RecomputeModule::Activation, RecomputeModule::Moe];
        self.clamp(b, up, &with_activation);
        let names = ["activation", "activation backward"];
        mlp::activation(b, names, self.rows * self.width, m.gated_mlp, &with_activation);
        b.save_input("expert down input", rows * self.width as f64 * element, &with_activation, &[Down]);
        self.grouped(b, products!("expert down"), [self.width, self.token], &[(Down, self.token)]);
        self.add_biases(b);
        self.mask(b, up);
        self.pad(b, ["unpad rows", "pad rows backward"]);
        // Rows are weighed at the activation, so nothing of the combine is kept.
    }
    /// Both halves of what the first product with biases makes, clamped by kernels of their own and joined again
    /// (Megatron-Core, fusions/fused_bias_geglu.py); backward two comparisons, their product and a choice for the half
    /// that has two bounds, one of each for the other, and the join.
    fn clamp(&self, b: &mut LayerBuilder, up: u64, modules: &[RecomputeModule]) {
        let s = b.shard;
        if !self.biases || s.fusion == KernelFusion::Compiled {
            return;
        }
        let elements = self.rows * up;
        b.save("clamped activation input", elements as f64 * s.act(), modules, false);
        let pass = |name, times| vec![s.pass(KernelClass::Other, name, elements, times)];
        b.push(Block::of(pass("clamp", 4.0), pass("clamp backward", 7.5), modules));
    }
    /// Biases of the second product. Megatron-Core weighs them in fp32, sums expert by expert, joins and casts
    /// (transformer/moe/experts.py, `_apply_bias`): 28 bytes an element of 16 bits, 40 backward with both sums of the
    /// product's gradients. A compiler adds them on the way.
    fn add_biases(&self, b: &mut LayerBuilder) {
        let [forward, backward] =
            if b.shard.fusion == KernelFusion::Compiled { [2.0, 1.0] } else { [14.0, 20.0] };
        let elements = self.rows * self.token;
        let pass = |name, times| vec![b.shard.pass(KernelClass::Other, name, elements, times)];
        if self.biases {
            let (forward, backward) =
                (pass("expert biases", forward), pass("expert biases backward", backward));
            self.push(b, forward, backward);
        }
    }
    /// Rows before and behind each product copied and masked, at half the pace of a copy, then weighed; backward the
    /// same, and the weights' gradient (transformers 5, integrations/moe.py, `grouped_mm_experts_forward`; one H100:
    /// 13 ms of masks and 5 of copies in 6 layers of 65,536 rows, docs/developers/one-gpu.md).
    fn mask(&self, b: &mut LayerBuilder, up: u64) {
        if !b.shard.masks_expert_rows {
            return;
        }
        let masked = 6.0 * (self.rows * (2 * self.token + up)) as f64;
        let weighed = (self.rows * self.token) as f64;
        let elements = self.rows * self.token;
        let pass = |name, each: f64| {
            vec![b.shard.elementwise(KernelClass::Copy, name, elements, each * b.shard.act())]
        };
        let forward = pass("mask expert rows", masked + 2.0 * weighed);
        let backward = pass("mask expert rows backward", masked + 6.0 * weighed);
        self.push(b, forward, backward);
    }
    /// A copy into, or out of, rows that are padded for a narrow format: dispatchers that lay out the rows of a rank
    /// pad them there.
    fn pad(&self, b: &mut LayerBuilder, [forward, backward]: [&'static str; 2]) {
        let s = b.shard;
        if !s.pads_by_copy || s.pad_rows_to <= 1 || self.sums_per_rank(b) {
            return;
        }
        let copy = |name| {
            let (rows, row) = (2.0 * self.rows as f64, self.token as f64 * s.act());
            vec![self.moves(b, KernelClass::Permute, name, rows, row)]
        };
        let (forward, backward) = (copy(forward), copy(backward));
        self.push(b, forward, backward);
    }
    /// A grouped product over all rows, forward or for a gradient, of weights of these widths.
    fn product(&self, b: &LayerBuilder, class: KernelClass, name: &'static str, widths: [u64; 2]) -> Item {
        let (s, [inputs, outputs]) = (b.shard, widths);
        let per_expert = self.rows.div_ceil(self.experts.max(1)).max(1);
        let (rows, [i, o]) = (self.rows as f64, widths.map(|width| width as f64));
        let is_gradient = class == KernelClass::GroupedGemmWeightGrad;
        // PyTorch's grouped products write a gradient anew; only Transformer Engine's add to the one that is there.
        let accumulate = is_gradient && s.fuses_accumulation() && s.fusion != KernelFusion::Compiled;
        let dtype = s.gemm_dtype(Fp8Gemm::Experts);
        let element = match is_gradient {
            true if accumulate => 2.0 * s.gradient_bytes,
            true => s.act(),
            false => dtype.bytes(),
        };
        let [m, n, k] = match class {
            KernelClass::GroupedGemm => [per_expert, outputs, inputs],
            KernelClass::GroupedGemmInputGrad => [per_expert, inputs, outputs],
            _ => [outputs, inputs, per_expert],
        };
        let tokens = match is_gradient {
            true => rows * (i + o) * dtype.bytes(),
            false => rows * (k as f64 * dtype.bytes() + n as f64 * s.act()),
        };
        Item::Kernel(Kernel {
            name,
            class,
            shape: KernelShape::GroupedGemm { groups: self.experts, m, n, k, accumulate },
            flops: 2.0 * rows * i * o,
            bytes: self.experts as f64 * i * o * element + tokens,
            dtype,
            scaling: s.scaling(dtype),
            tuned: false,
        })
    }
    fn grouped(
        &self,
        b: &mut LayerBuilder,
        names: [&'static str; 3],
        [inputs, outputs]: [u64; 2],
        parts: &[(AdaptedMatrix, u64)],
    ) {
        use KernelClass::{GroupedGemm, GroupedGemmInputGrad, GroupedGemmWeightGrad};
        let s = b.shard;
        let (i, o, rows) = (inputs as f64, outputs as f64, self.rows as f64);
        let product = |class, name| self.product(b, class, name, [inputs, outputs]);
        let forward = product(GroupedGemm, names[0]);
        let input_grad = product(GroupedGemmInputGrad, names[1]);
        let weight_grad = product(GroupedGemmWeightGrad, names[2]);
        let adapters = self.adapters(b, inputs, parts);
        let back = b.converts_back(Fp8Gemm::Experts, 0, self.experts * inputs * outputs);
        let prepared =
            self.prepare(b, names[0], inputs, outputs).with_weights_back(&back, s.converts_frozen_again());
        let trained = s.trained.weights();
        b.weight_casts.extend(prepared.per_step.into_iter().filter(|_| trained));
        let gradient = if trained { rows * o * s.gemm_dtype(Fp8Gemm::Experts).bytes() } else { 0.0 };
        b.note_gemm(rows * i * s.act(), rows * o * s.act(), gradient);
        let [beside, before, behind, of_adapters] = adapters;
        let own = [prepared.input_grad, before, vec![input_grad], behind].concat();
        let weights = prepared.weight_grad;
        let sums = s.accumulate(self.experts * inputs * outputs);
        let weight_grad = vec![weight_grad].into_iter().chain(sums);
        let weight_grad =
            if trained { weights.into_iter().chain(weight_grad).collect() } else { of_adapters };
        b.push(Block {
            forward: [prepared.forward, vec![forward], beside].concat(),
            backward: [own.clone(), weight_grad.clone()].concat(),
            input_grad: own,
            weight_grad,
            modules: MOE.to_vec(),
            ..Block::default()
        });
    }
    /// Adapters beside matrices of all experts, in grouped products of their own: forward, before the frozen product's
    /// input gradient and behind it, and weight gradients. Their weights, and what they keep, are noted.
    fn adapters(&self, b: &mut LayerBuilder, inputs: u64, parts: &[(AdaptedMatrix, u64)]) -> [Vec<Item>; 4] {
        use KernelClass::{GroupedGemm, GroupedGemmInputGrad, GroupedGemmWeightGrad};
        let mut items = [const { Vec::new() }; 4];
        let TrainedWeights::Adapters(spec) = &b.shard.trained else { return items };
        let rank = spec.rank;
        for (_, outputs) in parts.iter().filter(|(matrix, _)| spec.adapts(*matrix)) {
            let (down, up) = ([inputs, rank], [rank, *outputs]);
            let product = |class, name, widths| self.product(b, class, name, widths);
            let [around, around_backward] = adapters::around(b.shard, spec, self.rows, [inputs, *outputs]);
            items[0].push(product(GroupedGemm, "expert adapter down", down));
            items[0].push(product(GroupedGemm, "expert adapter up", up));
            items[0].extend(around);
            items[1].push(product(GroupedGemmInputGrad, "expert adapter up input gradient", up));
            items[2].push(product(GroupedGemmInputGrad, "expert adapter down input gradient", down));
            items[2].extend(around_backward);
            items[3].push(product(GroupedGemmWeightGrad, "expert adapter up weight gradient", up));
            items[3].push(product(GroupedGemmWeightGrad, "expert adapter down weight gradient", down));
            let weights = self.experts * rank * (inputs + outputs);
            b.adapters += weights;
            b.parameters.dense += weights;
            b.save("adapter between its products", (self.rows * rank) as f64 * b.shard.act(), MOE, true);
        }
        items
    }
    /// The casts of the operands of one of the experts' products: its input or the gradient of its output may have
    /// come in a narrow format.
    fn prepare(&self, b: &LayerBuilder, name: &str, inputs: u64, outputs: u64) -> OperandCasts {
        let narrow = |exchange| self.is_narrow(b, exchange);
        let input = match name {
            "expert up" if narrow(MoeExchange::Dispatch) => CastRole::InputDispatched,
            "expert down" => CastRole::InputAfterActivation,
            _ => CastRole::Input,
        };
        let gradient = match name {
            "expert down" if narrow(MoeExchange::CombineBackward) => CastRole::OutputGradientDispatched,
            _ => CastRole::OutputGradient,
        };
        let (rows, weights) = (self.rows, inputs * outputs);
        let of = Operands {
            input: [rows * inputs; 2],
            gradient: [rows * outputs; 2],
            weights,
            groups: self.experts,
            grouped: true,
        };
        b.shard.casts(Fp8Gemm::Experts, [input, gradient], &of)
    }

    /// Rows weighed and sent back, summed for each token.
    fn combine(&self, b: &mut LayerBuilder) {
        let tokens = b.shard.local_tokens() as f64;
        let (sent, rows) = (self.sent as f64, self.rows as f64);
        let (there, back) = (self.row(b, MoeExchange::CombineBackward), self.row(b, MoeExchange::Combine));
        let (mut forward, mut backward) = (Vec::new(), self.casts_sent(b, MoeExchange::CombineBackward));
        let gather =
            self.gathers.then(|| self.tensor(b, "all-gather expert output gradient", CommOp::AllGather));
        if b.shard.expert_tensor > 1 {
            let op = if self.gathers { CommOp::ReduceScatter } else { CommOp::AllReduce };
            forward.push(self.tensor(b, "sum expert output", op));
        }
        if self.sums_per_rank(b) {
            let moved = self.arrived() + rows;
            forward.push(self.moves(b, KernelClass::Unpermute, "unpermute rows", moved, back));
            forward.extend(self.exchange(b, MoeExchange::Combine));
            backward.extend(self.exchange(b, MoeExchange::CombineBackward));
            backward.extend(gather);
            backward.push(self.moves(b, KernelClass::Permute, "combine backward", moved, there));
        } else {
            if self.experts > 1 && b.shard.expert > 1 {
                forward.push(self.moves(b, KernelClass::Permute, "unsort rows", 2.0 * rows, back));
            }
            forward.extend(self.exchange(b, MoeExchange::Combine));
            let moved = tokens + sent;
            forward.push(self.moves(b, KernelClass::Unpermute, "unpermute tokens", moved, back));
            backward.push(self.moves(b, KernelClass::Permute, "combine backward", moved, there));
            backward.extend(self.exchange(b, MoeExchange::CombineBackward));
            backward.extend(gather);
            if self.experts > 1 && b.shard.expert > 1 {
                backward.push(self.moves(b, KernelClass::Permute, "sort rows", 2.0 * rows, there));
            }
        }
        self.push(b, forward, backward);
    }
}
