//! Layers of the stages of a pipeline, where a file says them: a layout in Megatron's letters, or how the ends differ.

use serde_json::Value;

use super::WorkloadDraft;
use super::adapters::model_of;
use crate::describe::split_of_stages;

/// Chunks of a rank that are tried for a layout of more stages than ranks.
const MOST_CHUNKS: u64 = 64;

impl WorkloadDraft {
    /// Puts the layers of each stage. A value that makes no split of this model is doubted.
    pub(super) fn stage_layers(&mut self) {
        let Some(text) = self.stage_words() else { return };
        let ranks = self.degree("parallelism.pipeline.size");
        if ranks < 2 {
            return;
        }
        let layers = model_of(&self.workload).map(|model| model.layers);
        let chunks = self.number("parallelism.pipeline.chunks");
        let split = layers.and_then(|layers| match self.variables.contains_key("stage_layout") {
            true => (1..=MOST_CHUNKS)
                .filter(|n| chunks.is_none_or(|chunks| chunks == *n))
                .find_map(|n| Some((n, split_of_stages(&text, layers, ranks.saturating_mul(n))?))),
            false => over_chunks(&split_of_stages(&text, layers, ranks)?, chunks.unwrap_or(1)),
        });
        let Some((chunks, split)) = split else {
            return self.doubt(
                "layers of the stages",
                text.into(),
                "parallelism.pipeline.layer_split by --set",
            );
        };
        if chunks > 1 && self.number("parallelism.pipeline.chunks").is_none() {
            self.put("parallelism.pipeline.chunks", chunks.into());
            self.put("parallelism.pipeline.schedule", "interleaved-1f1b".into());
        }
        self.put("parallelism.pipeline.layer_split", split.into());
    }

    /// The file's words on the stages, as [`split_of_stages`] knows them.
    fn stage_words(&self) -> Option<String> {
        if let Some(layout) = self.variables.get("stage_layout").and_then(Value::as_str) {
            return Some(layout.to_string());
        }
        let ends: Vec<String> = ["first", "last"]
            .iter()
            .filter_map(|end| Some(format!("{end} {}", self.variable(&format!("{end}_stage_layers"))?)))
            .collect();
        match (self.says("embedding_as_layer"), self.says("loss_as_layer")) {
            _ if !ends.is_empty() => Some(ends.join(", ")),
            (true, true) => Some("account for embedding and loss".into()),
            (true, false) => Some("account for embedding".into()),
            (false, true) => Some("loss as a layer".into()),
            (false, false) => None,
        }
    }
}

/// Layers of each rank cut evenly into its chunks, in the order of the model.
fn over_chunks(of_ranks: &[u64], chunks: u64) -> Option<(u64, Vec<u64>)> {
    let even = of_ranks.iter().all(|layers| layers.is_multiple_of(chunks));
    even.then(|| {
        let chunk = of_ranks.iter().map(|layers| layers / chunks);
        (chunks, (0..chunks).flat_map(|_| chunk.clone()).collect())
    })
}
