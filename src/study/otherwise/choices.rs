//! Choices: the ones next to each that a workload has made. Global batch and sequence stay, so the work does.
//!
//! A choice that does not fit the others, or the memory, is refused when it is read or played and has no line.

use super::idea::{LAYERS_DEALT_OUT, Remedy};
use super::{CandidateKind, Idea};
use stepsim_schedule::sharding::ShardingKind;
use stepsim_schedule::{ALL, ChunkCount, ScheduleChoice};
use stepsim_simulate::Inputs;
use stepsim_spec::stack::ModelSplit;
use stepsim_spec::workload::{Dtype, WorkloadSpec};

/// Bytes of a bucket of 40 M parameters with gradients of four bytes, as Megatron's is at least.
const BUCKET_BYTES: u64 = 160_000_000;

/// All choices beside the step's own.
pub(super) fn of(inputs: &Inputs) -> Vec<Idea> {
    let w = &inputs.workload.value;
    let mut list = ChoiceList { w, devices: u64::from(inputs.machine.devices()), ideas: Vec::new() };
    list.batch();
    list.gradients();
    list.sharding();
    list.tensor();
    list.context();
    list.pipeline();
    list.recomputation();
    list.offload();
    if inputs.model.moe.is_some() {
        list.experts();
    }
    list.degrees();
    list.placement();
    list.software();
    let ChoiceList { ideas, .. } = list;
    ideas.into_iter().filter(|idea| software_has(w, idea)).collect()
}

/// True if the software of a step splits and shards as a choice would; what the step does already it may do less.
fn software_has(w: &WorkloadSpec, idea: &Idea) -> bool {
    let Remedy::Sets(sets) = &idea.way else { return true };
    let set = |path: &str| {
        let of =
            |set: &String| set.split_once('=').filter(|(of, _)| *of == path).map(|(_, to)| to.to_owned());
        sets.iter().find_map(of)
    };
    let degree = |path: &str, now: u64| set(path).and_then(|to| to.parse().ok()).unwrap_or(now);
    let p = &w.parallelism;
    let stages = degree("parallelism.pipeline.size", p.pipeline.size);
    let splits = [
        (ModelSplit::Tensor, degree("parallelism.tensor", p.tensor), p.tensor),
        (ModelSplit::Context, degree("parallelism.context.size", p.context.size), p.context.size),
        (ModelSplit::Pipeline, stages, p.pipeline.size),
        (ModelSplit::Expert, degree("parallelism.expert", p.expert), p.expert),
    ];
    let kind = set("parallelism.sharding.kind").and_then(|to| ShardingKind::find(&to));
    let kind = kind.unwrap_or(p.sharding.kind);
    let shards_as_now = kind == p.sharding.kind && (stages > 1) == (p.pipeline.size > 1);
    splits.into_iter().all(|(split, then, now)| then <= now || w.stack().has(split))
        && (shards_as_now || w.stack().shards(kind, stages > 1))
}

/// Layers dealt out with fewer for the last stage, which has the head of the model, and for the first with its embedding.
pub(super) fn fewer_at_the_ends(inputs: &Inputs) -> Vec<Idea> {
    let pipeline = &inputs.workload.value.parallelism.pipeline;
    let (layers, stages) = (inputs.model.layers, pipeline.stages());
    if pipeline.layer_split.is_some() || stages < 3 {
        return Vec::new();
    }
    let idea = |(first_less, last_less): (u64, u64)| {
        let of_end = |less: u64| (layers / stages).checked_sub(less).filter(|n| *n > 0);
        let (first, last, middle) = (of_end(first_less)?, of_end(last_less)?, stages - 2);
        let rest = layers - first - last;
        let of_middle = (0..middle).map(|i| rest / middle + u64::from(i < rest % middle));
        let split: Vec<u64> = [first].into_iter().chain(of_middle).chain([last]).collect();
        let set = format!("parallelism.pipeline.layer_split={split:?}").replace(' ', "");
        let otherwise = format!("{first_less} fewer on the first stage, {last_less} on the last");
        Some(Idea::set(CandidateKind::Choice, "layers: as even as can be", otherwise, &[&set]))
    };
    [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2)].into_iter().filter_map(idea).collect()
}

