//! A layer under construction: blocks of forward kernels with their backward, undone in reverse.

use super::KernelClass;
use super::item::Item;
use super::layer::{LayerKind, LayerPlan, Parameters, SavedBy, SavedTensor};
use super::shard::Shard;
use crate::moe::MoeExchange;
use stepsim_spec::facts::facts;
use stepsim_spec::model::{ModelSpec, Norm};
use stepsim_spec::stack::FusedPart;
use stepsim_spec::workload::{
    AdaptedMatrix, ExpertOverlap, FrozenFormat, KernelFusion, RecomputeModule, TrainedWeights,
};

/// One step of a layer with its backward; blocks are undone in reverse.
#[derive(Default)]
pub(super) struct Block {
    pub(super) forward: Vec<Item>,
    pub(super) input_grad: Vec<Item>,
    pub(super) weight_grad: Vec<Item>,
    pub(super) backward: Vec<Item>,
    pub(super) modules: Vec<RecomputeModule>,
    /// The items that its modules compute again, where they are not its forward.
    pub(super) again: Option<Vec<Item>>,
    /// Its input gradient and its backward where its input needs no gradient but it trains something.
    pub(super) lowest: Option<[Vec<Item>; 2]>,
}

impl Block {
    /// One without weights of its own: all of its backward pass is the gradient of its input.
    pub(super) fn of(forward: Vec<Item>, backward: Vec<Item>, modules: &[RecomputeModule]) -> Block {
        let modules = modules.to_vec();
        Block { forward, input_grad: backward.clone(), backward, modules, ..Block::default() }
    }
}

/// A layer under construction.
pub(super) struct LayerBuilder<'a> {
    pub(super) model: &'a ModelSpec,
    pub(super) shard: &'a Shard,
    /// The share of the image tokens that a layer of cross-attention reads.
    pub(super) images: Option<&'a Shard>,
    pub(super) parameters: Parameters,
    /// Weights of adapters among them.
    pub(super) adapters: u64,
    /// Those that are kept in the format of frozen weights.
    pub(super) quantised: Parameters,
    pub(super) weight_casts: Vec<Item>,
    blocks: Vec<Block>,
    /// The first blocks of branches that read the layer's input beside the first one.
    branches: Vec<usize>,
    /// Matrices so far.
    pub(super) matrices: usize,
    /// Tensors kept, each with the number of the block that comes next.
    saved: Vec<(usize, SavedTensor)>,
    gradients: f64,
    widest: f64,
    /// The recomputation that makes the residual stream again.
    pub(super) stream: &'static [RecomputeModule],
    /// Share of a product's output that lies in the workspace.
    pub(super) output_share: f64,
}

