//! The hot loops by CPU time and, under valgrind, by instructions: event loop, sharing, fold, closed form, trace
//! writer.
//!
//! ```text
//! cargo bench --bench hot_loops                     every loop: millions of items per CPU second, peak memory of each
//! cargo bench --bench hot_loops -- LOOP N           one loop with N items (what `.ci/instructions` runs)
//! ```
//! Items of a shipped workload are whole runs, of which the rate counts the ops.
//! CPU time, not wall time, because other work on the machine would count otherwise. Linux only: it reads /proc.

use std::hint::black_box;
use std::io::{self, Write};
use std::process::Command;

use cpu_time::ProcessTime;
use stepsim::core::engine::{self, Observer, sharing::Sharing};
use stepsim::core::fold::fold;
use stepsim::core::ids::{DeviceId, OpId, ProgramId, ResourceId, TransferId};
use stepsim::core::program::{Action, Flow, OpInfo, Phase, ProgramBuilder, StreamKind, Work, World};
use stepsim::core::units::{Bandwidth, Time};
use stepsim::fabric::collective::{Chooser, Fidelity, Lowering, Op, Transfer, algorithm};
use stepsim::fabric::topology::Machine;
use stepsim::form::analytic::ClosedForm;
use stepsim::form::compare::Estimators;
use stepsim::form::compare::workload::closed_form;
use stepsim::read::trace::writer::{Chrome, Sink, Slice, Value};
use stepsim::simulate::jump::figures;
use stepsim::simulate::{Inputs, Options, Simulation, Site};
use stepsim::spec::{WorkloadSpec, load};

/// A fixed sequence of draws (xorshift64, Marsaglia 2003).
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// What limits of instructions are counted in: so many draws, sorted and divided. Nothing of stepsim is in it.
fn reference(items: u64) {
    let mut draws = Draws(88_172_645_463_325_252);
    let mut all: Vec<u64> = (0..items).map(|_| draws.next()).collect();
    all.sort_unstable();
    black_box(all.iter().zip(1..).fold(0u64, |sum, (draw, i)| sum.wrapping_add(draw % i)));
}

fn info(name: &'static str) -> OpInfo {
    OpInfo::of(name, Phase::Forward, 0.0)
}

/// `ranks` ranks of 8 roles, `ops` ops each on two streams. Every third op is a collective of 8 ranks that waits for
/// the kernel before it; the kernel after it waits for the collective before that.
fn nothing_shared(ranks: u64, ops: u64) -> World {
    let mut world = World::default();
    let mut draws = Draws(88_172_645_463_325_252);
    for _ in 0..8 {
        let mut b = ProgramBuilder::new();
        b.info(info("op"));
        let streams = [b.stream(StreamKind::Compute), b.stream(StreamKind::Tensor)];
        let mut collectives: Vec<OpId> = Vec::new();
        let mut last = None;
        for i in 0..ops {
            if i % 3 == 2 {
                let waits: Vec<OpId> = last.into_iter().collect();
                let work = Work::Comm { slot: 0, transfer: TransferId(0) };
                collectives.push(b.op(streams[1], work, &waits, 0, 0));
            } else {
                let n = collectives.len();
                let waits: Vec<OpId> =
                    (i % 3 == 0 && n >= 2).then(|| collectives[n - 2]).into_iter().collect();
                let time = Time(50_000_000 + draws.next() % 100_000_000);
                last = Some(b.op(streams[0], Work::Compute { time }, &waits, 0, 0));
            }
        }
        world.add_program(b.finish());
    }
    let action = world.add_action(Action::Fixed(Time::from_ns(60_000)));
    world.add_profile([action]);
    for group in 0..ranks / 8 {
        let members: Vec<_> = (0..8).map(|_| world.add_rank(ProgramId(group as u32 % 8), 1)).collect();
        let comm = world.add_comm(0, &members, &[]);
        members.iter().for_each(|r| world.bind(*r, 0, comm));
    }
    world
}

fn event_loop(items: u64) {
    let world = nothing_shared(1024, items.div_ceil(1024));
    black_box(engine::run(&world).expect("a run"));
}

