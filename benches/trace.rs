//! Speed of the trace writers, in events per second on one thread.
//!
//! `cargo bench --bench trace`. The events go to a sink that counts bytes, so that the disk plays no part.

use std::hint::black_box;
use std::io::{self, Write};

use criterion::{BenchmarkId, Criterion, Throughput};
use stepsim::read::trace::writer::{ArgumentName, Chrome, Perfetto, Sink, Slice, SliceKind, Thread, Value};

const EVENTS: u64 = 1_000_000;

/// Takes all bytes and keeps none.
#[derive(Default)]
struct Counted(u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += black_box(bytes).len() as u64;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Eight rows and 512 kinds of slices, as of a stage with 16 layers.
fn declare(sink: &mut dyn Sink) -> io::Result<(Vec<Thread>, Vec<SliceKind>, ArgumentName)> {
    sink.begin(&[])?;
    sink.process(1, "rank 0000")?;
    let threads = (0..8).map(|_| sink.thread(1, "compute")).collect::<io::Result<_>>()?;
    let kind = |i: u64| {
        let args = [
            ("op", Value::Text("qkv")),
            ("phase", Value::Text("forward")),
            ("layer", Value::Uint(i / 32)),
            ("micro_batch", Value::Uint(i % 32)),
            ("flops", Value::Uint(123_456_789_012)),
            ("bytes", Value::Uint(67_108_864)),
        ];
        sink.kind(&format!("F{} m{} qkv", i / 32, i % 32), "compute", &args)
    };
    let kinds = (0..512).map(kind).collect::<io::Result<_>>()?;
    Ok((threads, kinds, sink.key("achieved_TFLOPps")?))
}

/// Slices that follow each other on eight rows, with six fixed arguments; `rate` adds one of their own.
fn slices(sink: &mut dyn Sink, rate: bool) -> io::Result<()> {
    let (threads, kinds, key) = declare(sink)?;
    for i in 0..EVENTS {
        let start = (i / 8) * 41_234 + 17;
        let args = [(key, Value::Milli(512_345))];
        let args = &args[..usize::from(rate)];
        let slice = Slice { start, end: start + 40_000 + i % 1000, args, ..Slice::default() };
        sink.slice(threads[(i % 8) as usize], kinds[(i % 512) as usize], &slice)?;
    }
    sink.finish()
}

/// Pairs of slices with an arrow: four events each.
fn arrows(sink: &mut dyn Sink) -> io::Result<()> {
    let (threads, kinds, _) = declare(sink)?;
    for i in 0..EVENTS / 4 {
        let (start, id) = (i * 41_234 + 17, [i + 1]);
        let source = Slice { start, end: start + 20_000, out: &id, ..Slice::default() };
        let target = Slice { start: start + 20_000, end: start + 40_000, into: &id, ..Slice::default() };
        sink.slice(threads[0], kinds[(i % 512) as usize], &source)?;
        sink.slice(threads[1], kinds[(i % 512) as usize], &target)?;
    }
    sink.finish()
}

type Load = fn(&mut dyn Sink) -> io::Result<()>;

fn writers(c: &mut Criterion) {
    let mut group = c.benchmark_group("trace");
    group.throughput(Throughput::Elements(EVENTS)).sample_size(20);
    let loads: [(&str, Load); 3] = [
        ("slices", |sink| slices(sink, false)),
        ("slices with a rate", |sink| slices(sink, true)),
        ("slices and arrows", arrows),
    ];
    for (name, load) in loads {
        group.bench_function(BenchmarkId::new("chrome", name), |b| {
            b.iter(|| load(&mut Chrome::new(Counted::default())).unwrap());
        });
        group.bench_function(BenchmarkId::new("perfetto", name), |b| {
            b.iter(|| load(&mut Perfetto::new(Counted::default())).unwrap());
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    writers(&mut criterion);
    criterion.final_summary();
}
