//! Profiles of real steps: the readings equal the answers that a second program computed from the same definitions.
//!
//! The answers stand in `tests/data/profiles.json`; the traces themselves are public, but too large to ship. Where
//! they do not lie beside the repository, their test says so, and small traces made here show each of their traps.

use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use stepsim::measure::profile::programs::StepPrograms;
use stepsim::measure::profile::report::RankProfile;
use stepsim::measure::profile::{ClassTables, ProfileReport, RankEvents, Window, read, read_from, report};
use stepsim::spec::SpecError;

use crate::command::Folder;

fn traces() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = root.ancestors().skip(1).map(|a| a.join("shared/real-traces")).find(|p| p.is_dir());
    if found.is_none() {
        eprintln!(
            "SKIPPED: the real traces are not beside the repository; see `source` in tests/data/profiles.json"
        );
    }
    found
}

fn of_text(text: &[u8]) -> Result<ProfileReport, SpecError> {
    Ok(report(&mut read_from(text, "test.json", &ClassTables::shipped())?, Window::All))
}

fn read_all(texts: &[String]) -> Vec<RankEvents> {
    let read = |text: &String| read_from(text.as_bytes(), "rank.json", &ClassTables::shipped()).unwrap();
    texts.iter().flat_map(read).collect()
}

fn numbers(value: &Value) -> Vec<i64> {
    value.as_array().into_iter().flatten().map(|n| n.as_i64().unwrap()).collect()
}

fn eight(b: &stepsim::measure::profile::breakdown::DeviceBreakdown) -> Vec<i64> {
    vec![b.window, b.busy, b.idle, b.compute, b.comm, b.mem, b.comm_hidden, b.comm_exposed]
}

#[test]
fn real_traces_read_to_the_nanosecond() {
    let Some(traces) = traces() else { return };
    let answers: Value = serde_json::from_str(include_str!("data/profiles.json")).unwrap();
    let classes = ClassTables::shipped();
    let mut files = 0;
    for run in answers["runs"].as_array().unwrap() {
        for answer in run["files"].as_array().unwrap() {
            let path = traces.join(run["run"].as_str().unwrap()).join(answer["file"].as_str().unwrap());
            let name = path.display().to_string();
            let mut read = read(&path, &classes).unwrap();
            let r = report(&mut read, Window::All).ranks.remove(0);
            assert_eq!(eight(&r.ns.all), numbers(&answer["all"]), "{name}");
            let linked = r.ns.linked.as_ref().map(eight).unwrap_or_default();
            assert_eq!(linked, numbers(&answer["linked"]), "{name}");
            let (events, launches) = (numbers(&answer["events"]), answer["launches"].as_u64().unwrap());
            let family = |family: &str| {
                r.kernels
                    .values()
                    .filter(|k| json!(k.family) == family)
                    .map(|k| (k.count as i64, k.total_s))
                    .fold((0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1))
            };
            let families = ["compute", "communication", "memory"].map(family);
            assert_eq!(families.map(|f| f.0).to_vec(), events, "{name}");
            for (sum, ns) in families.iter().zip(numbers(&answer["durations"])) {
                assert!((sum.1 * 1e9 - ns as f64).abs() < 0.5 + 1e-9 * ns as f64, "{name}");
            }
            assert_eq!(events.iter().sum::<i64>() as u64 - r.without_launch, launches, "{name}");
            assert_eq!(json!(r.same_stream_overlaps), answer["overlaps"], "{name}");
            assert_eq!(json!(r.cpu_ops_with_stream_arg), answer["cpu_ops_with_stream"], "{name}");
            let steps: Vec<Value> =
                r.steps.iter().map(|s| json!([s.name, s.start_ns, s.duration_ns])).collect();
            assert_eq!(json!(steps), answer["steps"], "{name}");
            for s in &r.streams {
                assert_eq!(
                    json!([s.events, s.busy_ns, s.comm_events]),
                    answer["streams"][&s.stream],
                    "{name}"
                );
            }
            let idle: f64 = r.idle_s.values().sum();
            assert!(
                (idle * 1e9 - r.ns.all.idle as f64).abs() < 1.0,
                "{name}: the causes sum to the idle time"
            );
            files += 1;
        }
    }
    assert!(files >= 26, "{files}");
}

fn kernel(name: &str, ts: &str, dur: &str, stream: i64, correlation: i64) -> String {
    format!(
        r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":{stream},"ts":{ts},"dur":{dur},"args":{{"device":0,"stream":{stream},"correlation":{correlation}}}}}"#
    )
}

