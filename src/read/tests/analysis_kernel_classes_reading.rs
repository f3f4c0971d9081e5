use stepsim_read::analysis::kernel_classes::reading::free_place;

#[test]
fn names_do_not_lie_over_each_other() {
    let mut placed = Vec::new();
    let at = [(0.0, 50.0), (10.0, 51.0), (20.0, 49.0), (300.0, 50.0)];
    let ys: Vec<f64> = at.map(|(x, y)| free_place(&mut placed, [x, y], "gemm-input-grad")[1]).to_vec();
    assert_eq!(ys, [50.0, 63.0, 37.0, 50.0]);
}
