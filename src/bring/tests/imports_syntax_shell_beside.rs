use serde_json::json;
use stepsim_bring::imports::invocation::Invocation;
use stepsim_bring::imports::syntax::shell::read;

#[test]
fn a_configuration_that_a_script_writes_down_is_read() {
    let text = "MICRO=4\ncat <<EOT > ds.json\n{\"train_micro_batch_size_per_gpu\": $MICRO,\n\
                \"zero_optimization\": {\"stage\": 2}}\nEOT\n\
                deepspeed pretrain.py --deepspeed_config ds.json";
    let said = read(text, &Invocation::default()).unwrap();
    let get = |name: &str| said.arguments.iter().find(|a| a.0 == name).map(|a| a.1.clone());
    assert_eq!(get("deepspeed_config.train_micro_batch_size_per_gpu"), Some(json!(4)));
    assert_eq!(get("deepspeed_config.zero_optimization.stage"), Some(json!(2)));
}

#[test]
fn a_script_that_is_taken_in_is_part_of_it_or_named() {
    let text = "source \"${SCRIPT_DIR}/models/qwen3-4B.sh\"\npython train.py --bf16";
    let said = read(text, &Invocation::default()).unwrap();
    assert!(said.arguments.contains(&("script.names".to_string(), json!("models/qwen3-4B"))));
}