impl<'a> LayerBuilder<'a> {
    pub(super) fn new(model: &'a ModelSpec, shard: &'a Shard) -> Self {
        LayerBuilder {
            model,
            shard,
            images: None,
            parameters: Parameters::default(),
            adapters: 0,
            quantised: Parameters::default(),
            weight_casts: Vec::new(),
            blocks: Vec::new(),
            branches: Vec::new(),
            matrices: 0,
            saved: Vec::new(),
            gradients: 0.0,
            widest: 0.0,
            stream: &[],
            output_share: 1.0,
        }
    }
    pub(super) fn push(&mut self, block: Block) {
        self.blocks.push(block);
    }
    /// The forward items of the last block.
    pub(super) fn last_forward(&self) -> &[Item] {
        self.blocks.last().map_or(&[], |block| &block.forward)
    }
    /// How many blocks there are.
    pub(super) fn count(&self) -> usize {
        self.blocks.len()
    }
    /// Leaves out the input gradient of the first product from block `from` on: its input needs none.
    pub(super) fn spare_input_gradient(&mut self, from: usize) {
        let Some(block) = self.blocks.get_mut(from) else { return };
        let none = || [Vec::new(), Vec::new()];
        let [input_grad, backward] = block.lowest.clone().unwrap_or_else(none);
        (block.input_grad, block.backward) = (input_grad, backward);
    }
    /// The next block reads what the first one does.
    pub(super) fn branch(&mut self) {
        self.branches.push(self.blocks.len());
    }
    /// Notes a tensor kept for backward.
    pub(super) fn save(
        &mut self,
        name: &'static str,
        bytes: f64,
        by: &[RecomputeModule],
        for_weight_grad: bool,
    ) {
        self.saved.push((
            self.blocks.len(),
            SavedTensor { name, bytes, by: SavedBy(by.to_vec()), for_weight_grad },
        ));
    }
    /// Notes an input of products with weights, which is kept for their gradients: where those, or one of the
    /// adapters of these matrices, are trained.
    pub(super) fn save_input(
        &mut self,
        name: &'static str,
        bytes: f64,
        by: &[RecomputeModule],
        of: &[AdaptedMatrix],
    ) {
        if self.shard.trained.keeps_input_of(of) {
            self.save(name, bytes, by, true);
        }
    }
    /// Notes a GEMM's input and output, in bytes, for the workspace, and the gradient of its output as a delayed
    /// weight gradient reads it.
    pub(super) fn note_gemm(&mut self, input: f64, output: f64, gradient: f64) {
        self.gradients += gradient;
        self.works_in(input + output * self.output_share);
    }
    /// Notes bytes that are needed while a part of the layer runs.
    pub(super) fn works_in(&mut self, bytes: f64) {
        self.widest = self.widest.max(bytes);
    }

