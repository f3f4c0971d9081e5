use serde_json::json;
use stepsim_bring::imports::{Beside, Status, translate};

fn split(arguments: &str) -> (serde_json::Value, bool) {
    let text = format!(
        "torchrun pretrain_gpt.py --num-layers 30 --hidden-size 512 --num-attention-heads 8 --seq-length 128 \
         --max-position-embeddings 128 --vocab-size 1024 --micro-batch-size 1 --global-batch-size 64 --bf16 \
         --pipeline-model-parallel-size 4 {arguments}"
    );
    let beside = Beside { devices: Some(8), ..Beside::default() };
    let made = translate("megatron", &text, "run.sh", &beside).unwrap();
    let doubted = made.of(Status::Matters).any(|a| a.name == "layers of the stages");
    (made.workload["parallelism"]["pipeline"]["layer_split"].clone(), doubted)
}

#[test]
fn stages_have_the_layers_that_a_script_says() {
    for (arguments, layers) in [
        ("--decoder-last-pipeline-num-layers 6", json!([8, 8, 8, 6])),
        (
            "--decoder-first-pipeline-num-layers 4 --decoder-last-pipeline-num-layers 6 \
             --num-virtual-stages-per-pipeline-rank 2",
            json!([2, 5, 5, 3, 2, 5, 5, 3]),
        ),
        (
            "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split",
            json!([7, 8, 8, 7]),
        ),
        ("--pipeline-model-parallel-layout 'Et*7|t*8|t*8|t*7,L'", json!([7, 8, 8, 7])),
    ] {
        assert_eq!(split(arguments), (layers, false), "{arguments}");
    }
    assert_eq!(split("--pipeline-model-parallel-layout 'Et*7|t*8|t*8|L'"), (json!(null), true));
}
