//! The measured step, in seconds.

use super::cause::CauseTable;
use stepsim_bring::training_log::{RunSpeed, SpeedUnit, StepWork};
use stepsim_price::model::flops::StepFlops;
use stepsim_read::analysis::report::Report;
use stepsim_simulate::Inputs;
use stepsim_spec::SpecError;

/// A measured step.
#[derive(Clone, Debug)]
pub struct MeasuredNumber {
    /// Seconds, as its unit says.
    pub seconds: f64,
    /// How the number was read, where that was a choice.
    pub read_as: String,
    /// Other conventions in which the same number may be meant: in words, with how often it is so, and the seconds
    /// then.
    pub(super) readings: Vec<(String, f64, f64)>,
    /// True of a share of a peak or a rate of FLOPs, which somebody worked out from a time.
    pub(super) is_worked_out: bool,
    /// Further measurements, of the step with some fields changed.
    pub further: Vec<FurtherStep>,
}

/// A measurement of the step with settings.
#[derive(Clone, Debug)]
pub struct FurtherStep {
    /// The settings.
    pub sets: Vec<String>,
    /// Seconds.
    pub seconds: f64,
}

impl MeasuredNumber {
    /// A speed of the described step.
    ///
    /// # Errors
    /// The table of causes cannot be read.
    pub fn of(speed: RunSpeed, inputs: &Inputs, report: &Report) -> Result<MeasuredNumber, SpecError> {
        let work = StepWork::of(inputs);
        let (speed, read_as) = settled(speed, &work, report.step_time_s);
        let seconds = speed.seconds(&work);
        let mut readings = Vec::new();
        let mut read = |words: &str, weight: f64, factor: f64| {
            if (factor - 1.0).abs() > 0.005 && factor.is_finite() && factor > 0.0 {
                readings.push((words.to_owned(), weight, seconds * factor));
            }
        };
        let workload = &inputs.workload.value;
        let micro_batches = workload.micro_batches(u64::from(inputs.machine.devices())) as f64;
        match speed.unit {
            SpeedUnit::Percent | SpeedUnit::Tflops => {
                let of = |part: f64| part / report.mfu;
                read("the number counts causal attention by half", 3.0, of(report.mfu_causal));
                read("the number counts recomputation as work", 2.0, of(report.hfu));
                let mixing = StepFlops::of_step(workload, &inputs.model, workload.batch.global, None);
                read(
                    "the number leaves attention out (6 N a token)",
                    2.0,
                    1.0 - mixing.mixing / mixing.model,
                );
                if speed.unit == SpeedUnit::Percent {
                    read("the number is a share of the peak with sparsity", 1.5, 0.5);
                    read("the number counts all devices over one device's peak", 1.0, work.devices);
                    for peak in CauseTable::read()?.peaks {
                        let words = format!("the number is a share of {}", peak.what);
                        read(&words, 1.5, work.peak / peak.flops);
                    }
                }
            }
            SpeedUnit::Tokens => read("the number is of all devices", 3.0, work.devices),
            SpeedUnit::TokensOfAll => read("the number is of each device", 4.0, 1.0 / work.devices),
            SpeedUnit::Sequences => read("the number is of each device", 3.0, 1.0 / work.devices),
            _ => {
                read("the time is of one micro-batch, not of a step", 3.0, micro_batches);
                read("the time is of ten steps", 1.0, 0.1);
            }
        }
        if matches!(
            speed.unit,
            SpeedUnit::Tokens | SpeedUnit::TokensOfAll | SpeedUnit::Sequences | SpeedUnit::Steps
        ) {
            read("the number counts micro-batches as steps", 1.0, micro_batches);
        }
        let is_worked_out = matches!(speed.unit, SpeedUnit::Percent | SpeedUnit::Tflops);
        Ok(MeasuredNumber { seconds, read_as, readings, is_worked_out, further: Vec::new() })
    }
}

/// A rate of tokens without "per device" or "of all" is the one of both that is nearer to the simulated step.
fn settled(speed: RunSpeed, work: &StepWork, simulated_s: f64) -> (RunSpeed, String) {
    if speed.unit != SpeedUnit::TokensOfAny {
        return (speed, String::new());
    }
    let of = |unit| RunSpeed { unit, ..speed };
    let off = |speed: RunSpeed| (speed.seconds(work) / simulated_s).ln().abs();
    let (all, each) = (of(SpeedUnit::TokensOfAll), of(SpeedUnit::Tokens));
    match off(all) <= off(each) {
        true => (all, "read as tokens of all devices".into()),
        false => (each, "read as tokens of each device".into()),
    }
}
