//! The kind of each layer.

use std::borrow::Cow;

use super::ModelSpec;
use super::kinds::{LayerKindSpec, LayerRun, MlpKind};
use super::moe::MoeSpec;
use crate::problem::Problems;

impl ModelSpec {
    /// Name of the kind of layer `layer` (from 0); `None` where the model has one kind only.
    pub fn kind_of(&self, layer: u64) -> Option<&str> {
        // Asked before counts are checked.
        let period = self.layer_pattern.iter().fold(0u64, |sum, run| sum.saturating_add(run.1));
        let mut left = layer.checked_rem(period)?;
        for LayerRun(name, count) in &self.layer_pattern {
            if left < *count {
                return Some(name);
            }
            left -= count;
        }
        None
    }

    /// The model as layer `layer` (from 0) sees it: its kind's fields in place of the model's, `moe` only where the
    /// layer has experts.
    pub fn layer(&self, layer: u64) -> Cow<'_, ModelSpec> {
        let mut own = self.kind_spec(layer).map_or(Cow::Borrowed(self), |kind| Cow::Owned(kind.of(self)));
        if own.moe.is_some() && !self.has_experts(layer) {
            own.to_mut().moe = None;
        }
        own
    }

    fn kind_spec(&self, layer: u64) -> Option<&LayerKindSpec> {
        self.kind_of(layer).and_then(|name| self.layer_kinds.get(name))
    }

    /// True if layer `layer` (from 0) has experts.
    pub fn has_experts(&self, layer: u64) -> bool {
        let kind = self.kind_spec(layer);
        let mlp = kind.and_then(|kind| kind.mlp).unwrap_or(self.mlp);
        let moe = kind.and_then(|kind| kind.moe.as_ref()).or(self.moe.as_ref());
        match (mlp, moe) {
            (MlpKind::Dense | MlpKind::None, _) | (_, None) => false,
            (MlpKind::Experts, Some(_)) => true,
            (MlpKind::ByLayer, Some(moe)) => moe.covers(layer),
        }
    }

    /// True if the last stage reads the embedding table, too: as a tied head, or for the next token of a prediction
    /// module.
    pub fn table_at_both_ends(&self) -> bool {
        self.tied_embeddings || self.prediction_modules > 0
    }

    /// Experts of each layer from the first on, one entry where all layers are of one kind.
    pub fn experts_by_layer(&self) -> Vec<u64> {
        let experts = |layer: u64| {
            let own = self.kind_spec(layer).and_then(|kind| kind.moe.as_ref());
            own.or(self.moe.as_ref()).map_or(1, |moe| moe.experts)
        };
        let layers = if self.layer_pattern.is_empty() { 1 } else { self.layers };
        (0..layers).map(experts).collect()
    }

    /// True if some layers attend to images.
    pub fn has_cross(&self) -> bool {
        self.layer_counts().iter().any(|(layer, _)| layer.is_cross())
    }
    /// True if some layers attend to images and the step has none.
    pub fn leaves_out_layers(&self) -> bool {
        self.layer_counts().iter().any(|(layer, _)| layer.is_left_out())
    }
    /// The model where each sequence has `tokens` image tokens, as its layers of cross-attention see it.
    pub fn with_images(&self, tokens: u64) -> ModelSpec {
        let mut own = self.clone();
        let attentions = own.layer_kinds.values_mut().filter_map(|kind| kind.attention.as_mut());
        for attention in attentions.chain([&mut own.attention]) {
            attention.image_tokens = attention.image_tokens.map(|_| tokens);
        }
        own
    }
    /// Every different layer as it sees the model, with how many there are.
    pub fn layer_counts(&self) -> Vec<(Cow<'_, ModelSpec>, u64)> {
        type Key<'k> = (Option<&'k str>, bool);
        let mut seen: Vec<(Key<'_>, Cow<'_, ModelSpec>, u64)> = Vec::new();
        for l in 0..self.layers {
            let key = (self.kind_of(l), self.has_experts(l));
            match seen.iter_mut().find(|(k, ..)| *k == key) {
                Some((_, _, count)) => *count += 1,
                None => seen.push((key, self.layer(l), 1)),
            }
        }
        seen.into_iter().map(|(_, own, count)| (own, count)).collect()
    }

    pub(super) fn validate_kinds(&self, p: &mut Problems) {
        for (name, kind) in &self.layer_kinds {
            let at = format!("layer_kinds.{name}");
            for problem in kind.of(self).one_kind().validate(&at) {
                p.push(problem);
            }
            if kind.moe.is_some() && self.moe.is_none() {
                let hint = "give the model moe, and mlp dense to kinds without experts";
                p.add(format!("{at}.moe"), "experts", "nothing where the model has no moe", hint);
            }
            if !self.layer_pattern.iter().any(|run| run.0 == *name) {
                p.add(&at, format!("\"{name}\""), "a kind that layer_pattern names", "remove it, or name it");
            }
        }
        for (i, run) in self.layer_pattern.iter().enumerate() {
            p.size(format!("layer_pattern[{i}][1]"), run.1, 100_000);
            if !self.layer_kinds.contains_key(&run.0) {
                let known: Vec<_> = self.layer_kinds.keys().map(String::as_str).collect();
                let allowed = format!("a name in layer_kinds: {}", known.join(", "));
                let hint = "a kind may be empty: {} is a layer as the model says";
                p.add(format!("layer_pattern[{i}][0]"), format!("\"{}\"", run.0), allowed, hint);
            }
        }
    }

    /// The same without kinds: what one layer is checked as.
    fn one_kind(&self) -> ModelSpec {
        let mut own = self.clone();
        own.layer_kinds.clear();
        own.layer_pattern.clear();
        own
    }
}

impl LayerKindSpec {
    /// The model as a layer of this kind sees it.
    pub(super) fn of(&self, model: &ModelSpec) -> ModelSpec {
        let own = self.clone();
        ModelSpec {
            mixer: own.mixer.unwrap_or(model.mixer),
            mlp: own.mlp.unwrap_or(model.mlp),
            heads: own.heads.unwrap_or(model.heads),
            kv_heads: own.kv_heads.or(model.kv_heads),
            head_size: own.head_size.or(model.head_size),
            ffn: own.ffn.unwrap_or(model.ffn),
            attention: own.attention.unwrap_or(model.attention),
            mla: own.mla.or(model.mla),
            moe: own.moe.or_else(|| model.moe.clone()),
            norms: own.norms.or(model.norms),
            gates: own.gates.unwrap_or(model.gates),
            ..model.clone()
        }
    }
}

impl MoeSpec {
    /// Width of the shared experts together.
    pub fn shared_width(&self, model: &ModelSpec) -> u64 {
        self.shared_ffn.unwrap_or(self.shared_experts.saturating_mul(self.ffn.unwrap_or(model.ffn)))
    }
    /// Width in which tokens reach the experts.
    pub fn width(&self, model: &ModelSpec) -> u64 {
        self.latent.unwrap_or(model.hidden)
    }
}
