//! Quantities that several arguments share, put together: devices, replicas, batches, chunks, the vocabulary.

use serde_json::{Map, Value, json};

use super::argument::Argument;
use super::draft::{DraftResult, WorkloadDraft};
use super::readable::UnreadNumber;
use super::table::{FormatTable, plain};
use super::{Beside, object};
use stepsim_spec::glob::fits;
use stepsim_spec::json::whole;
use stepsim_spec::{Kind, SpecError, catalog};

/// Entries of GPT-2's tokenizer (Radford et al. 2019).
const GPT2: u64 = 50_257;

/// A file without its folder.
fn name(file: &str) -> String {
    let name = std::path::Path::new(file).file_name();
    name.map_or_else(|| file.to_string(), |name| name.to_string_lossy().into_owned())
}

/// Sequences of a micro-batch whose tokens are given, at most.
const MOST_SEQUENCES: u64 = 4096;

impl WorkloadDraft {
    /// The workload, and what was assumed on the way.
    pub(super) fn finish(
        mut self,
        table: &FormatTable,
        beside: &Beside,
        file: &str,
    ) -> Result<DraftResult, SpecError> {
        let is_needed = |unread: &&UnreadNumber| !unread.is_of_machine() || beside.devices.is_none();
        if let Some(unread) = self.unread.iter().find(is_needed) {
            return Err(unread.error(file));
        }
        for set in &beside.sets {
            let (path, value) = super::json::setting(set)?;
            match path.strip_prefix('$') {
                Some(_) => self.lay(path, value),
                None => super::json::set(&mut self.workload, path, value)?,
            }
        }
        super::json::remove_nulls(&mut self.workload);
        self.devices_of_chips(table, beside);
        self.preference();
        self.look_up(table);
        self.degrees();
        self.lengths();
        self.replicas(beside);
        self.chunks();
        self.recompute();
        self.adapters();
        self.fused();
        self.offload();
        if let Some(batch) = beside.batch {
            self.put("batch.global", batch.into());
        }
        self.batch(beside, file)?;
        self.model(table, beside, file)?;
        self.encoders();
        self.stage_layers();
        self.tiled_loss();
        self.samples(beside);
        if let Some(topology) = &beside.topology {
            self.put("topology", topology.as_str().into());
        }
        let mut whole = json!({"description": format!("Imported from {}", name(file))});
        super::json::merge(&mut whole, self.workload);
        Ok(DraftResult { workload: whole, assumed: self.assumed, doubts: self.doubts })
    }

