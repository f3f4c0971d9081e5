//! Rules that people carry in their heads: 6·P·D, 12·L·h², bytes per parameter, B > C/W, the ideal bubble.

use serde::Serialize;

use super::links::RankLinks;
use stepsim_fabric::collective::CollectiveError;
use stepsim_plan::step::groups::{Degrees, Group};
use stepsim_price::model::{CommGroup, ParameterCount};
use stepsim_schedule::sharding::{Cuts, Exchange};
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::WorkloadSpec;

/// Rules of thumb for one workload on one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rules {
    /// All parameters.
    pub parameters: f64,
    /// Those that one token passes.
    pub active_parameters: f64,
    /// 12·L·h²: attention 4h², an ungated MLP of 4h twice 4h², nothing else.
    pub twelve_l_h2: f64,
    /// Bytes of weights, gradients and optimizer state of one parameter, before anything is cut.
    pub bytes_per_parameter: f64,
    /// The same on one rank of a sharding group.
    pub bytes_per_parameter_sharded: f64,
    /// 6·P·D: P active parameters, D tokens of the step.
    #[serde(rename = "six_p_d_flops")]
    pub six_p_d: f64,
    /// Seconds for that at the peak of all devices.
    #[serde(rename = "six_p_d_at_peak_s")]
    pub six_p_d_time: f64,
    /// (p − 1)/(v·m): bubble over useful time.
    #[serde(rename = "ideal_bubble_share")]
    pub ideal_bubble: f64,
    /// Tokens of one micro-batch on one replica.
    pub tokens_per_micro_batch: f64,
    /// Tokens of one step on one replica.
    pub tokens_per_replica: f64,
    /// Tokens that one replica must have between two reductions for data parallelism to stay compute-bound.
    pub data_parallel_tokens: f64,
    /// Tokens that one replica must have in each micro-batch for gathered weights (FSDP, ZeRO-3) to stay hidden.
    pub fsdp_tokens: f64,
    /// Largest tensor-parallel degree at which an MLP stays compute-bound.
    pub tensor_degree: f64,
}

/// Everything but the machine that the rules need.
pub struct RuleInputs<'a> {
    /// The step.
    pub workload: &'a WorkloadSpec,
    /// Its model.
    pub model: &'a ModelSpec,
    /// Group sizes.
    pub degrees: Degrees,
    /// Chunks that one micro-batch meets on a rank.
    pub chunks: u32,
    /// Peak of one device in FLOP/s, C.
    pub peak: f64,
    /// Parameters of the model.
    pub count: ParameterCount,
}

/// The rules for any batch.
pub struct RulesOfLayout {
    /// Those that need no batch; 0 in the place of the others.
    any: Rules,
    degrees: Degrees,
    chunks: u32,
}

impl RulesOfLayout {
    /// The rules of a layout, with C the peak of a device and W the rate of an all-gather ([`RankLinks::gather_rate`]).
    ///
    /// * Data parallelism: an all-reduce of a weight's gradient (β bytes) takes 2β/W a parameter and rank, its
    ///   backward pass 4 FLOP a token and parameter: tokens > β·C/(2W), that is C/W for β = 2. For a reduce-scatter
    ///   alone half of that.
    /// * FSDP: forward gathers β bytes a parameter beside 2 FLOP a token: tokens > β·C/(2W) in each micro-batch.
    /// * Tensor parallelism with reduce-scatter and all-gather: an MLP of width f moves 4·h bytes a token at 16 bits,
    ///   and computes 4·h·f/t FLOP: t < f·W/C (three matrices: 1.5 times that).
    ///
    /// Source: "How to scale your model" (jax-ml scaling book), training chapter.
    ///
    /// # Errors
    /// A group cannot gather.
    pub fn new(given: &RuleInputs<'_>, links: &RankLinks<'_>) -> Result<RulesOfLayout, CollectiveError> {
        let RuleInputs { workload: w, model, degrees, chunks, count, .. } = *given;
        let sequence = w.sequence(model) as f64;
        let over = |group| links.gather_rate(group).map(|rate| given.peak / rate);
        let passes = if w.sharding().cuts_optimizer() { 1.0 } else { 2.0 };
        let gradient = w.gradient_message_bytes();
        let weight = w.weight_message_bytes();
        let summed = Group::Dense(Exchange::Sum);
        let gathered =
            Some(Group::Dense(Exchange::Gather)).filter(|group| links.has(*group)).unwrap_or(summed);
        let matrices = if model.gated_mlp { 1.5 } else { 1.0 };
        let any = Rules {
            parameters: count.total() as f64,
            active_parameters: count.active as f64,
            twelve_l_h2: 12.0 * model.layers as f64 * (model.hidden as f64).powi(2),
            bytes_per_parameter: w.bytes_per_parameter().total(),
            bytes_per_parameter_sharded: sharded(w, &degrees.dense),
            tokens_per_micro_batch: w.batch.micro_batch as f64 * sequence / f64::from(degrees.context),
            data_parallel_tokens: passes * gradient / 4.0 * over(summed)?,
            fsdp_tokens: weight / 2.0 * over(gathered)?,
            tensor_degree: matrices * model.ffn as f64 / over(Group::Layer(CommGroup::Tensor))? * 2.0
                / w.precision.compute.bytes(),
            ..Rules::default()
        };
        Ok(RulesOfLayout { any, degrees, chunks })
    }

    /// Sizes of the layout's groups.
    pub fn degrees(&self) -> &Degrees {
        &self.degrees
    }
    /// Ranks of the layout.
    pub fn ranks(&self) -> f64 {
        f64::from(self.degrees.ranks())
    }

    /// The rules for a step of `tokens`, in `micro_batches` of one replica, on devices of `peak` FLOP/s.
    pub fn with_batch(&self, tokens: f64, micro_batches: u32, peak: f64) -> Rules {
        let (any, d) = (self.any, &self.degrees);
        let six_p_d = 6.0 * any.active_parameters * tokens;
        Rules {
            six_p_d,
            six_p_d_time: six_p_d / (self.ranks() * peak),
            ideal_bubble: f64::from(d.pipeline - 1) / f64::from(self.chunks * micro_batches),
            tokens_per_replica: tokens / f64::from(d.data * d.context),
            ..any
        }
    }
}

/// Bytes of one dense parameter on one of the ranks that cut its state among so many.
fn sharded(w: &WorkloadSpec, cuts: &Cuts<u32>) -> f64 {
    let bytes = w.bytes_per_parameter();
    let secondary = if cuts.secondary > 1 { bytes.weights / f64::from(cuts.secondary) } else { 0.0 };
    bytes.weights / f64::from(cuts.weights)
        + secondary
        + bytes.gradients / f64::from(cuts.gradients)
        + bytes.optimizer() / f64::from(cuts.optimizer)
}