fn call(name: &str, ts: &str, dur: &str, correlation: i64) -> String {
    format!(
        r#"{{"ph":"X","cat":"cuda_runtime","name":"{name}","pid":9,"tid":9,"ts":{ts},"dur":{dur},"args":{{"correlation":{correlation}}}}}"#
    )
}

fn of_events(events: &[String]) -> RankProfile {
    of_text(format!("[{}]", events.join(",")).as_bytes()).unwrap().ranks.remove(0)
}

/// Readings of small traces by hand: what stands where in the report of `tests/data/profile-cases.json`; `null` is
/// nothing.
#[test]
fn small_traces_are_read_as_by_hand() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("data/profile-cases.json")).unwrap();
    let event = |event: &Value| {
        let Some(list) = event.as_array() else {
            return event.as_str().map_or_else(|| event.to_string(), String::from);
        };
        let (text, number) = (|at: usize| list[at].as_str().unwrap(), |at: usize| list[at].as_i64().unwrap());
        let (line, said) = match text(0) {
            "kernel" => (kernel(text(1), text(2), text(3), number(4), number(5)), list.get(6)),
            _ => (call(text(1), text(2), text(3), number(4)), list.get(5)),
        };
        said.map_or(line.clone(), |said| line.replace(said[0].as_str().unwrap(), said[1].as_str().unwrap()))
    };
    for case in &cases {
        let events: Vec<String> = case["events"].as_array().unwrap().iter().map(event).collect();
        let read = serde_json::to_value(of_events(&events)).unwrap();
        for (path, expected) in case["says"].as_object().unwrap() {
            let found = read.pointer(path).unwrap_or(&Value::Null);
            let near =
                matches!((found.as_f64(), expected.as_f64()), (Some(a), Some(b)) if (a - b).abs() < 1e-9);
            assert!(near || found == expected, "{}: {path} is {found}, not {expected}", case["case"]);
        }
    }
}

/// Newer profiles name the event that a stream waited for: neither the op that ended last is taken, nor a wait that
/// another stream had.
#[test]
fn named_waits_of_streams_are_taken_at_their_word() {
    let wait = |stream: i64, on: i64, queued: i64, recorded: i64| {
        format!(
            r#"{{"ph":"X","cat":"cuda_sync","name":"Stream Wait Event","pid":0,"tid":{stream},"ts":3,"dur":0,"args":{{"device":0,"stream":{stream},"wait_on_stream":{on},"wait_on_cuda_event_record_corr_id":{recorded},"correlation":{queued}}}}}"#
        )
    };
    let events = [
        call("cudaLaunchKernel", "0", "1", 1),
        kernel("gemm_a", "5", "10", 7, 1),
        call("cudaEventRecord", "1", "1", 80),
        call("cudaLaunchKernel", "2", "1", 2),
        kernel("gemm_b", "5", "14", 9, 2),
        call("cudaStreamWaitEvent", "3", "1", 90),
        wait(8, 7, 90, 80),
        call("cudaLaunchKernel", "4", "1", 3),
        kernel("gemm_c", "20", "10", 8, 3),
    ];
    let text = format!("[{}]", events.join(","));
    let programs = programs_of(std::slice::from_ref(&text));
    let ops = &programs.ranks[0].ops;
    let at = |name: &str| ops.iter().position(|op| op.name == name).unwrap();
    let last = &ops[at("gemm_c")];
    assert!(
        last.after.contains(&(at("gemm_a") as u32)) && !last.after.contains(&(at("gemm_b") as u32)),
        "{last:?}"
    );
    assert_eq!(last.lead_ns, 5_000, "gemm_a ended at 15");
    let text = text.replace("Stream Wait Event", "Event Sync");
    let guessed = programs_of(&[text]);
    assert!(guessed.ranks[0].ops[at("gemm_c")].after.contains(&(at("gemm_b") as u32)));
}

/// What ended on another stream long before a kernel begins holds it up only where its stream was told to wait.
#[test]
fn a_kernel_waits_for_another_stream_where_it_is_told_to() {
    let after = |wait: bool| {
        let mut events = vec![
            call("cudaLaunchKernel", "0", "1", 1),
            kernel("gemm_a", "5", "10", 7, 1),
            call("cudaLaunchKernel", "38", "1", 2),
            kernel("gemm_b", "40", "10", 9, 2),
        ];
        if wait {
            events.insert(2, call("cudaStreamWaitEvent", "36", "1", 90));
        }
        let programs = programs_of(&[format!("[{}]", events.join(","))]);
        let ops = &programs.ranks[0].ops;
        let at = |name: &str| ops.iter().position(|op| op.name == name).unwrap();
        ops[at("gemm_b")].after.contains(&(at("gemm_a") as u32))
    };
    assert_eq!((after(false), after(true)), (false, true));
}

