use serde_json::json;
use stepsim_measure::score::{PublishedRow, StepPair, pairs};

fn row(id: &str, tp: u64, dp: u64, precision: &str) -> PublishedRow {
    let columns = json!({
        "id": id, "source": "s", "model": "m", "tp": tp, "dp": dp, "precision": precision, "vp": null, "mfu": tp
    });
    PublishedRow {
        id: id.into(),
        columns: Ok(columns.as_object().expect("an object").clone()),
        shapes: Default::default(),
        recipes: None,
    }
}

#[test]
fn pairs_that_differ_in_one_thing_have_sign_and_size_from_the_faster_to_the_slower() {
    let rows = [row("a", 1, 8, "bf16"), row("b", 2, 4, "bf16"), row("c", 1, 8, "fp8"), row("d", 2, 4, "fp8")];
    let seconds = [(1.0, 1.1), (1.2, 1.32), (0.8, 0.99), (1.0, 0.9)];
    let found = StepPair::among(
        rows.iter().zip(seconds).map(|(row, (measured, simulated))| (row, measured, simulated)),
    );
    let named: Vec<(&str, [&str; 2])> =
        found.iter().map(|p| (p.kind.as_str(), [p.ids[0].as_str(), p.ids[1].as_str()])).collect();
    assert_eq!(
        named,
        [
            ("tensor degree", ["a", "b"]),
            ("format", ["c", "a"]),
            ("format", ["d", "b"]),
            ("tensor degree", ["c", "d"])
        ],
        "two things differ between a and d, and between b and c"
    );
    let text = pairs(&found);
    assert!(text.contains("| tensor degree | s | 2 | 1 of 2 | 1 of 2 | +22.5 % | +5.5 % |"), "{text}");
    assert!(text.contains("c to d: -9.1 for +25.0 %"), "{text}");
    assert_eq!(pairs(&[]), "");
}
