//! `stepsim kernels`: what kernels are priced at on a device, and how far measured ones are off.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::outputs::WRITTEN;
use super::write::write_report;
use super::{Failure, say};
use stepsim_price::cost::measured::{MeasuredRow, Score, score};
use stepsim_price::cost::{Cost, DeviceCost, TileWave, UnderCap};
use stepsim_price::model::{AttentionGeneration, Direction, Kernel, KernelClass, KernelShape, Scaling};
use stepsim_spec::kernel::{Format, Maker};
use stepsim_spec::workload::Dtype;
use stepsim_spec::{Device, load};

/// Show what kernels are priced at, and how far measured ones are off
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim kernels h100-sxm                          typical shapes of every class
  stepsim kernels h100-sxm --set cost.sustained=1   the same on a cool device
  stepsim kernels --score rows.jsonl                every row of a measurement against its price
  stepsim kernels b200-sxm --score rows.jsonl --report score.json

Rows are JSON lines with device, op, dtype, sizes and time (`examples/measure/measure_device.py` writes them; the
documentation of `stepsim::price::cost::measured` lists the columns). Steps are priced at the sustained rates of a
device; rows of short benchmarks are compared at the rates of a short run.")]
pub struct Args {
    /// A device of the catalogue (`stepsim list devices`) or a device file [default: h100-sxm; with --score: all]
    device: Option<String>,
    /// Change a field of the device, as cost.sustained=1
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// Measured kernels to compare with, one JSON object a line
    #[arg(long, value_name = "FILE")]
    score: Vec<PathBuf>,
    /// Also write the prices, or the score of every row, as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    report: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// A file cannot be read or a row is none (status 2); a file cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.score.is_empty() {
        let name = args.device.as_deref().unwrap_or("h100-sxm");
        let device = load::<Device>(name, &args.sets).map_err(Failure::input)?.value;
        let list = PriceList::of(&device);
        write_report(args.report.as_deref(), &list)?;
        return say(&list.text());
    }
    let mut rows = Vec::new();
    for path in &args.score {
        rows.extend(measured_rows(path)?);
    }
    // The device asked for must exist; the others are those that rows name.
    let only = args.device.as_deref();
    let asked = match only {
        Some(name) => Some(DeviceCost::new(&load::<Device>(name, &args.sets).map_err(Failure::input)?.value)),
        None => None,
    };
    let find = |name: &str| match &asked {
        Some(device) if only == Some(name) => Some(device.clone()),
        _ => load::<Device>(name, &[]).ok().map(|d| DeviceCost::new(&d.value)),
    };
    let score = score(&rows, &UnderCap(TileWave), find, only);
    write_report(args.report.as_deref(), &score)?;
    say(&scored(&score))
}

/// Rows of measured kernels of a file.
///
/// # Errors
/// It cannot be read, or a line is no row (status 2).
pub(super) fn measured_rows(path: &Path) -> Result<Vec<MeasuredRow>, Failure> {
    let wrong = |problem: String| {
        Failure::input(format!(
            "{}: {problem}\n  allowed: measured kernels, one JSON object a line\n  hint: \
             examples/measure/measure_device.py writes them",
            path.display()
        ))
    };
    let text = std::fs::read_to_string(path).map_err(|e| wrong(format!("cannot be read: {e}")))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(i, line)| serde_json::from_str(line).map_err(|e| wrong(format!("line {}: {e}", i + 1))))
        .collect()
}

/// The table of errors.
fn scored(score: &Score) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:<13} {:<19} {:<22} {:>5} {:>7} {:>7} {:>7} {:>7}  worst row",
        "device", "op", "dtype", "rows", "mean", "bias", "p90", "max"
    );
    let percent = |x: f64| format!("{:.1} %", x * 100.0);
    for g in &score.groups {
        let _ = writeln!(
            out,
            "{:<13} {:<19} {:<22} {:>5} {:>7} {:>7} {:>7} {:>7}  {}",
            g.device,
            g.op,
            g.dtype,
            g.rows,
            percent(g.mean_abs_error),
            format!("{:+.1} %", g.bias * 100.0),
            percent(g.p90_abs_error),
            percent(g.max_abs_error),
            g.worst
        );
    }
    let _ = writeln!(out, "{} rows priced", score.rows.len());
    for s in &score.skipped {
        let _ = writeln!(out, "{} rows skipped: {}", s.rows, s.why);
    }
    out
}

/// A typical kernel of a class, and its price.
#[derive(Serialize)]
struct Priced {
    class: &'static str,
    /// Format and shape, or who made the kernel.
    kernel: String,
    time_s: f64,
    /// FLOP/s of kernels that multiply matrices, else bytes of memory per second.
    rate_per_s: f64,
    of_peak: f64,
    is_matrix: bool,
}

/// The output of `stepsim kernels --report` without measured rows.
#[derive(Serialize)]
struct PriceList {
    device: String,
    /// Rates of a long step over those of a short run.
    sustained: f64,
    kernels: Vec<Priced>,
    /// Where the prices come from.
    source: String,
}