/// Of a loop that works ahead a step is its period: it cannot stand still for longer, and alone it is no step to play.
#[test]
fn steps_that_overlap_are_their_period() {
    let mark = |n: u32| {
        format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{n}","pid":9,"tid":9,"ts":{},"dur":100}}"#,
            100 * n
        )
    };
    // Each step copies its input at its beginning and computes 150 to 190 µs later.
    let mut events: Vec<String> = (0..4).map(mark).collect();
    for n in 0..4i64 {
        let (copy, gemm) = (100 * n + 5, 100 * n + 155);
        events.push(call("cudaLaunchKernel", &(100 * n + 1).to_string(), "1", 2 * n));
        events.push(kernel("copy", &copy.to_string(), "10", 7, 2 * n));
        events.push(call("cudaLaunchKernel", &(100 * n + 3).to_string(), "1", 2 * n + 1));
        events.push(kernel("gemm", &gemm.to_string(), "40", 8, 2 * n + 1));
    }
    let r = of_events(&events);
    for (i, step) in r.steps.iter().enumerate() {
        let period = if i < 3 { 100_000 } else { 190_000 };
        assert!(step.overlaps, "{i}");
        assert_eq!(step.device_ns.window, period, "{i}");
        assert!(step.device_ns.idle <= period, "{i}");
    }
    // In a period: the copy, and the matrix of the step before.
    assert_eq!(r.steps[1].device_ns.busy, 50_000);
    let text = format!("[{}]", events.join(","));
    let profiles = read_from(text.as_bytes(), "rank.json", &ClassTables::shipped()).unwrap();
    let refused = stepsim::measure::profile::programs::programs(&profiles).unwrap_err().to_string();
    assert!(refused.contains("overlap on the device by 0.090 ms"), "{refused}");
}

/// 130 MB of host events around a few kernels are read in an address space of half that: a file is streamed, and what
/// is kept of it grows with device events alone.
#[test]
#[cfg(target_os = "linux")]
fn a_large_file_is_streamed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.json.gz");
    let mut zip = GzEncoder::new(std::fs::File::create(&path).unwrap(), Compression::fast());
    let filling = "x".repeat(64 << 10);
    write!(zip, "{{\"traceEvents\":[{}", kernel("gemm", "0", "10", 7, 1)).unwrap();
    for i in 0..2000 {
        let operator = format!(r#"{{"ph":"X","cat":"python_function","name":"{filling}","ts":{i},"dur":1}}"#);
        write!(zip, ",{operator}").unwrap();
    }
    write!(zip, ",{}]}}", kernel("gemm", "20", "10", 7, 2)).unwrap();
    zip.finish().unwrap();
    let program = env!("CARGO_BIN_EXE_stepsim");
    let script = format!("ulimit -v 65536; exec '{program}' analyze '{}'", path.display());
    let done = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && text.contains("30.000 us"), "{done:?}");
}

/// Files of one job of which one is no profile: the others are read, and the page and the report say which was not.
#[test]
fn a_page_about_profiles_stands_alone() {
    let folder = Folder::new();
    for rank in 0..2 {
        let text = format!(
            r#"{{"distributedInfo":{{"rank": {rank},"world_size":3}},"traceEvents":[{},{},{}]}}"#,
            kernel("ampere_sgemm", "0", "10", 7, 1),
            kernel("ncclDevKernel_AllReduce", "8", "10", 8, 2),
            kernel("</script><b>", "30", "10", 7, 3),
        );
        folder.write(&format!("rank{rank}.json"), text);
    }
    folder.write("rank2.json", "");
    folder.stepsim("analyze rank0.json rank1.json rank2.json --html page.html").ok();
    let page = folder.text("page.html");
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("</script>").count(), 2, "nothing ends a script early");
    for said in
        ["rank2.json: is empty", "1 ranks of the job have no profile", "communication in two parts", "gemm"]
    {
        assert!(page.contains(said), "{said}");
    }
    let data = page.split("id=\"data\">").nth(1).and_then(|rest| rest.split("</script>").next()).unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    // A GEMM of 10 us, and 20 us later another kernel of 10.
    assert_eq!(data["shown"]["step_ns"], 40_000);
    let kernels = data["shown"]["rows"][0]["passes"].as_array().unwrap();
    assert_eq!(
        kernels.iter().step_by(2).step_by(2).map(|n| n.as_u64().unwrap()).collect::<Vec<_>>(),
        [0, 20_000]
    );
    folder.stepsim("diff rank0.json rank1.json --html both.html").ok();
    let page = folder.text("both.html");
    assert!(page.contains("both side by side") && page.matches("</script>").count() == 2);
}

