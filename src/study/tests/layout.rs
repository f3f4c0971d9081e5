use stepsim_study::layout::*;

#[test]
fn uneven_layers_have_no_chunks_and_one_stage_no_order() {
    let none = FixedValues::default();
    assert_eq!(orders(80, 1, &none), [("1f1b".to_string(), 1)]);
    let of = |ranks| orders(80, ranks, &none).into_iter().map(|o| o.1).collect::<Vec<_>>();
    assert_eq!(of(4), [1, 2, 4, 5, 10]);
    assert_eq!(of(32), [1]);
    let mut given = FixedValues::default();
    assert!(given.take(CHUNKS, &[3.into()]) && !given.take("batch.global", &[8.into()]));
    assert_eq!(orders(80, 4, &given).last(), Some(&("interleaved-1f1b".to_string(), 3)));
}