/// A shipped workload of kernels alone: what hosts launch is half as many ops again, and moves with its prices.
fn bare(name: &str, sets: &[&str]) -> Inputs {
    let sets: Vec<String> = ["stack=simple"].iter().chain(sets).map(ToString::to_string).collect();
    Inputs::load(name, None, &sets).expect("a shipped workload")
}

/// The event loop on a shipped workload, folded, nothing jumped and nothing recorded: so many runs. Returns their ops.
fn shipped(name: &str, runs: u64) -> u64 {
    struct Nothing;
    impl Observer for Nothing {
        fn finished(&mut self, _: u32, _: u32, _: Time, _: Time) {}
    }
    let inputs = bare(name, &[]);
    let world = Simulation::run(&inputs, &Options::default()).expect("a run").folded.world;
    for _ in 0..runs {
        black_box(engine::run_observed(&world, &mut Nothing).expect("a run"));
    }
    runs * world.op_instances()
}

/// A step of Llama-3 70B with noise on each rank, so that nothing folds: so many replicas of 128 ranks whose
/// gradients and sends share their ports. Returns its ops.
fn noise(replicas: u64) -> u64 {
    let sets = [
        "model=llama3-70b".into(),
        format!("topology.nodes={}", 16 * replicas),
        r#"parallelism.pipeline={"size":16,"schedule":"1f1b"}"#.into(),
        format!("parallelism.data={replicas}"),
        format!("batch.global={}", 8 * replicas),
        "noise.compute_sigma=0.02".into(),
    ];
    let inputs = Inputs::load("llama3-405b", Some("h100-superpod"), &sets).expect("a shipped workload");
    Simulation::run(&inputs, &Options::default()).expect("a run").folded.world.op_instances()
}

/// So many steps of a workload that differ in their noise. Returns their ops.
fn samples(name: &str, count: u64) -> u64 {
    let inputs = bare(name, &["noise.compute_sigma=0.02"]);
    let run = Simulation::run(&inputs, &Options::default()).expect("a run");
    let report = run.sample(0, count as u32, &mut |_| ()).expect("samples");
    black_box(report);
    count * run.plan.world.op_instances()
}

/// Every pair of ranks sends to each other, transfer by transfer: about so many. Lowered, folded and played.
fn all_to_all_in_steps(transfers: u64) -> u64 {
    let (_, machine) = Machine::load("h100-superpod-1024", &[]).expect("a shipped machine");
    let ranks = (transfers.isqrt() / 8 * 8) as u32;
    let mut world = machine.world();
    let chooser = Chooser::always(algorithm("direct").expect("known"), None);
    let mut lowering = Lowering::new(&machine, Fidelity::Steps, chooser);
    let transfer = lowering.transfer(Transfer::new(Op::AllToAll, 1 << 20));
    let mut b = ProgramBuilder::new();
    b.info(info("all-to-all"));
    let stream = b.stream(StreamKind::Expert);
    b.op(stream, Work::Comm { slot: 0, transfer }, &[], 0, 0);
    let program = world.add_program(b.finish());
    let members: Vec<_> = (0..ranks).map(|_| world.add_rank(program, 1)).collect();
    let devices: Vec<_> = (0..ranks).map(DeviceId).collect();
    let comm = lowering.comm(&mut world, &members, &devices, &[transfer]).expect("a group");
    members.iter().for_each(|rank| world.bind(*rank, 0, comm));
    black_box(engine::run(&fold(&world).world).expect("a run"));
    u64::from(ranks) * u64::from(ranks - 1)
}

fn event_loop_8192(items: u64) {
    let world = nothing_shared(8192, items.div_ceil(8192));
    black_box(engine::run(&world).expect("a run"));
}

/// `n` flows, each over its own port and one of 64 rails that they can fill, leave and come one after another.
fn sharing_rails(n: u64) {
    sharing_over(n, 1600e9);
}

/// The same over rails that no number of them fills.
fn sharing_spare(n: u64) {
    sharing_over(n, n as f64 * 50e9);
}

