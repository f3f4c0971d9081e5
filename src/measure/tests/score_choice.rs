use stepsim_measure::score::choice::{MeasuredLayout, speeds};
use stepsim_measure::score::ranges::LayoutKind;
use stepsim_spec::workload::WorkloadSpec;

#[test]
fn the_chosen_layout_is_held_to_the_fastest() {
    let kind = |tensor: u64| {
        let text =
            format!(r#"{{"model": "any", "batch": {{"global": 1}}, "parallelism": {{"tensor": {tensor}}}}}"#);
        LayoutKind::of(&serde_json::from_str::<WorkloadSpec>(&text).unwrap())
    };
    let row =
        |(tensor, measured_s, predicted_s)| MeasuredLayout { kind: kind(tensor), measured_s, predicted_s };
    let of = |rows: &[(u64, f64, f64)]| speeds(&rows.iter().copied().map(row).collect::<Vec<_>>());
    assert_eq!(of(&[(1, 2.0, 1.0), (1, 1.0, 3.0), (1, 4.0, 2.0), (1, 0.5, 9.0)]), [0.25, 0.5]);
    assert_eq!(
        of(&[(1, 2.0, 1.0), (1, 1.9, 1.1), (1, 1.8, 1.2), (2, 1.0, 3.0)]),
        [0.5, 1.0],
        "of another kind"
    );
}
