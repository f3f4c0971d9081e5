use stepsim_bring::imports::named::of_component;

#[test]
fn components_are_names_of_models() {
    for (path, name) in [
        ("torchtune.models.llama3_1.lora_llama3_1_8b", "llama3.1_8b"),
        ("torchtune.models.llama2.qlora_llama2_7b", "llama2_7b"),
        ("torchtune.models.qwen2_5.qwen2_5_0_5b_instruct", "qwen2.5_0.5b_instruct"),
        ("torchtune.models.qwen2.qwen2_1_5b", "qwen2_1.5b"),
    ] {
        let names = of_component(path);
        assert!(names.iter().any(|found| found == name), "{path}: {names:?}");
    }
}