/// Choices as they are gathered.
struct ChoiceList<'a> {
    w: &'a WorkloadSpec,
    devices: u64,
    ideas: Vec<Idea>,
}

/// The name of a value in files.
pub(super) fn named<T: serde::Serialize>(value: &T) -> String {
    let value = stepsim_located::to_value(value).unwrap_or_default();
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Half and twice a number.
fn beside(n: u64) -> impl Iterator<Item = u64> {
    [n.checked_mul(2), (n.is_multiple_of(2)).then_some(n / 2)]
        .into_iter()
        .flatten()
        .filter(move |m| *m > 0 && *m != n)
}

impl ChoiceList<'_> {
    fn add(&mut self, what: impl Into<String>, otherwise: impl Into<String>, sets: &[&str]) {
        self.ideas.push(Idea::set(CandidateKind::Choice, what, otherwise, sets));
    }
    /// A field with other values.
    fn others(&mut self, words: &str, path: &str, now: &str, others: &[&str]) {
        for other in others.iter().filter(|other| **other != now) {
            self.add(format!("{words}: {now}"), *other, &[&format!("{path}={other}")]);
        }
    }
    fn switch(&mut self, words: &str, path: &str, now: bool) {
        let word = |on| if on { "on" } else { "off" };
        self.add(format!("{words}: {}", word(now)), word(!now), &[&format!("{path}={}", !now)]);
    }
    /// A number with its half and its double.
    fn number(&mut self, words: &str, path: &str, now: u64) {
        for other in beside(now) {
            self.add(format!("{words}: {now}"), other.to_string(), &[&format!("{path}={other}")]);
        }
    }
    fn replicas(&self) -> u64 {
        self.w.data_parallel(self.devices)
    }

    fn batch(&mut self) {
        self.number("micro-batch", "batch.micro_batch", self.w.batch.micro_batch);
    }

    fn gradients(&mut self) {
        let buckets = self.w.gradient_buckets;
        if self.replicas() < 2 {
            return;
        }
        let path = "gradient_buckets.bucket_bytes";
        let now = buckets.bucket_bytes;
        match now {
            0 => self.add("gradient bucket: a layer", "160 MB", &[&format!("{path}={BUCKET_BYTES}")]),
            now => {
                let what = format!("gradient bucket: {} MB", now as f64 / 1e6);
                self.add(&what, "a layer", &[&format!("{path}=0")]);
                for other in [now.saturating_mul(4), now / 4, BUCKET_BYTES] {
                    self.add(&what, format!("{} MB", other as f64 / 1e6), &[&format!("{path}={other}")]);
                }
            }
        }
        self.switch("overlap of gradient reduction", "gradient_buckets.overlap", buckets.overlap);
        if self.w.sharding().cuts_optimizer() && !self.w.sharding().cuts_weights() {
            let path = "gradient_buckets.overlap_weight_gather";
            self.switch("overlap of weight gathers", path, buckets.overlap_weight_gather);
        }
        if self.w.micro_batches(self.devices) > 1 {
            let path = "gradient_buckets.reduce_every_micro_batch";
            self.switch("reduction after every micro-batch", path, self.w.reduces_every_micro_batch());
        }
    }

    fn sharding(&mut self) {
        let sharding = &self.w.parallelism.sharding;
        if self.replicas() < 2 {
            return;
        }
        if self.w.sharding().cuts_weights() {
            let depth = sharding.prefetch.depth;
            for other in [depth + 1, depth.saturating_sub(1)].into_iter().filter(|other| *other != depth) {
                let set = format!("parallelism.sharding.prefetch.depth={other}");
                self.add(format!("layers gathered ahead: {depth}"), other.to_string(), &[&set]);
            }
            let path = "parallelism.sharding.reshard_after_forward";
            self.switch(
                "weights given up after forward",
                path,
                sharding.reshard_after_forward.unwrap_or(true),
            );
        }
        let now = sharding.kind.facts().name;
        for kind in ["none", "zero1", "zero2", "zero3"].into_iter().filter_map(ShardingKind::find) {
            let name = kind.facts().name;
            if name != now {
                self.add(format!("sharding: {now}"), name, &[&format!("parallelism.sharding.kind={name}")]);
            }
        }
    }

    fn tensor(&mut self) {
        let p = &self.w.parallelism;
        if p.tensor < 2 {
            return;
        }
        let now = named(&p.tensor_overlap);
        let path = "parallelism.tensor_overlap";
        self.others("tensor-parallel overlap", path, &now, &["none", "ring", "pipelined"]);
        self.switch("sequence parallelism", "parallelism.sequence_parallel", p.sequence_parallel);
    }

    fn context(&mut self) {
        let context = self.w.parallelism.context;
        if context.size > 1 {
            let now = named(&context.kind);
            let kinds = ["ring", "all-gather", "ulysses"];
            self.others("context parallelism", "parallelism.context.kind", &now, &kinds);
        }
    }

    fn pipeline(&mut self) {
        let pipeline = &self.w.parallelism.pipeline;
        if pipeline.size < 2 {
            return;
        }
        let now = named(&pipeline.schedule);
        let split: &[&str] = if pipeline.layer_split.is_some() { &[LAYERS_DEALT_OUT] } else { &[] };
        let has = self.w.stack().schedules.as_ref();
        let has = |name: &str| has.is_none_or(|has| has.iter().any(|known| known == name));
        for schedule in ALL.iter().map(|schedule| schedule.facts()).filter(|f| !f.searched && !f.is(&now)) {
            if !has(schedule.name) {
                continue;
            }
            let set = format!("parallelism.pipeline.schedule={}", schedule.name);
            let usual = u64::from(schedule.chunks.usual());
            let suits = |chunks: &u64| match schedule.chunks {
                ChunkCount::Exactly(n) => *chunks == u64::from(n),
                ChunkCount::AtLeast(n, _) => *chunks >= u64::from(n),
            };
            // Chunks that are stated stay where the schedule can have them.
            let stated = pipeline.chunks.filter(|chunks| !suits(chunks));
            let own_chunks = stated.map(|_| format!("parallelism.pipeline.chunks={usual}"));
            let chunks = pipeline.chunks.filter(suits).unwrap_or(usual);
            let split = if chunks == pipeline.chunks() { &[] } else { split };
            let sets = [&[set.as_str()][..], own_chunks.as_deref().as_slice(), split].concat();
            self.add(format!("schedule: {now}"), schedule.name, &sets);
        }
        if let ScheduleChoice::Named(schedule) = pipeline.schedule
            && matches!(schedule.facts().chunks, ChunkCount::AtLeast(..))
        {
            let chunks = pipeline.chunks();
            for other in beside(chunks) {
                let set = format!("parallelism.pipeline.chunks={other}");
                self.add(
                    format!("chunks: {chunks}"),
                    other.to_string(),
                    &[&[set.as_str()][..], split].concat(),
                );
            }
        }
        let now = named(&pipeline.p2p);
        self.others("sends between stages", "parallelism.pipeline.p2p", &now, &["async", "batched"]);
    }

    fn recomputation(&mut self) {
        let now = named(&self.w.recompute.granularity);
        self.others("recomputation", "recompute.granularity", &now, &["none", "selective", "full"]);
    }

    fn offload(&mut self) {
        let offload = &self.w.offload;
        if !offload.classes().iter().any(|(_, placed)| placed.iter().any(|p| !p.on_device())) {
            return;
        }
        let depth = offload.prefetch.depth;
        let others: Vec<u64> = if depth == 0 { vec![1] } else { beside(depth).chain([depth + 1]).collect() };
        let what = format!("brought in ahead: {depth} {}", named(&offload.prefetch.unit));
        for other in others {
            self.add(&what, other.to_string(), &[&format!("offload.prefetch.depth={other}")]);
        }
        let path = "offload.reuse_across_micro_batches";
        self.switch("weights shared by micro-batches", path, offload.reuse_across_micro_batches);
        let now = named(&offload.optimizer_on);
        self.others("optimizer on", "offload.optimizer_on", &now, &["device", "host"]);
    }

    fn experts(&mut self) {
        let expert = &self.w.expert;
        if self.w.parallelism.expert < 2 {
            return;
        }
        let now = named(&expert.dispatcher);
        let kinds = ["alltoall", "alltoall-pxn", "allgather", "two-stage", "hybridep", "rank-dedup"];
        self.others("dispatcher", "expert.dispatcher", &now, &kinds);
        let now = named(&expert.overlap);
        let kinds = ["none", "micro-batches", "shared-expert"];
        self.others("overlap of expert exchanges", "expert.overlap", &now, &kinds);
    }

    /// Each degree halved and doubled, with replicas in its place; tensor against pipeline, with as many replicas.
    fn degrees(&mut self) {
        let p = &self.w.parallelism;
        let (t, c, e) = (p.tensor, p.context.size, p.expert);
        let stages = p.pipeline.size;
        let replicas = p.data;
        let data = |now: u64, then: u64| {
            let data = replicas.map(|data| data * now / then.max(1));
            data.map(|data| format!("parallelism.data={data}"))
        };
        let split = p.pipeline.layer_split.is_some().then(|| LAYERS_DEALT_OUT.to_owned());
        let mut changes: Vec<(String, String, Vec<String>)> = Vec::new();
        let mut degree = |words: &str, path: &str, now: u64, split: Option<&String>| {
            for then in beside(now) {
                let sets =
                    [format!("{path}={then}")].into_iter().chain(data(now, then)).chain(split.cloned());
                changes.push((format!("{words}: {now}"), then.to_string(), sets.collect()));
            }
        };
        degree("tensor-parallel degree", "parallelism.tensor", t, None);
        degree("context-parallel degree", "parallelism.context.size", c, None);
        degree("pipeline stages", "parallelism.pipeline.size", stages, split.as_ref());
        for (tensor, stages) in [(2 * t, stages / 2), (t / 2, 2 * stages)] {
            if tensor > 0 && stages > 0 && tensor * stages == t * p.pipeline.size {
                let sets =
                    [format!("parallelism.tensor={tensor}"), format!("parallelism.pipeline.size={stages}")];
                let what = format!("tensor {t} × pipeline {}", p.pipeline.size);
                changes.push((
                    what,
                    format!("{tensor} × {stages}"),
                    sets.into_iter().chain(split.clone()).collect(),
                ));
            }
        }
        if e > 1 {
            for then in beside(e) {
                let set = format!("parallelism.expert={then}");
                changes.push((format!("expert-parallel degree: {e}"), then.to_string(), vec![set]));
            }
        }
        for (what, otherwise, sets) in changes {
            let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
            self.add(what, otherwise, &sets);
        }
    }

    fn placement(&mut self) {
        let p = &self.w.parallelism;
        if p.rank_map.is_some() {
            self.add("placement, by a map of ranks", "in order", &["parallelism.rank_map=null"]);
        }
        let now: Vec<String> = p.order.iter().map(named).collect();
        for other in [["tensor", "context", "data", "pipeline"], ["tensor", "context", "pipeline", "data"]] {
            if now != other {
                let set = format!("parallelism.order={}", serde_json::json!(other));
                self.add(format!("placement, {}", now.join(", ")), other.join(", "), &[&set]);
            }
        }
    }

    /// The switches of the software, and the format of adapters.
    fn software(&mut self) {
        let said = stepsim_located::to_value(self.w).unwrap_or_default();
        let is_so = |set: &String| {
            let (path, value) = set.split_once('=').unwrap_or((set, ""));
            let now =
                said.pointer(&format!("/{}", path.replace('.', "/"))).unwrap_or(&serde_json::Value::Null);
            named(now) == value
                || serde_json::from_str(value).is_ok_and(|value: serde_json::Value| value == *now)
        };
        for switch in &self.w.stack().switches {
            if !switch.sets.iter().all(is_so) {
                let sets: Vec<&str> = switch.sets.iter().map(String::as_str).collect();
                self.add(format!("{}: off", switch.name), "on", &sets);
            }
        }
        let adapters = self.w.training.adapters.as_ref();
        if let Some(format) = adapters.and_then(|adapters| adapters.format).filter(|f| *f == Dtype::Fp32) {
            let sets = ["training.adapters.format=bf16", "training.adapters.products=bf16"];
            self.add(format!("adapters: {}", named(&format)), "bf16", &sets);
        }
    }
}