    /// Something that a file says, or leaves open, is not in the workload and may change the step.
    pub(super) fn doubt(&mut self, name: &str, value: Value, why: &str) {
        self.doubts.push(Argument::doubted(name, value, why));
    }
    pub(super) fn put(&mut self, path: &str, value: Value) {
        // Paths come from the specification.
        let _ = super::json::set(&mut self.workload, path, value);
    }
    /// The share or amount that a quantity is.
    pub(super) fn amount(&self, name: &str) -> Option<f64> {
        self.variables.get(name)?.as_f64()
    }
    /// True if a quantity says that something is so.
    pub(super) fn says(&self, name: &str) -> bool {
        self.variables.get(name) == Some(&Value::Bool(true))
    }
    /// A number at a path of the workload.
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.workload.pointer(&format!("/{}", path.replace('.', "/")))?.as_u64()
    }
    pub(super) fn degree(&self, path: &str) -> u64 {
        self.number(path).unwrap_or(1).max(1)
    }
    fn ranks_of_replica(&self) -> u64 {
        let degrees = ["parallelism.tensor", "parallelism.context.size", "parallelism.pipeline.size"];
        degrees.iter().map(|path| self.degree(path)).fold(1, u64::saturating_mul)
    }
    /// A quantity; `None` where it is not given, or all that is left.
    pub(super) fn variable(&self, name: &str) -> Option<u64> {
        self.variables.get(name)?.as_u64()
    }

    /// Quantities of devices as the software counts them, where a chip holds several: the machine has chips.
    fn devices_of_chips(&mut self, table: &FormatTable, beside: &Beside) {
        let device = beside.device.as_deref().unwrap_or_default().to_ascii_lowercase();
        let found = table.devices_a_chip.iter().find(|(pattern, _)| fits(pattern, &device));
        let Some((_, devices)) = found.filter(|(_, devices)| **devices > 1) else { return };
        if let Some(each) = self.amount("per_device_batch") {
            self.variables.insert("per_device_batch".into(), whole(each * *devices as f64));
        }
        // Devices of a chip share what its memory holds: the widest degree that they make is theirs.
        let cut = ["shard", "replicate", "tensor", "expert", "context"];
        let given = cut
            .iter()
            .find(|name| self.variable(name).is_some_and(|n| n >= *devices && n.is_multiple_of(*devices)));
        let rest =
            cut.iter().any(|name| self.variables.get(*name).and_then(Value::as_i64).is_some_and(|n| n < 0));
        if let (Some(name), false) = (given, rest) {
            let degree = self.variable(name).unwrap_or(*devices) / devices;
            self.variables.insert((*name).to_string(), degree.into());
        }
        self.assumed.push(format!("{devices} devices of the software a chip"));
    }

    /// The factor of a loss that compares answers with a reference model's is said by several trainers; where the
    /// run's name says direct preference optimisation, that is meant.
    fn preference(&mut self) {
        let Some(beta) = self.variables.get("preference_beta").cloned() else { return };
        let name = self.variables.get("run_name").and_then(Value::as_str).unwrap_or_default();
        if name.to_ascii_lowercase().contains("dpo") {
            self.assumed.push(format!("pairs of answers and a reference model: the run is called {name}"));
            self.variables.insert("preference".into(), "dpo".into());
        } else {
            let why = "pairs of answers, or a model beside the trained one: the step of one answer is taken";
            self.doubt("beta", beta, why);
        }
    }

    /// Values that follow from others together.
    fn look_up(&mut self, table: &FormatTable) {
        for lookup in &table.lookups {
            let text = |name: &String| Some(plain(self.variables.get(name)?).to_ascii_lowercase());
            let Some(values) = lookup.of.iter().map(text).collect::<Option<Vec<String>>>() else { continue };
            let values = values.join(" ");
            let found = lookup.values.iter().find(|(pattern, _)| fits(pattern, &values));
            for (path, value) in found.into_iter().flat_map(|found| found.1.clone()) {
                self.lay(&path, value);
            }
        }
    }

    /// The sequence, where a prompt and its answer make it, or a decoder has one of its own.
    fn lengths(&mut self) {
        let answer = self.variable("response_length");
        // Software that says the length of answers beside it means the prompt by the word for a sequence.
        let sequence = self.number("sequence").filter(|_| self.says("sequence_is_prompt"));
        let prompt = self.variable("prompt_length").or(sequence).unwrap_or(0);
        let both = answer.map(|answer| answer.saturating_add(prompt));
        if let Some(length) = self.variable("decoder_sequence").or(both) {
            self.put("sequence", length.into());
        }
    }

    /// Degrees that are products of several arguments.
    fn degrees(&mut self) {
        for (name, path) in [
            ("tensor", "parallelism.tensor"),
            ("context", "parallelism.context.size"),
            ("pipeline", "parallelism.pipeline.size"),
            ("expert", "parallelism.expert"),
        ] {
            if let Some(degree) = self.variable(name).filter(|degree| *degree > 0) {
                self.put(path, degree.into());
            }
        }
    }

    /// The data-parallel degree, of what is given: itself, replicas × shards, or the devices over the rest.
    fn replicas(&mut self, beside: &Beside) {
        let nodes = self.variable("nodes");
        let per_node = self.variable("gpus_per_node");
        let devices = beside
            .devices
            .or(self.variable("devices"))
            .or(nodes.zip(per_node).map(|(n, g)| n.saturating_mul(g)))
            .or(self.variable("job_devices"));
        let others = self.ranks_of_replica();
        let left = devices.map(|devices| devices / others);
        let (replicate, shard) = (self.variable("replicate"), self.variable("shard"));
        let both = |a: u64, b: u64| a.saturating_mul(b);
        let rest = |name: &str| self.variables.get(name).and_then(Value::as_i64).is_some_and(|n| n < 0);
        // The part that one of them leaves to the other.
        let (replicate, shard) = match (rest("replicate"), rest("shard"), left) {
            (_, true, Some(left)) => (replicate, Some(left / replicate.unwrap_or(1).max(1))),
            (true, _, Some(left)) => (Some(left / shard.unwrap_or(1).max(1)), shard),
            _ => (replicate, shard),
        };
        let open = rest("shard") && shard.is_none() || rest("replicate") && replicate.is_none();
        let said = match (replicate, shard) {
            _ if open => None,
            (None, None) => None,
            (r, s) => Some(both(r.unwrap_or(1).max(1), s.unwrap_or(1).max(1))),
        };
        if shard.is_some_and(|s| s > 1) || rest("shard") {
            if self.variables.get("shards_weights") != Some(&Value::Bool(false)) {
                self.put("parallelism.sharding.kind", "zero3".into());
            }
            if let (Some(shard), Some(replicate)) = (shard, replicate)
                && replicate > 1
            {
                self.put("parallelism.sharding.group", shard.into());
            }
        } else if shard == Some(1) && replicate.is_some_and(|replicas| replicas > 1) {
            // Replicas of whole models.
            self.put("parallelism.sharding.kind", "none".into());
        }
        let stated = self.number("parallelism.data").or(said);
        self.data(stated, devices, others, beside.devices.is_some());
    }

    /// Puts the data-parallel degree: what is stated, or what the devices leave over `others`, the product of the other
    /// degrees. On a machine that is asked for beside the file (`asked`) the file's own degree is for another one.
    fn data(&mut self, stated: Option<u64>, devices: Option<u64>, others: u64, asked: bool) {
        let whole = devices.filter(|devices| devices.is_multiple_of(others));
        let follows = match stated {
            None => devices,
            Some(data) => whole.filter(|devices| asked && data.saturating_mul(others) != *devices),
        };
        let data = follows.map(|devices| devices / others).filter(|data| *data > 0);
        if let (Some(data), Some(devices)) = (data, follows) {
            let own = stated.map_or_else(String::new, |own| {
                format!("; the file's {own} are for {}", own.saturating_mul(others))
            });
            self.assumed
                .push(format!("parallelism.data = {data}: {devices} devices over the other degrees{own}"));
        }
        if let Some(data) = data.or(stated) {
            self.put("parallelism.data", data.into());
        }
    }

    /// The share of the optimizer's state on another tier, where a file says one; the rest stays on the device.
    fn offload(&mut self) {
        let share = self.amount("offload_fraction");
        let Some(share) = share.filter(|share| (0.0..1.0).contains(share)) else { return };
        let Some(place) = self.workload.pointer("/offload/optimizer/0").cloned() else { return };
        if share == 0.0 {
            self.put("offload.optimizer", json!([]));
            self.put("offload.optimizer_on", Value::Null);
            return;
        }
        let mut away = place;
        away["fraction"] = share.into();
        self.put("offload.optimizer", json!([away, {"fraction": 1.0 - share, "tier": "hbm"}]));
    }

    /// Model chunks of a rank, from layers of a chunk.
    fn chunks(&mut self) {
        let stages = self.degree("parallelism.pipeline.size");
        let layers = self.number("model.layers");
        let of_layers = self
            .variable("layers_per_chunk")
            .zip(layers)
            .map(|(n, layers)| layers / stages.max(1) / n.max(1));
        if let Some(chunks) = self.variable("chunks").or(of_layers)
            && chunks > 1
            && stages > 1
        {
            self.put("parallelism.pipeline.chunks", chunks.into());
            let schedule = self.workload.pointer("/parallelism/pipeline/schedule");
            if schedule.is_none_or(|s| s == "1f1b") {
                self.put("parallelism.pipeline.schedule", "interleaved-1f1b".into());
            }
        }
        if self.number("parallelism.pipeline.chunks").is_none() {
            // Without chunks nothing is dealt in groups.
            let pipeline = self.workload.pointer_mut("/parallelism/pipeline").and_then(Value::as_object_mut);
            pipeline.and_then(|pipeline| pipeline.shift_remove("group_size"));
        }
        if self.workload.pointer("/parallelism/pipeline/schedule").is_none() && stages > 1 {
            self.put("parallelism.pipeline.schedule", "1f1b".into());
        }
    }

    /// Sequences of a step and of a micro-batch.
    fn batch(&mut self, beside: &Beside, file: &str) -> Result<(), SpecError> {
        let data = self.number("parallelism.data");
        let sequence = self.number("sequence");
        if let Some((tokens, length)) = self.variable("micro_batch_tokens").zip(sequence) {
            self.put("batch.micro_batch", (tokens / length.max(1)).max(1).into());
        }
        if let Some(sequences) = self.variable("sequences").or(self.variable("rollout_batch"))
            && self.number("batch.global").is_none()
        {
            let steps = self.variable("steps_per_rollout").unwrap_or(1).max(1);
            self.put("batch.global", (sequences / steps).max(1).into());
        }
        let tokens_per_gpu = self.variable("tokens_per_gpu").filter(|_| self.says("dynamic"));
        if let Some((tokens, length)) = tokens_per_gpu.zip(sequence) {
            if !self.said.contains("tokens_per_gpu") {
                let why = "the software's own, which the file does not change";
                self.assumed.push(format!("micro-batches of {tokens} tokens a device: {why}"));
            }
            let tokens = tokens.saturating_mul(self.degree("parallelism.context.size"));
            let most = (tokens / length.max(1)).clamp(1, MOST_SEQUENCES);
            // Sequences of a replica are dealt evenly to as few micro-batches as hold them.
            let each = self.number("batch.global").zip(data).map(|(global, data)| global / data.max(1));
            let even = |micro: &u64| each.is_none_or(|each| each.is_multiple_of(*micro));
            self.put("batch.micro_batch", (1..=most).rev().find(even).unwrap_or(1).into());
        }
        if let Some((all, data)) = self.variable("micro_batch_of_all").zip(data) {
            self.put("batch.micro_batch", (all / data.max(1)).max(1).into());
        }
        self.cut_replica(data);
        // Sequences of one device and step, a fraction where several devices share one.
        let per_device = self.amount("per_device_batch");
        let others = self.ranks_of_replica() as f64;
        if self.workload.pointer("/batch/micro_batch").is_none() {
            let steps = self.variable("accumulation").unwrap_or(1).max(1) as f64;
            let pieces = self.variable("pipeline_micro_batches").unwrap_or(1).max(1) as f64;
            let micro = per_device.map(|b| b * others / steps / pieces);
            let usual = self.variable("usual_micro_batch").unwrap_or(1);
            self.put("batch.micro_batch", micro.map_or(usual.into(), |m| whole(m.max(1.0))));
            if micro.is_none() {
                self.assumed.push(format!("batch.micro_batch = {usual}: the file does not say"));
            }
            let given = beside.batch.is_some() || self.number("batch.global").is_some();
            if micro.is_none() && !given && self.says("says_batch") {
                self.doubt("batch", Value::Null, "a part of a recipe that says no batch: --batch says it");
            }
        }
        let micro = self.degree("batch.micro_batch");
        if self.workload.pointer("/batch/global").is_none() {
            let by_tokens =
                self.variable("tokens_per_step").zip(sequence).map(|(tokens, s)| tokens / s.max(1));
            let by_device = per_device.zip(data).map(|(b, data)| (b * others * data as f64).round() as u64);
            let accumulation = self.variable("accumulation");
            let by_steps =
                data.map(|data| micro.saturating_mul(data).saturating_mul(accumulation.unwrap_or(1).max(1)));
            let usual =
                beside.usual_batch.filter(|_| by_tokens.or(by_device).is_none() && accumulation.is_none());
            if let Some(usual) = usual {
                self.assumed
                    .push(format!("batch.global = {usual}: nothing says how many sequences a step has"));
                self.put("batch.global", usual.into());
                return Ok(());
            }
            let Some(global) = by_tokens.or(by_device).or(by_steps) else {
                return Err(SpecError::file(file, "does not say how many sequences a step has")
                    .allowed("an argument for the global batch, or devices from which it follows")
                    .hint("give --devices N, or --set batch.global=N"));
            };
            if by_tokens.is_none() {
                self.assumed.push(format!(
                    "batch.global = {global}: micro-batch {micro} on {} replicas",
                    data.unwrap_or(1)
                ));
            }
            self.put("batch.global", global.into());
        }
        Ok(())
    }

    /// The modules that every sequence of the model has.
    fn encoders(&mut self) {
        let modules = self.workload.pointer("/model/modules").and_then(Value::as_array).cloned();
        for module in modules.unwrap_or_default() {
            if let (Some(name), Some(items)) = (module["name"].as_str(), module["per_sequence"].as_u64()) {
                self.put(&format!("modules.{name}.items"), items.into());
            }
        }
    }

    /// A sample of several sequences, as two answers to one question, counts as these.
    fn samples(&mut self, beside: &Beside) {
        let Some(each) = self.variable("sequences_a_sample").filter(|each| *each > 1) else { return };
        for path in ["batch.global", "batch.micro_batch"] {
            let said = path != "batch.global" || beside.batch.is_none();
            if let Some(samples) = self.number(path).filter(|_| said) {
                self.put(path, samples.saturating_mul(each).into());
            }
        }
        self.assumed.push(format!("{each} sequences for each sample: the batch is counted in sequences"));
    }

    /// Micro-batches of what a replica has at once: it as a whole, or under a pipeline pieces of it; their size or
    /// number is given, else they have one sequence each, or (`over_stages`) are as many as there are stages.
    fn cut_replica(&mut self, data: Option<u64>) {
        let over_stages = self.variable("replica_batch_over_stages");
        let Some(whole) = self.variable("replica_batch").or(over_stages) else { return };
        let stages = self.degree("parallelism.pipeline.size");
        let pieces = self.variable("pipeline_micro_batches").or(over_stages.map(|_| stages));
        let micro = match self.variable("pipeline_micro_batch") {
            _ if stages == 1 => whole,
            Some(size) => size,
            None => pieces.map_or(1, |pieces| whole / pieces.max(1)),
        };
        self.put("batch.micro_batch", micro.max(1).into());
        if let (None, Some(data)) = (self.number("batch.global"), data) {
            let steps = self.variable("accumulation").unwrap_or(1).max(1);
            self.put("batch.global", whole.saturating_mul(data).saturating_mul(steps).into());
        }
    }

    /// The model: named, or written out with what follows from the rest.
    fn model(&mut self, table: &FormatTable, beside: &Beside, file: &str) -> Result<(), SpecError> {
        if let Some(mut whole) = beside.model.clone().or_else(|| self.variables.get("model").cloned()) {
            let own = self.workload.get("model").and_then(Value::as_object).cloned().unwrap_or_default();
            if !own.is_empty() && beside.model.is_none() {
                if !whole.is_object() {
                    whole = json!({"base": whole});
                }
                super::json::merge(&mut whole, Value::Object(own));
            }
            self.put("model", whole);
            return Ok(());
        }
        self.hybrid_layers()?;
        self.expert_layers();
        // Software that counts one expert in a dense model says it with the rest.
        if self.number("model.moe.experts").is_none_or(|experts| experts < 2)
            && let Some(model) = object(&mut self.workload, "model")
        {
            model.shift_remove("moe");
        }
        if self.number("model.layers").is_none() || self.number("model.hidden").is_none() {
            if let Some((whole, name)) = self.named_model(beside, file) {
                self.assumed
                    .push(format!("the model {}: named {name}", whole.as_str().unwrap_or("by its sizes")));
                self.variables.insert("model".into(), whole);
                return self.model(table, beside, file);
            }
            let unknown = match self.model_names(file).as_slice() {
                _ if self.number("model.layers").is_some() => {
                    "does not say how wide its model is".to_string()
                }
                [] => "does not say which model".to_string(),
                names => format!("names a model that is not known here: {}", names.join(", ")),
            };
            if let Some(other) = self.variables.get("elsewhere") {
                let other = other.to_string();
                return Err(SpecError::file(file, unknown)
                    .allowed(format!("the files that it begins with beside it: {other}"))
                    .hint(format!("stepsim plan {file} THOSE_FILES --on 64xh100")));
            }
            return Err(SpecError::file(file, unknown).hint(
                "give --model NAME (`stepsim list models`) or --model PATH of a model file or config.json",
            ));
        }
        let mut whole = std::mem::take(&mut self.model);
        for (part, usual) in &table.parts {
            if self.workload.pointer(&format!("/{}", part.replace('.', "/"))).is_some() {
                let _ = super::json::set(&mut whole, part.trim_start_matches("model."), usual.clone());
            }
        }
        super::json::merge(&mut whole, self.workload["model"].take());
        self.workload["model"] = whole;
        let hidden = self.number("model.hidden");
        if self.number("model.ffn").is_none()
            && let Some(h) = hidden
        {
            let gated = self.workload.pointer("/model/gated_mlp") == Some(&Value::Bool(true));
            let ffn = match (self.variable("ffn_multiple"), self.amount("ffn_ratio")) {
                _ if self.variables.contains_key("ffn_rounded_to") => self.ffn_of_both(h, gated),
                // As Llama's first program has it, with a factor (flagscale/train/arguments.py).
                (Some(multiple), _) => {
                    let factor = self.amount("ffn_multiplier").unwrap_or(1.0);
                    ((factor * (8 * h / 3) as f64) as u64).div_ceil(multiple.max(1)) * multiple.max(1)
                }
                (None, Some(ratio)) => (ratio * h as f64).round() as u64,
                (None, None) if gated => (4 * h * 2 / 3) / 64 * 64,
                (None, None) => 4 * h,
            };
            self.put("model.ffn", ffn.into());
            self.assumed
                .push(format!("model.ffn = {ffn}: as the software computes it where it is not given"));
        }
        self.vocabulary(beside);
        let sequence = self.number("model.sequence").or(self.number("sequence"));
        let name = crate::hugging_face::name_of(file);
        if let Some(model) = object(&mut self.workload, "model") {
            model.entry("name").or_insert(name.into());
            if let Some(sequence) = sequence {
                model.entry("sequence").or_insert(sequence.into());
            }
        }
        Ok(())
    }

    /// The width of an MLP whose gate and up share two thirds of what is said, four widths of the model unasked
    /// (GPT-NeoX, megatron/model/transformer.py, `ParallelMLP`).
    fn ffn_of_both(&self, hidden: u64, gated: bool) -> u64 {
        let said = self
            .variable("ffn_given")
            .unwrap_or((hidden as f64 * self.amount("ffn_ratio").unwrap_or(4.0)).round() as u64);
        let multiple = self.variable("ffn_rounded_to").unwrap_or(1).max(1);
        let width = if gated { said.saturating_mul(2) / 3 / 2 } else { said };
        width.div_ceil(multiple).saturating_mul(multiple)
    }

    /// Rows of the embedding: given, or by the tokenizer; padded as the software pads them.
    fn vocabulary(&mut self, beside: &Beside) {
        if self.number("model.vocabulary").is_none() {
            let found = self.tokenizer().or_else(|| self.named_beside(beside));
            let is_own = self.variables.get("tokenizer").is_some_and(|kind| kind == "one of its own");
            let found = found.or_else(|| self.same_shape().filter(|_| !is_own));
            let other = self.variables.get("tokenizer").filter(|kind| found.is_none() && !is_gpt2(kind));
            if let Some(kind) = other.cloned() {
                let why = "the rows of its vocabulary are not said: model.vocabulary by --set";
                self.doubt("tokenizer", kind, why);
            }
            let (rows, why) = found.unwrap_or_else(|| {
                (GPT2, "the file names no tokenizer; GPT-2's, as Megatron takes then".to_string())
            });
            self.assumed.push(format!("model.vocabulary = {rows}: {why}"));
            self.put("model.vocabulary", rows.into());
        }
        if let (Some(rows), Some(multiple)) =
            (self.number("model.vocabulary"), self.variable("pad_vocabulary"))
            && multiple > 0
        {
            let multiple = multiple.saturating_mul(self.degree("parallelism.tensor"));
            let padded = rows.div_ceil(multiple).saturating_mul(multiple);
            if padded != rows {
                self.assumed
                    .push(format!("model.vocabulary = {padded}: {rows} padded to a multiple of {multiple}"));
                self.put("model.vocabulary", padded.into());
            }
        }
    }

    /// Entries of the tokenizer that the file names.
    fn tokenizer(&self) -> Option<(u64, String)> {
        let tokenizer = self.variables.get("tokenizer").and_then(Value::as_str)?;
        let known: Map<String, Value> = catalog::table("workloads/imports/tokenizers.json");
        let name = tokenizer.to_ascii_lowercase();
        let sizes = known.get("sizes").and_then(Value::as_object)?;
        let (_, size) = sizes.iter().find(|(pattern, _)| fits(pattern, &name))?;
        Some((size.as_u64()?, format!("the tokenizer {tokenizer}")))
    }
    /// The vocabulary of a model that the file names beside its sizes, where it has these.
    fn named_beside(&self, beside: &Beside) -> Option<(u64, String)> {
        let names = ["tokenizer", "model_words", "beside_words"];
        let texts = names.iter().filter_map(|name| self.variables.get(*name)?.as_str());
        texts.flat_map(str::split_whitespace).find_map(|text| {
            let model = self.known_model(beside, text)?;
            let alike = ["layers", "hidden"]
                .iter()
                .all(|field| self.number(&format!("model.{field}")) == model[*field].as_u64());
            let rows = model["vocabulary"].as_u64().filter(|_| alike)?;
            Some((rows, format!("that of {text}, which the file names")))
        })
    }
    /// The vocabulary of a shipped model of this shape; plain MLPs are those of many a GPT, which have GPT-2's.
    fn same_shape(&self) -> Option<(u64, String)> {
        let sizes = ["layers", "hidden", "heads", "ffn"];
        let shape = sizes.map(|field| self.number(&format!("model.{field}")));
        if shape.contains(&None) || self.workload.pointer("/model/gated_mlp") != Some(&Value::Bool(true)) {
            return None;
        }
        let heads = self.number("model.kv_heads").or(shape[2]);
        let experts = self.number("model.moe.experts");
        let read = |name| serde_json::from_str::<Value>(catalog::text(Kind::Model, name)?).ok();
        let alike = |model: &Value| {
            sizes.map(|field| model[field].as_u64()) == shape
                && model["kv_heads"].as_u64().or(model["heads"].as_u64()) == heads
                && model["moe"]["experts"].as_u64() == experts
        };
        let mut models = catalog::names(Kind::Model).filter_map(|name| Some((name, read(name)?)));
        let (name, model) = models.find(|(_, model)| alike(model))?;
        Some((
            model["vocabulary"].as_u64()?,
            format!("the file names no tokenizer that is known; {name} has this shape"),
        ))
    }
}

/// True if a kind of tokenizer has GPT-2's entries, or is none.
fn is_gpt2(kind: &Value) -> bool {
    let kind = kind.as_str().unwrap_or_default();
    kind.is_empty() || kind.to_ascii_lowercase().contains("gpt2") || kind == "NullTokenizer"
}
