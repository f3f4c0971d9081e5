use stepsim_measure::profile::event::*;

#[test]
fn numbers_keep_their_digits_and_the_last_of_equal_names_counts() {
    let event = parse(
        r#"{"ts": 1712195496004644.183, "pid": "Spans", "a\u0041": null, "pid": 7, "args": {"s": "5"}}"#,
    )
    .unwrap();
    assert_eq!(event.raw("ts"), Some("1712195496004644.183"));
    assert_eq!(event.text("pid").as_deref(), Some("7"));
    assert_eq!(event.raw("aA"), None);
    assert_eq!(event.members("args").whole("s"), Some(5));
    assert_eq!(event.members("none").whole("s"), None);
}

#[test]
fn what_other_writers_do_to_json_is_mended() {
    let text = mended(b"{\"a\": -inf, \"b\": NaN, \"n\xff\": \"C:\\py\tx\", \"c\": null}").unwrap();
    let event = parse(&text).unwrap();
    assert_eq!((event.raw("a"), event.raw("b"), event.raw("c")), (None, None, None));
    assert_eq!(event.text("n\u{fffd}").as_deref(), Some("C:\\py x"));
    assert!(mended(b"{\"a\": }").is_none());
}
