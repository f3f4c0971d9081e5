use stepsim_bring::describe::size::*;

#[test]
fn names_round_sizes() {
    for (size, half) in [(7.0, 0.5), (175.0, 0.5), (6.7, 0.05), (0.125, 0.0005), (3.57, 0.005)] {
        assert!((half_a_unit(size) - half).abs() < 1e-9, "{size}: {}", half_a_unit(size));
    }
}
