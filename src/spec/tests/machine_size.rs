use stepsim_spec::machine_size::torus_dims;

#[test]
fn slices_of_tpu_pods() {
    // docs.cloud.google.com/tpu/docs/v5p, v5e: the shapes of the sizes that are sold.
    for (chips, axes, dims) in [
        (256, 2, vec![16, 16]),
        (128, 2, vec![8, 16]),
        (64, 3, vec![4, 4, 4]),
        (128, 3, vec![4, 4, 8]),
        (192, 3, vec![4, 4, 12]),
        (256, 3, vec![4, 8, 8]),
        (1024, 3, vec![8, 8, 16]),
        (2048, 3, vec![8, 16, 16]),
    ] {
        assert_eq!(torus_dims(chips, axes), Some(dims), "{chips}");
    }
}
