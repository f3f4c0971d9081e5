use serde_json::json;
use stepsim_bring::imports::FormatTable;
use stepsim_bring::imports::vocabulary::Vocabulary;

#[test]
fn words_are_of_three_classes() {
    let words = Vocabulary::shipped();
    for (name, harmless, size) in [
        ("wandb_project", true, false),
        ("logging.log_interval", true, false),
        ("num_layer", false, true),
        ("hidden-sizes", false, true),
        ("moe_ffn_hiden_size", false, true),
        ("overlap_everything", false, false),
        ("tensor_model_paralel_size", false, false),
    ] {
        assert_eq!((words.is_harmless(name), words.is_size(name)), (harmless, size), "{name}");
    }
}

/// A word that changes a step is not lost below the last rule of a section (`model.*`), whatever it begins with.
#[test]
fn sections_do_not_sweep_what_changes_a_step() {
    let mut swept = 0;
    for (format, table) in FormatTable::all() {
        for section in
            ["model", "model.model_config", "optimizer", "training", "fsdp_config", "zero_optimization"]
        {
            let name = format!("{section}._use_doc_masking");
            swept += usize::from(table.sweeps(&name));
            assert!(
                !table.sweeps(&name) || Vocabulary::shipped().stirs(&name, &json!(true)),
                "{format}: {name}"
            );
        }
    }
    assert!(swept > 3, "{swept}");
}

#[test]
fn keys_of_a_configuration_with_a_size_in_them_are_told() {
    let words = Vocabulary::shipped();
    for (key, value, is) in [
        ("routed_expert_hidden_size", json!(1024), true),
        ("num_routed_experts", json!(256), true),
        ("layer_dims", json!([1, 2]), true),
        ("num_routed_experts", json!(null), false),
        ("rope_theta", json!(10000.0), false),
        ("num_beams", json!(4), false),
        ("eos_token_id", json!(2), false),
    ] {
        assert_eq!(words.is_model_size(key, &value), is, "{key}");
    }
}
