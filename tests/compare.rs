//! Closed form and simulation of shipped workloads: what no switch explains.

use stepsim::lab::compare::workload::compare;

/// With transfers, copies, sharing and interference off, the simulated step is the closed form within 1 %: on shipped
/// workloads of every kind of schedule, sharding and offload (the two of thousands of offloading devices are as close, and
/// take minutes here).
#[test]
fn the_simplest_run_is_the_closed_form() {
    let names = [
        "tiny-4",
        "gpt2-8",
        "gpt-24l-1024",
        "gpt3-175b",
        "megatron-1t",
        "llama3-70b",
        "llama3-70b-offload",
        "llama3-8b-fsdp",
        "mixtral-8x7b",
        "cxl-pool-8",
        "straggler-64",
        "llama3-405b",
        "deepseek-v3",
        "kimi-k2",
        "qwen3-30b-a3b",
        "qwen3-30b-a3b-gb200",
        "wan-72t",
    ];
    for name in crate::slow::some(&names, 11) {
        let (found, ..) = compare(name, None, &[], &mut |_| {}).unwrap_or_else(|e| panic!("{name}: {e}"));
        let rest = found.rest_s / found.closed_form_s;
        println!("{name}: {:+.3} %", 100.0 * rest);
        assert!(rest.abs() <= 0.01, "{name}: {:+.3} % of {} s", 100.0 * rest, found.closed_form_s);
    }
}
