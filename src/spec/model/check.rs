//! Problems with a model's shape.

use super::{AttentionSpec, ModelSpec, MoeSpec};
use crate::problem::{Problem, Problems};

impl ModelSpec {
    /// Everything wrong with the shape; `at` is the JSON path of the model in its file (`model` or empty).
    pub fn validate(&self, at: &str) -> Vec<Problem> {
        let mut p = Problems::new(at);
        p.size("layers", self.layers, 100_000);
        if self.prediction_modules > 8 {
            let hint = "DeepSeek-V3 has 1; the field of configuration files is num_nextn_predict_layers";
            p.add("prediction_modules", self.prediction_modules, "0 to 8", hint);
        }
        p.size("hidden", self.hidden, 10_000_000);
        p.size("heads", self.heads, 1_000_000);
        p.size("ffn", self.ffn, 100_000_000);
        p.size("vocabulary", self.vocabulary, 1_000_000_000);
        p.size("sequence", self.sequence, 1_000_000_000);
        p.size("kv_heads", self.kv_heads, 1_000_000);
        match self.head_size {
            Some(d) => p.size("head_size", d, 1_000_000),
            None if self.heads > 0 && !self.hidden.is_multiple_of(self.heads) && self.mla.is_none() => p.add(
                "heads",
                self.heads,
                format!("a divisor of hidden ({})", self.hidden),
                "or give head_size: then heads × head_size need not equal hidden",
            ),
            None => {}
        }
        if self.kv_heads() > 0 && !self.heads.is_multiple_of(self.kv_heads()) {
            let hint = "each key–value head serves the same number of query heads";
            p.add("kv_heads", self.kv_heads(), format!("a divisor of heads ({})", self.heads), hint);
        }
        if let Some(moe) = &self.moe {
            moe.validate(&mut p, self.layers);
        }
        self.mixer.validate(&mut p, "mixer");
        self.attention.validate(&mut p);
        self.validate_cross(&mut p);
        self.validate_modules(&mut p);
        self.validate_kinds(&mut p);
        if let (Some(indexer), None) = (&self.attention.indexer, &self.mla) {
            let hint =
                "the indexer of DeepSeek-V3.2 scores the latents of `mla`: give those too, or a window";
            p.add("attention.indexer", format!("top_k {}", indexer.top_k), "an indexer beside mla", hint);
        }
        if let Some(mla) = &self.mla {
            p.size("mla.kv_lora_rank", mla.kv_lora_rank, 10_000_000);
            p.size("mla.qk_nope_head_size", mla.qk_nope_head_size, 1_000_000);
            p.size("mla.qk_rope_head_size", mla.qk_rope_head_size, 1_000_000);
            p.size("mla.v_head_size", mla.v_head_size, 1_000_000);
            p.size("mla.q_lora_rank", mla.q_lora_rank, 10_000_000);
        }
        let parameters = self.parameters_at_most();
        if parameters > 1e18 {
            let hint = format!("this one has up to {parameters:.1e}");
            p.add("hidden", self.hidden, "a model of at most 1e18 parameters", hint);
        }
        p.into_list()
    }

    /// Problems of layers of cross-attention beside other settings.
    fn validate_cross(&self, p: &mut Problems) {
        if self.extra_rows > 0 && self.tied_embeddings {
            let hint = "add them to vocabulary: a tied head reads them too";
            p.add("extra_rows", self.extra_rows, "0 with tied_embeddings", hint);
        }
        if self.extra_rows > 1_000_000_000 {
            p.add(
                "extra_rows",
                self.extra_rows,
                "0 to 1000000000",
                "the rows of the embedding that the LM head lacks",
            );
        }
        // By kind: numbers of layers are not checked yet.
        let has_both = |layer: &ModelSpec| layer.is_cross() && layer.mla.is_some();
        if has_both(self) || self.layer_kinds.values().any(|kind| has_both(&kind.of(self))) {
            let hint = "layers that attend to images project their keys themselves, as in Llama 3.2 Vision";
            p.add("mla", "latent attention", "none in a layer with attention.image_tokens", hint);
        }
        if !self.layer_kinds.is_empty()
            && self.layer(self.layers.saturating_sub(1)).is_cross()
            && self.prediction_modules > 0
        {
            let hint = "a prediction module is a layer like the last, and has no image tokens";
            let allowed = "0 where the last layer attends to images";
            p.add("prediction_modules", self.prediction_modules, allowed, hint);
        }
    }

