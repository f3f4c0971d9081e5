//! The layouts that a model and a machine allow.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use stepsim_fabric::topology::Machine;
use stepsim_schedule::sharding::{self, ShardingFacts, ShardingKind};
use stepsim_schedule::{self as schedule, ChunkCount};
use stepsim_spec::ModelSplit;
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::WorkloadSpec;

const TENSOR: &str = "parallelism.tensor";
const SEQUENCE_PARALLEL: &str = "parallelism.sequence_parallel";
const CONTEXT: &str = "parallelism.context.size";
const PIPELINE: &str = "parallelism.pipeline.size";
const SCHEDULE: &str = "parallelism.pipeline.schedule";
/// The field of chunks a pipeline rank.
pub const CHUNKS: &str = "parallelism.pipeline.chunks";
const EXPERT: &str = "parallelism.expert";
const DATA: &str = "parallelism.data";
const SHARDING: &str = "parallelism.sharding";
const SHARDING_KIND: &str = "parallelism.sharding.kind";
const MICRO_BATCH: &str = "batch.micro_batch";
const RECOMPUTE: &str = "recompute";
const RECOMPUTE_GRANULARITY: &str = "recompute.granularity";

/// The fields that a search chooses itself, unless they are given.
pub const CHOSEN: [&str; 13] = [
    TENSOR,
    SEQUENCE_PARALLEL,
    CONTEXT,
    PIPELINE,
    SCHEDULE,
    CHUNKS,
    EXPERT,
    DATA,
    SHARDING,
    SHARDING_KIND,
    MICRO_BATCH,
    RECOMPUTE,
    RECOMPUTE_GRANULARITY,
];

/// The fields of a layout that follow from the others, or change with another one.
pub(super) const FOLLOWING: [&str; 3] = [DATA, SEQUENCE_PARALLEL, SCHEDULE];

/// The beginnings of fields that say where the layers lie and who shares their state, not what they are.
pub(super) const BESIDE_LAYERS: [&str; 3] = ["parallelism.pipeline", DATA, SHARDING];

/// A layout of one rank: what the workload says of its own layout is put out of force by these before anything is
/// chosen.
pub const NEUTRAL: [(&str, &str); 13] = [
    (TENSOR, "1"),
    (SEQUENCE_PARALLEL, "false"),
    (CONTEXT, "1"),
    (PIPELINE, "1"),
    (SCHEDULE, "\"1f1b\""),
    (CHUNKS, "null"),
    ("parallelism.pipeline.group_size", "null"),
    ("parallelism.pipeline.layer_split", "null"),
    ("parallelism.pipeline.activation_limit", "null"),
    ("parallelism.pipeline.order_file", "null"),
    (EXPERT, "1"),
    ("parallelism.expert_tensor", "null"),
    (DATA, "null"),
];

/// Fewest tokens of a sequence that context parallelism leaves to a rank.
const LEAST_TOKENS: u64 = 2048;
/// Most chunks of a rank.
const MOST_CHUNKS: u64 = 10;

/// The assumptions about a space without further settings, in words.
pub const ASSUMED: [&str; 7] = [
    "only splits and shardings that the stack's software has (`stack.splits`, `stack.shardings`)",
    "tensor parallelism stays within a scale-up domain, with sequence parallelism wherever there is any",
    "context parallelism leaves at least 2,048 tokens of a sequence to a rank",
    "schedules 1f1b and interleaved, of 2 to 10 chunks that divide the layers evenly; layers are split as \
     evenly as can be",
    "micro-batches of 1, 2, 4 or 8 sequences",
    "sharding none, zero1, zero2 and zero3 over all data-parallel ranks, or as the workload has it",
    "recomputation none, selective and full, or as the workload has it; everything else is as the workload says",
];

/// Values that are given in the place of those that a search would try.
#[derive(Clone, Debug, Default)]
pub struct FixedValues {
    values: BTreeMap<String, Vec<Value>>,
    /// Paths set beside those.
    others: Vec<String>,
}

