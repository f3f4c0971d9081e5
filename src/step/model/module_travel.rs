//! The way of a module's tokens from the ranks that encode their images to all that hold a part of the sequence, and what a module on
//! stages of its own sends to the next stage.
//!
//! Data-parallel ranks that have encoded equal shares of their images exchange the tokens before that; each sends what it has encoded, an
//! equal part to each.
//!
//! With b images on a rank, p + x positions of width h each, that become t tokens of the language model's width H:
//! * between stages of the module: b·(p + x)·h elements;
//! * from its last stage to the language model: b·t·H elements, the rank's own; they are gathered where they arrive.

use super::blocks::{Block, Blocks};
use super::item::{CommGroup, CommOp, CommPoint, Item};
use super::layer::{LayerKind, LayerPlan};
use super::module::ModuleShard;
use super::shard::Shard;
use crate::step::spec::workload::Trained;

impl ModuleShard<'_> {
    /// What ranks of the first stage of the language model gather of the module's tokens; `None` where each has them.
    pub fn arrival(&self) -> Option<LayerPlan> {
        let trained = if self.module.is_trained() { Trained::Through } else { Trained::Nothing };
        let tokens = Shard { trained, ..self.tokens() };
        let mut b = Blocks::new(&self.stack, &tokens);
        self.travel(&mut b);
        let plan = b.finish(LayerKind::Tokens);
        (!plan.forward.is_empty() || plan.has_backward()).then_some(plan)
    }
    /// Bytes of the positions that a stage of the module hands to the next one, on one rank.
    pub fn position_bytes(&self) -> f64 {
        (self.layers.tokens() * self.stack.hidden) as f64 * self.layers.act()
    }
    /// Bytes of the tokens that the module's last stage hands to the language model, on one rank.
    pub fn token_bytes(&self) -> f64 {
        (self.tokens().tokens() * self.model.hidden) as f64 * self.layers.act()
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
    pub(super) fn travel(&self, b: &mut Blocks) {
        let [tensor, context] = self.gathers;
        let rank = (b.shard.tokens() * self.model.hidden) as f64 * b.shard.act();
        let comm = |name, group, op, bytes| Item::Comm(CommPoint::new(name, group, op, bytes));
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        let (of_part, all) = (rank * tensor as f64, rank * (tensor * context) as f64);
        if self.module.is_exchanged() {
            forward.push(comm("all-to-all tokens", CommGroup::Data, CommOp::AllToAll, rank));
        }
        if tensor > 1 {
            forward.push(comm("all-gather tokens", CommGroup::Tensor, CommOp::AllGather, of_part));
        }
        if self.cuts_sequence {
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
        b.push(Block { forward, input_grad: backward.clone(), backward, ..Block::default() });
    }
}
