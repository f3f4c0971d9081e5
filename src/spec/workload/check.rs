//! Validation of a workload: alone, and against the machine that it is to run on.

use super::{ContextKind, GroupAxis, WorkloadSpec};
use crate::model::{Mixer, ModelSpec};
use crate::problem::{Problem, Problems};

/// Largest degree of parallelism, batch or count that is taken seriously.
const MOST: u64 = 100_000_000;
/// Most passes forward of all stages in a step: an order is made of each.
const PASSES: u64 = 1 << 21;

impl WorkloadSpec {
    /// Everything wrong with the step that the model alone shows.
    pub fn validate(&self, model: &ModelSpec) -> Vec<Problem> {
        let mut p = Problems::new("");
        if let super::ModelRef::Inline(inline) = &self.model {
            p.extend(inline.validate("model"));
        }
        // Checks that depend on the model need a sound one: of 2^64 layers nobody lives to see the end.
        let model = (p.len() == 0).then_some(model);
        p.size("sequence", self.sequence, 1_000_000_000);
        p.size("batch.global", self.batch.global, MOST);
        p.size("batch.micro_batch", self.batch.micro_batch, MOST);
        if let Some(model) = model {
            self.check_size(&mut p, model);
            if let Some(documents) = &self.documents {
                documents.check(&mut p, self.sequence(model));
            }
        }
        let before = p.len();
        self.check_degrees(&mut p);
        if let Some(model) = model.filter(|_| p.len() == before) {
            self.check_tensor(&mut p, model);
            self.check_context(&mut p, model);
            self.check_pipeline(&mut p, model);
            self.check_experts(&mut p, model);
            self.check_modules(&mut p, model);
            self.check_dynamic(&mut p, model);
        }
        self.check_sharding(&mut p);
        self.check_offload(&mut p);
        if let Some(model) = model {
            self.check_recompute(&mut p, model);
            self.check_optimizer(&mut p, model);
            self.check_training(&mut p, model);
        }
        self.check_rest(&mut p);
        p.into_list()
    }

    /// All problems of the step on `devices` with these memory tiers (`hbm` among them).
    pub fn validate_on(&self, devices: u64, tiers: &[&str]) -> Vec<Problem> {
        let mut p = Problems::new("");
        let replica = self.ranks_per_replica();
        let par = &self.parallelism;
        let all = devices;
        let devices = devices.saturating_sub(self.module_ranks());
        let without = match self.module_ranks() {
            0 => String::new(),
            own => format!(" without the {own} of a module"),
        };
        match par.data {
            Some(d) if d.saturating_mul(replica) != devices => p.add(
                "parallelism.data",
                d,
                format!("degrees that multiply to the {devices} devices of the topology{without}"),
                format!(
                    "tensor {} × context {} × pipeline {} × data {d} = {}; {}",
                    par.tensor,
                    par.context.size,
                    self.grid_stages(),
                    d.saturating_mul(replica),
                    if devices.is_multiple_of(replica.max(1)) {
                        format!("data = {} would fit, and so would leaving it out", devices / replica.max(1))
                    } else {
                        format!("no data degree makes {replica} divide {devices}: change another degree")
                    },
                ),
            ),
            None if replica == 0 || !devices.is_multiple_of(replica) => p.add(
                "parallelism",
                format!(
                    "tensor {} × context {} × pipeline {}",
                    par.tensor, par.context.size, par.pipeline.size
                ),
                format!("degrees whose product divides the {devices} devices of the topology"),
                format!("{replica} ranks hold one model; {devices} is no multiple of it"),
            ),
            _ => self.check_counts(&mut p, all),
        }
        for (class, placements) in self.offload.classes() {
            for (i, place) in placements.iter().enumerate() {
                let named = std::iter::once(("tier".to_string(), &place.tier))
                    .chain(place.via.iter().enumerate().map(|(j, v)| (format!("via[{j}]"), v)));
                for (field, tier) in named.filter(|(_, t)| !tiers.contains(&t.as_str())) {
                    let allowed = format!("a memory tier of the topology: {}", tiers.join(", "));
                    let hint = "add the tier to the topology, or place the share elsewhere";
                    p.add(format!("offload.{class}[{i}].{field}"), format!("{tier:?}"), allowed, hint);
                }
            }
        }
        p.into_list()
    }

