//! Measured kernels as prices: each class of kernels takes the time of its rows, over their prices.
//!
//! The rows are a step's own kernels ([`kernels_of`] writes them, `examples/measure/measure_device.py --kernels` times
//! them on one device), so sizes need no model: a class's factor is the sum of its measured times over the sum of its
//! prices, and classes without rows take the factor of their work. A launch that was timed is the host's pace, over
//! the stack's time for the launch of a small kernel. Collectives and copies keep the prices of the machine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::summary::work_of;
use stepsim_core::ids::DeviceId;
use stepsim_core::kernel_class::KernelClass;
use stepsim_core::units::Time;
use stepsim_plan::step::PlanError;
use stepsim_price::cost::measured::{MeasuredRow, RowKernels, catalogue_name};
use stepsim_price::cost::{DeviceCost, level};
use stepsim_price::model::Kernel;
use stepsim_simulate::{Inputs, OwnPrices};
use stepsim_spec::Device;

use super::learned::{LearnedLine, NotLearned, PRICE, ProfileLessons, ROUNDED, check_price, line, slower};

/// Keeps the kernels whose price is asked for.
#[derive(Debug, Default)]
struct PriceRecorder(Mutex<Vec<Kernel>>);

impl OwnPrices for PriceRecorder {
    fn time(&self, kernel: &Kernel, _device: &str) -> Option<Time> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(*kernel);
        None
    }
}

/// The kernels of a step, each shape once, as rows that wait for a time; and how many kernels rows have no words for.
///
/// # Errors
/// As [`Inputs::plan`].
pub fn kernels_of(inputs: &Inputs) -> Result<(Vec<MeasuredRow>, usize), PlanError> {
    let seen = Arc::new(PriceRecorder::default());
    inputs.clone().priced_by(seen.clone()).plan()?;
    let kernels = std::mem::take(&mut *seen.0.lock().unwrap_or_else(PoisonError::into_inner));
    let device = inputs.machine.device(DeviceId(0)).name.clone();
    let (mut rows, mut wordless): (Vec<MeasuredRow>, usize) = (Vec::new(), 0);
    for kernel in &kernels {
        match MeasuredRow::of(kernel, inputs.model.hidden) {
            Some(row)
                if rows
                    .iter()
                    .any(|known| MeasuredRow { id: String::new(), device: None, ..known.clone() } == row) => {
            }
            Some(row) => {
                rows.push(MeasuredRow { id: kernel.name.to_string(), device: Some(device.clone()), ..row })
            }
            None => wordless += 1,
        }
    }
    Ok((rows, wordless))
}

/// Prices of measured rows.
///
/// # Errors
/// [`NotLearned`].
pub fn learn_rows(inputs: &Inputs, rows: &[MeasuredRow]) -> Result<ProfileLessons, NotLearned> {
    let device = inputs.machine.device(DeviceId(0));
    check_device(&device.name, rows)?;
    let (priced, cost) = (DeviceCost::new(device), level(&inputs.workload.value.fidelity));
    let mut classes: BTreeMap<KernelClass, [f64; 2]> = BTreeMap::new();
    let (mut unmatched, mut launches) = (BTreeMap::<String, f64>::new(), Vec::new());
    for row in rows {
        match row.read() {
            Ok(measured) => {
                check_rate(device, &measured)?;
                let sums = classes.entry(measured.kernels[0].class).or_default();
                *sums = [sums[0] + measured.seconds, sums[1] + measured.priced(&priced, &*cost)];
            }
            Err(_) if row.op == "launch" => launches.extend(row.time_ms.filter(|_| row.is_eager())),
            Err(why) => {
                *unmatched.entry(format!("{}: {why}", row.op)).or_default() +=
                    1e-3 * row.time_ms.unwrap_or(0.0)
            }
        }
    }
    if classes.is_empty() {
        return Err(NotLearned::Other("no row with a time is a kernel of a class".to_string()));
    }
    let lines: Vec<LearnedLine> =
        classes.iter().map(|(class, sums)| as_measured(class.name(), *sums)).collect();
    for line in &lines {
        check_price(&line.what, line.profile_s / line.before_s, line.profile_s, line.before_s)?;
    }
    let (host, launch_doubt) = host_pace(inputs, &launches);
    let times = |class: KernelClass| times(&classes, class);
    let set = slower(inputs, ROUNDED, times, host.as_ref().and_then(|line| line.times).unwrap_or(1.0), 1.0);
    let lines = lines.into_iter().chain(host).collect();
    let doubts = doubts(rows).into_iter().chain(launch_doubt).collect();
    Ok(ProfileLessons { set, lines, unmatched: unmatched.into_iter().collect(), doubts })
}

