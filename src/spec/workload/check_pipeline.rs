//! Validation of pipeline parallelism, by the facts of its schedule.

use super::{PipelineSpec, PointToPoint, WorkloadSpec};
use crate::model::ModelSpec;
use crate::problem::Problems;
use stepsim_schedule::{self as schedule, ChunkCount, ScheduleChoice, ScheduleFacts};

impl WorkloadSpec {
    pub(super) fn check_pipeline(&self, p: &mut Problems, model: &ModelSpec) {
        let pipe = &self.parallelism.pipeline;
        let facts = match pipe.schedule {
            ScheduleChoice::Named(schedule) => Some(schedule.facts()),
            ScheduleChoice::File => None,
        };
        if let Some(facts) = facts {
            check_chunks(p, pipe, facts);
            if pipe.p2p == PointToPoint::Batched && pipe.size > 1 && !facts.batched {
                let hint = "each of two ranks would wait in a send for the other's receive; the published \
                            implementations send and receive asynchronously";
                let allowed = format!("async or blocking with schedule {}", facts.name);
                p.add("parallelism.pipeline.p2p", "batched", allowed, hint);
            }
        }
        let stages = pipe.stages();
        let sum = |split: &[u64]| split.iter().copied().fold(0, u64::saturating_add);
        match &pipe.layer_split {
            Some(split) if split.len() as u64 != stages || sum(split) != model.layers => p.add(
                "parallelism.pipeline.layer_split",
                format!("{} entries with sum {}", split.len(), sum(split)),
                format!("{stages} entries (size × chunks) whose sum is the model's {} layers", model.layers),
                "one entry per stage in the order of the model",
            ),
            Some(_) => {}
            None if stages.saturating_sub(self.module_stages()) > model.layers => p.add(
                "parallelism.pipeline.size",
                pipe.size,
                format!("size × chunks of at most the model's {} layers", model.layers),
                "a stage without layers needs layer_split",
            ),
            None => {}
        }
        match pipe.activation_limit {
            Some(limit) if !facts.is_some_and(|f| f.searched) => {
                let allowed = format!("nothing but with schedule {}", names_of(|f| f.searched));
                p.add("parallelism.pipeline.activation_limit", limit, allowed, "");
            }
            Some(limit) => p.size("parallelism.pipeline.activation_limit", limit, 1 << 20),
            None => {}
        }
        if (pipe.schedule == ScheduleChoice::File) != pipe.order_file.is_some() {
            p.add(
                "parallelism.pipeline.order_file",
                pipe.order_file.as_ref().map_or("nothing".into(), ToString::to_string),
                "a path with schedule file, nothing with any other",
                "an order beside all schedules: stepsim schedule --all --order FILE",
            );
        }
    }
}

/// Chunks and groups that the schedule does not have.
fn check_chunks(p: &mut Problems, pipe: &PipelineSpec, facts: ScheduleFacts) {
    let chunks = pipe.chunks();
    let wrong = match facts.chunks {
        ChunkCount::Exactly(n) => {
            (chunks != u64::from(n) && (n == 1 || pipe.size > 1)).then(|| n.to_string())
        }
        ChunkCount::AtLeast(n, _) => (chunks < u64::from(n) && pipe.size > 1).then(|| format!("{n} or more")),
    };
    if let Some(number) = wrong {
        let hint = format!("{} take any number", names_of(|f| matches!(f.chunks, ChunkCount::AtLeast(..))));
        p.add("parallelism.pipeline.chunks", chunks, format!("{number} with schedule {}", facts.name), hint);
    }
    if let Some(group) = pipe.group_size.filter(|_| !facts.groups) {
        let allowed = format!("nothing but with schedule {}", names_of(|f| f.groups));
        p.add("parallelism.pipeline.group_size", group, allowed, "");
    }
}

/// The schedules of that kind, as a text.
fn names_of(is: impl Fn(&ScheduleFacts) -> bool) -> String {
    let names = schedule::ALL.iter().map(|s| s.facts()).filter(is).map(|f| f.name);
    names.collect::<Vec<_>>().join(", ")
}
