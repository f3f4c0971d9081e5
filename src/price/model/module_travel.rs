//! The way of a module's tokens from the ranks that encode their images to all that hold a part of the sequence, and
//! what a module on stages of its own sends to the next stage.
//!
//! Data-parallel ranks that have encoded equal shares of their images exchange the tokens before that; each sends what
//! it has encoded, an equal part to each.
//!
//! With b images on a rank, p + x positions of width h each, that become t tokens of the language model's width H:
//! * between stages of the module: b·(p + x)·h elements;
//! * from its last stage to the language model: b·t·H elements, the rank's own; they are gathered where they arrive.
//!
//! Projectors behind layers of the encoder make as many again, each, which pass the stages of the encoder behind them.
//! The language model adds them to what it has at their places: the rows of a rank are read, added to, and written.

use super::KernelClass;
use super::blocks::{Block, LayerBuilder};
use super::item::{CommGroup, CommOp, CommPoint, Item};
use super::layer::{LayerKind, LayerPlan};
use super::module::ModuleShard;
use super::shard::Shard;
use stepsim_spec::workload::TrainedWeights;

impl ModuleShard<'_> {
    /// The module's tokens that ranks of the language model's first stage gather; `None` where each has them.
    pub fn arrival(&self) -> Option<LayerPlan> {
        let trained =
            if self.module.is_trained() { TrainedWeights::Through } else { TrainedWeights::Nothing };
        let tokens = Shard { trained, micro_batch: self.arriving, tensor: self.tensor, ..self.tokens() };
        let mut b = LayerBuilder::new(&self.stack, &tokens);
        self.travel(&mut b);
        let plan = b.finish(LayerKind::Tokens);
        (!plan.forward.is_empty() || plan.has_backward()).then_some(plan)
    }
    /// Bytes that stage `stage` of the module's `stages` hands to the next stage, or to the language model, on one
    /// rank.
    pub fn bytes_behind(&self, stage: usize, stages: usize) -> f64 {
        let ends = self.module.split().get(stage).map_or(0, |layers| u64::from(layers.end));
        let deep = self.module.spec.deep_layers().iter().filter(|layer| **layer < ends).count() as u64;
        let tokens = self.tokens().tokens() * self.model.hidden;
        let positions = self.layers.tokens() * self.stack.hidden;
        let last = stage + 1 == stages;
        let beside = self.module.beside(ends) * positions;
        (deep * tokens + if last { tokens } else { positions + beside }) as f64 * self.layers.act()
    }
    /// Bytes of the tokens that come from a module on devices of its own: on one rank of the language model, and on
    /// one of the module, whose tensor-parallel ranks have the same.
    pub fn bytes_apart(&self) -> [f64; 2] {
        let sets = 1 + self.module.spec.deep_layers().len() as u64;
        let image = (sets * self.module.tokens() * self.model.hidden) as f64 * self.layers.act();
        [self.arriving, self.layers.micro_batch].map(|images| images as f64 * image)
    }
    /// How many tensor-parallel ranks have the same positions and tokens.
    pub fn alike(&self) -> u64 {
        self.layers.tensor
    }

    /// The rank's share with the tokens of an image as its sequence.
    pub(super) fn tokens(&self) -> Shard {
        Shard { sequence: self.module.tokens(), ..self.layers.clone() }
    }

    /// Gathers tokens; scatters their gradients.
    pub(super) fn travel(&self, b: &mut LayerBuilder) {
        let [tensor, context] = self.gathers;
        let deep = self.module.spec.deep_layers().len() as u64;
        let rank = ((1 + deep) * b.shard.tokens() * self.model.hidden) as f64 * b.shard.act();
        let comm = |name, group, op, bytes| Item::Comm(CommPoint::new(name, group, op, bytes));
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        let (of_part, all) = (rank * tensor as f64, rank * (tensor * context) as f64);
        if self.module.is_exchanged() {
            forward.push(comm("all-to-all tokens", CommGroup::Data, CommOp::AllToAll, rank));
        }
        if tensor > 1 {
            forward.push(comm("all-gather tokens", CommGroup::Tensor, CommOp::AllGather, of_part));
        }
        // Layers of cross-attention have summed the gradients of all tokens on each rank.
        if self.cuts_sequence && !self.model.has_cross() {
            backward.push(comm("all-gather token gradients", CommGroup::Tensor, CommOp::AllGather, of_part));
        }
        if context > 1 {
            let (name, gradients) = ("all-gather tokens", "reduce-scatter token gradients");
            forward.push(comm(name, CommGroup::Context, CommOp::AllGather, all));
            backward.push(comm(gradients, CommGroup::Context, CommOp::ReduceScatter, all));
        }
        if self.module.is_exchanged() {
            backward.push(comm("all-to-all token gradients", CommGroup::Data, CommOp::AllToAll, rank));
        }
        if deep > 0 {
            let [add, gradients] = self.additions(b.shard, deep);
            forward.push(add);
            backward.insert(0, gradients);
        }
        b.push(Block::of(forward, backward, &[]));
    }

    /// The sets of tokens that are added to what a rank of the language model has at their places, and their gradients.
    fn additions(&self, s: &Shard, sets: u64) -> [Item; 2] {
        let images = s.micro_batch * self.gathers[0];
        let share = if self.cuts_sequence { self.tensor } else { 1 };
        let elements = sets * images * s.sequence / share * self.model.hidden;
        [
            s.pass(KernelClass::Residual, "add deep tokens", elements, 3.0),
            s.pass(KernelClass::Copy, "deep token gradients", elements, 2.0),
        ]
    }
}
