use stepsim_read::page::bars::*;

#[test]
fn parts_follow_one_another_and_fill_their_whole() {
    let part = |class: &str, value| (class.to_owned(), value, String::new());
    let line = ("stage <0>".to_owned(), vec![part("busy", 3.0), part("idle", 1.0)], "75 %".to_owned());
    let drawn = bars("b", "time", 4.0, &[line]);
    assert!(drawn.contains("class=\"busy\" x=\"0.00%\" y=\"2\" width=\"75.00%\""), "{drawn}");
    assert!(drawn.contains("class=\"idle\" x=\"75.00%\" y=\"2\" width=\"25.00%\""), "{drawn}");
    assert!(drawn.contains("<span>stage &lt;0&gt;</span>"), "{drawn}");
}
