//! `stepsim plan`: files of anybody as steps on a machine, and what is said where that cannot be.

use crate::command::{Folder, Said};

const CONFIG: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048,
    "intermediate_size": 5632, "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 4,
    "vocab_size": 32000, "max_position_embeddings": 2048, "tie_word_embeddings": false}"#;

const MEGATRON: &str = "#!/bin/bash\nARGS=(\n  --num-layers 8\n  --hidden-size 2048\n  --num-attention-heads 16\n  --seq-length 2048\n  \
    --max-position-embeddings 2048\n  --micro-batch-size 1\n  --global-batch-size 32\n  --tensor-model-parallel-size 2\n  \
    --pipeline-model-parallel-size 2\n  --bf16\n  --flux-capacitor 88\n)\ntorchrun --nproc_per_node 8 pretrain_gpt.py ${ARGS[@]}\n";

const BRIDGE: &str = "def llama32_1b_pretrain_8gpu_h100_bf16_config():\n    cfg = llama32_1b_pretrain_config()\n    \
    cfg.mixed_precision = precision(\"bf16\")\n    cfg.model.seq_length = 2048\n    cfg.train.global_batch_size = 16\n    \
    cfg.train.micro_batch_size = 1\n    return cfg\n";

const TITAN: &str = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\nseq_len = 4096\n[parallelism]\n\
    data_parallel_shard_degree = -1\n[activation_checkpoint]\nmode = \"full\"\n";

const DEEPSPEED: &str = r#"{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2,
    "bf16": {"enabled": true}, "zero_optimization": {"stage": 3}}"#;

const MAXTEXT: &str = "base_config: base.yml\nmodel_name: llama3-8b\nper_device_batch_size: 1\nmax_target_length: 2048\n\
    ici_fsdp_parallelism: -1\nremat_policy: full\n";

/// All that a command says, and how it ends.
fn said(said: Said) -> (Option<i32>, String) {
    (said.status, said.out + &said.error)
}

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("config.json", CONFIG);
    folder.write("pretrain.sh", MEGATRON);
    folder.write("recipe.py", BRIDGE);
    folder.write("train.toml", TITAN);
    folder.write("ds.json", DEEPSPEED);
    folder.write("maxtext.yml", MAXTEXT);
    folder
}

/// Each in one command from file to step time; every class is there, and the commands that are shown work when pasted.
#[test]
fn a_file_of_anybody_becomes_a_step() {
    let folder = folder();
    for (words, says) in [
        ("config.json --on 8xh100 --batch 16", &["layout: of ", "batch.global = 16 (--batch)"][..]),
        (
            "Qwen/Qwen3-0.6B --on 8xh100 --batch 16 --seq 1024",
            &["the name Qwen/Qwen3-0.6B: Qwen/Qwen3-0.6B config.json", "0.60 B"],
        ),
        ("pretrain.sh --on 8xh100", &["tensor 2", "pipeline 2", "flux_capacitor = 88", "GPT-2's"]),
        ("recipe.py --on 8xh100", &["llama-3.2-1b", "data 8"]),
        ("train.toml --on 8xh100", &["llama3-8b", "recomputation full"]),
        ("ds.json config.json --on 8xa100-40", &["sharding zero3", "config"]),
        ("maxtext.yml --on 16xtpu-v5p", &["llama3-8b", "16 devices"]),
        ("llama-3.2-1b --on 8xl40s --batch 8 --sequence 2048", &["1.24 B parameters"]),
    ] {
        let text = folder.stepsim(&format!("plan {words} -o plan.json")).ok();
        let classes = "  stated |  from the model |  software default |  assumed |  step |  MFU |  memory ";
        for part in classes.split('|').chain(says.iter().copied()) {
            assert!(text.contains(part), "{words}: no `{part}` in\n{text}");
        }
        let next: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("stepsim ")).collect();
        assert_eq!(next.len(), 3, "{text}");
        folder.stepsim(next[0]).ok();
    }
}

/// A path or a script that is not there is no name of a model, whatever it is called.
#[test]
fn a_missing_file_is_no_name() {
    let folder = folder();
    for word in ["./qwen3-8b", "models/qwen/qwen3-8b", "TP=2 bash train_qwen3_8b.sh 4", "qwen3-8b.json"] {
        let text = folder.stepsim(&format!("plan '{word}' --on 8xh100")).refused();
        assert!(text.contains("cannot be read"), "{word}: {text}");
    }
}

/// Where a workload stands the same files are taken.
#[test]
fn other_commands_take_the_same_files() {
    let folder = folder();
    for line in [
        "run pretrain.sh -t 8xh100",
        "run recipe.py:llama32_1b_pretrain_8gpu_h100_bf16_config -t 8xh100",
        "inspect config.json -t 8xh100 --set batch.global=16",
        "import config.json -o model.json",
        "run model.json -t 8xh100 --set batch.global=16",
        "import pretrain.sh --devices 8 -o workload.json",
        "sweep workload.json -t 8xh100 --vary batch.global=32,64 -o rows.jsonl",
    ] {
        folder.stepsim(line).ok();
    }
}

/// What is said where nothing can be planned, with what to write instead.
#[test]
fn what_cannot_be_planned_says_what_to_write() {
    let folder = folder();
    folder.write("trace.json", r#"{"schemaVersion": 1, "traceEvents": []}"#);
    folder.write(
        "machine.json",
        r#"{"base": "h100-superpod-8", "device": "h100-sxm", "node": {"devices": 8}}"#,
    );
    folder.write("notes.txt", "to be or not to be");
    for (line, says) in [
        ("plan config.json", &["on which machine?", "stepsim plan config.json --on 64xh100"][..]),
        ("plan config.json --on 12xh100", &["12xh100", "take 8 or 16"]),
        ("plan llama3-7b --on 8xh100", &["did you mean `llama3-"]),
        ("plan trace.json --on 8xh100", &["a PyTorch profile", "stepsim import trace.json"]),
        ("plan machine.json --on 8xh100", &["a machine file", "--on machine.json"]),
        ("plan ./notes.txt --on 8xh100", &["of no known kind"]),
        ("plan pretrain.sh train.toml --on 8xh100", &["torchtitan", "megatron"]),
        ("plan pretrain.sh --on 6xh100", &["--search"]),
        ("import megatron train.toml", &["a torchtitan configuration", "stepsim import train.toml"]),
        ("import notes.txt", &["of no known kind"]),
        ("run ds.json -t 8xh100", &["ds.json", "stepsim plan ds.json"]),
    ] {
        let (status, text) = said(folder.stepsim(line));
        assert_eq!(status, Some(2), "{line}\n{text}");
        for part in says {
            assert!(text.contains(part), "{line}: no `{part}` in\n{text}");
        }
    }
}

/// A model with an encoder is planned as text alone, which is said, with the words that give it images.
#[test]
fn an_encoder_without_images_is_said_to_be_left_out() {
    let folder = folder();
    let plan = "plan qwen2.5-vl-7b --on 8xh100 --batch 16";
    let (status, text) = said(folder.stepsim(plan));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(status, Some(0), "{text}");
    assert!(
        text.contains("text alone, without `vision`") && text.contains("--set modules.vision.items=N"),
        "{text}"
    );
    let (status, text) = said(folder.stepsim(&format!("{plan} --set modules.vision.items=4")));
    assert_eq!(status, Some(0), "{text}");
    assert!(!text.contains("text alone"), "{text}");
}
