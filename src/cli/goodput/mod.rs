//! `stepsim goodput`: which part of days of training is progress.

mod result;

use std::fmt::Write;
use std::path::PathBuf;

use super::outputs::WRITTEN;
use super::screen::note_without_effect;
use super::tables::table;
use super::write::write_report;
use super::{Failure, outputs, say};
use result::{Goodput, span};
use stepsim_around::goodput::{CheckpointTimes, GoodputJob, simulate};
use stepsim_read::analysis::report::Report;
use stepsim_simulate::{Head, Inputs, under};
use stepsim_spec::reliability::{CheckpointMode, Reliability};
use stepsim_spec::{LoadedSpec, SpecError, blame_setting, load};
use stepsim_study::otherwise::answered;

/// The shipped figures that are taken where none are named.
const RELIABILITY: &str = "llama3-h100";

/// Events of all runs together that are still drawn: about a minute.
const MOST_EVENTS: f64 = 1e9;

/// Say which part of days of training is progress: interruptions, restarts, checkpoints, slow devices.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim goodput llama3-405b                                        the step is simulated, then days of it are drawn
  stepsim goodput llama3-405b --set reliability.checkpoint.mode=synchronous
  stepsim goodput --step-s 12 --devices 131072 --set reliability.checkpoint.stall_s=60 \\
    --set reliability.checkpoint.safe_after_s=0
  stepsim goodput llama3-405b --reliability fail-slow --days 54      with devices that are slow for a while

Figures of jobs: `stepsim list reliability`; their fields: `stepsim schema reliability`. Without
`checkpoint.every_s` and `every_steps` checkpoints come at the best interval. `exact` is the closed form, for
constant times and no slow devices.")]
pub struct Args {
    /// Workload whose step is simulated: the name of a shipped one, or a path that ends in .json
    #[arg(required_unless_present = "step_s")]
    workload: Option<String>,
    /// Machine: a count and a name (`64xh100`), a name, a path, or a simple one like `switch:8,450,1`
    /// [default: the one the workload names]
    #[arg(short, long, requires = "workload")]
    topology: Option<String>,
    /// Change a field: `batch.global=768`, `topology.nodes=16`, `reliability.restart.time_s=600`; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// Interruptions, restarts and checkpoints: the name of a shipped file, or a path that ends in .json
    #[arg(long, default_value = RELIABILITY, value_name = "NAME")]
    reliability: String,
    /// Seconds of a step; nothing is simulated
    #[arg(long, value_name = "S", value_parser = seconds)]
    step_s: Option<f64>,
    /// Devices of the job [default: the machine's]
    #[arg(long, value_name = "N", value_parser = crate::asked::whole::<u32>(1..=1 << 24),
        required_unless_present = "workload")]
    devices: Option<u32>,
    /// Days of one run
    #[arg(long, default_value_t = 30.0, value_parser = seconds)]
    days: f64,
    /// Runs that are drawn
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = crate::asked::whole::<u32>(1..=1_000_000))]
    runs: u32,
    /// Seed of what is drawn
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write the result as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    report: Option<PathBuf>,
}

/// Reads a number above 0.
fn seconds(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "no number".to_string())?;
    if number > 0.0 && number <= 1e9 { Ok(number) } else { Err("allowed: above 0, at most 1e9".to_string()) }
}

/// Runs the command.
///
/// # Errors
/// The input is wrong (status 2); the step does not run, or a file cannot be written.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (of_job, others): (Vec<String>, Vec<String>) =
        args.sets.iter().cloned().partition(|set| set.starts_with("reliability."));
    let of_job: Vec<String> = of_job.iter().map(|set| set["reliability.".len()..].to_string()).collect();
    let loaded: LoadedSpec<Reliability> =
        load(&args.reliability, &of_job).map_err(|e| under("reliability", e))?;
    let inputs = match &args.workload {
        Some(workload) => Some(Inputs::load(workload, args.topology.as_deref(), &others)?),
        None if others.is_empty() => None,
        None => {
            let set = format!("--set {}", others[0]);
            return Err(Failure::input(SpecError::file(set, "there is no workload to change")));
        }
    };
    let mut read = loaded.read.clone();
    read.extend(inputs.iter().flat_map(Inputs::files));
    outputs::apart(&[("--report", args.report.as_deref())], &read)?;

    let played = match (&inputs, args.step_s) {
        (Some(inputs), None) => Some(answered(inputs)?),
        _ => None,
    };
    inputs.iter().for_each(|inputs| note_without_effect(&inputs.without_effect()));
    let of_machine = inputs.as_ref().map(|i| i.machine.devices());
    let result = goodput(args, &loaded, &of_job, inputs.as_ref(), played, of_machine)?;
    write_report(args.report.as_deref(), &result)?;
    say(&text(&result, &loaded, args))
}

