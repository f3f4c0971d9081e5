//! `stepsim matmul`: a sharded matrix product on a machine.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;

use super::collective::timeline;
use super::outputs::WRITTEN;
use super::tables::table;
use super::write::write_report;
use super::{Failure, outputs, say};
use stepsim_around::matmul::{
    Formats, NumberFormat, PlayError, ProductRun, ShardedProduct, Statement, TimedCollective, plans,
};
use stepsim_core::ids::DeviceId;
use stepsim_core::units::{Bytes, Time};
use stepsim_fabric::collective::{Chooser, CollectiveBound, CollectiveError};
use stepsim_fabric::topology::{Machine, Mesh};
use stepsim_read::trace::RunMeta;
use stepsim_spec::{LoadedSpec, SpecError, Topology};

/// Say which collectives a sharded matrix product needs, how long each takes, and what bounds the whole.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim matmul 'A[I_X,J_Y] B[J_Y,K] -> C[I_X,K]' -t torus:4x4x4,90,1 --size I=4096,J=8192,K=16384
  stepsim matmul 'In[B_X,D_Y] W[D_X,F_Y] -> Out[B_X,F_Y]' -t torus:8x4,90,1 --set device=tpu-v5p \\
    --size B=131072,D=8192,F=32768 --gradients
  stepsim matmul 'A[B,D] W[D,F_X] -> C[B,F_X]' -t h100-superpod-64 --size B=4096,D=8192,F=28672 -o product.json

A letter after `_` is a mesh axis that cuts the dimension, `{U_X}` a sum over X that is left undone. Mesh axes are
X, Y, Z of a torus; elsewhere X are the devices of a node and Y the nodes; `--mesh` names others. A dimension that
is summed over and cut on one side alone can be gathered, or the other side sliced and the result reduced: both are
shown, the better one first.")]
pub struct Args {
    /// The product.
    #[arg(help = "The product: A[I_X,J_Y] B[J_Y,K] -> C[I_X,K]")]
    statement: String,
    /// The machine: a name, a path, or a simple one like torus:4x4x4,90,1
    #[arg(short, long)]
    topology: String,
    /// Sizes of the dimensions: I=4096,J=8192,K=16384
    #[arg(long, value_name = "SIZES", value_parser = sizes)]
    size: std::collections::BTreeMap<String, u64>,
    /// Change a field of the machine: device=tpu-v5p; repeatable
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Mesh axes, the first varies fastest with the device's number: X=8,Y=16 [default: the machine's own]
    #[arg(long, value_name = "AXES", value_parser = mesh)]
    mesh: Option<Mesh>,
    /// Number format of all three arrays, or of each: `fp8`, `A=int8,W=int8,C=bf16`
    #[arg(long, default_value = "bf16", value_name = "FORMATS", value_parser = Formats::parse)]
    format: Formats,
    /// The products of the backward pass too
    #[arg(long)]
    gradients: bool,
    /// Write the timeline of the better way here (.json, .pftrace, each also with .gz)
    #[arg(short, long, value_name = "FILE", help_heading = WRITTEN)]
    output: Option<PathBuf>,
    /// Write everything as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    report: Option<PathBuf>,
}

fn sizes(text: &str) -> Result<BTreeMap<String, u64>, String> {
    let one = |part: &str| {
        let (name, size) = part.split_once('=').ok_or_else(|| format!("`{part}` is not NAME=SIZE"))?;
        let size = size.trim().parse().ok().filter(|n| (1..=1u64 << 40).contains(n));
        Ok((name.trim().to_string(), size.ok_or_else(|| format!("`{part}`: allowed are 1 to 2^40"))?))
    };
    text.split(',').map(one).collect()
}

fn mesh(text: &str) -> Result<Mesh, String> {
    let mut axes: Vec<(char, u32)> = Vec::new();
    for part in text.split(',') {
        let wrong = || format!("`{part}` is not an axis like X=8");
        let (name, length) = part.split_once('=').ok_or_else(wrong)?;
        let mut letters = name.trim().chars();
        let (Some(letter @ 'A'..='Z'), None) = (letters.next(), letters.next()) else { return Err(wrong()) };
        let length = length.trim().parse().ok().filter(|n| (1..=1u32 << 20).contains(n)).ok_or_else(wrong)?;
        if axes.iter().any(|axis| axis.0 == letter) {
            return Err(format!("{letter} stands there twice"));
        }
        axes.push((letter, length));
    }
    Ok(Mesh(axes))
}

/// The output of `--report`: one entry for each product.
#[derive(Debug, Serialize)]
struct Product {
    statement: String,
    topology: String,
    mesh: Vec<(char, u32)>,
    ways: Vec<ProductStrategy>,
}

