//! A forward and a backward pass of two micro-batches run together, layer by layer, so that the exchanges with
//! experts of the one lie under the kernels of the other.
//!
//! One cell is a layer of each. Pushed in this order, it gives the orders of both streams in DeepSeek's published
//! profile of DualPipe and in Megatron-LM's combined 1F1B (`moe::overlap`):
//!
//! | compute | attn(F) | mlp(B) | mlp(W) | mlp(F) | attn(B) | attn(W) |
//! |--|--|--|--|--|--|--|
//! | exchange | combine(B) | dispatch(F) | dispatch(B) | | combine(F) | |
//!
//! Waits beyond the order of each stream follow from the data alone: an exchange waits for the kernels before it in
//! its pass, the kernels after it for the exchange. Weight gradients (W) wait for nothing but their place. Items
//! recomputed for a part of a layer run at the start of that part.
//!
//! Ops are written in the order in which Megatron-LM's host launches them (`model_chunk_schedule_plan.py`): mlp(B)
//! before dispatch(F), so that the device has work while the host reads how many tokens that sends.
//!
//! Layers are paired first with last. Layers without experts run between cells; surplus layers run unpaired.

use std::rc::Rc;

use super::chain::{Act, Advance, Chain, Visit};
use super::stage::Stage;
use super::unit::FullRecompute;
use crate::pipeline::{self, Task};
use stepsim_core::ids::OpId;
use stepsim_core::program::{Phase, ProgramBuilder};
use stepsim_price::model::Item;
use stepsim_schedule::{Pass, SlotPass};
use stepsim_spec::workload::ExpertOverlap;

/// The backward half of a pair: input gradients, and the weight gradients of the layers whose input gradients have
/// begun.
struct PairedBackward {
    chain: Chain,
    /// Weight gradients that may run, oldest first: unit, ops, and kernels of the experts' part, which come first.
    weights: Vec<(u32, Chain, u32)>,
    part: SlotPass,
    /// The layer under way.
    open: Option<u32>,
    /// True if weight gradients run where they are made.
    fused: bool,
}

impl Stage<'_, '_> {
    /// By chunk of the rank: whether its passes have exchanges, and none of them is repeated.
    pub(super) fn chunks_with_exchanges(&self) -> Vec<bool> {
        let exchanges = |items: &[Item]| items.iter().filter_map(Item::comm).any(|c| c.exchange.is_some());
        let has = |chunk: &[u32]| {
            let units = &self.w.units[chunk[0] as usize..chunk[1] as usize];
            units.iter().any(|u| exchanges(&u.plan.forward))
                && units.iter().all(|u| u.recompute == FullRecompute::No && !exchanges(&u.repeated()))
        };
        self.w.first_unit.windows(2).map(has).collect()
    }

    /// True if both passes have exchanges, and none of them is repeated.
    pub(super) fn pairs_exchanges(&self, forward: &Task, backward: &Task) -> bool {
        let has = |part: SlotPass| self.exchanges[usize::from(part.chunk)];
        self.w.setup.shares.degrees.expert > 1
            && backward.part.pass == Pass::Backward
            && has(forward.part)
            && has(backward.part)
    }

    /// Pushes both passes, cell after cell.
    pub(super) fn paired(&mut self, b: &mut ProgramBuilder, forward: &Task, backward: &Task) -> (OpId, OpId) {
        let mut f = self.chain(b, forward);
        let mut back = self.backward_half(b, backward);
        let mut f_left = true;
        // The head of the model, or what stands before the last layer's experts.
        let mut b_left = self.reach_exchange_back(b, &mut back);
        while f_left || b_left {
            self.exchange(b, &mut back.chain, b_left); // combine(B)
            f_left = f_left && self.reach_exchange(b, &mut f); // attn(F)
            b_left = b_left && self.reach_exchange_back(b, &mut back); // mlp(B)
            self.exchange(b, &mut f, f_left); // dispatch(F)
            self.weights_of_experts(b, &mut back); // mlp(W)
            self.exchange(b, &mut back.chain, b_left); // dispatch(B)
            f_left = f_left && self.reach_exchange(b, &mut f); // mlp(F)
            self.exchange(b, &mut f, f_left); // combine(F)
            b_left = b_left && self.reach_exchange_back(b, &mut back); // attn(B)
            self.weights_of_rest(b, &mut back); // attn(W)
        }
        let (f, w) = (f.output(), back.chain.output());
        (f.unwrap_or_else(|| self.nothing(b, forward)), w.unwrap_or_else(|| self.nothing(b, backward)))
    }