    /// Checks that depend on the data-parallel degree.
    fn check_counts(&self, p: &mut Problems, devices: u64) {
        let data = self.data_parallel(devices);
        let par = &self.parallelism;
        let slice = data.saturating_mul(self.batch.micro_batch);
        if slice == 0 || !self.batch.global.is_multiple_of(slice) {
            p.add(
                "batch.global",
                self.batch.global,
                format!("a multiple of data × micro_batch = {data} × {} = {slice}", self.batch.micro_batch),
                "each data-parallel rank needs a whole number of micro-batches",
            );
        }
        let chunks = par.pipeline.size.saturating_mul(par.pipeline.chunks());
        if self.micro_batches(devices).saturating_mul(chunks) > PASSES {
            let most = (PASSES / chunks.max(1)).saturating_mul(slice);
            let hint = "raise parallelism.data or batch.micro_batch: an order is made of all passes";
            p.add("batch.global", self.batch.global, format!("at most {most}"), hint);
        }
        let holders = data.saturating_mul(par.context.size).saturating_mul(par.tensor);
        let expert = par.expert.saturating_mul(par.expert_tensor());
        if expert == 0 || !holders.is_multiple_of(expert) {
            let (field, value) = match par.expert {
                1 => ("parallelism.expert_tensor", par.expert_tensor()),
                expert => ("parallelism.expert", expert),
            };
            let allowed = format!("expert × expert_tensor that divides data × context × tensor = {holders}");
            let hint = "expert-parallel groups are cut from the ranks of one pipeline stage";
            p.add(field, value, allowed, hint);
        }
        let all = data.saturating_mul(par.context.size);
        self.check_dynamic_ranks(p, all);
        if let Some(g) = par.sharding.group.filter(|&g| g == 0 || !all.is_multiple_of(g)) {
            let hint = "state is cut inside equal groups and replicated across them";
            p.add("parallelism.sharding.group", g, format!("a divisor of data × context = {all}"), hint);
        }
    }

    /// Tensors whose elements no count holds.
    fn check_size(&self, p: &mut Problems, model: &ModelSpec) {
        let tokens = self.batch.micro_batch as f64 * self.sequence(model) as f64;
        let moe =
            model.moe.as_ref().map_or(0.0, |m| m.top_k as f64 * 2.0 * m.ffn.unwrap_or(model.ffn) as f64);
        let heads = model.heads as f64 * (model.qk_head_size() as f64 + model.v_head_size() as f64);
        let widest = [
            model.hidden as f64,
            2.0 * model.ffn as f64,
            model.vocabulary as f64,
            moe,
            heads,
            model.heads as f64 * self.sequence(model) as f64,
        ];
        let elements = tokens * widest.into_iter().fold(0.0, f64::max);
        if elements > 1e17 {
            let allowed = "a micro-batch whose largest tensor has at most 1e17 elements";
            let hint = format!("{elements:.1e} with sequences of {} tokens", self.sequence(model));
            p.add("batch.micro_batch", self.batch.micro_batch, allowed, hint);
        }
    }

    fn check_degrees(&self, p: &mut Problems) {
        let par = &self.parallelism;
        p.size("parallelism.tensor", par.tensor, MOST);
        p.size("parallelism.context.size", par.context.size, MOST);
        p.size("parallelism.expert", par.expert, MOST);
        p.size("parallelism.pipeline.size", par.pipeline.size, MOST);
        p.size("loss.tiles", self.loss.tiles, MOST);
        p.size("parallelism.data", par.data, MOST);
        p.size("parallelism.expert_tensor", par.expert_tensor, MOST);
        p.size("parallelism.pipeline.chunks", par.pipeline.chunks, MOST);
        p.size("parallelism.pipeline.group_size", par.pipeline.group_size, MOST);
        let mut axes = par.order.clone();
        axes.sort();
        if axes != [GroupAxis::Tensor, GroupAxis::Context, GroupAxis::Data, GroupAxis::Pipeline] {
            let allowed = "tensor, context, data and pipeline in any order, each once";
            let hint = "the first axis has the nearest neighbours";
            p.add("parallelism.order", format!("{:?}", par.order), allowed, hint);
        }
    }

    fn check_tensor(&self, p: &mut Problems, model: &ModelSpec) {
        let t = self.parallelism.tensor;
        let must_divide = |p: &mut Problems, what: &str, value: u64| {
            if !value.is_multiple_of(t) {
                let hint = "each tensor-parallel rank holds an equal share";
                p.add("parallelism.tensor", t, format!("a divisor of the model's {what} ({value})"), hint);
            }
        };
        must_divide(p, "heads", model.heads);
        must_divide(p, "ffn", model.ffn);
        for (layer, _) in model.layer_counts() {
            let mixer = Mixer::of(&layer);
            if let Some((mixer, heads)) = mixer.and_then(|mixer| mixer.heads().map(|heads| (mixer, heads))) {
                must_divide(p, &format!("{} heads", mixer.name()), heads);
            }
            if let Some(moe) = &layer.moe {
                must_divide(p, "moe.shared_ffn", moe.shared_width(&layer));
            }
        }
        let kv = model.kv_heads();
        if kv != 0 && !kv.is_multiple_of(t) && !t.is_multiple_of(kv) {
            let allowed = format!("a divisor or a multiple of the model's kv_heads ({kv})");
            let hint = "with more ranks than key–value heads, heads are replicated a whole number of times";
            p.add("parallelism.tensor", t, allowed, hint);
        }
        let cut = t.saturating_mul(self.parallelism.context.size);
        if self.parallelism.sequence_parallel && !self.sequence(model).is_multiple_of(cut) {
            p.add(
                "parallelism.sequence_parallel",
                true,
                format!("a sequence that tensor × context = {cut} divides; it is {}", self.sequence(model)),
                "change the sequence or a degree",
            );
        }
    }