/// One way to carry a product out.
#[derive(Debug, Serialize)]
struct ProductStrategy {
    strategy: &'static str,
    flops_per_device: f64,
    compute_s: f64,
    /// Bytes of a device's operands and result, by array.
    array_bytes: BTreeMap<String, f64>,
    /// All of them.
    memory_bytes: f64,
    /// Once through the device's memory, where it has one.
    memory_s: Option<f64>,
    /// Sum of the collectives' times by rule.
    communication_s: f64,
    bound: &'static str,
    /// One after the other, on the machine.
    simulated_s: f64,
    collectives: Vec<CollectiveTimes>,
}

#[derive(Debug, Serialize)]
struct CollectiveTimes {
    op: &'static str,
    array: String,
    axes: String,
    bytes: u64,
    rule: CollectiveBound,
    group: String,
    chosen: &'static str,
    simulated_s: f64,
    /// Closed forms, fastest first.
    algorithms_s: Vec<(&'static str, f64)>,
}

/// The machine with what a product asks of it.
struct ProductMachine {
    topology: LoadedSpec<Topology>,
    machine: Machine,
    chooser: Chooser,
    mesh: Mesh,
    memory: Option<f64>,
}

/// Runs the command.
///
/// # Errors
/// The statement, the sizes or the machine are wrong (status 2); a file cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let on = machine(args)?;
    outputs::apart(
        &[("--output", args.output.as_deref()), ("--report", args.report.as_deref())],
        &on.topology.read,
    )?;
    let statement = Statement::parse(&args.statement, &on.mesh.axes())?;
    let arrays = [&statement.a, &statement.b, &statement.c].map(|array| array.name.as_str());
    if let Some(name) = args.format.unknown(&arrays) {
        let problem = format!("no array has the name `{name}`");
        return Err(SpecError::file("--format", problem).allowed(arrays.join(", ")).into());
    }
    let mut statements = vec![statement.clone()];
    if args.gradients {
        statements.extend(statement.gradients());
    }
    let mut products = Vec::new();
    let mut drawn = None;
    for statement in &statements {
        let (product, best) = product(args, &on, statement)?;
        products.push(product);
        drawn.get_or_insert(best);
    }
    if let (Some(file), Some(played)) = (&args.output, &drawn) {
        let devices: Vec<DeviceId> = (0..on.mesh.size()).map(DeviceId).collect();
        let mut meta = RunMeta::default();
        meta.text("product", args.statement.as_str());
        meta.text("topology", args.topology.as_str());
        timeline::write(&played.world, &played.record, &on.machine, &devices, &meta, file)
            .map_err(Failure::run)?;
    }
    write_report(args.report.as_deref(), &products)?;
    say(&products.iter().map(text).collect::<Vec<_>>().join("\n"))
}

fn machine(args: &Args) -> Result<ProductMachine, Failure> {
    let (topology, machine) = Machine::load(&args.topology, &args.set)?;
    let device = machine.device(DeviceId(0)).clone();
    let own = topology.value.collectives.as_ref();
    let chooser = Chooser::of_machine(&device.name, own).map_err(|e| e.in_file(&topology.file))?;
    let mesh = args.mesh.clone().unwrap_or_else(|| Mesh::of(&machine));
    let devices = machine.devices();
    if mesh.0.iter().map(|axis| u64::from(axis.1)).product::<u64>() != u64::from(devices) {
        let lengths: Vec<String> = mesh.0.iter().map(|(name, n)| format!("{name}={n}")).collect();
        return Err(SpecError::file(
            format!("--mesh {}", lengths.join(",")),
            format!("the machine has {devices} devices"),
        )
        .allowed("lengths whose product that is")
        .into());
    }
    let memory = device.hbm.as_ref().map(|hbm| hbm.gbps * 1e9);
    Ok(ProductMachine { topology, machine, chooser, mesh, memory })
}

/// The peak of a product: of the operands' formats, the one in which the device is slower.
fn peak(args: &Args, on: &ProductMachine, statement: &Statement) -> Result<f64, Failure> {
    let device = on.machine.device(DeviceId(0));
    let mut slower = f64::INFINITY;
    for array in [&statement.a, &statement.b] {
        let format = args.format.of(&array.name);
        let peak = format.peak(device).ok_or_else(|| {
            let has: Vec<&str> =
                NumberFormat::all().filter(|f| f.peak(device).is_some()).map(NumberFormat::name).collect();
            SpecError::file(
                format!("--format {}", format.name()),
                format!("{} has no peak in it", device.name),
            )
            .allowed(has.join(", "))
        })?;
        slower = slower.min(peak.0);
    }
    Ok(slower)
}