/// Three ranks, the third with a clock one second ahead and a profile that begins one collective later.
/// A rank's profile of all-reduces: elements, start and end in microseconds.
fn with_collectives(rank: i64, calls: &[(usize, i64, i64)]) -> String {
    let collective = |&(elements, start, end): &(usize, i64, i64)| {
        kernel("ncclDevKernel_AllReduce", &start.to_string(), &(end - start).to_string(), 7, 0).replace(
            "\"device\":0",
            &format!(
                r#""device":0,"Collective name":"allreduce","dtype":"Float","In msg nelems":{elements},"Out msg nelems":1,"Group size":3,"Process Group Name":"0","Process Group Ranks":"as rank {rank} has them""#
            ),
        )
    };
    let events: Vec<String> = calls.iter().map(collective).collect();
    format!(r#"{{"distributedInfo":{{"rank": {rank},"world_size":4}},"traceEvents":[{}]}}"#, events.join(","))
}

fn skew_of(texts: &[String]) -> stepsim::measure::profile::skew::Skew {
    let mut profiles = read_all(texts);
    report(&mut profiles, Window::All).collectives.unwrap()
}

#[test]
fn collectives_are_matched_over_ranks_whose_clocks_differ() {
    let rank = |rank: i64, begin: usize, clock: i64, late: &[i64]| {
        let call = |i: usize| {
            let end = 1000 * i as i64 + 500;
            (100 + i, end - 400 + late[i] + clock, end + clock)
        };
        with_collectives(rank, &(begin..late.len()).map(call).collect::<Vec<_>>())
    };
    let texts = [
        rank(0, 0, 0, &[0, 0, 0, 0, 90, 0]),
        rank(1, 0, 3, &[0, 70, 80, 60, 0, 30]),
        rank(2, 1, 1_000_000, &[0, 0, 0, 0, 0, 300]),
    ];
    let mut profiles = read_all(&texts);
    let report = report(&mut profiles, Window::All);
    assert_eq!(report.missing_ranks, [3]);
    let skew = report.collectives.unwrap();
    assert_eq!((skew.matched, skew.rows.len()), (5, 5));
    let last: Vec<u64> = skew.rows.iter().map(|r| r.last_rank).collect();
    assert_eq!(last, [1, 1, 1, 0, 2]);
    assert_eq!(skew.rows[0].bytes, Some(404));
    assert_eq!(skew.ranks[2].clock_offset_s, Some(1.0));
    assert_eq!(skew.ranks[1].clock_offset_s, None, "3 us are no other clock");
    assert!((skew.ranks[2].waited_for_s - 267e-6).abs() < 1e-9, "{:?}", skew.ranks);
}

/// Ranks of a group never run different collectives: two pairs that agree outweigh five that do beside two that do not.
#[test]
fn a_pair_of_collectives_that_differ_costs_two_that_agree() {
    let calls = |elements: [usize; 7]| {
        (0..).zip(elements).map(|(i, n)| (n, 1000 * i, 1000 * i + 400)).collect::<Vec<_>>()
    };
    let texts = [
        with_collectives(0, &calls([1, 2, 3, 4, 5, 6, 7])),
        with_collectives(1, &calls([1, 2, 3, 4, 5, 1, 2])),
    ];
    let skew = skew_of(&texts);
    assert_eq!((skew.matched, skew.unmatched), (2, 10));
}

/// A clock differs where the ends lie apart by more than four times their spread: by 300 us, give or take 50, not 100.
#[test]
fn ends_that_scatter_tell_no_clock_apart() {
    let offset = |spread: i64| {
        let calls = |apart: [i64; 3]| {
            let calls: Vec<_> =
                (1..).zip(apart).map(|(i, by)| (i as usize, 1000 * i + by, 1000 * i + 400 + by)).collect();
            calls
        };
        let texts = [
            with_collectives(0, &calls([0; 3])),
            with_collectives(1, &calls([300 - spread, 300, 300 + spread])),
        ];
        skew_of(&texts).ranks[1].clock_offset_s
    };
    assert_eq!((offset(50), offset(100)), (Some(300e-6), None));
}

#[test]
fn what_breaks_off_is_read_up_to_there() {
    let whole =
        format!("{{\"traceEvents\":[{},{}]}}", kernel("a", "0", "1", 7, 1), kernel("b", "5", "1", 7, 2));
    let cut = &whole.as_bytes()[..whole.len() - 30];
    let r = of_text(cut).unwrap().ranks.remove(0);
    assert_eq!((r.ns.all.window, r.skipped.len()), (1_000, 1), "{:?}", r.skipped);
    let mut zip = GzEncoder::new(Vec::new(), Compression::fast());
    for i in 0..20_000 {
        let separator = if i == 0 { '[' } else { ',' };
        write!(zip, "{separator}{}", kernel("a", &i.to_string(), &format!("0.{}", i % 997), 7, i)).unwrap();
    }
    let zip = zip.finish().unwrap();
    let r = of_text(&zip[..zip.len() / 2]).unwrap().ranks.remove(0);
    assert!(
        r.kernels["other"].count > 1000 && r.skipped.keys().any(|k| k.contains("breaks off")),
        "{:?}",
        r.skipped
    );
}

#[test]
fn what_is_no_profile_is_refused_with_what_it_is() {
    let refused = |text: &[u8]| of_text(text).unwrap_err().to_string();
    assert!(refused(b"").contains("is empty"));
    assert!(refused(b"PK\x03\x04").contains("begins with `P`"));
    assert!(refused(b"{\"a\": 1}").contains("holds no device event, but no event with a category"));
    let only_host = r#"[{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":1,"dur":1}]"#;
    assert!(refused(only_host.as_bytes()).contains("holds no device event, but 1 cpu_op"));
}

/// The programs of profiles.
fn programs_of(texts: &[String]) -> StepPrograms {
    stepsim::measure::profile::programs::programs(&read_all(texts)).unwrap()
}

/// The step that programs give when they are played, in nanoseconds.
fn played(programs: &StepPrograms) -> u64 {
    stepsim::measure::replay::check(programs).unwrap();
    stepsim::measure::replay::replay(programs).unwrap().round_ns()
}

#[test]
fn a_step_becomes_programs_whose_replay_is_the_step() {
    let events = [
        call("cudaLaunchKernel", "0", "2", 1),
        kernel("gemm_a", "5", "10", 7, 1),
        // Behind an event of stream 7.
        call("cudaStreamWaitEvent", "3", "1", 90),
        call("cudaLaunchKernel", "4", "1", 2),
        kernel("ncclDevKernel_AllReduce", "16", "20", 8, 2),
        call("cudaLaunchKernel", "6", "1", 3),
        kernel("gemm_b", "15", "8", 7, 3),
        // The host waits for all of it, works, and launches late.
        call("cudaDeviceSynchronize", "8", "30", 91),
        call("cudaLaunchKernel", "48", "1", 4),
        kernel("gemm_c", "50", "5", 7, 4),
    ];
    let text = format!("[{}]", events.join(","));
    let programs = programs_of(&[text]);
    let ops = programs.ranks[0].ops.iter();
    let collectives: Vec<&str> =
        ops.filter(|op| op.collective.is_some()).map(|op| op.name.as_str()).collect();
    assert_eq!(collectives, ["ncclDevKernel_AllReduce"]);
    // The step begins with gemm_a, at 5.
    assert_eq!((played(&programs), programs.measured_ns), (50_000, 50_000));
    let scaled = |class: &str, factor: f64| {
        let mut programs = programs.clone();
        let ops = programs.ranks[0].ops.iter_mut().filter(|op| op.class == class);
        ops.for_each(|op| op.ns = (op.ns as f64 * factor) as u64);
        played(&programs)
    };
    // The all-reduce holds up the host, and through it the last kernel; gemm_b does not.
    assert_eq!(scaled("NCCL", 0.5), 40_000);
    // The host's work before the last launch is 10, and 2 after the all-reduce in the synchronisation.
    assert_eq!(scaled("host", 0.0), 50_000 - 12_000);
    assert_eq!(scaled("other GEMM", 2.0), 50_000 + 10_000 + 5_000);
}

/// A step holds what is launched from its first moment up to its last, which is the next one's first.
#[test]
fn a_step_begins_with_its_first_moment() {
    let mark = |n: i64| {
        let start = 100 * n;
        format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{n}","pid":9,"tid":9,"ts":{start},"dur":100}}"#
        )
    };
    let launched = |name: &str, at: i64, id: i64| {
        let (launch, start) = (at.to_string(), (at + 5).to_string());
        [call("cudaLaunchKernel", &launch, "2", id), kernel(name, &start, "10", 7, id)]
    };
    let gemms = [("gemm_a", 50), ("gemm_b", 100), ("gemm_c", 150), ("gemm_d", 200)];
    let mut events = vec![mark(0), mark(1)];
    for (id, (name, at)) in (1..).zip(gemms) {
        events.extend(launched(name, at, id));
    }
    let text = format!("[{}]", events.join(","));
    let programs = programs_of(&[text]);
    let names: Vec<&str> = programs.ranks[0]
        .ops
        .iter()
        .map(|op| op.name.as_str())
        .filter(|name| name.starts_with("gemm"))
        .collect();
    assert_eq!(names, ["gemm_b", "gemm_c"]);
}