    /// Pushes ops up to the next exchange; false when nothing is left.
    fn reach_exchange(&mut self, b: &mut ProgramBuilder, chain: &mut Chain) -> bool {
        while !chain.is_at_exchange() {
            match chain.step(b) {
                Advance::Opens(visit) => self.opens(b, chain, visit),
                Advance::Closes(visit) => self.closes(b, chain, visit),
                Advance::Kernel | Advance::Comm | Advance::Exchange(..) => {}
                Advance::Done => return false,
            }
        }
        true
    }

    /// Pushes the exchange that a pass has come to, where it has.
    fn exchange(&mut self, b: &mut ProgramBuilder, chain: &mut Chain, reached: bool) {
        if reached && let Advance::Exchange(op, sent) = chain.step(b) {
            self.counts_read(b, op, sent);
        }
    }

    /// [`Self::reach_exchange`] of the backward half; layers that open offer their weight gradients.
    fn reach_exchange_back(&mut self, b: &mut ProgramBuilder, back: &mut PairedBackward) -> bool {
        while !back.chain.is_at_exchange() {
            match back.chain.step(b) {
                Advance::Opens(visit) => {
                    self.opens(b, &mut back.chain, visit);
                    if !visit.repeats {
                        back.open = Some(visit.unit);
                        self.offer_weights(b, back, visit.unit);
                    }
                }
                Advance::Closes(visit) => {
                    self.closes(b, &mut back.chain, visit);
                    if !visit.repeats {
                        back.open = None;
                    }
                }
                Advance::Kernel | Advance::Comm | Advance::Exchange(..) => {}
                Advance::Done => return false,
            }
        }
        true
    }

    /// The backward pass as input gradients alone (or whole, where weight gradients run where they are made), what is
    /// recomputed at the start of each part.
    fn backward_half(&mut self, b: &mut ProgramBuilder, task: &Task) -> PairedBackward {
        let fused = self.w.setup.shares.workload.expert.overlap == ExpertOverlap::MicroBatchesFusedGradients;
        let pass = if fused { Pass::Backward } else { Pass::InputGrad };
        let part = SlotPass { pass, ..task.part };
        let chunk = usize::from(part.chunk);
        let range = self.w.first_unit[chunk]..self.w.first_unit[chunk + 1];
        let mut segments: Vec<(Visit, Rc<[Act]>)> = Vec::new();
        for unit in range.rev() {
            let acts = self.acts_with_recompute(b, (unit, part.micro_batch), pass);
            let (micro_batch, recomputes) = (part.micro_batch, true);
            if !acts.is_empty() {
                segments.push((Visit { unit, pass, repeats: false, micro_batch, recomputes }, acts));
            } else if !fused {
                // An embedding has weight gradients alone.
                let acts = self.acts(b, (unit, part.micro_batch), Pass::WeightGrad, false);
                let (pass, recomputes) = (Pass::WeightGrad, false);
                if !acts.is_empty() {
                    segments.push((Visit { unit, pass, repeats: false, micro_batch, recomputes }, acts));
                }
            }
        }
        let chain = Chain::new(segments.into(), part.micro_batch, task.input, self.w.compute);
        PairedBackward { chain, weights: Vec::new(), part, open: None, fused }
    }

