use stepsim_bring::nccl_tests::*;
use stepsim_spec::collectives::Op;

const OUTPUT: &str = "\
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 1024 maxBytes 8192 step: 2(factor) warmup iters: 5 \
iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid  10 on  node-a device  0 [0x0f] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  11 on  node-a device  1 [0x2d] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid  20 on  node-b device  0 [0x0f] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid  21 on  node-b device  1 [0x2d] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
           0             0     float     sum      -1     9.10    0.00    0.00      0     9.00    0.00    0.00      0
        1024           256     float     sum      -1    40.00    0.03    0.04      0    38.00    0.03    0.04      0
        2048           512     float     sum      -1    36.00    0.06    0.09      0    37.00    0.06    0.08      0
        4096          1024     float     sum      -1    44.00    0.09    0.14    N/A    42.00    0.10    0.15    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.1
";

#[test]
fn columns_devices_and_noise_are_read() {
    let table = read(OUTPUT, "out.txt", &MissingHeadings::default()).unwrap();
    assert_eq!((table.op, table.ranks, table.nodes), (Op::AllReduce, 4, 2));
    let points: Vec<(f64, f64)> = table.points.iter().map(|p| (p.bytes, p.time_us)).collect();
    assert_eq!(points, [(1024.0, 38.0), (2048.0, 38.0), (4096.0, 44.0)]);
    let inside =
        read(OUTPUT, "out.txt", &MissingHeadings { in_place: true, ..MissingHeadings::default() }).unwrap();
    assert_eq!(inside.points[2].time_us, 42.0);
}

/// As a launcher of several ranks writes it, each line with its rank before it.
#[test]
fn labels_of_launchers_are_left_out() {
    let plain = read(OUTPUT, "out.txt", &MissingHeadings::default()).unwrap();
    for label in [" 0: ", "0: ", "[1,0]<stdout>:", "[node-a:0] "] {
        let labelled: String = OUTPUT.lines().map(|line| format!("{label}{line}\n")).collect();
        let other = format!("1: hello\n{labelled}");
        assert_eq!(read(&other, "out.txt", &MissingHeadings::default()).unwrap(), plain, "{label}");
    }
}

#[test]
fn what_is_not_said_is_asked_for() {
    let error = |text: &str| read(text, "out.txt", &MissingHeadings::default()).unwrap_err().to_string();
    assert!(error("hello").contains("no header"));
    let bare = OUTPUT.replace("all_reduce_perf", "x");
    assert!(error(&bare).contains("--op"), "{}", error(&bare));
    assert_eq!(
        read(&bare, "reduce_scatter_perf.log", &MissingHeadings::default()).unwrap().op,
        Op::ReduceScatter
    );
    let unlisted = OUTPUT.replace("Rank", "rnk");
    assert!(error(&unlisted).contains("--ranks"));
    assert!(error(&OUTPUT.lines().take(13).collect::<Vec<_>>().join("\n")).contains("0 size(s)"));
}