fn goodput(
    args: &Args,
    loaded: &LoadedSpec<Reliability>,
    sets: &[String],
    inputs: Option<&Inputs>,
    played: Option<Report>,
    of_machine: Option<u32>,
) -> Result<Goodput, Failure> {
    let reliability = &loaded.value;
    let devices = args.devices.or(of_machine).unwrap_or(1);
    let step = args.step_s.or(played.as_ref().map(|report| report.step_time_s)).unwrap_or(1.0);
    let times = CheckpointTimes::new(&reliability.checkpoint, devices, inputs)
        .map_err(|e| under("reliability", blame_setting(e, sets)).in_file(&loaded.file))?;
    let job = GoodputJob::new(reliability, devices, step, times);
    let wall = args.days * 86_400.0;
    let slow: f64 =
        reliability.slow_devices.iter().map(|s| s.per_device_day * f64::from(devices) / 86_400.0).sum();
    let events = f64::from(args.runs) * wall * (1.0 / (job.interval + job.stall) + job.rate + slow);
    if events > MOST_EVENTS {
        return Err(Failure::input(format!(
            "{events:.1e} events would be drawn\n  allowed: {MOST_EVENTS:.0e}\n  hint: fewer --runs, fewer \
             --days, or checkpoints further apart"
        )));
    }
    let simulated = simulate(&job, &reliability.slow_devices, args.days, args.runs, args.seed);
    let exact = reliability.slow_devices.is_empty();
    Ok(Goodput {
        head: inputs.map_or(Head::default(), |i| i.head(args.seed)),
        reliability: reliability.clone(),
        devices,
        step_time_s: step,
        mtbf_s: 1.0 / job.rate,
        checkpoint: times,
        interval_s: job.interval,
        expected_segment_s: job.expected_segment().filter(|_| exact),
        expected_goodput: job.expected_goodput().filter(|_| exact),
        intervals: job.intervals(),
        simulated,
        tokens_per_s: played.as_ref().map(|report| report.tokens_per_s),
        answer: played.map(|report| report.answer),
    })
}

fn text(g: &Goodput, loaded: &LoadedSpec<Reliability>, args: &Args) -> String {
    let mut out = String::new();
    let what = args.workload.as_deref().unwrap_or("job");
    let _ = writeln!(
        out,
        "{what}: {} devices, a step of {}, {} days {} times (seed {})\n",
        g.devices,
        span(g.step_time_s),
        args.days,
        args.runs,
        args.seed
    );
    if let Some(answer) = &g.answer {
        let _ = writeln!(out, "step           {}", answer.step_in_words());
        let _ = writeln!(out, "hangs on       {}\n", answer.hangs_on);
    }
    let mode = match g.reliability.checkpoint.mode {
        CheckpointMode::Synchronous => "synchronous",
        CheckpointMode::Asynchronous => "asynchronous",
    };
    let of = &g.reliability.checkpoint;
    let written = of.safe_after_s.map_or(of.storage_gbps, |_| None);
    let rate = written.map_or(String::new(), |gbps| format!(" to storage of {gbps} GB/s"));
    let bytes = g.checkpoint.bytes.map_or(String::new(), |b| format!(", {:.3} TB{rate}", b / 1e12));
    let _ = writeln!(out, "interruptions  one in {} ({})", span(g.mtbf_s), loaded.name);
    let _ = writeln!(
        out,
        "checkpoints    {mode}{bytes}: every {:.0} steps ({}), stall {}, safe {} later\n",
        g.interval_s / g.step_time_s,
        span(g.interval_s),
        span(g.checkpoint.stall),
        span(g.checkpoint.safe_after)
    );
    let percent = |x: f64| format!("{:.2} %", 100.0 * x);
    let wall = g.simulated.days * 86_400.0;
    let mut parts = table(&["where the days went", "share", "hours"]);
    for (name, seconds) in g.simulated.mean.parts() {
        parts.add_row([name.to_string(), percent(seconds / wall), format!("{:.2}", seconds / 3600.0)]);
    }
    let _ = writeln!(out, "{}\n", parts.trim_fmt());
    let s = &g.simulated;
    let exact = g.expected_goodput.map_or(String::new(), |x| format!("; exact {}", percent(x)));
    let _ = writeln!(
        out,
        "goodput {} ± {}, of 20 runs one below {}, one above {}{exact}",
        percent(s.goodput.mean),
        percent(s.goodput.standard_error),
        percent(s.goodput.p5),
        percent(s.goodput.p95)
    );
    if let (Some(answer), Some(tokens)) = (&g.answer, g.tokens_per_s) {
        let (mfu, tokens) = (answer.mfu * s.goodput.mean, tokens * s.goodput.mean * 86_400.0 / 1e9);
        let _ = writeln!(out, "with it        MFU {}, {tokens:.1} G tokens a day", percent(mfu));
    }
    let seen = s.interruptions;
    let _ = writeln!(out, "interruptions  {:.1} a run ({:.0} to {:.0})", seen.mean, seen.p5, seen.p95);
    let head = if g.reliability.slow_devices.is_empty() { "exact goodput" } else { "exact, were none slow" };
    let mut intervals = table(&["interval", "seconds", head]);
    for i in &g.intervals {
        let goodput = i.goodput.map_or("no closed form".to_string(), percent);
        intervals.add_row([i.name.to_string(), format!("{:.1}", i.seconds), goodput]);
    }
    let _ = writeln!(out, "\n{}", intervals.trim_fmt());
    let causes = &g.reliability.failures.causes;
    let total: u32 = causes.values().sum();
    if total > 0 {
        let mut causes: Vec<_> = causes.iter().collect();
        causes.sort_by_key(|(name, n)| (std::cmp::Reverse(**n), name.as_str()));
        let list: Vec<String> = causes
            .iter()
            .take(5)
            .map(|(name, n)| format!("{name} {:.1}", seen.mean * f64::from(**n) / f64::from(total)))
            .collect();
        let _ = writeln!(out, "\nof a run's interruptions: {} ...", list.join(", "));
    }
    out
}