fn sharing_over(n: u64, rail: f64) {
    let capacity = (0..n + 64).map(|r| if r < n { 50e9 } else { rail }).collect();
    leave_and_come(n, capacity, 1000, |f| [f, n + f % 64]);
}

/// `n` flows, each over its own port, one of 64 rails and the spine that all share; 10 times one leaves and another
/// comes, and all are shared anew.
fn sharing_one_component(n: u64) {
    let capacities = [(n, 50e9), (64, 1600e9), (1, 40_000e9)];
    let capacity = capacities.into_iter().flat_map(|(ports, each)| (0..ports).map(move |_| each)).collect();
    leave_and_come(n, capacity, 10, |f| [f, n + f % 64, n + 64]);
}

/// `n` flows over what each crosses, of which one leaves and another comes so many times.
fn leave_and_come<const N: usize>(n: u64, capacity: Vec<f64>, turns: u64, crossed: impl Fn(u64) -> [u64; N]) {
    let uses: Vec<(ResourceId, u32)> =
        (0..n).flat_map(|f| crossed(f).map(|r| (ResourceId(r as u32), 1))).collect();
    let mut sharing = Sharing::new(capacity, &uses);
    let path = |f: u64| N as u32 * f as u32..N as u32 * (f as u32 + 1);
    let ids: Vec<_> = (0..n).map(|f| sharing.insert(Time::ZERO, 1e9, f64::INFINITY, path(f)).0).collect();
    sharing.solve(Time::ZERO, |_, _| {});
    for i in 0..turns {
        let f = i * 7919 % n;
        sharing.remove(ids[f as usize]);
        sharing.insert(Time(i), 1e9, f64::INFINITY, path(f));
        sharing.solve(Time(i), |id, finish| {
            black_box((id, finish));
        });
    }
}

/// All pairs of 432 hosts send at once: 186,192 flows in one component.
fn all_to_all_432(hosts: u64) {
    let mut world = World::default();
    for _ in 0..2 * hosts {
        world.add_resource(Bandwidth(12.5e9));
    }
    let mut b = ProgramBuilder::new();
    b.info(info("all-to-all"));
    let s = b.stream(StreamKind::Expert);
    b.op(s, Work::Comm { slot: 0, transfer: TransferId(0) }, &[], 0, 0);
    world.add_program(b.finish());
    let rank = world.add_rank(ProgramId(0), 1);
    let pairs: Vec<(u64, u64)> =
        (0..hosts).flat_map(|a| (0..hosts).map(move |b| (a, b))).filter(|p| p.0 != p.1).collect();
    let paths: Vec<[(ResourceId, u32); 2]> = pairs
        .iter()
        .map(|(a, b)| [(ResourceId(*a as u32), 1), (ResourceId((hosts + b) as u32), 1)])
        .collect();
    let flow = |path| Flow { latency: Time::ZERO, bytes: 1e6, rate_limit: f64::INFINITY, path };
    let flows: Vec<Flow> = (0..pairs.len() as u32).map(flow).collect();
    let parents = vec![Default::default(); flows.len()];
    let action = world.add_action(Action::Graph { flows, parents, parent_ids: Vec::new() });
    world.add_profile([action]);
    let paths: Vec<&[(ResourceId, u32)]> = paths.iter().map(|p| &p[..]).collect();
    let comm = world.add_comm(0, &[rank], &paths);
    world.bind(rank, 0, comm);
    let record = engine::run(&world).expect("a run");
    // Each port carries hosts − 1 messages of 1 MB at 12.5 GB/s.
    assert_eq!(record.step_end, Time::from_s((hosts - 1) as f64 * 1e6 / 12.5e9));
}

fn fold_ranks(ranks: u64) {
    black_box(fold(&nothing_shared(ranks, 30)));
}

