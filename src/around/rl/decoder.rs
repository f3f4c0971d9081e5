//! The bytes and FLOPs of a replica that generates a token of each running sequence, and its messages.

use super::GenerationSpec;
use stepsim_core::ids::DeviceId;
use stepsim_fabric::collective::{CollectiveError, Lowering, Op, Transfer};
use stepsim_price::model::ParameterCount;
use stepsim_spec::Device;
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::Dtype;

/// Bytes of a weight and of an element of the KV cache.
const BYTES: f64 = 2.0;
/// Batch at which collectives are timed, beside a batch of one sequence; between them their time is a line.
const MANY: u64 = 256;

/// The KV cache of some layers that are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cache {
    /// Bytes of a token in all of them, on a rank.
    per_token: f64,
    /// Tokens that they look back at most.
    window: u64,
}

/// Routed experts of all layers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Experts {
    /// Bytes of all of them on a rank.
    bytes: f64,
    /// Share of them that one token visits.
    visited: f64,
}

/// A replica's rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoder {
    /// Bytes of the weights that every step reads.
    dense: f64,
    experts: Experts,
    caches: Vec<Cache>,
    /// FLOPs of a token through the products.
    flops: f64,
    /// FLOPs of a token for each token that attention looks at.
    flops_per_seen: f64,
    /// Bytes and FLOPs a second.
    memory: f64,
    peak: f64,
    /// Seconds of all collectives of a step: of one token, and of each more.
    sends: [f64; 2],
    /// Seconds beside.
    overhead: f64,
    /// Bytes for the KV cache.
    room: f64,
}

impl Decoder {
    /// A rank of a replica on these devices, with the rates that the device file says are reached.
    ///
    /// # Errors
    /// The devices are not connected.
    pub fn new(
        model: &ModelSpec,
        device: &Device,
        lowering: &Lowering<'_>,
        spec: &GenerationSpec,
    ) -> Result<Decoder, CollectiveError> {
        let (tensor, reached) = (spec.tensor, spec.memory_reached);
        let t = f64::from(tensor);
        let count = ParameterCount::of(model);
        let visited = model.layer_counts().iter().find_map(|(layer, _)| {
            layer.moe.as_ref().map(|moe| moe.top_k.min(moe.experts) as f64 / moe.experts.max(1) as f64)
        });
        let experts = Experts { bytes: BYTES * count.experts as f64 / t, visited: visited.unwrap_or(1.0) };
        // A step reads a row of the input embedding, and all of the head.
        let input = if model.tied_embeddings { 0 } else { model.vocabulary * model.hidden };
        let dense = BYTES * count.total().saturating_sub(count.experts + input) as f64 / t;
        let mut caches = Vec::new();
        let mut flops_per_seen = 0.0;
        for (layer, layers) in model.layer_counts() {
            let Some(width) = width(&layer, tensor) else { continue };
            let window = layer.attention.window.or(layer.attention.chunk).unwrap_or(u64::MAX);
            caches.push(Cache { per_token: BYTES * width * layers as f64, window });
            // With compressed keys and values queries look at those themselves.
            let widths = layer.mla.map_or(layer.qk_head_size() + layer.v_head_size(), |mla| {
                2 * mla.kv_lora_rank + mla.qk_rope_head_size
            });
            flops_per_seen += 2.0 * (widths * layer.heads * layers) as f64 / t;
        }
        let cost = device.cost.clone().unwrap_or_default();
        let peak = device.peak(Dtype::Bf16).map_or(f64::INFINITY, |peak| peak.0);
        let layers = model.layers as f64;
        let reduce = |tokens: u64| -> Result<f64, CollectiveError> {
            if tensor < 2 {
                return Ok(0.0);
            }
            let devices: Vec<DeviceId> = (0..tensor).map(DeviceId).collect();
            let bytes = tokens * model.hidden * BYTES as u64;
            let (_, choice) = lowering.explain(&Transfer::new(Op::AllReduce, bytes), &devices)?;
            Ok(2.0 * layers * choice.expected_s)
        };
        let [one, many] = [reduce(1)?, reduce(MANY)?];
        Ok(Decoder {
            dense,
            experts,
            caches,
            flops: 2.0 * (count.active.saturating_sub(input)) as f64 / t,
            flops_per_seen,
            memory: device.memory_bandwidth().0 * cost.memory_fraction * reached,
            peak: peak * cost.matrix_fraction * cost.sustained,
            sends: [one, ((many - one) / (MANY - 1) as f64).max(0.0)],
            overhead: spec.step_overhead_us * 1e-6,
            room: spec.memory_share * device.memory().0 as f64
                - dense
                - experts.bytes
                - BYTES * input as f64 / t,
        })
    }

    /// Bytes that are left for the KV cache; negative where not even the weights fit.
    pub fn room(&self) -> f64 {
        self.room
    }

    /// Bytes of the KV cache of a sequence.
    pub fn cache(&self, tokens: u64) -> f64 {
        self.caches.iter().map(|cache| cache.per_token * tokens.min(cache.window) as f64).sum()
    }

    /// Seconds of a step that makes a token of each of `batch` sequences, which look back at `seen` tokens together
    /// and have `cached` bytes of cache.
    pub fn step_s(&self, batch: u64, seen: f64, cached: f64) -> f64 {
        let untouched = (1.0 - self.experts.visited).powf(batch as f64);
        let read = self.dense + self.experts.bytes * (1.0 - untouched) + cached;
        let computed = self.flops * batch as f64 + self.flops_per_seen * seen;
        let sent = self.sends[0] + self.sends[1] * (batch - 1) as f64;
        (read / self.memory).max(computed / self.peak) + sent + self.overhead
    }

    /// Seconds of the prefill of a prompt.
    pub fn prefill_s(&self, tokens: u64) -> f64 {
        let n = tokens as f64;
        (self.flops * n + self.flops_per_seen * n * n / 2.0) / self.peak + self.sends[1] * n
    }
}

/// Elements that a layer keeps of a token on a rank; none of layers whose state does not grow.
fn width(layer: &ModelSpec, tensor: u32) -> Option<f64> {
    if !layer.mixer.is_attention() {
        return None;
    }
    if let Some(mla) = &layer.mla {
        // The compressed keys and values are whole on every rank.
        return Some((mla.kv_lora_rank + mla.qk_rope_head_size) as f64);
    }
    // Heads are not cut.
    let heads = layer.kv_heads().div_ceil(u64::from(tensor));
    Some((heads * (layer.qk_head_size() + layer.v_head_size())) as f64)
}
