use stepsim_schedule::{ALL, Shape, *};

#[test]
fn every_schedule_can_be_written_and_read_back() {
    for schedule in ALL {
        let order = schedule.order(&Shape::new(4, 8)).unwrap();
        assert_eq!(order_from_json(&order_to_json(&order)).as_ref(), Ok(&order), "{}", schedule.name());
    }
}

fn error(text: &str) -> String {
    order_from_json(text).unwrap_err().to_string()
}

#[test]
fn a_deadlock_is_shown_with_its_cycle() {
    assert_eq!(
        error(r#"{"ranks": ["F0 B0 F1 B1", "F1 F0 B0 B1"]}"#),
        "the order cannot run: deadlock: rank 0 is at B0 and waits for B0 of rank 1, which comes after F1; rank 1 \
         is at F1 and waits for F1 of rank 0, which comes after B0"
    );
}

#[test]
fn faults_name_their_place() {
    assert_eq!(
        error(r#"{"ranks": ["F0 B0", "F0"]}"#),
        "the order cannot run: rank 1: B0 is missing: every micro-batch needs F and either B or both I \
         and W on every chunk"
    );
    assert_eq!(
        error(r#"{"ranks": ["F0 B0 B0"]}"#),
        "the order cannot run: rank 0, slot 2: B0: this pass has been done already"
    );
    assert_eq!(
        error(r#"{"ranks": ["F0 W0 I0"]}"#),
        "the order cannot run: rank 0, slot 1: W0: its input gradient must come before it"
    );
    assert_eq!(
        error(r#"{"ranks": ["F0 X1"]}"#),
        "at ranks[0], slot 1: `X1` is no slot: it starts with none of F, B, I, W; write F3, B3, I3 or W3, F3.1 for \
         chunk 1, F3&B0.1 for an overlapped pair"
    );
    assert_eq!(
        error(r#"{"ranks": ["F0 B0"], "paths": [[[0, 1]]]}"#),
        "at paths: chunk 1 of rank 0 holds a stage, but chunk 0 of rank 0 holds none"
    );
    assert_eq!(
        error(r#"{"ranks": [3]}"#),
        "at ranks[0]: invalid type: integer `3`, expected a string at line 1 column 12; expected \
         {\"ranks\": [\"F0 F1 B0 B1\", ...]} with one string per rank"
    );
    assert_eq!(error(r#"{"ranks": []}"#), "at ranks: there is no slot; write at least one rank with F0 B0");
}

#[test]
fn a_pair_is_a_forward_and_a_backward_pass() {
    for pair in ["F0&F1", "B0&B1", "B0&F1", "F0&I0", "I0&B0"] {
        assert!(error(&format!(r#"{{"ranks": ["{pair}"]}}"#)).contains("a pair is an F and a B"), "{pair}");
    }
}

#[test]
fn huge_numbers_are_refused() {
    assert!(
        error(r#"{"ranks": ["F4294967295"]}"#).ends_with("ranks x micro-batches x chunks may be 5592405")
    );
    assert_eq!(
        error(r#"{"ranks": ["F0.65535"]}"#),
        "at ranks: chunk 65535 is too high: a rank may have 1024"
    );
}
