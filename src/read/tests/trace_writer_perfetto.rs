use stepsim_read::trace::writer::perfetto::*;
use stepsim_read::trace::writer::{Sink, Slice, Value};

/// A rate that is no number is left out.
#[test]
fn what_is_no_number_is_not_written() {
    let written = |values: &[Value]| {
        let mut bytes = Vec::new();
        let mut sink = Perfetto::new(&mut bytes);
        sink.begin(&[]).unwrap();
        let row = sink.thread(7, "compute").unwrap();
        let kind = sink.kind("qkv", "compute", &[]).unwrap();
        let key = sink.key("rate").unwrap();
        let args: Vec<_> = values.iter().map(|value| (key, *value)).collect();
        sink.slice(
            row,
            kind,
            &Slice { start: 1000, end: 2000, args: &args, out: &[], into: &[], alike: None },
        )
        .unwrap();
        sink.finish().unwrap();
        drop(sink);
        bytes
    };
    assert_eq!(written(&[Value::Milli(1500), Value::Float(f64::NAN)]), written(&[Value::Milli(1500)]));
}

/// Lengths are written before what they count, so they must be known.
#[test]
fn the_length_of_a_number_is_that_of_its_bytes() {
    for value in (0..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit]).chain([u64::MAX]) {
        let mut bytes = Vec::new();
        push_varint(&mut bytes, value);
        assert_eq!(varint_length(value), bytes.len() as u64, "{value}");
    }
}
