//! Transformer layers: norms, a mixer, an MLP or experts, and the residual stream.

use super::blocks::LayerBuilder;
use super::layer::{LayerKind, LayerPlan};
use super::mlp::Mlp;
use super::shard::Shard;
use stepsim_spec::model::{Mixer, MlpKind, ModelSpec};
use stepsim_spec::workload::{Fp8Gemm, RecomputeModule};

impl LayerPlan {
    /// A layer, of the model as that layer sees it ([`ModelSpec::layer`]).
    pub fn transformer(layer: &ModelSpec, shard: &Shard) -> LayerPlan {
        let images = layer.attention.image_tokens.map(|tokens| shard.of_images(tokens));
        let mut blocks = LayerBuilder::new(layer, shard);
        blocks.images = images.as_ref();
        blocks.transformer(layer);
        let kind = if layer.moe.is_some() { LayerKind::Moe } else { LayerKind::Dense };
        let matrices = if shard.trained.weights() { super::muon::held(layer, shard) } else { Vec::new() };
        let plan = LayerPlan { matrices, ..blocks.finish(kind) };
        match &images {
            _ if layer.is_left_out() => plan.left_out(),
            Some(images) => {
                let image_bytes = images.boundary_bytes(layer).round() as u64;
                // A recomputation from its input reads the image tokens too.
                let kept = if shard.keeps_images && plan.has_backward() { image_bytes } else { 0 };
                LayerPlan { image_bytes, boundary_bytes: plan.boundary_bytes + kept, ..plan }
            }
            None => plan,
        }
    }
}

impl LayerBuilder<'_> {
    /// Adds a transformer layer.
    pub(super) fn transformer(&mut self, layer: &ModelSpec) {
        let blocks = self;
        let mixer = Mixer::of(layer);
        let (mixes, has_mlp) = (mixer.is_some(), layer.mlp != MlpKind::None);
        // Norms beyond one before each part stand behind the parts.
        let parts = u64::from(mixes) + u64::from(has_mlp);
        let norms_behind = layer.norms() > parts;
        let behind = |blocks: &mut LayerBuilder| {
            if norms_behind {
                blocks.norm("norm");
            }
        };
        if let Some(mixer) = mixer {
            blocks.norm("norm");
            match mixer.scan(blocks.shard.tensor) {
                None => {
                    super::attention::add(blocks);
                    blocks.stream = &[RecomputeModule::Projection];
                }
                Some(scan) => super::scan::add(blocks, &scan),
            }
            behind(blocks);
            if layer.gates {
                blocks.gate();
            }
        }
        if mixes && has_mlp && !layer.parallel_block {
            blocks.residual("residual");
        }
        if has_mlp {
            match mixes && layer.parallel_block {
                true => blocks.branch(),
                false => blocks.norm("norm"),
            }
            match &layer.moe {
                Some(moe) => super::moe::add(blocks, moe),
                None => {
                    let modules = &[RecomputeModule::Mlp];
                    let mlp =
                        Mlp { name: "mlp", ffn: layer.ffn, gemm: Fp8Gemm::Mlp, modules, own_input: true };
                    mlp.add(blocks);
                }
            }
            behind(blocks);
            if layer.gates {
                blocks.gate();
            }
        }
        blocks.residual("residual");
        blocks.stream = &[];
    }
}
