//! `stepsim gap`: what explains that a step is slower than it should be.

use super::outputs::WRITTEN;
use super::progress::TerminalProgress;
use super::write::write_report;
use super::{Failure, say};
use std::fmt::Write as _;
use std::path::PathBuf;
use stepsim_simulate::{Inputs, Options};
use stepsim_study::otherwise::{Explanation, GapExplanation, MeasuredSpeed, gap};
use stepsim_study::plan::Request;

/// Say which settings or faults explain that a step is slower than it should be, without a profile.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Settings beside those that are described and faults that no script says (a slow device or host, links at a part of their
rate, kernels or formats that did not take, other software) are played one by one, and stand in the order in which their
factor fits that of the gap. Where the described step takes what it should, what is wrong is not described; where it
takes what was measured, it is in the settings.

Examples:
  stepsim gap script.sh --on 64xh100 --measured 120TFLOPs --reference 277TFLOPs
  stepsim gap llama3-8b-fsdp --measured 4500tok/s
  stepsim gap plan.json --measured 4.8s --reference 45%")]
pub struct Args {
    /// Files and shipped names that describe the run, as `stepsim plan` takes them
    #[arg(required = true, value_name = "FILE")]
    words: Vec<String>,
    /// The machine, as `stepsim plan` takes it [default: the one of a workload]
    #[arg(long, short = 't', visible_alias = "topology", value_name = "MACHINE")]
    on: Option<String>,
    /// The measured speed: `120TFLOPs` and `7100tok/s` of a device, `38%` of the peak, `4.8s` a step
    #[arg(long, value_name = "SPEED", value_parser = speed)]
    measured: MeasuredSpeed,
    /// The expected speed [default: as it is simulated]
    #[arg(long, value_name = "SPEED", value_parser = speed)]
    reference: Option<MeasuredSpeed>,
    /// Sequences of a step [default: what the files say]
    #[arg(long, value_name = "N", value_parser = super::plan::batch)]
    batch: Option<u64>,
    /// Change a field of the workload, or behind `topology.` of the machine; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// Write all that explains half of the gap here, as JSON
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    report: Option<PathBuf>,
}

/// Explanations that are printed.
const SHOWN: usize = 8;

/// Runs the command.
///
/// # Errors
/// Wrong files, no gap (status 2), or a step that does not fit (status 3).
pub fn run(args: &Args) -> Result<(), Failure> {
    let request = Request {
        words: args.words.clone(),
        on: args.on.clone(),
        batch: args.batch,
        sets: args.sets.clone(),
        ..Request::default()
    };
    let mut plan = request.read()?;
    let laid_out = TerminalProgress::over("layouts", |tell| plan.laid_out(tell));
    laid_out.map_err(|e| Failure::from(stepsim_simulate::Fault::from(&e)))?;
    let inputs = Inputs::load(&plan.workload.to_string(), Some(&plan.on), &plan.machine_sets)?;
    let bar = TerminalProgress::new("playing what could be wrong");
    let found = gap(&inputs, &Options::default(), args.measured, args.reference)?;
    bar.done();
    if found.times() <= 1.0 {
        let [measured, reference] = [found.measured_s, found.reference_s].map(|s| format!("{s:.4} s"));
        return Err(Failure::input(format!("there is no gap: {measured} measured, {reference} expected")));
    }
    write_report(args.report.as_deref(), &found)?;
    let half = plan.half_settled().cloned().collect();
    say(&text(&found, &args.words.join(" "), &[plan.not_understood, half].concat()))
}

/// A speed with its unit.
fn speed(text: &str) -> Result<MeasuredSpeed, String> {
    let lower = text.trim().to_ascii_lowercase().replace(' ', "");
    let digits = lower.len() - lower.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let (number, unit) = lower.split_at(digits);
    let number = number.parse::<f64>().ok().filter(|n| *n > 0.0 && n.is_finite());
    let made = number.and_then(|n| {
        Some(match unit {
            "tflops" | "tflop/s" | "tflops/gpu" | "tflop/s/gpu" | "tflop/s/device" => {
                MeasuredSpeed::Flops(n * 1e12)
            }
            "pflops" | "pflop/s" => MeasuredSpeed::Flops(n * 1e15),
            "%" | "%mfu" => MeasuredSpeed::Mfu(n / 100.0),
            "tok/s" | "tokens/s" | "tps" | "tok/s/gpu" | "tokens/s/gpu" => MeasuredSpeed::Tokens(n),
            "s" => MeasuredSpeed::Seconds(n),
            "ms" => MeasuredSpeed::Seconds(n / 1e3),
            _ => return None,
        })
    });
    made.ok_or_else(|| "a number with its unit: 120TFLOPs, 7100tok/s, 38%, 4.8s or 640ms".into())
}

fn text(found: &GapExplanation, words: &str, not_understood: &[String]) -> String {
    let mut text = format!(
        "{words}: {:.4} s measured, {:.4} s expected ({:.2} times), {:.4} s simulated as described\n",
        found.measured_s,
        found.reference_s,
        found.times(),
        found.simulated_s
    );
    text += match found.side() {
        Some(true) => "  the described step is as fast as expected: the fault is not in the description\n",
        Some(false) => "  the described step is as fast as measured: the gap is in the settings\n",
        None => "  the described step is neither: settings and undescribed faults may both be why\n",
    };
    if !not_understood.is_empty() {
        let _ = writeln!(text, "  not understood   {}", not_understood.join("; "));
    }
    if found.explained_by.is_empty() {
        let _ = writeln!(
            text,
            "  none of {} changes alone explains half of it: two together may, or one that is not played",
            found.played
        );
    }
    for e in found.explained_by.iter().take(SHOWN) {
        let _ = writeln!(text, "  {}", line(e));
    }
    match found.explained_by.len().saturating_sub(SHOWN) {
        0 => text,
        more => text + &format!("  and {more} more that explain half of it or more: --report FILE\n"),
    }
}

fn line(e: &Explanation) -> String {
    let way = if e.slower { "slower" } else { "faster" };
    let sets: String = e.sets.iter().map(|set| format!(" --set '{set}'")).collect();
    format!("{:.2} times {way}  {}{}{sets}", e.times, e.what, if sets.is_empty() { "" } else { ":" })
}