impl FixedValues {
    /// Takes values of a path; whether a search chooses that path at all.
    pub fn take(&mut self, path: &str, values: &[Value]) -> bool {
        let chosen = CHOSEN.contains(&path);
        if chosen {
            // Null leaves the choice to the search.
            let values: Vec<Value> = values.iter().filter(|value| !value.is_null()).cloned().collect();
            if !values.is_empty() {
                self.values.insert(path.to_string(), values);
            }
        } else {
            self.others.push(path.to_string());
        }
        chosen
    }
    /// All values with their paths.
    pub fn values(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().flat_map(|(path, list)| list.iter().map(move |v| (path.as_str(), v)))
    }

    fn numbers(&self, path: &str, usual: impl FnOnce() -> Vec<u64>) -> Vec<u64> {
        let given = self.values.get(path);
        given.map_or_else(usual, |list| list.iter().filter_map(Value::as_u64).collect())
    }
    /// A part of the workload with a kind: as its field is given, else each of `usual` (with the workload's other
    /// fields, where some of them are given) and what the workload has.
    fn part(&self, path: &str, kind: &str, own: Value, usual: &[&str]) -> Vec<(String, Value)> {
        let field = format!("{path}.{kind}");
        for given in [&field, path] {
            if let Some(list) = self.values.get(given) {
                return list.iter().map(|value| (given.to_string(), value.clone())).collect();
            }
        }
        let inside = format!("{path}.");
        let stays = self.others.iter().any(|other| other.starts_with(&inside));
        let of_kind = |name: &&str| if stays { filled(&own, kind, name) } else { json!({ kind: name }) };
        let mut values: Vec<Value> = usual.iter().map(of_kind).collect();
        // Defaults are written out in the workload's own: it is told apart by what it has beside its kind.
        let bare = |name: &&str| own == filled(&own, kind, name);
        if !usual.iter().any(|name| bare(name) && plain(&own, kind)) {
            values.push(own);
        }
        values.into_iter().map(|value| (path.to_string(), value)).collect()
    }
}

/// `own` with another kind.
fn filled(own: &Value, kind: &str, name: &str) -> Value {
    let mut value = own.clone();
    value[kind] = name.into();
    value
}

/// True if a part has nothing but its kind and defaults.
fn plain(own: &Value, kind: &str) -> bool {
    let prefetch = json!({"depth": 1});
    own.as_object().is_some_and(|map| {
        map.iter().all(|(key, value)| key == kind || (key == "prefetch" && *value == prefetch))
    })
}

/// Numbers up to `most` that divide all of `of`.
fn divisors(most: u64, of: &[u64]) -> Vec<u64> {
    (1..=most).filter(|n| of.iter().all(|value| value.is_multiple_of(*n))).collect()
}