    /// A normalisation of the residual stream: input kept; its output is kept by the GEMM that reads it.
    pub(super) fn norm(&mut self, name: &'static str) {
        let (m, s) = (self.model, self.shard);
        let elements = s.local_tokens() * m.hidden;
        self.save("norm input", elements as f64 * s.stream(), self.stream, false);
        self.parameters.dense += m.norm_parameters(m.hidden);
        let library = s.has_kernel_of(FusedPart::Norm);
        let [ahead, back] = self.norm_passes();
        let pass = |class, name, times| s.stream_pass(class, name, elements, times);
        let made = |item| s.made(FusedPart::Norm, item);
        let scales = pass(KernelClass::Reduction, "norm weight gradient", 2.0);
        let of_norm = match m.norm {
            Norm::Rms => KernelClass::NormBackward,
            Norm::Layer | Norm::LayerNoBias | Norm::Plain => KernelClass::LayerNormBackward,
        };
        let backward: Vec<Item> = if s.fuses_gradients() {
            // Reads input, gradient and the gradient that came through the residual; writes their sum.
            let sum = pass(of_norm, "norm backward", 4.0);
            let apart = s.fusion == KernelFusion::Compiled && s.trained.weights();
            std::iter::once(sum).chain(apart.then(|| scales.clone())).collect()
        } else {
            let sum = pass(KernelClass::Residual, "add gradients", 3.0);
            let own = (s.trained.weights() && !library).then(|| scales.clone());
            [Some(made(pass(of_norm, "norm backward", back))), own, Some(sum)].into_iter().flatten().collect()
        };
        let trains = s.trained.weights() && m.norm_parameters(m.hidden) > 0;
        let forward = vec![made(pass(KernelClass::Norm, name, ahead))];
        self.push(Block {
            lowest: trains.then(|| [vec![scales.clone()], vec![scales]]),
            ..Block::of(forward, backward, &[RecomputeModule::Norm])
        });
    }
    /// Times that a norm reads or writes each element, forward and backward.
    pub(super) fn norm_passes(&self) -> [f64; 2] {
        let s = self.shard;
        match self.model.norm == Norm::Rms && !s.fuses_chains() && !s.has_kernel_of(FusedPart::Norm) {
            true if s.works_in_fp32() => facts().rms_norm_of_fp32.map(|bytes| bytes / s.stream()),
            true => facts().rms_norm.map(|bytes| bytes / s.act()),
            false => [2.0, 3.0],
        }
    }
    /// The gradient of a tensor that `branches` layers read: their gradients added up.
    pub(super) fn sum_of_branches(&mut self, branches: u64) {
        let s = self.shard;
        let elements = s.local_tokens() * self.model.hidden;
        let sum = |_| s.stream_pass(KernelClass::Residual, "add gradients", elements, 3.0);
        self.push(Block::of(Vec::new(), (1..branches).map(sum).collect(), &[]));
    }
    /// A learned number that scales what a part adds to the stream. Forward it is fused with that sum; backward the
    /// gradient is scaled, and the number's own is the product of both, for which the part's output is kept.
    pub(super) fn gate(&mut self) {
        let (s, trains) = (self.shard, self.shard.trained.weights());
        let elements = s.local_tokens() * self.model.hidden;
        self.parameters.dense += 1;
        if trains {
            self.save("gated output", elements as f64 * s.act(), &[], false);
        }
        let pass = |name, times| vec![s.pass(KernelClass::Residual, name, elements, times)];
        let forward = if s.fuses_chains() { Vec::new() } else { pass("gate", 2.0) };
        let backward = pass("gate backward", if trains { 3.0 } else { 2.0 });
        self.push(Block::of(forward, backward, &[]));
    }
    /// Dropout and the addition to the residual stream, fused.
    pub(super) fn residual(&mut self, name: &'static str) {
        let (m, s) = (self.model, self.shard);
        let elements = s.local_tokens() * m.hidden;
        let (e, act, stream) = (elements as f64, s.act(), s.stream());
        let mask = if m.dropout { e } else { 0.0 };
        let pass = |name, bytes| s.elementwise(KernelClass::Residual, name, elements, bytes);
        let forward = if m.dropout && !s.fuses_chains() {
            vec![pass("dropout", 2.0 * e * act + mask), pass(name, e * (act + 2.0 * stream))]
        } else {
            vec![pass(name, e * (act + 2.0 * stream) + mask)]
        };
        let mut backward = Vec::new();
        if m.dropout {
            self.save("dropout mask", mask, &[], false);
            backward.push(pass("dropout backward", 2.0 * e * act + mask));
        }
        self.push(Block::of(forward, backward, &[]));
    }
    /// Leaves nothing of backward passes, and nothing that they would read.
    fn forward_alone(&mut self) {
        self.saved.clear();
        for block in &mut self.blocks {
            let forward = std::mem::take(&mut block.forward);
            *block = Block { forward, ..Block::default() };
        }
    }
    /// Leaves out what would make gradients of the layer's input: in each branch the backward passes below the first
    /// block that trains something, what they would read, and that block's own input gradient.
    fn without_input_gradient(&mut self) {
        let ends = self.branches.iter().copied().chain([self.blocks.len()]);
        let starts: Vec<usize> = std::iter::once(0).chain(self.branches.iter().copied()).collect();
        for (start, end) in starts.into_iter().zip(ends) {
            let trains = |block: &Block| block.lowest.is_some() || !block.weight_grad.is_empty();
            let first = (start..end).find(|at| trains(&self.blocks[*at])).unwrap_or(end);
            for (at, block) in self.blocks.iter_mut().enumerate().take(first).skip(start) {
                (block.input_grad, block.backward) = (Vec::new(), Vec::new());
                // An operand of weight gradients may be recomputed.
                if at + 1 < first {
                    block.modules.clear();
                }
            }
            if let Some(block) = self.blocks[..end].get_mut(first)
                && let Some([input_grad, backward]) = block.lowest.take()
            {
                (block.input_grad, block.backward) = (input_grad, backward);
            }
            self.saved.retain(|(at, saved)| saved.for_weight_grad || !(start..first).contains(at));
        }
    }
    pub(super) fn finish(mut self, kind: LayerKind) -> LayerPlan {
        let trained = match self.shard.trained {
            TrainedWeights::Weights => self.parameters,
            TrainedWeights::Adapters(_) => Parameters { dense: self.adapters, expert: 0 },
            TrainedWeights::Through | TrainedWeights::Nothing => Parameters::default(),
        };
        if self.shard.trained == TrainedWeights::Nothing {
            self.forward_alone();
        } else if self.shard.lowest {
            self.without_input_gradient();
        }
        let saved: Vec<SavedTensor> = self.saved.into_iter().map(|(_, saved)| saved).collect();
        let collect = |pick: fn(&Block) -> &Vec<Item>, reverse: bool| -> Vec<Item> {
            let mut order: Vec<&Block> = self.blocks.iter().collect();
            if reverse {
                order.reverse();
            }
            order.into_iter().flat_map(|b| pick(b).clone()).collect()
        };
        let beside_shared = |items: Vec<Item>| match self.shard.expert_overlap {
            ExpertOverlap::SharedExpert => with_shared_expert(items),
            _ => items,
        };
        let for_weight_grad: f64 = saved.iter().filter(|s| s.for_weight_grad).map(|s| s.bytes).sum();
        let holds = |wanted: MoeExchange| {
            let is = |i: &Item| i.comm().is_some_and(|c| c.exchange == Some(wanted));
            self.blocks.iter().position(|b| b.forward.iter().any(is))
        };
        let between = holds(MoeExchange::Dispatch).zip(holds(MoeExchange::Combine));
        let kernels = |blocks: &[Block]| {
            blocks.iter().flat_map(|b| &b.weight_grad).filter(|i| i.kernel().is_some()).count() as u32
        };
        let weight_grad = gather_ahead(collect(|b| &b.weight_grad, true));
        let delayed = if weight_grad.is_empty() { 0.0 } else { for_weight_grad + self.gradients };
        LayerPlan {
            trained,
            expert_weight_grads: between.map_or(0, |(first, _)| kernels(&self.blocks[first..])),
            between,
            kind,
            forward: beside_shared(collect(|b| &b.forward, false)),
            input_grad: beside_shared(collect(|b| &b.input_grad, true)),
            weight_grad,
            backward: beside_shared(collect(|b| &b.backward, true)),
            boundary_bytes: self.shard.boundary_bytes(self.model).round() as u64,
            workspace_bytes: self.widest.round() as u64,
            weight_grad_bytes: delayed.round() as u64,
            parameters: self.parameters,
            quantised: (self.quantised, self.shard.frozen_format.map_or(0.0, FrozenFormat::bytes)),
            weight_casts: self.weight_casts,
            stops_early: self.shard.stops_early,
            saved,
            modules: self.blocks.into_iter().map(|b| (b.modules, b.again.unwrap_or(b.forward))).collect(),
            ..LayerPlan::default()
        }
    }
}