impl PriceList {
    /// Typical shapes of every class.
    fn of(device: &Device) -> PriceList {
        let cost = DeviceCost::new(device);
        let matrix = matrix_kernels(&cost).into_iter().map(|(what, kernel)| {
            let time_s = UnderCap(TileWave).time(&kernel, &cost).s();
            let (rate_per_s, class) = (kernel.flops / time_s, kernel.class.name());
            let of_peak = rate_per_s / cost.peak(kernel.dtype).0;
            Priced { class, kernel: what, time_s, rate_per_s, of_peak, is_matrix: true }
        });
        let makers = [("tuned", Maker::Tuned), ("compiled", Maker::Compiled), ("eager", Maker::Eager)];
        let others = KernelClass::ALL.iter().filter(|class| !class.is_matrix()).flat_map(|&class| {
            let kernel = Kernel::elementwise(class, "kernel", 1 << 26, 256e6, Dtype::Bf16);
            makers.map(|(name, maker)| {
                let time_s = UnderCap(TileWave).time(&kernel, &cost.clone().with_maker(maker)).s();
                let (rate_per_s, class) = (kernel.bytes / time_s, class.name());
                let of_peak = rate_per_s / cost.bandwidth.0;
                Priced { class, kernel: name.to_owned(), time_s, rate_per_s, of_peak, is_matrix: false }
            })
        });
        let kernels = matrix.chain(others).collect();
        let (sustained, source) = (cost.spec.sustained, cost.spec.source.clone());
        PriceList { device: device.name.clone(), sustained, kernels, source }
    }

    /// Two tables: kernels that multiply matrices, and the others.
    fn text(&self) -> String {
        let mut out = format!("{}\nsustained rates: {} of a short run's\n", self.device, self.sustained);
        for (is_matrix, head, of) in [(true, "class", "shape"), (false, "class, 256 MB", "made by")] {
            let _ = writeln!(out, "\n{head:<25} {of:<34} {:>11} {:>14} {:>8}", "time", "rate", "of peak");
            for k in self.kernels.iter().filter(|k| k.is_matrix == is_matrix) {
                let rate = match is_matrix {
                    true => format!("{:>7.0} TFLOP/s", k.rate_per_s / 1e12),
                    false => format!("{:>9.0} GB/s", k.rate_per_s / 1e9),
                };
                let (us, share) = (k.time_s * 1e6, 100.0 * k.of_peak);
                let _ = writeln!(out, "{:<25} {:<34} {us:>8.1} us {rate} {share:>6.1} %", k.class, k.kernel);
            }
        }
        if !self.source.is_empty() {
            let _ = writeln!(out, "\nsource: {}", self.source);
        }
        out
    }
}

fn matrix_kernels(device: &DeviceCost) -> Vec<(String, Kernel)> {
    let mut list = Vec::new();
    let formats = [
        (Dtype::Bf16, Scaling::Tensor),
        (Dtype::Fp8, Scaling::Tensor),
        (Dtype::Fp8, Scaling::Block),
        (Dtype::Fp8, Scaling::Mx),
        (Dtype::Fp4, Scaling::Nv),
    ];
    for (dtype, scaling) in formats.into_iter().filter(|(d, _)| device.peaks.contains_key(d)) {
        let format = Format::of(dtype, scaling).name();
        for (m, n, k) in [(1024, 4096, 4096), (4096, 4096, 4096), (8192, 8192, 8192), (8192, 28672, 8192)] {
            let kernel = Kernel::gemm("gemm", m, n, k, 1, dtype, 2.0).scaled(scaling);
            list.push((format!("{format} {m}x{n}x{k}"), kernel));
        }
        let weights = Kernel::weight_gradient("gemm", 8192, 8192, 8192, dtype, 4.0).scaled(scaling);
        list.push((format!("{format} 8192x8192x8192"), weights));
        for (groups, m) in [(8, 4096), (64, 512)] {
            list.push((format!("{format} {groups} of {m}x4096x7168"), grouped(groups, m, dtype, scaling)));
        }
    }
    let generations: Vec<AttentionGeneration> = device.spec.attention.keys().copied().collect();
    for generation in generations {
        for (direction, sequence) in
            [(Direction::Forward, 2048), (Direction::Forward, 8192), (Direction::Backward, 8192)]
        {
            let what = format!("{}, 16 heads, causal {sequence}", generation.name());
            list.push((what, attention(sequence, direction, generation)));
        }
    }
    list
}

fn grouped(groups: u64, m: u64, dtype: Dtype, scaling: Scaling) -> Kernel {
    let (n, k) = (4096, 7168);
    let one = Kernel::gemm("grouped gemm", m, n, k, 1, dtype, 2.0);
    Kernel {
        class: KernelClass::GroupedGemm,
        shape: KernelShape::GroupedGemm { groups, m, n, k, accumulate: false },
        flops: one.flops * groups as f64,
        bytes: one.bytes * groups as f64,
        scaling,
        ..one
    }
}

fn attention(sequence: u64, direction: Direction, generation: AttentionGeneration) -> Kernel {
    let (class, products, passes) = match direction {
        Direction::Forward => (KernelClass::AttentionForward, 2.0, 4.0),
        Direction::Backward => (KernelClass::AttentionBackward, 5.0, 8.0),
    };
    let pairs = 16.0 * (sequence as f64).powi(2) / 2.0;
    Kernel {
        name: "attention",
        class,
        shape: KernelShape::Attention {
            batch: 1,
            queries: sequence,
            keys: sequence,
            key_rows: sequence,
            heads: 16,
            kv_heads: 16,
            qk_size: 128,
            v_size: 128,
            causal: true,
            direction,
            generation: Some(generation),
        },
        flops: products * pairs * 256.0,
        bytes: passes * (sequence * 16 * 128) as f64 * 2.0,
        dtype: Dtype::Bf16,
        scaling: Scaling::Tensor,
        tuned: false,
    }
}