/// The figures of Llama-3 405B on so many H100, folded: says how much memory one more rank takes.
fn ranks(most: u64) {
    let peaks = [most / 2, most].map(|ranks| {
        let replicas = (ranks / 128).max(1);
        let sets = [
            format!("topology.nodes={}", 16 * replicas),
            format!("parallelism.data={replicas}"),
            format!("batch.global={}", 16 * replicas),
        ];
        let inputs = Inputs::load("llama3-405b", Some("h100-superpod"), &sets).expect("a shipped workload");
        black_box(figures(&inputs, &Options::default(), false).expect("a run"));
        peak_mib()
    });
    let bytes = (peaks[1] - peaks[0]) * 1024.0 * 1024.0 / (most / 2) as f64;
    println!("{:18} {bytes:8.0} bytes a rank, from {} to {most} of them", "ranks", most / 2);
}

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

fn writer(events: u64) {
    let mut bytes = Counted::default();
    let mut sink = Chrome::new(&mut bytes);
    let mut write = || -> io::Result<()> {
        sink.begin(&[])?;
        sink.process(1, "rank 0")?;
        let row = sink.thread(1, "compute")?;
        let args =
            [("op", Value::Text("qkv")), ("layer", Value::Uint(3)), ("flops", Value::Uint(123_456_789_012))];
        let kinds = (0..64)
            .map(|i| sink.kind(&format!("F{i} m0 qkv"), "compute", &args))
            .collect::<io::Result<Vec<_>>>()?;
        for i in 0..events {
            let start = i * 41_234;
            let slice = Slice { start, end: start + 40_000, ..Slice::default() };
            sink.slice(row, kinds[(i % 64) as usize], &slice)?;
        }
        sink.finish()
    };
    write().expect("a sink that takes all");
    black_box(bytes.0);
}

/// The closed form of Llama-3 70B on 64 devices, laid out anew for each, with nothing known from before.
fn layouts(count: u64) {
    let inputs = bare("llama3-70b", &[]);
    for _ in 0..count {
        black_box(closed_form(black_box(&inputs)).expect("an estimate"));
    }
}

/// The closed form of one layout with batches of another size each.
fn batches(count: u64) {
    let inputs = bare("llama3-70b", &[]);
    let slice = inputs.workload.value.batch.global;
    let mut all = |form: &mut ClosedForm<'_>| {
        for i in 0..count {
            black_box(form.with_batch(black_box(slice * (1 + i % 1_000))).expect("an estimate"));
        }
    };
    Estimators::default().of_any_batch(&inputs, &mut all).expect("a closed form");
}

/// Layouts of Llama-3 70B on 64 devices, no two alike.
fn all_layouts() -> Vec<Inputs> {
    let site = Site::load("h100-superpod-64", &[]).expect("a shipped machine");
    let mut all = Vec::new();
    for (tensor, pipeline) in [1, 2, 4, 8].iter().flat_map(|t| [1, 2, 4, 8].map(|p| (*t, p))) {
        let orders: &[&str] =
            if pipeline > 1 { &["\"1f1b\" 1", "\"interleaved\" 2"] } else { &["\"1f1b\" 1"] };
        for (order, micro_batch) in orders.iter().flat_map(|order| [1, 2].map(|m| (order, m))) {
            let (schedule, chunks) = order.split_once(' ').expect("a schedule and its chunks");
            for sharding in ["none", "zero1", "zero2", "zero3"] {
                for recompute in ["none", "selective", "full"] {
                    let sets = [
                        "stack=simple".into(),
                        format!("parallelism.tensor={tensor}"),
                        format!("parallelism.sequence_parallel={}", tensor > 1),
                        format!("parallelism.pipeline.size={pipeline}"),
                        format!("parallelism.pipeline.schedule={schedule}"),
                        format!("parallelism.pipeline.chunks={chunks}"),
                        format!("parallelism.data={}", 64 / tensor / pipeline),
                        format!("parallelism.sharding={{\"kind\":\"{sharding}\"}}"),
                        format!("batch.micro_batch={micro_batch}"),
                        format!("recompute={{\"granularity\":\"{recompute}\"}}"),
                    ];
                    let workload = load::<WorkloadSpec>("llama3-70b", &sets).expect("a layout");
                    all.extend(site.inputs(workload));
                }
            }
        }
    }
    all
}