/// Issues every all-gather of a weight-gradient list one kernel earlier, so that it hides behind that kernel.
fn gather_ahead(mut items: Vec<Item>) -> Vec<Item> {
    for i in 1..items.len() {
        let after_kernel = items[i - 1].kernel().is_some();
        if let Item::Comm(c) = &mut items[i]
            && after_kernel
        {
            c.hidden_behind += 1;
            items.swap(i - 1, i);
        }
    }
    items
}

/// Lets exchanges run beside the kernels of the shared expert: those that follow, or in backward those that stand
/// before, which then follow.
fn with_shared_expert(mut items: Vec<Item>) -> Vec<Item> {
    let is_shared = |i: &Item| i.kernel().is_some_and(|k| k.name.starts_with("shared expert"));
    let prepares = |i: &Item| {
        i.kernel().is_some_and(|k| matches!(k.class, KernelClass::Permute | KernelClass::Unpermute))
    };
    let mut at = 0;
    while at < items.len() {
        if items[at].comm().is_some_and(|c| c.exchange.is_some()) {
            let mut prepared = at;
            while prepared > 0 && prepares(&items[prepared - 1]) {
                prepared -= 1;
            }
            let run = items[..prepared].iter().rev().take_while(|i| is_shared(i)).count();
            items[prepared - run..=at].rotate_left(run);
            let own = at - run;
            let beside = items[own + 1..].iter().take_while(|i| is_shared(i)).count();
            if let Item::Comm(comm) = &mut items[own] {
                comm.hidden_behind = beside as u32;
            }
        }
        at += 1;
    }
    items
}
