use stepsim_read::page::points::*;

#[test]
fn numbers_stand_right_and_commands_are_folded() {
    let point = |cells: [&str; 2]| PlotPoint {
        cells: cells.map(String::from).to_vec(),
        command: "stepsim run a&b".into(),
        message: String::new(),
    };
    let mut out = String::new();
    points(&mut out, &["step, s".into(), "kind".into()], &[point(["1,000.5", "1f1b"]), point(["", "2"])]);
    assert!(out.contains("<th class=\"n\"><button>step, s</button>") && out.contains("<td>2</td>"), "{out}");
    assert_eq!(out.matches("<code>stepsim run a&amp;b</code></details>").count(), 2);
}