/// So many layouts in closed form, each study of them from nothing.
fn study(count: u64) {
    let all = all_layouts();
    assert_eq!(all.len(), 672, "layouts that fit the machine");
    for first in (0..count as usize).step_by(all.len()) {
        let known = Estimators::default();
        for inputs in all.iter().take(count as usize - first) {
            black_box(known.closed_form(black_box(inputs)).expect("an estimate"));
        }
    }
}

/// Its name, the loop, which returns how many it did of what is counted, items of a full run, and what is counted.
type Loop = (&'static str, fn(u64) -> u64, u64, &'static str);

/// A loop whose items are what is counted.
macro_rules! counted {
    ($run:expr) => {
        |items| {
            $run(items);
            items
        }
    };
}

const LOOPS: &[Loop] = &[
    ("reference", counted!(reference), 4_000_000, "draws, sorted and divided"),
    ("event-loop", counted!(event_loop), 10_000_000, "ops on 1,024 ranks, 2,048 streams"),
    ("event-loop-small", counted!(event_loop), 100_000, "ops on 1,024 ranks"),
    ("event-loop-8192", counted!(event_loop_8192), 10_000_000, "ops on 8,192 ranks"),
    ("gpt3-175b", |runs| shipped("gpt3-175b", runs), 40, "ops of folded runs"),
    ("megatron-1t", |runs| shipped("megatron-1t", runs), 4, "ops of folded runs"),
    ("deepseek-v3", |runs| shipped("deepseek-v3", runs), 12, "ops of folded runs"),
    ("noise", noise, 8, "ops on 1,024 ranks with noise"),
    ("samples", |count| samples("llama3-70b", count), 10, "ops of samples, on all threads"),
    ("samples-small", |count| samples("gpt2-8", count), 1_000, "ops of samples, on all threads"),
    ("sharing", counted!(sharing_rails), 16_384, "rail flows, 1,000 changes"),
    ("sharing-spare", counted!(sharing_spare), 16_384, "rail flows, 1,000 changes, rails that cannot fill"),
    ("sharing-one", counted!(sharing_one_component), 65_536, "flows in one component, 10 changes"),
    ("all-to-all", counted!(all_to_all_432), 432, "hosts, 186,192 flows in one component"),
    ("all-to-all-steps", all_to_all_in_steps, 1_048_576, "transfers lowered, folded and played"),
    ("layouts", counted!(layouts), 4_000, "layouts in closed form, each by itself"),
    ("study", counted!(study), 67_200, "layouts in closed form, 672 of a study"),
    ("batches", counted!(batches), 4_000_000, "batches of a layout in closed form"),
    ("fold", counted!(fold_ranks), 16_384, "ranks"),
    ("ranks", counted!(ranks), 32_768, "folded ranks, and half as many before"),
    ("writer", counted!(writer), 5_000_000, "Chrome JSON slices"),
];

/// The most memory that the process has had, in MiB.
fn peak_mib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with("VmHWM")).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let Some(name) = args.first() else {
        return LOOPS.iter().for_each(|of| run_alone(of.0));
    };
    let (_, run, items, what) = LOOPS.iter().find(|of| of.0 == name).expect("a loop of that name");
    // The time of the whole call and of all its threads, world building included.
    let before = ProcessTime::now();
    let counted = run(args.get(1).map_or(*items, |n| n.parse().expect("a number of items")));
    let cpu = before.elapsed().as_secs_f64();
    let rate = counted as f64 / cpu / 1e6;
    println!("{name:18} {cpu:8.3} CPU-s  {rate:8.2} M/s  peak {:6.0} MiB   {counted} {what}", peak_mib());
}

/// A loop in a process of its own: what others before it left of memory would hide what it takes.
fn run_alone(name: &str) {
    let this = std::env::current_exe().expect("a path of this program");
    let status = Command::new(this).arg(name).status().expect("a process");
    assert!(status.success(), "{name}: {status}");
}