    fn acts_with_recompute(
        &mut self,
        b: &mut ProgramBuilder,
        (unit, micro_batch): (u32, u32),
        pass: Pass,
    ) -> Rc<[Act]> {
        let documents = self.documents(micro_batch);
        if let Some(acts) = self.kept_acts().get(&(unit, pass, documents)) {
            return acts.clone();
        }
        let layer = self.unit(unit, micro_batch).0.clone();
        let (rest, experts) = layer.plan.recompute_parts(&layer.policy);
        let (own, again) = (pipeline::phase(pass), Phase::Recompute);
        let items = layer.items(pass);
        let exchange = |i: &Item| i.comm().is_some_and(|c| c.exchange.is_some());
        let first = items.iter().position(exchange).map_or(0, |i| i + 1);
        let last = items.iter().rposition(exchange).map_or(0, |i| i + 1);
        let mut list: Vec<(Item, Phase)> = Vec::new();
        let with = |items: &[Item], phase| items.iter().map(|i| (i.clone(), phase)).collect::<Vec<_>>();
        if !items.is_empty() {
            list.extend(with(&items[..first], own));
            list.extend(with(&experts, again));
            list.extend(with(&items[first..last.max(first)], own));
            list.extend(with(&rest, again));
            list.extend(with(&items[last.max(first)..], own));
        }
        let acts: Rc<[Act]> =
            list.iter().filter_map(|(item, phase)| self.act(b, item, *phase, &layer.label())).collect();
        self.kept_acts().insert((unit, pass, documents), acts.clone());
        acts
    }

    fn offer_weights(&mut self, b: &mut ProgramBuilder, back: &mut PairedBackward, unit: u32) {
        if back.fused || self.w.units[unit as usize].plan.input_grad.is_empty() {
            return;
        }
        let acts = self.acts(b, (unit, back.part.micro_batch), Pass::WeightGrad, false);
        if acts.is_empty() {
            return;
        }
        let (pass, micro_batch) = (Pass::WeightGrad, back.part.micro_batch);
        let visit = Visit { unit, pass, repeats: false, micro_batch, recomputes: false };
        let of_experts = self.w.units[unit as usize].plan.expert_weight_grads;
        let chain = Chain::new([(visit, acts)].into(), micro_batch, None, self.w.compute);
        back.weights.push((unit, chain, of_experts));
    }

    /// Pushes `kernels` weight gradients of a layer, or all that are left.
    fn weights(&mut self, b: &mut ProgramBuilder, chain: &mut Chain, mut kernels: u32) {
        while kernels > 0 {
            match chain.step(b) {
                Advance::Opens(visit) => self.opens(b, chain, visit),
                Advance::Closes(visit) => self.closes(b, chain, visit),
                Advance::Kernel => kernels -= 1,
                Advance::Comm | Advance::Exchange(..) => {}
                Advance::Done => return,
            }
        }
    }
    /// Weight gradients of the experts of the layer under way, and all of those that are done.
    fn weights_of_experts(&mut self, b: &mut ProgramBuilder, back: &mut PairedBackward) {
        self.weights_of_rest(b, back);
        let mut weights = std::mem::take(&mut back.weights);
        if let Some((_, chain, of_experts)) = weights.last_mut() {
            let kernels = std::mem::take(of_experts);
            self.weights(b, chain, kernels);
        }
        back.weights = weights;
    }
    /// Weight gradients of the layers whose input gradients are done: all but the layer under way.
    fn weights_of_rest(&mut self, b: &mut ProgramBuilder, back: &mut PairedBackward) {
        let (open, all) = (back.open, std::mem::take(&mut back.weights));
        for (unit, mut chain, of_experts) in all {
            if open == Some(unit) {
                back.weights.push((unit, chain, of_experts));
            } else {
                self.weights(b, &mut chain, u32::MAX);
            }
        }
    }
}
