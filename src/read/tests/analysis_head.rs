use stepsim_read::analysis::head::*;

#[test]
fn differences_name_what_differs() {
    let a = Head { seed: 1, ..Head::default() };
    assert!(a.differences(&a).is_empty());
    let b = Head { seed: 2, command: vec!["x".into()], ..Head::default() };
    assert_eq!(a.differences(&b), [("seed", "1".to_string(), "2".to_string())]);
}
