//! Fields that one kind of something takes and another does not. A kind that is stated over a file (by a setting) or
//! over a stack (by a workload) leaves behind what the file or the stack said for the other kind. A kind and a field
//! that stand in one place and do not fit are refused by validation.

use serde_json::Value;

use super::json;
use super::workload::NoEffect;
use stepsim_schedule::sharding::{ShardingFacts as Sharding, ShardingKind};
use stepsim_schedule::{ChunkCount, ScheduleChoice, ScheduleFacts};

/// A field, the kind that decides whether it may stand, and whether this kind takes that value of the field.
struct Dependent {
    field: &'static str,
    kind: &'static str,
    takes: fn(&str, &Value) -> bool,
}

const SHARDING: &str = "parallelism.sharding.kind";
const SCHEDULE: &str = "parallelism.pipeline.schedule";
const GRANULARITY: &str = "recompute.granularity";
const BALANCE: &str = "expert_load.balance";

const DEPENDENTS: [Dependent; 13] = [
    Dependent::of("parallelism.sharding.reshard_after_forward", SHARDING, gathers),
    Dependent::of("parallelism.sharding.prefetch", SHARDING, gathers),
    Dependent::of("parallelism.sharding.group", SHARDING, |kind, _| shards(kind, Sharding::has_groups)),
    Dependent::of("recompute.every_layers", GRANULARITY, |kind, _| kind == "full"),
    Dependent::of("recompute.layers", GRANULARITY, |kind, _| kind == "full"),
    Dependent::of("recompute.modules", GRANULARITY, |kind, _| kind == "modules"),
    Dependent::of("parallelism.pipeline.chunks", SCHEDULE, takes_chunks),
    Dependent::of("parallelism.pipeline.group_size", SCHEDULE, |kind, _| has(kind, |f| f.groups)),
    Dependent::of("parallelism.pipeline.activation_limit", SCHEDULE, |kind, _| has(kind, |f| f.searched)),
    Dependent::of("parallelism.pipeline.order_file", SCHEDULE, |kind, _| kind == "file"),
    Dependent::of("expert_load.counts_file", BALANCE, |kind, _| kind == "file"),
    Dependent::of("expert_load.rows_cv", BALANCE, |kind, _| kind == "spread"),
    Dependent::of("expert.units", "expert.dispatcher", |kind, _| matches!(kind, "two-stage" | "hybridep")),
];

fn gathers(kind: &str, _: &Value) -> bool {
    shards(kind, Sharding::cuts_weights)
}

/// True if a kind of sharding is of a sort; validation reports unknown names.
fn shards(kind: &str, is: fn(&Sharding) -> bool) -> bool {
    ShardingKind::find(kind).is_none_or(|kind| is(kind.facts()))
}

/// True if a named schedule is of a sort; validation reports unknown names.
fn has(schedule: &str, is: fn(&ScheduleFacts) -> bool) -> bool {
    match ScheduleChoice::find(schedule) {
        Some(ScheduleChoice::Named(schedule)) => is(&schedule.facts()),
        Some(ScheduleChoice::File) => false,
        None => true,
    }
}

fn takes_chunks(schedule: &str, chunks: &Value) -> bool {
    let (Some(ScheduleChoice::Named(schedule)), Some(chunks)) =
        (ScheduleChoice::find(schedule), chunks.as_u64())
    else {
        return true;
    };
    match schedule.facts().chunks {
        ChunkCount::Exactly(n) => chunks == u64::from(n),
        ChunkCount::AtLeast(n, _) => chunks >= u64::from(n),
    }
}

/// Takes out of a value what kinds among the settings at these paths leave behind.
pub(super) fn settle(value: &mut Value, paths: &[&str]) -> Vec<NoEffect> {
    let mut left = Vec::new();
    for d in DEPENDENTS {
        let again = paths.iter().any(|path| json::covers(path, d.field));
        if paths.contains(&d.kind) && !again {
            let kind = at(value, d.kind).and_then(Value::as_str).map(String::from);
            left.extend(kind.and_then(|kind| d.leave(value, &kind)));
        }
    }
    left
}

/// Takes out of a stack's defaults what the kinds that a workload states leave behind.
pub(super) fn settle_under(defaults: &mut Value, workload: &Value) {
    for d in DEPENDENTS.iter().filter(|d| at(workload, d.field).is_none()) {
        if let Some(kind) = at(workload, d.kind).and_then(Value::as_str) {
            d.leave(defaults, kind);
        }
    }
}

impl Dependent {
    const fn of(field: &'static str, kind: &'static str, takes: fn(&str, &Value) -> bool) -> Dependent {
        Dependent { field, kind, takes }
    }
    /// Takes the field out of a value, if it is there and the kind does not take it.
    fn leave(&self, value: &mut Value, kind: &str) -> Option<NoEffect> {
        let field = at(value, self.field).filter(|field| !field.is_null())?;
        if (self.takes)(kind, field) {
            return None;
        }
        let (parent, name) = self.field.rsplit_once('.')?;
        value.pointer_mut(&pointer(parent))?.as_object_mut()?.shift_remove(name);
        let kind_name = self.kind.rsplit_once('.').map_or(self.kind, |(_, name)| name);
        Some(NoEffect { field: self.field.to_string(), why: format!("not with {kind_name} {kind}") })
    }
}

fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    value.pointer(&pointer(path))
}
