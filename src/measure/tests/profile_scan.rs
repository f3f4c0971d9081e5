use std::io::Read;

use stepsim_measure::profile::scan::*;

fn pieces(text: &str) -> (Vec<String>, Ending) {
    let mut seen = Vec::new();
    let ending = scan(text.as_bytes(), &mut |piece| {
        seen.push(match piece {
            FilePiece::Event(e) => String::from_utf8_lossy(e).into_owned(),
            FilePiece::Member(key, value) => format!("{key}={}", String::from_utf8_lossy(value)),
            FilePiece::Foreign => "?".to_string(),
        });
    });
    (seen, ending)
}

#[test]
fn both_outlines_are_read() {
    let object = r#"{"a": 1, "traceEvents": [{"x":"}\"]"}, {"y":[{}]}, 7], "b":{"c":[2]}}"#;
    let events = [r#"{"x":"}\"]"}"#, r#"{"y":[{}]}"#];
    assert_eq!(
        pieces(object),
        (
            vec!["a=1".into(), events[0].into(), events[1].into(), "?".into(), r#"b={"c":[2]}"#.into()],
            Ending::Whole
        )
    );
    assert_eq!(pieces(r#" [{"x":"}\"]"},{"y":[{}]}"#).1, Ending::Whole, "a list may stay open");
    assert_eq!(pieces("\u{feff}[{}]"), (vec!["{}".into()], Ending::Whole));
}

#[test]
fn what_breaks_off_says_where() {
    let (seen, ending) = pieces(r#"{"traceEvents": [{"a":1},{"b":"#);
    assert_eq!((seen.len(), ending), (1, Ending::Truncated(30, None)));
    assert_eq!(pieces(r#"{"traceEvents": [{"a":1}]"#).1, Ending::Truncated(25, None));
    assert_eq!(pieces(r#"[{"a":1},{"b":"#).1, Ending::Truncated(14, None));
}

/// A list that a profiler left open is whole where the file ends, not where it cannot be read on.
#[test]
fn what_cannot_be_read_on_breaks_off() {
    struct Torn(&'static [u8]);
    impl Read for Torn {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() { Err(std::io::Error::other("torn")) } else { self.0.read(into) }
        }
    }
    assert_eq!(scan("[{},".as_bytes(), &mut |_| {}), Ending::Whole);
    assert!(
        matches!(scan(Torn(b"[{},"), &mut |_| {}), Ending::Truncated(4, Some(why)) if why.contains("torn"))
    );
    assert_eq!(pieces(r#"{"traceEvents": [{},"#).1, Ending::Truncated(20, None));
}

#[test]
fn what_is_no_trace_is_foreign() {
    for text in ["", "  ", "PK\u{3}", "{1}", r#"{"a" 1}"#] {
        assert!(matches!(pieces(text).1, Ending::Foreign(_)), "{text}");
    }
}
