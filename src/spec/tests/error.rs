use stepsim_spec::nearest;

#[test]
fn near_names_are_those_a_typing_error_away() {
    assert_eq!(nearest("h100-smx", ["a100-sxm-80", "h100-sxm", "tpu-v4"]), ["h100-sxm"]);
    let fields = ["bandwidth_GBps_per_direction", "efficiency", "combined_GBps"];
    assert_eq!(nearest("GBps", fields)[0], "bandwidth_GBps_per_direction");
    assert_eq!(nearest("h100", ["h800", "h20", "h100-pcie", "h100-sxm"])[..2], ["h100-sxm", "h100-pcie"]);
    assert_eq!(nearest("gpt-3", ["gpt2-8", "gpt3-175b"])[0], "gpt3-175b", "signs do not count");
    assert!(nearest("zzz", ["h100-sxm", "tpu-v4"]).is_empty());
    assert!(nearest("b", ["a", "c"]).is_empty(), "one letter for another is no typing error");
}