    /// A bound on the number of parameters that cannot overflow.
    fn parameters_at_most(&self) -> f64 {
        let h = self.hidden as f64;
        let heads = self.heads as f64 * (self.qk_head_size() as f64 + self.v_head_size() as f64);
        let latent = self
            .mla
            .map_or(0.0, |m| (m.kv_lora_rank as f64 + m.q_lora_rank.unwrap_or(0) as f64) * (h + heads));
        let experts = self
            .moe
            .as_ref()
            .map_or(0.0, |m| (m.experts as f64 + m.shared_experts as f64) * m.ffn.unwrap_or(self.ffn) as f64);
        let layer = 2.0 * h * heads + latent + 3.0 * h * (self.ffn as f64 + experts);
        self.layers as f64 * layer + h * (2.0 * self.vocabulary as f64 + self.sequence as f64)
    }
}

impl AttentionSpec {
    pub(super) fn validate(&self, p: &mut Problems) {
        p.size("attention.window", self.window, 1_000_000_000);
        p.size("attention.chunk", self.chunk, 1_000_000_000);
        if let (Some(window), Some(_)) = (self.window, self.chunk) {
            p.add("attention.window", window, "a window or chunks, not both", "leave one of them out");
        }
        if let Some(images) = self.image_tokens.filter(|n| *n > 1_000_000_000) {
            let hint = "the image tokens that a sequence sees";
            p.add("attention.image_tokens", images, "0 to 1000000000", hint);
        }
        let beside = [
            ("window", self.window.is_some()),
            ("chunk", self.chunk.is_some()),
            ("indexer", self.indexer.is_some()),
            ("sinks", self.sinks),
            ("output_gate", self.output_gate),
        ];
        if let (Some(images), Some((what, _))) = (self.image_tokens, beside.iter().find(|other| other.1)) {
            let hint = "each token sees all image tokens of its sequence";
            p.add("attention.image_tokens", images, format!("no {what} beside it"), hint);
        }
        if let Some(indexer) = &self.indexer {
            p.size("attention.indexer.heads", indexer.heads, 1_000_000);
            p.size("attention.indexer.head_size", indexer.head_size, 1_000_000);
            p.size("attention.indexer.top_k", indexer.top_k, 1_000_000_000);
        }
    }
}

impl MoeSpec {
    pub(super) fn validate(&self, p: &mut Problems, layers: u64) {
        p.size("moe.experts", self.experts, 1_000_000);
        p.size("moe.top_k", self.top_k, 1_000_000);
        p.size("moe.every_layers", self.every_layers, 100_000);
        p.size("moe.ffn", self.ffn, 100_000_000);
        if self.top_k > self.experts {
            let hint = "a token cannot visit more experts than there are";
            p.add("moe.top_k", self.top_k, format!("1 to {} (moe.experts)", self.experts), hint);
        }
        if self.shared_experts > 1_000_000 {
            let hint = "count experts, not their width";
            p.add("moe.shared_experts", self.shared_experts, "0 to 1000000", hint);
        }
        if self.first_dense_layers > layers {
            let hint = "leave moe out for a model without experts";
            p.add("moe.first_dense_layers", self.first_dense_layers, format!("0 to {layers} (layers)"), hint);
        }
        p.size("moe.groups", self.groups, 1_000_000);
        let groups = self.groups.max(1);
        if !self.experts.is_multiple_of(groups) {
            let hint = "groups hold equally many experts";
            p.add("moe.groups", groups, format!("a divisor of moe.experts ({})", self.experts), hint);
        } else if let Some(limit) = self.group_limit {
            let least = self.top_k.div_ceil((self.experts / groups).max(1)).max(1);
            if limit < least || limit > groups {
                let hint = "a token's experts must fit into its groups";
                p.add("moe.group_limit", limit, format!("{least} to {groups} (moe.groups)"), hint);
            }
        }
        if let Some(c) = self.capacity_factor.filter(|&c| !(c > 0.0 && c <= 1e6)) {
            p.add("moe.capacity_factor", c, "a number above 0", "leave it out for no limit");
        }
    }
}
