use serde_json::{Value, json};
use stepsim_bring::describe::columns::DescribedColumns;
use stepsim_bring::describe::layout::*;

fn columns(value: Value) -> DescribedColumns {
    DescribedColumns::new(value.as_object().unwrap())
}

#[test]
fn degrees_that_do_not_multiply_are_put_right() {
    let row = json!({"n_devices": 1024, "tp": 4, "pp": 1, "cp": 16, "dp": 4, "gbs_seqs": 4});
    let mut long = columns(row);
    let made = layout(&mut long).unwrap();
    assert_eq!((made.context, made.data, made.micro_batch), (64, 4, 1));
    let mut short = columns(json!({"n_devices": 8, "dp": 2, "gbs_seqs": 512}));
    assert_eq!(layout(&mut short).unwrap().data, 8);
    assert!(short.assumed.iter().any(|a| a.column == "dp"));
    let mut odd = columns(json!({"n_devices": 8, "gbs_seqs": 20, "mbs_seqs": 4}));
    let made = layout(&mut odd).unwrap();
    assert_eq!((made.global, made.micro_batch), (24, 3));
    assert!(layout(&mut columns(json!({"n_devices": 6, "tp": 4, "gbs_seqs": 8}))).is_err());
    assert!(layout(&mut columns(json!({"n_devices": 64, "gbs_seqs": 8}))).is_err());
}