/// All ways to carry a product out, the best first, and the run of that.
fn product(
    args: &Args,
    on: &ProductMachine,
    statement: &Statement,
) -> Result<(Product, ProductRun), Failure> {
    let mut ways = Vec::new();
    let (peak, bytes) = (peak(args, on, statement)?, |array: &str| args.format.of(array).bytes());
    for plan in plans(statement, &args.size, &on.mesh.0, &bytes)? {
        let compute_s = plan.flops / peak;
        let memory_s = on.memory.map_or(0.0, |rate| plan.memory_bytes() / rate);
        let product_s = compute_s.max(memory_s);
        let played =
            ProductRun::run(&plan, &on.mesh, &on.machine, &on.chooser, product_s).map_err(|e| match e {
                PlayError::Collective(
                    e @ (CollectiveError::BadGroup(_) | CollectiveError::NotConnected(_)),
                ) => Failure::input(e),
                e => Failure::run(e),
            })?;
        ways.push((way(&plan, on, &played, compute_s), played));
    }
    let longer = |w: &ProductStrategy| w.compute_s.max(w.memory_s.unwrap_or(0.0)).max(w.communication_s);
    ways.sort_by(|a, b| longer(&a.0).total_cmp(&longer(&b.0)));
    let (ways, mut played): (Vec<ProductStrategy>, Vec<ProductRun>) = ways.into_iter().unzip();
    let product = Product {
        statement: statement.to_string(),
        topology: args.topology.clone(),
        mesh: on.mesh.0.clone(),
        ways,
    };
    Ok((product, played.swap_remove(0)))
}

fn way(plan: &ShardedProduct, on: &ProductMachine, played: &ProductRun, compute_s: f64) -> ProductStrategy {
    let memory_s = on.memory.map(|rate| plan.memory_bytes() / rate);
    let communication_s = played.steps.iter().map(|s| s.bound.time_s()).sum::<f64>();
    let bounds =
        [("communication", communication_s), ("memory", memory_s.unwrap_or(0.0)), ("compute", compute_s)];
    let bound = bounds.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or("compute", |b| b.0);
    let collective = |s: &TimedCollective| CollectiveTimes {
        op: s.step.op.name(),
        array: s.step.array.clone(),
        axes: s.step.axes.iter().collect(),
        bytes: s.step.bytes,
        rule: s.bound,
        group: s.geometry.describe(),
        chosen: s.chosen.algorithm.name(),
        simulated_s: (s.span.1 - s.span.0).s(),
        algorithms_s: s.algorithms.clone(),
    };
    ProductStrategy {
        strategy: plan.strategy.name(),
        flops_per_device: plan.flops,
        compute_s,
        array_bytes: plan.arrays.iter().cloned().collect(),
        memory_bytes: plan.memory_bytes(),
        memory_s,
        communication_s,
        bound,
        simulated_s: played.record.step_end.s(),
        collectives: played.steps.iter().map(collective).collect(),
    }
}

fn text(product: &Product) -> String {
    let time = |s: f64| Time::from_s(s).to_string();
    let mesh: Vec<String> = product.mesh.iter().map(|(name, n)| format!("{name}={n}")).collect();
    let mut out = format!("{}   on {}, mesh {}\n", product.statement, product.topology, mesh.join(" "));
    for way in &product.ways {
        if product.ways.len() > 1 {
            let _ = writeln!(out, "\nby {}:", way.strategy);
        }
        let mut rows = table(&["", "bytes a device", "by rule", "simulated", "as", "closed forms of others"]);
        for c in &way.collectives {
            let others: Vec<String> = c
                .algorithms_s
                .iter()
                .filter(|a| a.0 != c.chosen)
                .take(3)
                .map(|(name, s)| format!("{name} {}", time(*s)))
                .collect();
            rows.add_row([
                format!("{} {} over {}", c.op, c.array, c.axes),
                Bytes(c.bytes).to_string(),
                time(c.rule.time_s()),
                time(c.simulated_s),
                c.chosen.to_string(),
                others.join(", "),
            ]);
        }
        let product = format!("{:.4e} FLOP at peak", way.flops_per_device);
        rows.add_row([
            "product".into(),
            String::new(),
            time(way.compute_s.max(way.memory_s.unwrap_or(0.0))),
            time(way.compute_s.max(way.memory_s.unwrap_or(0.0))),
            product,
            String::new(),
        ]);
        let memory = way.memory_s.map_or(String::new(), |s| format!(", memory {}", time(s)));
        let _ = writeln!(
            out,
            "{}\n by rule bound by {}: communication {}, compute {}{memory}; simulated, one after the other: {}",
            rows.trim_fmt(),
            way.bound,
            time(way.communication_s),
            time(way.compute_s),
            time(way.simulated_s)
        );
        let bytes = |bytes: &f64| Bytes(*bytes as u64).to_string();
        let arrays: Vec<String> =
            way.array_bytes.iter().map(|(name, b)| format!("{name} {}", bytes(b))).collect();
        let _ = writeln!(out, " a device holds {}: {} in all", arrays.join(", "), bytes(&way.memory_bytes));
    }
    out
}
