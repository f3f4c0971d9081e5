use stepsim_spec::words::*;

fn is(pattern: &str, text: &str) -> bool {
    fits(pattern, &Text::of(&text.into())).is_some()
}

#[test]
fn patterns_fit_whole_texts_phrases_and_words() {
    assert!(is("*a*b*", "xaxbx") && !is("*a*b*", "xbxax") && is("a*a", "aa") && !is("a*a", "a"));
    assert!(is("full shard", "FULL_SHARD") && is("zero 1", "ZeRO-1") && is("a b", "a -- b"));
    assert!(is("async tp", "Async-TP, torch.compile") && is("torch.compile", "2D + AsyncTP, torch.compile"));
    assert!(!is("full", "full (uniform)") && is("full*", "FSDP2, full (uniform, 1 layer)"));
    assert!(is("~ac", "full AC") && !is("~ac", "sack") && !is("~ac", "back, acts"));
    assert!(is("", "") && !is("", "x, y"));
    assert!(is("*=-1*", "ici_fsdp=-1"));
}

#[test]
fn phrases_that_no_pattern_knows_are_told() {
    let text = Text::of(&"2D + AsyncTP (a, b), torch.compile w/o graphs".into());
    let known = fits("*asynctp*", &text).unwrap();
    assert_eq!(text.unknown(&known), ["2d", "torch.compile w/o graphs"]);
}