/// The factor on a class: its own, else the factor of all classes of its work, else one.
fn times(classes: &BTreeMap<KernelClass, [f64; 2]>, class: KernelClass) -> f64 {
    let sum = |of: &dyn Fn(KernelClass) -> bool| {
        let chosen = classes.iter().filter(|(class, _)| of(**class)).map(|(_, sums)| sums);
        chosen.fold([0.0, 0.0], |a, b| [a[0] + b[0], a[1] + b[1]])
    };
    let own = sum(&|known| known == class);
    let [measured, priced] = if own[1] > 0.0 { own } else { sum(&|known| work_of(known) == work_of(class)) };
    if priced > 0.0 { measured / priced } else { 1.0 }
}

fn as_measured(what: &str, [measured, priced]: [f64; 2]) -> LearnedLine {
    line(what, [measured, priced, measured], Some(measured / priced))
}

/// The fastest launch of a small kernel over the stack's; or why the host keeps its pace although a launch was timed.
fn host_pace(inputs: &Inputs, launches_ms: &[f64]) -> (Option<LearnedLine>, Option<String>) {
    let Some(fastest_ms) = launches_ms.iter().copied().reduce(f64::min) else { return (None, None) };
    let Some(host) = inputs.workload.value.host() else {
        return (
            None,
            Some("the workload's stack launches for nothing: the launch that was timed has no effect".into()),
        );
    };
    let seconds = [1e-3 * fastest_ms, 1e-6 * host.launch_us.elementwise];
    let line = as_measured("launch of a small kernel (host)", seconds);
    if line.times.is_some_and(|times| (PRICE[0]..=PRICE[1]).contains(&times)) {
        return (Some(line), None);
    }
    let (took_us, stack_us) = (1e3 * fastest_ms, host.launch_us.elementwise);
    (
        None,
        Some(format!(
            "a launch took {took_us:.3} us, the stack's {stack_us:.3}: no price, the host keeps its pace"
        )),
    )
}

/// Refuses rows of another device than the machine's.
fn check_device(device: &str, rows: &[MeasuredRow]) -> Result<(), NotLearned> {
    let mut named = rows.iter().filter_map(|row| row.device.as_deref());
    match named.find(|named| catalogue_name(named) != catalogue_name(device)) {
        None => Ok(()),
        Some(named) => Err(NotLearned::Other(format!(
            "the rows were measured on {named}, and the machine has {device}: give the machine of the rows (-t)"
        ))),
    }
}

/// Refuses a time in which the device cannot do what the row asks for.
fn check_rate(device: &Device, measured: &RowKernels) -> Result<(), NotLearned> {
    let flops: f64 = measured.kernels.iter().map(|kernel| kernel.flops).sum();
    let (rate, format) = (flops / measured.seconds, measured.kernels[0].dtype);
    match device.peak(format).filter(|peak| rate > peak.0) {
        None => Ok(()),
        Some(peak) => Err(NotLearned::Other(format!(
            "a {} kernel of {:.3} ms is {:.0} TFLOP/s, above the {:.0} of {} in {}",
            measured.kernels[0].class.name(),
            1e3 * measured.seconds,
            rate / 1e12,
            peak.0 / 1e12,
            device.name,
            format.name(),
        ))),
    }
}

/// Reasons against trusting rows.
fn doubts(rows: &[MeasuredRow]) -> Vec<String> {
    let mut doubts = Vec::new();
    if rows.iter().any(|row| row.sustained == Some(false)) {
        doubts.push(
            "short runs are compared with prices of short runs: heat and power are the device file's".into(),
        );
    }
    doubts
}
