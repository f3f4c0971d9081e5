use stepsim_spec::names::*;

#[test]
fn names_are_known_in_many_spellings() {
    for (spelling, names) in [
        (
            "llama 3.1 405b",
            &["LLAMA3.1_405B", "Llama-3.1-405B-Instruct", "meta-llama/Llama-3.1-405B", "Llama 3.1 405 B"][..],
        ),
        ("gpt oss 120b", &["GPT OSS 120B", "gpt-oss-120b", "GPT_OSS_120B", "gptoss-120b"]),
        ("nemotron 3 super", &["Nemotron_3_Super", "Nemotron-3-Super-120B-A12B", "NVIDIA Nemotron 3 Super"]),
        ("qwen 3 30b a3b", &["Qwen3_30B_a3B", "Qwen3 30B-A3B", "qwen3-30b-a3b"]),
        (
            "deepseek v3",
            &["DeepSeekV3", "DeepSeek-V3 (w/o MTP)", "deepseek_v3 truncated to 4 layers", "DeepSeek V3 671B"],
        ),
        ("mixtral 8x22b", &["Mixtral 8x22B", "mixtral-8x22b-v0.1"]),
        ("grok 1", &["Grok-1 314B proxy (4 layers)", "grok1"]),
        ("megatron 1t", &["Megatron 1T", "Megatron-1T"]),
        ("bloom 7.1b", &["bloom-7b1", "BLOOM 7.1B"]),
        ("command r plus", &["Command R+", "c4ai-command-r-plus"]),
    ] {
        for name in names {
            assert!(says(name, spelling), "{name}: {spelling}");
        }
    }
    for (spelling, name) in [
        ("gpt 5b", "GPT 175B"),
        ("gpt 3 5b", "GPT-3 175B"),
        ("llama 3 8b", "Llama 3.1 8B"),
        ("llama 3 1b", "Llama 3 8B"),
        ("gemma 3 4b", "google/gemma-3n-E4B-it"),
        ("gpt 20b", "GPT-NeoX-20B"),
        ("qwen 3 8b", "Qwen3-VL-30B-A3B"),
        ("nemotron 8b", "Nemotron-H 8B"),
        ("gemma 3 12b", "gemma4-26b"),
        ("grok 1", "Grok-2"),
        ("command r", "Command R+"),
        ("phi 4", "Phi-4-mini"),
        ("deepseek v2", "DeepSeek-V2-Lite"),
        ("llama 8b", "zebra_llama_8B"),
    ] {
        assert!(!says(name, spelling), "{name}: {spelling}");
    }
}

#[test]
fn whole_names_are_those_of_shipped_models() {
    for (text, name) in [
        ("Qwen/Qwen2-Audio-7B-Instruct", Some("qwen2-audio-7b")),
        ("google/gemma-3-27b-it", Some("gemma-3-27b")),
        ("Qwen3 8B", Some("qwen3-8b")),
        ("DeepSeek-V2-Lite", None),
        ("instruct", None),
        ("", None),
    ] {
        assert_eq!(shipped_exactly(text), name, "{text}");
    }
}

#[test]
fn names_tell_sizes() {
    for (name, size, experts) in [
        ("GPT 6.2B", Some(6.2), false),
        ("MPT-760m", Some(0.76), false),
        ("llama3_70b truncated to 12 layers", Some(70.0), false),
        ("Megatron 1T", Some(1000.0), false),
        ("Mixtral 8x7B", None, true),
        ("Qwen3_30B_a3B", Some(30.0), true),
        ("Qwen3-235B-A22B", Some(235.0), true),
        ("DeepSeek-MoE 16B", Some(16.0), true),
        ("gemma4-26b", Some(26.0), false),
        ("OLMoE-1B-7B", Some(7.0), true),
        ("bloom-1b7", Some(1.7), false),
        ("gpt2-xl", None, false),
        ("b", None, false),
        ("", None, false),
    ] {
        assert_eq!((billions(name), has_experts(name)), (size, experts), "{name}");
    }
}
#[test]
fn names_of_programs_are_spelled_out() {
    for (identifier, name) in [
        ("llama31_8b_pretrain_config", "llama3.1 8b pretrain config"),
        ("qwen2_1p5b", "qwen2 1.5b"),
        ("gpt_oss_20b", "gpt oss 20b"),
        ("deepseek_v3", "deepseek v3"),
        ("mixtral_8x7b", "mixtral 8x7b"),
        ("Llama31Config405B", "Llama3.1 405B"),
        ("MixtralConfig8x7B", "Mixtral 8x7B"),
        ("GPTConfig175B", "GPT 175B"),
    ] {
        assert_eq!(spelled(identifier), name);
    }
}
