//! Named quantities of a step: what a formula is written in.

use std::collections::BTreeMap;

use super::closed_form::ClosedForm;
use super::estimate::Estimate;
use stepsim_fabric::collective::{CollectiveError, Op};
use stepsim_plan::step::groups::Group;
use stepsim_price::model::CommGroup;
use stepsim_schedule::sharding::Exchange;

/// Groups whose rates and latencies are named.
const GROUPS: [(&str, Group); 5] = [
    ("tensor", Group::Layer(CommGroup::Tensor)),
    ("context", Group::Layer(CommGroup::Context)),
    ("expert", Group::Layer(CommGroup::Expert)),
    ("data", Group::Dense(Exchange::Sum)),
    ("gather", Group::Dense(Exchange::Gather)),
];

/// The rate of a group of one.
const ENDLESS: f64 = 1e30;

/// A message that takes no time but latency, in bytes.
const SMALL: f64 = 1.0;

impl ClosedForm<'_> {
    /// The quantities of a step that has this estimate, by name.
    ///
    /// # Errors
    /// A group cannot communicate.
    pub fn quantities(&self, estimate: &Estimate) -> Result<BTreeMap<String, f64>, CollectiveError> {
        let (workload, model) = (self.form.workload(), self.model);
        let (degrees, rules) = (self.degrees(), &estimate.rules);
        let pipeline = &workload.parallelism.pipeline;
        let busiest = &self.form.ranks[estimate.busiest];
        let of_model = [
            ("layers", model.layers as f64),
            ("hidden", model.hidden as f64),
            ("heads", model.heads as f64),
            ("kv_heads", model.kv_heads.unwrap_or(model.heads) as f64),
            ("ffn", model.ffn as f64),
            ("mlp_matrices", if model.gated_mlp { 3.0 } else { 2.0 }),
            ("vocabulary", model.vocabulary as f64),
            ("parameters", rules.parameters),
            ("active_parameters", rules.active_parameters),
        ];
        let of_batch = [
            ("sequence", workload.sequence(model) as f64),
            ("micro_batch", workload.batch.micro_batch as f64),
            ("global_batch", workload.batch.global as f64),
            ("micro_batches", f64::from(self.form.micro_batches)),
            ("tokens", estimate.tokens),
            ("model_flops", estimate.model_flops),
        ];
        let of_layout = [
            ("devices", self.devices()),
            ("tensor", f64::from(degrees.tensor)),
            ("context", f64::from(degrees.context)),
            ("expert", f64::from(degrees.expert)),
            ("data", f64::from(degrees.data)),
            ("pipeline", f64::from(degrees.pipeline)),
            ("chunks", pipeline.chunks() as f64),
            ("layers_per_rank", model.layers as f64 / f64::from(degrees.pipeline)),
            ("weights_cut", f64::from(degrees.dense.weights)),
            ("optimizer_cut", f64::from(degrees.dense.optimizer)),
        ];
        let of_formats = [
            ("compute_bytes", workload.precision.compute.bytes()),
            ("weight_bytes", workload.weight_message_bytes()),
            ("gradient_bytes", workload.gradient_message_bytes()),
        ];
        let hop = self.form.parts.links.borders().iter().copied();
        let hop = hop.reduce(|a, b| if b.time(1e6) > a.time(1e6) { b } else { a });
        let of_machine = [
            ("peak_flops", self.peak),
            ("p2p_latency_s", hop.map_or(0.0, |hop| hop.latency)),
            ("p2p_Bps", hop.map_or(ENDLESS, |hop| hop.bandwidth)),
        ];
        // Of one micro-batch on the busiest rank: kernels, and with what is exposed inside layers.
        let (forward, recompute) = (busiest.sum.forward, busiest.sum.recompute);
        let backward = self.form.gradients(&busiest.sum);
        let of_passes = [
            ("forward_s", forward.compute),
            ("recompute_s", recompute.compute),
            ("backward_s", backward.compute),
            ("input_gradient_s", busiest.sum.input_grad.total()),
            ("weight_gradient_s", busiest.sum.weight_grad.total()),
            ("forward_pass_s", forward.total()),
            ("backward_pass_s", recompute.total() + backward.total()),
        ];
        let all = of_model.into_iter().chain(of_batch).chain(of_layout).chain(of_formats);
        let all = all.chain(of_machine).chain(of_passes);
        let mut all: BTreeMap<String, f64> = all.map(|(name, value)| (name.to_string(), value)).collect();
        let links = &self.form.parts.links;
        for (name, group) in GROUPS {
            all.insert(format!("{name}_Bps"), links.gather_rate(group)?.min(ENDLESS));
            all.insert(format!("{name}_latency_s"), links.time(group, Op::AllReduce, SMALL)?);
        }
        for (key, (_, seconds)) in super::terms::KEYS.into_iter().zip(estimate.terms.named()) {
            all.insert(format!("own.{key}"), seconds);
        }
        Ok(all)
    }
}
