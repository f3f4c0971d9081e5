use stepsim_bring::imports::Invocation;

#[test]
fn a_line_names_its_script_and_what_it_gives_it() {
    let of = |typed: &str| {
        let made = Invocation::of(typed);
        let sets: Vec<String> = made.environment.iter().map(|(n, v)| format!("{n}={v}")).collect();
        (made.file, made.function.unwrap_or_default(), sets.join(" "), made.words.join(" "))
    };
    let made = |file: &str, function: &str, sets: &str, words: &str| {
        (file.to_string(), function.to_string(), sets.to_string(), words.to_string())
    };
    assert_eq!(of("SIZE=8B TP=4 bash a/run.sh dsw 1"), made("a/run.sh", "", "SIZE=8B TP=4", "dsw 1"));
    assert_eq!(of("run.sh 8B"), made("run.sh", "", "", "8B"));
    assert_eq!(of("my runs/run.sh"), made("my runs/run.sh", "", "", ""), "a path with a blank");
    assert_eq!(of("x/recipe.py:llama3"), made("x/recipe.py", "llama3", "", ""));
    assert_eq!(of("config.json"), made("config.json", "", "", ""));
    assert_eq!(of("torchrun a/sft.py --lora_r 16").0, "a/sft.py");
    assert_eq!(of("X=1 swift sft --model m").0, "swift sft");
    let line = |typed: &str| Invocation::of(typed).line.is_some();
    assert!(line("python sft.py") && line("my_tool --model m"));
    assert!(!line("Llama 3.1 8B") && !line("my runs/run.sh") && !line("TP=8 bash run.sh --x"));
}
