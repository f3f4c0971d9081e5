use stepsim_core::units::Time;
use stepsim_form::compare::among::Among;
use stepsim_measure::beside::*;
use stepsim_measure::profile::{ClassTables, read_from};
use stepsim_read::trace::writer::{Chrome, Sink, Slice};

/// A profile whose first product begins 7 us after its first event, above a step whose first product begins at 2
/// us: both at 7 us.
#[test]
fn both_sides_begin_their_first_product_together() {
    let event = |name: &str, ts: u32, dur: u32| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":7,"ts":{ts},"dur":{dur},
                 "args":{{"stream":7}}}}"#
        )
    };
    let events =
        [event("vectorized_elementwise_kernel", 100, 5), event("ampere_bf16_gemm_128x128", 107, 3)].join(",");
    let text = format!(r#"{{"schemaVersion":1,"traceEvents":[{events}]}}"#);
    let profiles = read_from(text.as_bytes(), "p.json", &ClassTables::shipped()).unwrap();
    let mut bytes = Vec::new();
    let mut chrome = Chrome::new(&mut bytes);
    let mut sink = Among::new(&mut chrome, Above::new(&profiles, Time::from_us(2.0)));
    sink.begin(&[]).unwrap();
    sink.process(1, "rank 0").unwrap();
    let thread = sink.thread(1, "compute").unwrap();
    let kind = sink.kind("qkv", "compute", &[]).unwrap();
    sink.slice(thread, kind, &Slice { start: 2000, end: 3000, ..Slice::default() }).unwrap();
    sink.finish().unwrap();
    drop(chrome);
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains(r#""ts":7.000,"dur":1.000,"name":"qkv""#), "{text}");
    assert!(text.contains(r#""ts":7.000,"dur":3.000,"name":"#), "{text}");
    assert!(text.contains(r#""ts":0.000,"dur":5.000,"name":"#), "{text}");
    assert!(text.contains("measured stream 7"), "{text}");
}
