use stepsim_read::analysis::cells::*;

#[test]
fn bars_are_in_proportion() {
    assert_eq!(bar(0.5, 10), "█████");
    assert_eq!(bar(0.0625, 10), "▋");
    assert_eq!(bar(7.0, 2), "██");
}

#[test]
fn alike_stages_share_a_row() {
    let rows = ["x", "x", "x", "y", "x"].map(|cell| vec![cell.to_string()]);
    let merged = merged((0..).zip(rows).map(|(i, row)| (i, row.clone(), row)), Vec::eq);
    let labels: Vec<_> = merged.iter().map(|r| r.0.as_str()).collect();
    assert_eq!(labels, ["0–2", "3", "4"]);
}