#[test]
fn real_steps_replay_as_measured() {
    let Some(traces) = traces() else { return };
    for run in [
        "nanogpt-8xh100",
        "ddp-2xa100",
        "ddp-resnet-ckpt-8xmi300x",
        "dlrm-8xv100",
        "resnet50-old-format",
        "qwen-0.5b-h100",
    ] {
        let mut files: Vec<_> =
            std::fs::read_dir(traces.join(run)).unwrap().map(|f| f.unwrap().path()).collect();
        files.sort();
        let profiles: Vec<_> = files.iter().flat_map(|f| read(f, &ClassTables::shipped()).unwrap()).collect();
        let programs = stepsim::measure::profile::programs::programs(&profiles).unwrap();
        let end = played(&programs) as f64;
        let measured = programs.measured_ns as f64;
        assert!((end / measured - 1.0).abs() < 0.02, "{run}: replayed {end} ns, measured {measured}");
        let one = stepsim::measure::profile::programs::programs(&profiles[..1]).unwrap();
        let end = played(&one) as f64;
        assert!(
            (end / one.measured_ns as f64 - 1.0).abs() < 0.001,
            "{run}, one rank: {end} {}",
            one.measured_ns
        );
    }
}

/// A profiler that runs in cycles writes several files of one rank, and a folder may hold another job's: neither are
/// ranks beside each other.
#[test]
fn files_that_do_not_belong_together_are_refused() {
    let folder = Folder::new();
    folder.stepsim("run tiny-4 -q --trace-ranks all --format kineto -o ranks").ok();
    folder.stepsim("analyze ranks").ok();
    let again = std::fs::copy(folder.path("ranks/rank1.json.gz"), folder.path("ranks/rank1.second.json.gz"));
    again.expect("a copy");
    for line in ["analyze ranks", "learn ranks --workload tiny-4"] {
        let said = folder.stepsim(line).refused();
        assert!(said.contains("is of rank 1, as ranks/rank1.json.gz is"), "{said}");
    }
    std::fs::remove_file(folder.path("ranks/rank1.second.json.gz")).unwrap();
    folder.stepsim("run gpt2-8 -q --trace-ranks 7 --format kineto -o ranks").ok();
    let said = folder.stepsim("analyze ranks").refused();
    assert!(said.contains("is of a job of 8 ranks, ranks/rank0.json.gz of 4"), "{said}");
}

/// Kernels without a length are passed over and counted, and devices of one file are told each by itself.
#[test]
fn lengths_are_known_and_devices_told_apart() {
    let kernel = |device: u32, at: u32, name: &str, dur: &str| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"{name}","ts":{at},{dur}"args":{{"device":{device},"stream":{at}}}}}"#
        )
    };
    let events = [
        kernel(0, 0, "gemm", r#""dur":100,"#),
        kernel(0, 100, "ncclKernel_AllReduce", r#""dur":50,"#),
        kernel(1, 100, "gemm", r#""dur":100,"#),
        kernel(1, 300, "gemm", r#""dur":NaN,"#),
        kernel(1, 400, "gemm", r#""dur":null,"#),
        kernel(1, 500, "gemm", ""),
    ];
    let report = of_text(format!(r#"{{"traceEvents":[{}]}}"#, events.join(",")).as_bytes()).unwrap();
    let rank = &report.ranks[0];
    assert_eq!(rank.skipped.get("events whose duration is no number"), Some(&3), "{:?}", rank.skipped);
    assert_eq!((rank.devices_ns["0"].comm_exposed, rank.devices_ns["1"].compute), (50_000, 100_000));
}