/// All layouts of a workload on a machine, as settings, in a fixed order. Devices of a module's own stand beside them.
pub fn layouts(
    workload: &WorkloadSpec,
    model: &ModelSpec,
    machine: &Machine,
    given: &FixedValues,
) -> Vec<Map<String, Value>> {
    let front = u64::from(workload.module_devices().is_some());
    let devices = u64::from(machine.devices()).saturating_sub(workload.module_ranks());
    let domain = match u64::from(machine.fabric().node_size) {
        0 | 1 => devices,
        size => size.min(devices),
    };
    let tokens = workload.sequence(model);
    let experts = model.moe.as_ref().map_or(1, |moe| moe.experts);
    let most = |split: ModelSplit, ranks: u64| if workload.stack().has(split) { ranks } else { 1 };
    let tensor = given
        .numbers(TENSOR, || divisors(most(ModelSplit::Tensor, domain), &[devices, model.heads, model.ffn]));
    let context = given.numbers(CONTEXT, || {
        divisors(most(ModelSplit::Context, (tokens / LEAST_TOKENS).max(1)), &[devices, tokens])
    });
    let pipeline = given.numbers(PIPELINE, || {
        let stages = divisors(most(ModelSplit::Pipeline, model.layers.min(devices)), &[devices]);
        stages.into_iter().map(|stages| stages + front).collect()
    });
    let expert =
        given.numbers(EXPERT, || divisors(most(ModelSplit::Expert, experts.min(devices)), &[experts]));
    let shardings = |pipelined: bool| -> Vec<&str> {
        let has = |f: &&&'static ShardingFacts| {
            f.searched && workload.stack().shards(ShardingKind::of(f), pipelined)
        };
        sharding::ALL.iter().filter(has).map(|f| f.name).collect()
    };
    let micro_batch = given.numbers(MICRO_BATCH, || vec![1, 2, 4, 8]);
    let mut all = Vec::new();
    for (t, c, p) in product(&tensor, &context, &pipeline) {
        let ranks = t.saturating_mul(c).saturating_mul(p.saturating_sub(front));
        if ranks == 0 || !devices.is_multiple_of(ranks) {
            continue;
        }
        let data = devices / ranks;
        if !given.numbers(DATA, || vec![data]).contains(&data) {
            continue;
        }
        let sharding = if data * c > 1 { shardings(p > 1) } else { vec!["none"] };
        let shared = given.part(SHARDING, "kind", as_json(&workload.parallelism.sharding), &sharding);
        let recompute = given.part(
            RECOMPUTE,
            "granularity",
            as_json(&workload.recompute),
            &["none", "selective", "full"],
        );
        let orders = orders(model.layers, p, given);
        for (&e, &m) in expert.iter().flat_map(|e| micro_batch.iter().map(move |m| (e, m))) {
            let fits = (data * c * t).is_multiple_of(e.max(1))
                && workload.batch.global.is_multiple_of(data.saturating_mul(m).max(1));
            if !fits {
                continue;
            }
            for sequence_parallel in sequence_parallel(t, given) {
                for (schedule, chunks) in &orders {
                    for (sharding, recompute) in
                        shared.iter().flat_map(|s| recompute.iter().map(move |r| (s, r)))
                    {
                        let settings = [
                            (TENSOR.to_string(), t.into()),
                            (SEQUENCE_PARALLEL.to_string(), sequence_parallel.into()),
                            (CONTEXT.to_string(), c.into()),
                            (PIPELINE.to_string(), p.into()),
                            (SCHEDULE.to_string(), schedule.as_str().into()),
                            (CHUNKS.to_string(), (*chunks).into()),
                            (EXPERT.to_string(), e.into()),
                            (DATA.to_string(), data.into()),
                            (MICRO_BATCH.to_string(), m.into()),
                            sharding.clone(),
                            recompute.clone(),
                        ];
                        let stated = experts > 1 || given.values.contains_key(EXPERT);
                        all.push(settings.into_iter().filter(|s| s.0 != EXPERT || stated).collect());
                    }
                }
            }
        }
    }
    all
}

fn as_json(value: &impl serde::Serialize) -> Value {
    stepsim_located::to_value(value).unwrap_or_default()
}

fn product<'a>(a: &'a [u64], b: &'a [u64], c: &'a [u64]) -> impl Iterator<Item = (u64, u64, u64)> + 'a {
    a.iter().flat_map(move |&x| b.iter().flat_map(move |&y| c.iter().map(move |&z| (x, y, z))))
}

fn sequence_parallel(tensor: u64, given: &FixedValues) -> Vec<bool> {
    match given.values.get(SEQUENCE_PARALLEL) {
        Some(listed) => listed.iter().filter_map(Value::as_bool).collect(),
        None => vec![tensor > 1],
    }
}

/// Schedules with their chunks for a pipeline of `ranks`.
pub fn orders(layers: u64, ranks: u64, given: &FixedValues) -> Vec<(String, u64)> {
    let listed = given.values.get(SCHEDULE);
    let usual = if ranks == 1 { vec!["1f1b"] } else { vec!["1f1b", "interleaved"] };
    let names = listed.map_or(usual, |list| list.iter().filter_map(Value::as_str).collect());
    let mut orders = Vec::new();
    for schedule in names.into_iter().filter_map(|name| schedule::find(name).ok()) {
        let chunks = match schedule.facts().chunks {
            // Of several numbers that are given, a number for another schedule is not this one's.
            ChunkCount::Exactly(n) => {
                let n = u64::from(n);
                if given.numbers(CHUNKS, || vec![n]).contains(&n) { vec![n] } else { Vec::new() }
            }
            ChunkCount::AtLeast(least, _) => given.numbers(CHUNKS, || {
                let even = |v: &u64| layers.is_multiple_of(ranks.saturating_mul(*v));
                (u64::from(least)..=MOST_CHUNKS).filter(even).collect()
            }),
        };
        orders.extend(chunks.into_iter().map(|v| (schedule.name().to_string(), v)));
    }
    orders
}
