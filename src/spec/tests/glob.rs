use stepsim_spec::glob::fits;

#[test]
fn stars_stand_for_anything() {
    assert!(fits("a*c", "abc") && fits("*llama-3*", "meta-llama/meta-llama-3-70b") && !fits("a*c", "abd"));
    assert!(fits("*a*b*", "xaxbx") && !fits("*a*b*", "xbxax") && fits("a*a", "aa") && !fits("a*a", "a"));
}
