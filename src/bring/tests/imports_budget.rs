use stepsim_bring::imports::budget::*;

#[test]
fn what_nests_too_deep_is_refused_at_once() {
    let deep = |open: &str, inner: &str, close: &str, n: usize| open.repeat(n) + inner + &close.repeat(n);
    assert!(check(&deep("a: [", "1", "]", 1000)).is_err());
    assert!(check(&format!("#!/bin/bash\n{}", deep("if true; then\n", "x\n", "fi\n", 129))).is_err());
    assert!(check(&deep("if true; then\n", "x\n", "fi\n", 129).repeat(2)).is_ok());
    assert!(check(&"a: 1\n".repeat(MOST_BYTES / 5 + 1)).is_err());
}
