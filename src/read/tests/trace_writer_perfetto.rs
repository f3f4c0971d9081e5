use std::collections::BTreeMap;

use stepsim_read::trace::writer::perfetto::*;
use stepsim_read::trace::writer::{CounterUnit, Sink, Slice, Value};

/// Fields of a message: number and value, bytes or a number in bytes.
fn fields(mut message: &[u8]) -> Vec<(u64, ProtoField<'_>)> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let field = match tag & 7 {
            0 => ProtoField::Number(varint(&mut message)),
            1 => ProtoField::Number(u64::from_le_bytes(take(&mut message, 8).try_into().unwrap())),
            2 => {
                let length = varint(&mut message) as usize;
                ProtoField::Bytes(take(&mut message, length))
            }
            other => panic!("wire type {other}"),
        };
        found.push((tag >> 3, field));
    }
    found
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ProtoField<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> ProtoField<'a> {
    fn number(self) -> u64 {
        let ProtoField::Number(n) = self else { panic!("a number is expected, not {self:?}") };
        n
    }
    fn fields(self) -> Vec<(u64, ProtoField<'a>)> {
        let ProtoField::Bytes(bytes) = self else { panic!("a message is expected, not {self:?}") };
        fields(bytes)
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            break;
        }
    }
    value
}

fn take<'a>(bytes: &mut &'a [u8], n: usize) -> &'a [u8] {
    let (head, rest) = bytes.split_at(n);
    *bytes = rest;
    head
}

fn find<'a>(message: &[(u64, ProtoField<'a>)], number: u64) -> Option<ProtoField<'a>> {
    message.iter().find(|(n, _)| *n == number).map(|(_, field)| *field)
}

#[test]
fn a_reader_of_the_format_finds_what_was_written() {
    let mut bytes = Vec::new();
    let mut sink = Perfetto::new(&mut bytes);
    sink.begin(&[]).unwrap();
    sink.process(7, "rank 6").unwrap();
    let row = sink.thread(7, "compute").unwrap();
    let counter = sink.counter_track(7, "hbm bytes", "total", CounterUnit::Bytes).unwrap();
    let long = "x".repeat(300);
    let kind =
        sink.kind("F3 m0 qkv", "compute", &[("op", Value::Text(&long)), ("layer", Value::Uint(3))]).unwrap();
    let key = sink.key("rate").unwrap();
    let args = [(key, Value::Milli(1500)), (key, Value::Float(f64::NAN))];
    let slice = Slice { start: 1000, end: 2000, args: &args, out: &[5], into: &[4], alike: Some(17) };
    sink.slice(row, kind, &slice).unwrap();
    sink.counter(counter, 300, Value::Uint(1 << 40)).unwrap();
    sink.finish().unwrap();
    drop(sink);

    let mut interned = BTreeMap::new();
    let mut tracks = BTreeMap::new();
    let mut rows = Vec::new();
    let mut events = Vec::new();
    for (number, packet) in fields(&bytes) {
        assert_eq!(number, 1);
        let packet = packet.fields();
        for (field, entry) in find(&packet, 12).map_or(Vec::new(), ProtoField::fields) {
            let entry = entry.fields();
            interned.insert((field, find(&entry, 1).unwrap().number()), find(&entry, 2).unwrap());
        }
        if let Some(track) = find(&packet, 60) {
            let track = track.fields();
            let row = find(&track, u64::from(PROCESS)).or(find(&track, u64::from(THREAD)));
            let sequence = if row.is_some() { TABLES } else { SEQUENCE };
            assert_eq!(find(&packet, 10), Some(ProtoField::Number(sequence)));
            if let Some(row) = row {
                rows.push(row.fields());
                continue;
            }
            tracks.insert(find(&track, 1).unwrap().number(), track);
        }
        if let Some(event) = find(&packet, 11) {
            assert_eq!(find(&packet, 10), Some(ProtoField::Number(SEQUENCE)));
            events.push((find(&packet, 8).unwrap().number(), event.fields()));
        }
    }
    let [(1000, begin), (300, value), (2000, end)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(rows[0], [(1, ProtoField::Number(7)), (6, ProtoField::Bytes(b"rank 6"))]);
    assert_eq!(
        rows[1],
        [
            (1, ProtoField::Number(7)),
            (2, ProtoField::Number(FIRST_THREAD + 3)),
            (5, ProtoField::Bytes(b"compute"))
        ]
    );
    let track = &tracks[&find(begin, 11).unwrap().number()];
    assert_eq!(find(track, 2), Some(ProtoField::Bytes(b"compute")));
    let process = &tracks[&find(track, 5).unwrap().number()];
    assert_eq!(
        (find(process, 2), find(process, 12)),
        (Some(ProtoField::Bytes(b"rank 6")), Some(ProtoField::Number(0)))
    );
    let name = interned[&(u64::from(EVENT_NAMES), find(begin, 10).unwrap().number())];
    assert_eq!(name, ProtoField::Bytes(b"F3 m0 qkv"));
    let args: Vec<_> = begin.iter().filter(|(n, _)| *n == 4).map(|(_, arg)| arg.fields()).collect();
    assert_eq!(args.len(), 3, "the rate that is no number is left out");
    let text = find(&args[0], 17).unwrap().number();
    assert_eq!(interned[&(u64::from(ARGUMENT_TEXTS), text)], ProtoField::Bytes(long.as_bytes()));
    assert_eq!(find(&args[1], 3), Some(ProtoField::Number(3)));
    assert_eq!(find(&args[2], 5), Some(ProtoField::Number(1.5f64.to_bits())));
    assert_eq!(
        interned[&(u64::from(ARGUMENT_NAMES), find(&args[2], 1).unwrap().number())],
        ProtoField::Bytes(b"rate")
    );
    assert_eq!((find(begin, 47), find(end, 48)), (Some(ProtoField::Number(5)), Some(ProtoField::Number(4))));
    assert_eq!(
        (find(begin, 9), find(end, 9)),
        (Some(ProtoField::Number(BEGIN)), Some(ProtoField::Number(END)))
    );
    assert_eq!(
        (find(value, 9), find(value, 30)),
        (Some(ProtoField::Number(COUNTER)), Some(ProtoField::Number(1 << 40)))
    );
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
