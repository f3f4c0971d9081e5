use serde_json::json;
use stepsim_measure::score::card::{case, overrides};

#[test]
fn overrides_are_settings() {
    let sets = overrides(Some(&json!(["--seq_length 4096", "--context_parallel_size 2"])));
    assert_eq!(sets.unwrap_or_default(), ["sequence=4096", "parallelism.context.size=2"]);
    assert!(overrides(Some(&json!(["--no_such_word 2"]))).is_err());
}

#[test]
fn a_card_is_the_recipe_that_it_names() {
    let folder = std::env::temp_dir().join(format!("stepsim-card-{}", std::process::id()));
    let recipes = folder.join("src/megatron/bridge/recipes");
    std::fs::create_dir_all(recipes.join("h100")).expect("writable");
    let write = |name: &str, text: &str| std::fs::write(recipes.join(name), text).expect("writable");
    write(
        "common.py",
        "def _common():\n    cfg = ConfigContainer(train=TrainingConfig(global_batch_size=32))\n    return cfg\n",
    );
    write(
        "h100/llama.py",
        "from megatron.bridge.recipes.common import _common\n\n\
         def llama3_8b_pretrain_8gpu_h100_bf16_config():\n    cfg = _common()\n\
         \x20   cfg.model = AutoBridge.from_hf_pretrained(\"meta-llama/Meta-Llama-3-8B\")\n\
         \x20   cfg.model.tensor_model_parallel_size = 2\n    return cfg\n",
    );
    write(
        "llama.py",
        "from megatron.bridge.recipes.h100.llama import (\n    \
         llama3_8b_pretrain_8gpu_h100_bf16_config as llama3_8b_pretrain_config,\n)\n",
    );
    let row = json!({"recipe": "llama3_8b_pretrain_config", "devices": 8, "device": "H100",
        "measured_step_s": 2.0, "overrides": ["--seq_length 4096"]});
    let row = row.as_object().expect("an object");
    let made = case(row, Some(folder.as_path()), "a").expect("a case").workload;
    std::fs::remove_dir_all(&folder).expect("removable");
    assert_eq!(made["parallelism"]["tensor"], 2);
    assert_eq!(made["batch"]["global"], 32, "of the recipe that it begins with");
    assert_eq!(made["sequence"], 4096);
    assert!(case(row, None, "a").is_err_and(|e| e.contains("--recipes")));
}
