//! The layers of a module as a transformer.

use std::collections::BTreeMap;

use super::module::ModuleSpec;
use super::{AttentionSpec, LayerKindSpec, LayerRun, ModelSpec, Positions};

impl ModuleSpec {
    /// Its layers as a transformer without a vocabulary, on images or clips of the module's own size.
    pub fn stack(&self) -> ModelSpec {
        let attention = |window| AttentionSpec {
            causal: false,
            chunk: window,
            qkv_biases: self.attention_biases,
            output_bias: self.attention_biases,
            ..AttentionSpec::default()
        };
        let kind = |window| LayerKindSpec { attention: Some(attention(window)), ..LayerKindSpec::default() };
        let mixed = self.window.zip(self.full_every);
        let gated = (self.gated_layers > 0).then_some(self.layers.saturating_sub(self.gated_layers));
        let runs = |(_, every): (u64, u64)| {
            vec![LayerRun("window".into(), every.max(1) - 1), LayerRun("full".into(), 1)]
        };
        let kinds = |(window, _): (u64, u64)| {
            BTreeMap::from([("window".into(), kind(Some(window))), ("full".into(), kind(None))])
        };
        let with_gates = LayerKindSpec { gates: Some(true), ..LayerKindSpec::default() };
        let (layer_kinds, layer_pattern) = match (mixed, gated) {
            (Some(mixed), _) => (kinds(mixed), runs(mixed)),
            (None, Some(plain)) => (
                BTreeMap::from([("plain".into(), kind(self.window)), ("gated".into(), with_gates)]),
                vec![LayerRun("plain".into(), plain), LayerRun("gated".into(), self.gated_layers)],
            ),
            (None, None) => Default::default(),
        };
        ModelSpec {
            name: self.name.clone(),
            layers: self.layers,
            hidden: self.hidden,
            heads: self.heads,
            head_size: self.head_size,
            ffn: self.ffn,
            gated_mlp: self.gated_mlp,
            tied_embeddings: true,
            sequence: self.input.positions(self.sequence),
            positions: if self.rotary { Positions::Rotary } else { Positions::None },
            biases: self.biases,
            norm: self.norm,
            attention: attention(self.window),
            layer_kinds,
            layer_pattern,
            ..ModelSpec::default()
        }
    }
}
