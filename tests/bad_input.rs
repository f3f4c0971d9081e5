//! What a person reads who has made a mistake: every message whole. It names the file, the place in it, the value,
//! what is allowed, and what to do; the exit status is 2 for a wrong input and 1 for a run or a file that failed.

use std::path::Path;
use std::process::{Command as Process, Output};

use snapbox::cmd::Command;
use snapbox::{IntoData, str};

const STEPSIM: &str = env!("CARGO_BIN_EXE_stepsim");

/// Runs in a folder of its own and compares all that is printed; nothing may be left in the folder but `kept`.
fn fails(folder: &Path, args: &[&str], status: i32, message: impl IntoData, kept: &[&str]) {
    Command::new(STEPSIM)
        .args(args)
        .current_dir(folder)
        .env_remove("RUST_BACKTRACE")
        .assert()
        .code(status)
        .stdout_eq("")
        .stderr_eq(message);
    left(folder, kept);
}

/// What is in the folder.
fn left(folder: &Path, kept: &[&str]) {
    let files = std::fs::read_dir(folder).expect("a folder").flatten();
    let names: Vec<_> = files.map(|f| f.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(names, kept, "what is left behind");
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn refused(args: &[&str], message: impl IntoData) {
    fails(folder().path(), args, 2, message, &[]);
}

fn refused_bytes(subcommand: &str, bytes: &[u8], message: impl IntoData) {
    let folder = folder();
    std::fs::write(folder.path().join("mine.json"), bytes).expect("a file");
    let args = match subcommand {
        "diff" => vec!["diff", "mine.json", "mine.json"],
        _ => vec![subcommand, "mine.json"],
    };
    fails(folder.path(), &args, 2, message, &["mine.json"]);
}

fn refused_file(subcommand: &str, text: &str, message: impl IntoData) {
    refused_bytes(subcommand, text.as_bytes(), message);
}

fn refused_topology(text: &str, message: impl IntoData) {
    let folder = folder();
    std::fs::write(folder.path().join("machine.json"), text).expect("a file");
    fails(folder.path(), &["run", "gpt2-8", "--topology", "machine.json"], 2, message, &["machine.json"]);
}

#[test]
fn an_unknown_name() {
    refused(
        &["run", "lama3-70b"],
        str![[r#"
error: no workload has the name `lama3-70b`
  allowed: 11t-offload, [..]
  hint: did you mean `llama3-70b`, `llama3-70b-lora`, `llama3-70b-offload`? A path of your own ends in .json

"#]],
    );
    refused(
        &["run", "gpt2-8", "--topology", "dgx-a100-80"],
        str![[r#"
error: no topology has the name `dgx-a100-80`
  allowed: a10-8, a30-8, [..]
  hint: `dgx-a100-80` is a device; how many? `8xdgx-a100-80`

"#]],
    );
    refused(
        &["run", "gpt2-8", "--topology", "switch:8,450"],
        str![[r#"
error: switch:8,450: 3 values expected after `switch:`, 2 found
  allowed: switch:N,GBps,us  ring:N,GBps,us  line:N,GBps,us  mesh:N,GBps,us  torus:AxB[xC],GBps,us  nodes:K*G,GBps_in,us_in,GBps_out,us_out
  hint: for example switch:8,100,2 or torus:4x4x4,90,1

"#]],
    );
    refused(
        &["run", "gpt2-8", "--topology", "torus:4xx4,90,1"],
        str![[r#"
error: torus:4xx4,90,1: `` is not a whole number from 1 to 1,048,576
  allowed: switch:N,GBps,us  ring:N,GBps,us  line:N,GBps,us  mesh:N,GBps,us  torus:AxB[xC],GBps,us  nodes:K*G,GBps_in,us_in,GBps_out,us_out
  hint: for example switch:8,100,2 or torus:4x4x4,90,1

"#]],
    );
}

#[test]
fn an_unknown_field() {
    refused(
        &["run", "gpt2-8", "--set", "paralelism.tensor=2"],
        str![[r#"
error: --set paralelism.tensor=2: at `paralelism`: no such field: `paralelism`
  allowed: name, description, topology, model, sequence, batch, documents, modules, stack, parallelism, precision, optimizer, training, gradient_buckets, recompute, offload, fusion, loss, expert, expert_load, fidelity, noise
  hint: did you mean `parallelism`?

"#]],
    );
    // A number keeps the form in which one writes it.
    refused(
        &["run", "gpt2-8", "--set", "noise.compute_sigma=-1e-300"],
        str![[r#"
error: --set noise.compute_sigma=-1e-300: at `noise.compute_sigma`: -1e-300 is not allowed
  allowed: a number from 0 to 10

"#]],
    );
    // The machine's, not the workload's.
    refused(
        &["run", "gpt2-8", "--set", "nodes=3"],
        str![[r#"
error: --set nodes=3: at `nodes`: no such field: `nodes`
  allowed: name, description, topology, model, sequence, batch, documents, modules, stack, parallelism, precision, optimizer, training, gradient_buckets, recompute, offload, fusion, loss, expert, expert_load, fidelity, noise
  hint: `nodes` is the machine's: `--set topology.nodes=…`, or a field of the machine's file

"#]],
    );
    let file = r#"{"model": "gpt2-1.5b", "batch": {"global": 8, "microbatch": 1}}"#;
    refused_file(
        "run",
        file,
        str![[r#"
error: mine.json: at `batch.microbatch`: no such field: `microbatch`
  allowed: global, micro_batch
  hint: did you mean `micro_batch`?

"#]],
    );
}

#[test]
fn a_missing_field() {
    refused_file(
        "run",
        r#"{"model": "gpt2-1.5b"}"#,
        str![[r#"
error: mine.json: the field `batch` is missing
  hint: add "batch": …

"#]],
    );
    refused_file(
        "run",
        r#"{"model": "gpt2-1.5b", "batch": {}, "topology": "dgx-a100-8"}"#,
        str![[r#"
error: mine.json: at `batch`: the field `global` is missing
  hint: add "global": …

"#]],
    );
    let model = r#"{"model": {"name": "m", "layers": 2}, "batch": {"global": 8}}"#;
    refused_file(
        "run",
        model,
        str![[r#"
error: mine.json: at `model`: the field `hidden` is missing
  hint: add "hidden": …

"#]],
    );
    refused_file(
        "run",
        r#"{"model": "gpt2-1.5b", "batch": {"global": 8}}"#,
        str![[r#"
error: mine.json: at `topology`: the workload names no topology
  hint: give one with --topology; `stepsim list` shows those that are shipped

"#]],
    );
}

#[test]
fn a_wrong_type() {
    refused(
        &["run", "gpt2-8", "--set", "batch.global=many"],
        str![[r#"
error: --set batch.global=many: at `batch.global`: "many" is not allowed
  allowed: a whole number, not negative

"#]],
    );
    refused(
        &["run", "gpt2-8", "--set", "parallelism=[1,2]"],
        str![[r#"
error: --set parallelism=[1,2]: at `parallelism[1]`: 2 is not allowed
  allowed: true or false

"#]],
    );
    refused(
        &["run", "gpt2-8", "--set", "parallelism.sequence_parallel=1"],
        str![[r#"
error: --set parallelism.sequence_parallel=1: at `parallelism.sequence_parallel`: 1 is not allowed
  allowed: true or false

"#]],
    );
    refused(
        &["run", "gpt2-8", "--set", "topology.nodes=1.5"],
        str![[r#"
error: --set topology.nodes=1.5: at `nodes`: 1.5 is not allowed
  allowed: a whole number from 1 to 1,048,576

"#]],
    );
    refused(
        &["run", "gpt2-8", "--set", "parallelism.pipeline.schedule=gpipes"],
        format!(
            "error: --set parallelism.pipeline.schedule=gpipes: at `parallelism.pipeline.schedule`: no such choice: \
             `gpipes`\n  allowed: {}, file\n  hint: did you mean `gpipe`?\n",
            stepsim::step::schedule::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
        ),
    );
}

#[test]
fn what_is_no_json() {
    refused_file(
        "run",
        r#"{"model": "gpt2-1.5b", // the small one"#,
        str![[r#"
error: mine.json: key must be a string at line 1 column 24
  hint: JSON has no comments, no trailing commas, no NaN and no Infinity; strings take double quotes

"#]],
    );
    refused_file(
        "run",
        "[1, 2]",
        str![[r#"
error: mine.json: a workload file holds a JSON object
  hint: see `stepsim schema`

"#]],
    );
    refused_file(
        "run",
        r#"{"batch": {"global": 8}, "batch": {"global": 16}}"#,
        str![[r#"
error: mine.json: the key `batch` stands here twice at line 1 column 32
  hint: keep one of the two

"#]],
    );
    refused_file(
        "run",
        "",
        str![[r#"
error: mine.json: EOF while parsing a value at line 1 column 0
  hint: JSON has no comments, no trailing commas, no NaN and no Infinity; strings take double quotes

"#]],
    );
}

#[test]
fn numbers_that_are_none() {
    refused_file(
        "run",
        r#"{"model": "gpt2-1.5b", "batch": {"global": NaN}}"#,
        str![[r#"
error: mine.json: at `batch.global`: expected value at line 1 column 44
  hint: JSON has no comments, no trailing commas, no NaN and no Infinity; strings take double quotes

"#]],
    );
    refused(
        &["run", "gpt2-8", "--set", "topology.device.hbm.GBps=NaN"],
        str![[r#"
error: --set topology.device.hbm.GBps=NaN: at `device.hbm.GBps`: "NaN" is not allowed
  allowed: a number above 0, at most 1e12

"#]],
    );
    refused(
        &["run", "gpt2-8", "--set", "topology.device.hbm.GBps=1e999"],
        str![[r#"
error: --set topology.device.hbm.GBps=1e999: number out of range at line 1 column 5
  hint: numbers end at 1.8e308

"#]],
    );
    refused(
        &["run", "gpt2-8", "--set", "noise.compute_sigma=inf"],
        str![[r#"
error: --set noise.compute_sigma=inf: at `noise.compute_sigma`: "inf" is not allowed
  allowed: a number

"#]],
    );
}

#[test]
fn zero_and_negative_sizes() {
    refused(
        &["run", "gpt2-8", "--set", "batch.global=0"],
        str![[r#"
error: --set batch.global=0: at `batch.global`: 0 is not allowed
  allowed: a whole number from 1 to 100000000

"#]],
    );
    refused(
        &["run", "gpt2-8", "--set", "batch.micro_batch=-4"],
        str![[r#"
error: --set batch.micro_batch=-4: at `batch.micro_batch`: -4 is not allowed
  allowed: a whole number, not negative

"#]],
    );
    refused(
        &["run", "gpt2-8", "--set", "parallelism.tensor=0"],
        str![[r#"
error: --set parallelism.tensor=0: at `parallelism.tensor`: 0 is not allowed
  allowed: a whole number from 1 to 100000000

"#]],
    );
    refused(
        &["run", "gpt2-8", "--set", "model.layers=0"],
        str![[r#"
error: --set model.layers=0: at `model.layers`: 0 is not allowed
  allowed: a whole number from 1 to 100000

"#]],
    );
    refused(
        &["run", "gpt2-8", "--set", "topology.nodes=0"],
        str![[r#"
error: --set topology.nodes=0: at `nodes`: 0 is not allowed
  allowed: a whole number from 1 to 1,048,576

"#]],
    );
    refused(
        &["run", "gpt2-8", "--set", "topology.node.scale_up.switch.link.bandwidth_GBps_per_direction=0"],
        str![[r#"
error: --set topology.node.scale_up.switch.link.bandwidth_GBps_per_direction=0: at `node.scale_up.switch.link.bandwidth_GBps_per_direction`: 0 is not allowed
  allowed: a number above 0, at most 1e12

"#]],
    );
    refused(
        &["run", "gpt2-8", "--set", "topology.device.hbm.GB=-80"],
        str![[r#"
error: --set topology.device.hbm.GB=-80: at `device.hbm.GB`: -80 is not allowed
  allowed: a number above 0, at most 1,073,741,824

"#]],
    );
    refused(
        &["run", "gpt2-8", "--topology", "switch:8,-450,1"],
        str![[r#"
error: switch:8,-450,1: bandwidth `-450` is not a number above 0 to 1e9
  allowed: switch:N,GBps,us  ring:N,GBps,us  line:N,GBps,us  mesh:N,GBps,us  torus:AxB[xC],GBps,us  nodes:K*G,GBps_in,us_in,GBps_out,us_out
  hint: for example switch:8,100,2 or torus:4x4x4,90,1

"#]],
    );
}

#[test]
fn sizes_that_overflow() {
    refused(
        &["run", "gpt2-8", "--set", "batch.global=18446744073709551616"],
        str![[r#"
error: --set batch.global=18446744073709551616: at `batch.global`: 1.8446744073709552e+19 is not allowed
  allowed: a whole number, not negative

"#]],
    );
    refused(
        &["run", "gpt2-8", "--set", "model.hidden=9223372036854775807"],
        str![[r#"
error: --set model.hidden=9223372036854775807: at `model.hidden`: 9223372036854775807 is not allowed
  allowed: a whole number from 1 to 10000000

"#]],
    );
    refused(
        &["run", "gpt2-8", "--set", "topology.nodes=4294967297"],
        str![[r#"
error: --set topology.nodes=4294967297: at `nodes`: 4294967297 is not allowed
  allowed: a whole number from 1 to 1,048,576

"#]],
    );
    refused(
        &["run", "gpt2-8", "--set", "parallelism.tensor=4294967296", "--set", "parallelism.data=4294967296"],
        str![[r#"
error: --set parallelism.tensor=4294967296: at `parallelism.tensor`: 4294967296 is not allowed
  allowed: a whole number from 1 to 100000000

"#]],
    );
    refused(
        &["run", "gpt2-8", "--topology", "switch:99999999999999999999,450,1"],
        str![[r#"
error: switch:99999999999999999999,450,1: `99999999999999999999` is not a whole number from 1 to 1,048,576
  allowed: switch:N,GBps,us  ring:N,GBps,us  line:N,GBps,us  mesh:N,GBps,us  torus:AxB[xC],GBps,us  nodes:K*G,GBps_in,us_in,GBps_out,us_out
  hint: for example switch:8,100,2 or torus:4x4x4,90,1

"#]],
    );
}

/// A step that is well-formed but would take more memory than a machine has is refused before it is built.
#[test]
fn more_work_than_fits_in_memory() {
    refused(
        &["run", "gpt2-8", "--no-jump", "--set", "stack=simple", "--set", "batch.global=64000000"],
        str![[r#"
error: --set batch.global=64000000: at `batch.global`: 64000000 sequences make programs of 2324000000 ops
  allowed: at most 67108864 ops, which take about 6 GB
  hint: lower batch.global (later micro-batches repeat the earlier ones), or raise batch.micro_batch

"#]],
    );
}

#[test]
fn degrees_that_do_not_multiply_to_the_devices() {
    refused(
        &["run", "gpt2-8", "--set", "parallelism.data=4"],
        str![[r#"
error: --set parallelism.data=4: at `parallelism.data`: 4 is not allowed
  allowed: degrees that multiply to the 8 devices of the topology
  hint: tensor 1 × context 1 × pipeline 1 × data 4 = 4; data = 8 would fit, and so would leaving it out

"#]],
    );
    refused(
        &["run", "gpt2-8", "--set", "parallelism.data=null", "--set", "parallelism.tensor=5"],
        str![[r#"
error: --set parallelism.tensor=5: at `parallelism`: tensor 5 × context 1 × pipeline 1 is not allowed
  allowed: degrees whose product divides the 8 devices of the topology
  hint: 5 ranks hold one model; 8 is no multiple of it

"#]],
    );
    refused(
        &["run", "gpt3-175b", "--topology", "h100-superpod-64"],
        str![[r#"
error: workloads/gpt3-175b.json: at `parallelism.data`: 16 is not allowed
  allowed: degrees that multiply to the 64 devices of the topology
  hint: tensor 8 × context 1 × pipeline 8 × data 16 = 1024; data = 1 would fit, and so would leaving it out

"#]],
    );
}

#[test]
fn degrees_that_do_not_divide() {
    refused(
        &["run", "gpt2-8", "--set", "parallelism.tensor=8", "--set", "parallelism.data=1"],
        str![[r#"
error: --set parallelism.tensor=8: at `parallelism.tensor`: 8 is not allowed
  allowed: a divisor of the model's heads (25)
  hint: each tensor-parallel rank holds an equal share

"#]],
    );
    refused(
        &["run", "gpt2-8", "--set", "batch.global=36"],
        str![[r#"
error: --set batch.global=36: at `batch.global`: 36 is not allowed
  allowed: a multiple of data × micro_batch = 8 × 4 = 32
  hint: each data-parallel rank needs a whole number of micro-batches

"#]],
    );
    refused(
        &["run", "llama3-70b", "--set", "parallelism.pipeline.chunks=40"],
        str![[r#"
error: workloads/llama3-70b.json: at `parallelism.pipeline.size`: 4 is not allowed
  allowed: size × chunks of at most the model's 80 layers
  hint: a stage without layers needs layer_split

"#]],
    );
}

#[test]
fn a_device_that_is_not_in_the_catalogue() {
    refused(
        &["run", "gpt2-8", "--set", "topology.device=h100-smx"],
        str![[r#"
error: --set topology.device=h100-smx: at `device`: no device has the name `h100-smx`
  allowed: a10, a100-pcie-80, [..]
  hint: did you mean `h100-sxm`? A path of your own ends in .json

"#]],
    );
    let machine = r#"{"device": "h1000", "node": {"devices": 2}}"#;
    refused_topology(
        machine,
        str![[r#"
error: machine.json: at `device`: no device has the name `h1000`
  allowed: a10, a100-pcie-80, [..]
  hint: [..]path of your own [..]ends in .json

"#]],
    );
}

#[test]
fn a_graph_that_falls_apart() {
    let machine = r#"{"device": "h100-sxm", "graph": {
        "vertices": [{"name": "a", "kind": "device"}, {"name": "b", "kind": "device"}, {"name": "c", "kind": "device"}],
        "links": [{"from": "a", "to": "b", "link": {"bandwidth_GBps_per_direction": 50}}]}}"#;
    refused_topology(
        machine,
        str![[r#"
error: machine.json: at `graph.links`: the graph falls apart: 1 of 3 vertices cannot be reached from `a`
  hint: link these to the rest, or remove them: c

"#]],
    );
    refused_topology(
        r#"{"device": "h100-sxm", "nodes": 2, "node": {"devices": 4}}"#,
        str![[r#"
error: machine.json: at `nodes`: 2 nodes, but nothing joins them
  hint: add "fabric", or set "nodes": 1

"#]],
    );
}

#[test]
fn a_tier_that_the_machine_lacks() {
    refused(
        &["run", "llama3-70b-offload", "--topology", "switch:8,450,1"],
        str![[r#"
error: workloads/llama3-70b-offload.json: at `offload.weights[0].tier`: "host" is not allowed
  allowed: a memory tier of the topology: hbm
  hint: add the tier to the topology, or place the share elsewhere

"#]],
    );
}

#[test]
fn files_that_cannot_be_read() {
    refused(
        &["run", "missing.json"],
        str![[r#"
error: missing.json: cannot be read: No such file or directory (os error 2)
  hint: check the path; a shipped file is named without folder and without .json

"#]],
    );
    refused(
        &["run", "./"],
        str![[r#"
error: ./: cannot be read: Is a directory (os error 21)
  hint: check the path; a shipped file is named without folder and without .json

"#]],
    );
    refused(
        &["run", "gpt2-8", "--topology", "missing/machine.json"],
        str![[r#"
error: missing/machine.json: cannot be read: No such file or directory (os error 2)
  hint: check the path; a shipped file is named without folder and without .json

"#]],
    );
    refused_bytes(
        "run",
        b"\xff\xfe{}",
        str![[r#"
error: mine.json: cannot be read: the file is not UTF-8 text
  hint: check the path; a shipped file is named without folder and without .json

"#]],
    );
    refused_file(
        "run",
        r#"{"base": "mine.json"}"#,
        str![[r#"
error: mine.json: at `base`: more than 8 files stand on one another
  hint: does a base name a file that stands on it?

"#]],
    );
    refused(
        &["diff", "a.json", "b.json"],
        str![[r#"
error: a.json: cannot be read: No such file or directory (os error 2)
  allowed: a report, a workload, or a profile (`--help`)

"#]],
    );
    refused_file(
        "diff",
        r#"{"workload": "w"}"#,
        str![[r#"
error: mine.json: is no report, no workload and no profile
  allowed: what `stepsim run --report` wrote, a workload, or what torch.profiler exports

"#]],
    );
}

/// Weights, gradients and optimizer state of 175 billion parameters on eight devices.
#[test]
fn a_model_that_cannot_fit() {
    let sets = [
        "parallelism.pipeline.size=1",
        "parallelism.pipeline.chunks=null",
        "parallelism.pipeline.schedule=1f1b",
    ];
    let mut args = vec!["run", "gpt3-175b", "--topology", "h100-superpod-8", "--set", "parallelism.data=1"];
    sets.iter().for_each(|s| args.extend(["--set", s]));
    fails(
        folder().path(),
        &args,
        3,
        str![[r#"
error: out of memory at 0 ps on rank 0: the state before the step needs 81.42 GiB on tier `hbm`, which holds 40.71 GiB of 79.65 GiB:
  weights      40.71 GiB
  what to do: recompute activations, shard or offload what is largest, or use a smaller micro-batch

"#]],
        &[],
    );
}

/// A link so slow that the clock would run over.
#[test]
fn a_step_that_never_ends() {
    let args = ["run", "tiny-4", "--topology", "switch:4,1e-12,1"];
    fails(
        folder().path(),
        &args,
        1,
        str![[r#"
error: the step takes more than 9223372.037 s of simulated time
  what to do: look for a bandwidth, an efficiency or a peak that is far too small (`stepsim inspect`)

"#]],
        &[],
    );
}

/// `stepsim run gpt2-8 -q` with more arguments.
fn cannot(more: &[&str], status: i32, message: impl IntoData) {
    let args: Vec<&str> = ["run", "gpt2-8", "-q"].iter().chain(more).copied().collect();
    fails(folder().path(), &args, status, message, &[]);
}

#[test]
fn files_that_cannot_be_written() {
    cannot(
        &["-o", "step.txt"],
        2,
        str![[r#"
error: cannot tell the format of trace `step.txt` from its name; end it in .json, .json.gz, .pftrace or .pftrace.gz

"#]],
    );
    cannot(
        &["-o", "missing/step.json"],
        1,
        str![[r#"
error: cannot create `missing/step.json`: No such file or directory (os error 2); make the folder first, or choose another path

"#]],
    );
    cannot(
        &["-o", "/dev/null/step.json"],
        1,
        str![[r#"
error: cannot create `/dev/null/step.json`: Not a directory (os error 20); name a file in a folder that exists

"#]],
    );
    cannot(
        &["--report", "missing/report.json"],
        1,
        str![[r#"
error: cannot create `missing/report.json`: No such file or directory (os error 2); make the folder first, or choose another path

"#]],
    );
    cannot(
        &["--report", "."],
        1,
        str![[r#"
error: cannot create `.`: is a directory; name a file in a folder that exists

"#]],
    );
    cannot(
        &["-o", "step.json", "--trace-ranks", "0-8"],
        2,
        str![[r#"
error: --trace-ranks 0-8: `0-8` is not in the run
  allowed: numbers and ranges from 0 to 7 like `0,8,16-31`, `all`, or `stages`

"#]],
    );
}

/// A device that is always full, where the system has one.
#[test]
fn a_full_device() {
    if !Path::new("/dev/full").exists() {
        println!("skipped: no /dev/full here");
        return;
    }
    let args = ["run", "gpt2-8", "-q", "-o", "/dev/full"];
    fails(
        folder().path(),
        &args,
        1,
        str![[r#"
error: cannot write `/dev/full`: No space left on device (os error 28); free space there, choose another disk, or write less (fewer ranks, a window, .gz); nothing was left under that name

"#]],
        &[],
    );
}

#[test]
fn tables_of_collectives_that_do_not_hold_together() {
    let with = |json: &str, message: &str| {
        let setting = format!("collectives={json}");
        let message = format!("error: --set {setting}: at `collectives.{message}\n");
        refused(&["collective", "-t", "switch:8,100,1", "--op", "all-reduce", "--set", &setting], message);
    };
    let table =
        |points: &str| format!(r#"{{"measured":[{{"op":"all-reduce","ranks":8,"points":[{points}]}}]}}"#);
    with(
        &table(r#"{"bytes":1024,"time_us":5}"#),
        "measured[0].points`: 1 point(s), between which nothing can be interpolated\n  allowed: at least two",
    );
    with(
        &table(r#"{"bytes":1024,"time_us":5},{"bytes":2048,"time_us":4}"#),
        "measured[0].points[1]`: 2048 bytes in 4 us after 1024 bytes in 5 us\n  allowed: sizes that grow and times \
         that do not fall\n  hint: sort by size, and average what was measured repeatedly",
    );
    let names: Vec<&str> =
        stepsim::step::collective::ALGORITHMS.iter().map(|algorithm| algorithm.name()).collect();
    with(
        r#"{"rules":[{"algorithm":"rang"}]}"#,
        &format!("rules[0].algorithm`: \"rang\" is no algorithm\n  allowed: {}", names.join(", ")),
    );
}

/// Runs with files limited to 64 KiB, after `before`.
fn limited(folder: &Path, before: &str, args: &str) -> Output {
    let script = format!("{before} ulimit -f 128; exec \"$0\" {args}");
    Process::new("bash").args(["-c", &script, STEPSIM]).current_dir(folder).output().expect("bash")
}

/// The disk fills in mid-write: the error says so, nothing is left, and a file of that name from before is untouched.
#[test]
fn a_disk_that_fills_in_mid_write() {
    for file in ["step.json", "step.json.gz", "step.pftrace"] {
        let folder = folder();
        let args = format!("run llama3-70b --set stack=simple -q -o {file}");
        let output = limited(folder.path(), "trap '' XFSZ;", &args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_eq!(
            said,
            format!(
                "error: cannot write `{file}`: File too large (os error 27); choose another path; \
                 nothing was left under that name\n"
            )
        );
        left(folder.path(), &[]);
        std::fs::write(folder.path().join(file), "from before").expect("a file");
        limited(folder.path(), "trap '' XFSZ;", &args);
        left(folder.path(), &[file]);
        assert_eq!(std::fs::read(folder.path().join(file)).expect("a file"), b"from before");
    }
}

/// Ended in mid-write by a limit of the shell, nothing stands under the final name.
#[test]
fn a_run_that_is_killed_in_mid_write() {
    let folder = folder();
    let output = limited(folder.path(), "", "run llama3-70b --set stack=simple -q -o step.json");
    assert_eq!(output.status.code(), Some(1));
    assert!(!folder.path().join("step.json").exists());
}

#[test]
fn a_number_format_without_a_peak() {
    refused(
        &["run", "gpt2-8", "--set", "precision.compute=fp8"],
        str![[r#"
error: --set precision.compute=fp8: at `precision.compute`: fp8 is not allowed
  allowed: fp32, tf32, bf16, fp16 (formats with a peak on NVIDIA A100 SXM4 80GB)
  hint: choose one of these, or another machine, or add the device's peak to its file

"#]],
    );
}

#[test]
fn a_window_after_the_run() {
    refused(
        &["run", "tiny-4", "-o", "step.json", "--window-ms", "5e6:6e6"],
        str![[r#"
error: --window-ms 5000000:…: nothing lies in it, the run ends after [..]s

"#]],
    );
}

#[test]
fn experts_that_cannot_be_reached_or_divided() {
    refused(
        &["run", "deepseek-v3", "--set", "model.moe.group_limit=9"],
        str![[r#"
error: --set model.moe.group_limit=9: at `model.moe.group_limit`: 9 is not allowed
  allowed: 1 to 8 (moe.groups)
  hint: a token's experts must fit into its groups

"#]],
    );
    refused(
        &["run", "deepseek-v3", "--set", "model.moe.group_limit=1", "--set", "model.moe.top_k=33"],
        str![[r#"
error: --set model.moe.group_limit=1: at `model.moe.group_limit`: 1 is not allowed
  allowed: 2 to 8 (moe.groups)
  hint: a token's experts must fit into its groups

"#]],
    );
    refused(
        &["run", "deepseek-v3", "--set", "model.moe.groups=7"],
        str![[r#"
error: --set model.moe.groups=7: at `model.moe.groups`: 7 is not allowed
  allowed: a divisor of moe.experts (256)
  hint: groups hold equally many experts

"#]],
    );
    refused(
        &["run", "deepseek-v3", "--set", "parallelism.expert=48"],
        str![[r#"
error: --set parallelism.expert=48: at `parallelism.expert`: 48 is not allowed
  allowed: a divisor of the model's 256 experts
  hint: each rank holds the same number of experts

"#]],
    );
    // More nodes a token than there are: 16 ranks lie on two.
    refused(
        &["run", "deepseek-v3", "--set", "parallelism.expert=16", "--set", "expert.domains_per_token=3.953"],
        str![[r#"
error: --set expert.domains_per_token=3.953: at `expert.domains_per_token`: 3.953 is not allowed
  allowed: 1 to 2, the nodes over which 16 expert-parallel ranks lie
  hint: set it to null to have it counted from groups and their limit

"#]],
    );
}

#[test]
fn recipes_that_fit_neither_device_nor_model() {
    refused(
        &["run", "qwen3-30b-a3b", "--set", "precision.recipe=nvfp4"],
        str![[r#"
error: --set precision.recipe=nvfp4: at `precision.recipe`: a recipe that needs fp4 is not allowed
  allowed: a recipe of formats that the device multiplies
  hint: see peak_dense_TFLOPs of the device: MXFP8 and NVFP4 need Blackwell or its like

"#]],
    );
    refused(
        &["run", "gpt2-8", "--set", "precision.recipe=fp8-current"],
        str![[r#"
error: --set precision.recipe=fp8-current: at `precision.recipe`: a recipe that needs fp8 is not allowed
  allowed: a recipe of formats that the device multiplies
  hint: see peak_dense_TFLOPs of the device: MXFP8 and NVFP4 need Blackwell or its like

"#]],
    );
    refused(
        &["run", "qwen3-30b-a3b", "--set", "precision.recipe=fp8-block", "--set", "model.hidden=2000"],
        str![[r#"
error: --set precision.recipe=fp8-block: at `precision.recipe`: a recipe with scales for 128 elements is not allowed
  allowed: one that divides 2000 (model.hidden)
  hint: choose a recipe with one factor a tensor, or other sizes

"#]],
    );
    refused(
        &["run", "deepseek-v3", "--set", "model.prediction_modules=9"],
        str![[r#"
error: --set model.prediction_modules=9: at `model.prediction_modules`: 9 is not allowed
  allowed: 0 to 8
  hint: DeepSeek-V3 has 1; the field of configuration files is num_nextn_predict_layers

"#]],
    );
}

/// What would take minutes or more is refused at once, with what can be had.
#[test]
fn what_never_ends_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let said = |args: &[&str]| {
        let done = std::process::Command::new(env!("CARGO_BIN_EXE_stepsim"))
            .args(args)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_eq!(done.status.code(), Some(2), "{args:?}");
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    let model = r#"{"base": "mixtral-8x7b", "moe": {"experts": 100000, "top_k": 50000}}"#;
    let experts = format!(
        r#"{{"topology": "64xh100", "model": {model}, "batch": {{"global": 64}}, "parallelism": {{"expert": 32}}}}"#
    );
    std::fs::write(folder.path().join("w.json"), experts).unwrap();
    assert!(said(&["run", "./w.json"]).contains("model.moe.top_k"));
    let all = ["collective", "-t", "switch:1048576,400,1", "--op", "all-to-all", "--bytes", "1Mi"];
    assert!(said(&all).contains("a message for each pair"));
    // Nor is a step read that took less than nothing.
    stepsim_report(folder.path());
    assert!(said(&["diff", "below.json", "below.json"]).contains("step_time_s"));
}

/// A report whose step ends before it begins.
fn stepsim_report(folder: &std::path::Path) {
    let run = ["run", "tiny-4", "-q", "--report", "below.json"];
    let done =
        std::process::Command::new(env!("CARGO_BIN_EXE_stepsim")).args(run).current_dir(folder).status();
    assert!(done.unwrap().success());
    let path = folder.join("below.json");
    let mut report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    report["step_time_s"] = (-1.0).into();
    std::fs::write(path, report.to_string()).unwrap();
}