    fn check_context(&self, p: &mut Problems, model: &ModelSpec) {
        let c = &self.parallelism.context;
        if c.per_document && self.documents.is_none() {
            let hint = "describe the documents (`documents`), or leave it out";
            p.add("parallelism.context.per_document", true, "false where sequences hold no documents", hint);
        }
        if c.size == 1 {
            return;
        }
        let pieces = if c.zigzag && model.attention.causal { c.size.saturating_mul(2) } else { c.size };
        if !self.sequence(model).is_multiple_of(pieces) {
            p.add(
                "parallelism.context.size",
                c.size,
                format!("a degree whose {pieces} pieces divide the sequence ({})", self.sequence(model)),
                "zigzag cuts the sequence into two pieces per rank",
            );
        }
        let inner = match c.kind {
            ContextKind::Ulysses => c.size,
            ContextKind::TwoLevel => c.ulysses_size.unwrap_or(0),
            _ => 1,
        };
        if inner == 0 || !c.size.is_multiple_of(inner) {
            let allowed = format!("a divisor of context.size ({})", c.size);
            let hint = "two-level needs the size of its inner all-to-all group";
            p.add("parallelism.context.ulysses_size", inner, allowed, hint);
        } else if !model.heads.is_multiple_of(inner.saturating_mul(self.parallelism.tensor)) {
            p.add(
                "parallelism.context.size",
                c.size,
                format!("an all-to-all group that divides the {} heads left to a rank by tensor parallelism",
                    model.heads / self.parallelism.tensor),
                "an all-to-all turns a cut of the sequence into a cut of the heads; use ring or all-gather beyond",
            );
        }
    }

    fn check_experts(&self, p: &mut Problems, model: &ModelSpec) {
        let par = &self.parallelism;
        match &model.moe {
            None if par.expert > 1 || par.expert_tensor.is_some_and(|e| e > 1) => p.add(
                "parallelism.expert",
                par.expert,
                "1 for a model without experts",
                "the model has no moe part",
            ),
            Some(moe) if moe.experts % par.expert != 0 => p.add(
                "parallelism.expert",
                par.expert,
                format!("a divisor of the model's {} experts", moe.experts),
                "each rank holds the same number of experts",
            ),
            Some(moe) if moe.ffn.unwrap_or(model.ffn) % par.expert_tensor() != 0 => p.add(
                "parallelism.expert_tensor",
                par.expert_tensor(),
                format!("a divisor of the expert's width ({})", moe.ffn.unwrap_or(model.ffn)),
                "",
            ),
            Some(_)
                if par.tensor > 1
                    && !par.sequence_parallel
                    && !par.tensor.is_multiple_of(par.expert_tensor()) =>
            {
                p.add(
                    "parallelism.expert_tensor",
                    par.expert_tensor(),
                    format!("a divisor of tensor ({}) without sequence_parallel", par.tensor),
                    "ranks of several tensor-parallel groups would cut an expert, some with the same tokens: set \
                     parallelism.sequence_parallel=true",
                );
            }
            _ => {}
        }
        self.check_expert_traffic(p, model);
        self.check_recipe(p, model);
    }

    fn check_rest(&self, p: &mut Problems) {
        p.range("precision.master_bytes_per_parameter", self.precision.master_bytes_per_parameter, 0.0, 64.0);
        let moments = self.precision.moments_bytes_per_parameter;
        p.range("precision.moments_bytes_per_parameter", moments, 0.0, 64.0);
        p.range("fidelity.constant_fraction", self.fidelity.constant_fraction, 1e-6, 1.0);
        self.check_noise(p);
    }

    fn check_noise(&self, p: &mut Problems) {
        let noise = &self.noise;
        p.range("noise.compute_sigma", noise.compute_sigma, 0.0, 10.0);
        for (i, s) in noise.stragglers.iter().enumerate() {
            p.range(format!("noise.stragglers[{i}].slowness"), s.slowness, 1.0, 1e6);
            let par = &self.parallelism;
            let coordinates = [
                ("pipeline_rank", s.pipeline_rank, par.pipeline.size),
                ("data_rank", s.data_rank, par.data.unwrap_or(u64::MAX)),
                ("context_rank", s.context_rank, par.context.size),
                ("tensor_rank", s.tensor_rank, par.tensor),
            ];
            if s.rank.is_none() && coordinates.iter().all(|c| c.1.is_none()) {
                let allowed = "rank, or one of pipeline_rank, data_rank, context_rank, tensor_rank";
                p.add(format!("noise.stragglers[{i}]"), "no rank", allowed, "say which ranks are slow");
            }
            for (name, at, size) in coordinates {
                if let Some(at) = at.filter(|at| *at >= size) {
                    let allowed = format!("0 to {}", size.saturating_sub(1));
                    p.add(format!("noise.stragglers[{i}].{name}"), at, allowed, "numbers begin at 0");
                }
            }
        }
        for (i, link) in noise.slow_links.iter().enumerate() {
            p.range(format!("noise.slow_links[{i}].slowness"), link.slowness, 1.0, 1e6);
        }
    }
}
