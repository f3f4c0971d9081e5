//! The words with which training software runs ten steps of a layout.

use stepsim_spec::workload::{Granularity, WorkloadSpec};

/// The names that software has for the parts of a layout; an empty one has no counterpart.
pub struct LayoutNames {
    /// How the names of its stacks begin.
    stacks: &'static [&'static str],
    /// The head of a name, and the sign between it and its value.
    written: [&'static str; 2],
    /// The name of the tensor-parallel degree.
    pub tensor: &'static str,
    /// Of pipeline stages.
    pub pipeline: &'static str,
    /// Of the context-parallel degree.
    pub context: &'static str,
    /// Of the expert-parallel degree.
    pub expert: &'static str,
    /// Of sequences in a micro-batch.
    pub micro_batch: &'static str,
    /// Of sequences in a step.
    pub batch: &'static str,
    steps: &'static str,
}

/// Software by its stacks; names as in `workloads/imports/*.json`, which a test holds them to.
pub const SOFTWARE: [LayoutNames; 5] = [
    LayoutNames {
        stacks: &["megatron-2021", "megatron-2022", "megatron-te"],
        written: ["--", " "],
        tensor: "tensor-model-parallel-size",
        pipeline: "pipeline-model-parallel-size",
        context: "context-parallel-size",
        expert: "expert-model-parallel-size",
        micro_batch: "micro-batch-size",
        batch: "global-batch-size",
        steps: "train-iters",
    },
    LayoutNames {
        stacks: &["megatron-bridge"],
        written: ["", "="],
        tensor: "model.tensor_model_parallel_size",
        pipeline: "model.pipeline_model_parallel_size",
        context: "model.context_parallel_size",
        expert: "model.expert_model_parallel_size",
        micro_batch: "train.micro_batch_size",
        batch: "train.global_batch_size",
        steps: "train.train_iters",
    },
    LayoutNames {
        stacks: &["fsdp2"],
        written: ["--", " "],
        tensor: "parallelism.tensor_parallel_degree",
        pipeline: "parallelism.pipeline_parallel_degree",
        context: "parallelism.context_parallel_degree",
        expert: "parallelism.expert_parallel_degree",
        micro_batch: "training.local_batch_size",
        batch: "training.global_batch_size",
        steps: "training.steps",
    },
    LayoutNames {
        stacks: &["nanotron"],
        written: ["", "="],
        tensor: "parallelism.tp",
        pipeline: "parallelism.pp",
        context: "parallelism.context_parallel_size",
        expert: "parallelism.expert_parallel_size",
        micro_batch: "tokens.micro_batch_size",
        batch: "",
        steps: "tokens.train_steps",
    },
    LayoutNames {
        stacks: &["maxtext", "xla-gpu"],
        written: ["", "="],
        tensor: "ici_tensor_parallelism",
        pipeline: "ici_pipeline_parallelism",
        context: "ici_context_parallelism",
        expert: "ici_expert_parallelism",
        micro_batch: "per_device_batch_size",
        batch: "",
        steps: "steps",
    },
];

/// Steps that are run to measure one; the first ones warm up.
const STEPS: u64 = 10;

/// The words that give a run of this software the layout of a workload, and ten steps; `None` where none are known.
pub(super) fn measure_words(stack: &str, workload: &WorkloadSpec) -> Option<String> {
    let names = SOFTWARE.iter().find(|names| names.stacks.iter().any(|head| stack.starts_with(head)))?;
    let p = &workload.parallelism;
    let [head, between] = names.written;
    let values = [
        (names.tensor, p.tensor),
        (names.pipeline, p.pipeline.size),
        (names.context, p.context.size),
        (names.expert, p.expert),
        (names.micro_batch, workload.batch.micro_batch),
        (names.batch, workload.batch.global),
        (names.steps, STEPS),
    ];
    let words = values.into_iter().filter(|(name, _)| !name.is_empty());
    let words: Vec<String> = words.map(|(name, value)| format!("{head}{name}{between}{value}")).collect();
    let recompute = match workload.recompute.granularity {
        Granularity::None => "no recomputation",
        Granularity::Selective => "selective recomputation",
        Granularity::Full => "full recomputation",
        Granularity::Modules => "recomputation of modules",
    };
    Some(format!("{} (sharding {}, {recompute})", words.join(" "), workload.sharding().name))
}
