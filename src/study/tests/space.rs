use serde_json::Value;
use stepsim_study::space::*;

fn values(text: &str) -> Vec<Value> {
    StudyAxis::parse("--vary", text).unwrap().values.into_iter().flatten().collect()
}

#[test]
fn lists_and_ranges_are_read() {
    assert_eq!(values("a=1:8:x2"), [1, 2, 4, 8]);
    assert_eq!(values("a=0:6:+3,9"), [0, 3, 6, 9]);
    let long = StudyAxis::parse("--vary", "a=7,1:1000000000000:+3").unwrap();
    assert_eq!((long.len(), long.at(0), long.at(2)), (333_333_333_335, vec![7.into()], vec![4.into()]));
    assert_eq!(telling(&long), [0, 1, long.len() - 1]);
    assert_eq!(values(r#"a=[1,2],{"b":1,"c":2},"x,y",zb-h1,null"#).len(), 5);
    for wrong in ["a", "a=", "=1", "a=8:1:x2", "a=0:8:x2", "a=1:8:x1", "a=1:8:+0"] {
        assert!(StudyAxis::parse("--vary", wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_last_axis_is_fastest_and_zipped_fields_go_together() {
    let axis = |text| StudyAxis::parse("--vary", text).unwrap();
    let zipped = StudyAxis::zip(vec![axis("b=1,2"), axis("c=3,4")]).unwrap().unwrap();
    let space = Space { axes: vec![axis("a=x,y"), zipped], chosen: None };
    let points: Vec<String> = (0..4).map(|i| Value::from(space.point(i)).to_string()).collect();
    assert_eq!(points[1], r#"{"a":"x","b":2,"c":4}"#);
    assert_eq!(points[2], r#"{"a":"y","b":1,"c":3}"#);
    assert!(StudyAxis::zip(vec![axis("b=1,2"), axis("c=3")]).is_err());
}

#[test]
fn numbers_between_others_are_not_looked_at() {
    let axis = |text| StudyAxis::parse("--vary", text).unwrap();
    assert_eq!(telling(&axis("a=5,1,3,9,2")), [1, 3]);
    assert_eq!(telling(&axis("a=4,x,8,6,null")), [0, 1, 2, 4]);
    let zipped = StudyAxis::zip(vec![axis("a=1,2,3"), axis("b=1,2,3")]).unwrap().unwrap();
    assert_eq!(telling(&zipped), [0, 1, 2]);
}

#[test]
fn groups_differ_in_one_axis() {
    let axis = |text| StudyAxis::parse("--vary", text).unwrap();
    let space = Space { axes: vec![axis("a=x,y"), axis("b=1,2,3"), axis("c=1,2")], chosen: None };
    let all: Vec<usize> = (0..12).collect();
    assert_eq!(space.groups(&all, "b"), [[0, 2, 4], [1, 3, 5], [6, 8, 10], [7, 9, 11]]);
    assert_eq!(space.groups(&[0, 3, 4, 11], "b"), [vec![0, 4], vec![3], vec![11]]);
    assert_eq!(space.groups(&all, "d").len(), 12);
    let of_part = Space { axes: vec![axis("b=1,2"), axis("batch.global=1,2")], chosen: Some(vec![1, 2, 3]) };
    assert_eq!(of_part.groups(&[0, 1, 2], "batch.global"), [vec![0], vec![1, 2]]);
    let whole = Space { axes: vec![axis(r#"batch={"global":8}"#), axis("batch.global=1,2")], chosen: None };
    assert_eq!(whole.groups(&[0, 1], "batch.global").len(), 2);
    let behind = Space { axes: vec![axis("batch.global=1,2"), axis(r#"batch={"global":8}"#)], chosen: None };
    assert_eq!(behind.groups(&[0, 1], "batch.global").len(), 2);
}
