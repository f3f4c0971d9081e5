use stepsim_spec::names::*;

#[test]
fn names_are_known_in_many_spellings() {
    let rows: Vec<(String, Vec<String>)> =
        serde_json::from_str(include_str!("names-known.json")).expect("rows");
    for (spelling, names) in rows {
        for name in names {
            assert!(says(&name, &spelling), "{name}: {spelling}");
        }
    }
    let rows: Vec<(String, String)> = serde_json::from_str(include_str!("names-unknown.json")).expect("rows");
    for (spelling, name) in rows {
        assert!(!says(&name, &spelling), "{name}: {spelling}");
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
    let rows: Vec<(String, Option<f64>, bool)> =
        serde_json::from_str(include_str!("names-sizes.json")).expect("rows");
    for (name, size, experts) in rows {
        assert_eq!((billions(&name), has_experts(&name)), (size, experts), "{name}");
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
