//! The layers of a module as those of a transformer.

use std::collections::BTreeMap;

use super::module::ModuleSpec;
use super::{AttentionSpec, LayerKindSpec, LayerRun, Mixer, MlpKind, ModelSpec, Positions};

impl ModuleSpec {
    /// Its layers as those of a transformer without a vocabulary, on images or clips of the module's own size.
    pub fn stack(&self) -> ModelSpec {
        let attention = |window| AttentionSpec { causal: false, chunk: window, ..AttentionSpec::default() };
        let kind = |window| LayerKindSpec { attention: Some(attention(window)), ..LayerKindSpec::default() };
        let mixed = self.window.zip(self.full_every);
        let runs = |(_, every): (u64, u64)| {
            vec![LayerRun("window".into(), every.max(1) - 1), LayerRun("full".into(), 1)]
        };
        let kinds = |(window, _): (u64, u64)| {
            BTreeMap::from([("window".into(), kind(Some(window))), ("full".into(), kind(None))])
        };
        ModelSpec {
            name: self.name.clone(),
            source: String::new(),
            layers: self.layers,
            hidden: self.hidden,
            heads: self.heads,
            kv_heads: None,
            head_size: self.head_size,
            ffn: self.ffn,
            gated_mlp: self.gated_mlp,
            vocabulary: 0,
            tied_embeddings: true,
            sequence: self.sequence + self.input.extra_tokens,
            positions: if self.rotary { Positions::Rotary } else { Positions::None },
            biases: self.biases,
            mlp_biases: None,
            head_bias: false,
            norm: self.norm,
            norms: None,
            extra_norms: 0,
            dropout: false,
            parallel_block: false,
            attention: attention(self.window),
            moe: None,
            mla: None,
            mixer: Mixer::Attention,
            mlp: MlpKind::ByLayer,
            layer_kinds: mixed.map(kinds).unwrap_or_default(),
            layer_pattern: mixed.map(runs).unwrap_or_default(),
            prediction_modules: 0,
            modules: Vec::new(),
        }
    }
}
