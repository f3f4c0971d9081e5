//! The reading of kernels by class.

use std::fmt::Write;

use super::{kernel_classes, sums};
use crate::analysis::cells::{self, grouped, new_table, percent};
use crate::analysis::reading::{Lines, Measure, PageContents, Reading, Report, Run, Sheet};
use crate::page::draw::{LEFT, WIDTH, drawing, text};
use crate::page::escaped::escaped;
use crate::page::sheet::seconds;

/// Kernels by class, with their rates.
pub struct KernelsReading;

impl Reading for KernelsReading {
    fn read(&self, run: &mut Run<'_, '_>, report: &mut Report) {
        let sums = sums(run.causes, &run.weights, &run.turn.recurring);
        let (ranks, info) = (run.ranks_of_job(), run.info);
        report.kernels = kernel_classes(sums, ranks, run.end(), info.peak, info.memory);
    }

    fn why(&self, r: &Report, out: &mut String, width: u16) {
        if r.kernels.is_empty() {
            return;
        }
        let head = ["kernels", "count", "time", "of step", "TFLOP/s", "GB/s", "bound by"];
        let mut table = new_table(width, head.map(String::from).to_vec());
        let rate = |x: f64| if x == 0.0 { "·".to_string() } else { format!("{x:.0}") };
        for k in &r.kernels {
            table.add_row([
                k.class.name().to_string(),
                grouped(k.count.round() as u64),
                cells::seconds(k.time_s),
                percent(k.share),
                rate(k.tflops),
                rate(k.gbps),
                k.bound.name().to_string(),
            ]);
        }
        let _ = writeln!(out, "\nKernels by class (mean of a rank)\n{table}");
    }

    fn page(&self, _: &Report, shown: &PageContents, sheet: &mut Sheet) {
        let Some(drawing) = chart(shown) else { return };
        let note = "Classes of kernels by FLOPs per byte of device memory and by rate; the area of a circle \
                    is its time.";
        sheet.section("Kernels under the roof", note, |out| out.push_str(&drawing));
    }

    fn compare(&self, a: &Report, b: &Report, lines: &mut Lines) {
        lines.section("kernels");
        let kernels = |r: &Report| r.kernels.iter().map(|k| (k.class.name().to_string(), k.time_s)).collect();
        lines.all(Measure::Seconds, &kernels(a), &kernels(b));
    }
}

/// Kernel classes under the roof that the device's peak and its memory make.
fn chart(shown: &PageContents) -> Option<String> {
    const HEIGHT: f64 = 300.0;
    let bandwidth = shown.memory_bandwidth?;
    let classes: Vec<_> =
        shown.kernels.iter().filter(|(_, k)| k.flops > 0.0 && k.bytes > 0.0 && k.seconds > 0.0).collect();
    let longest = classes.iter().map(|(_, k)| k.seconds).fold(0.0, f64::max);
    if longest == 0.0 {
        return None;
    }
    let points: Vec<(f64, f64)> =
        classes.iter().map(|(_, k)| (k.flops / k.bytes, k.flops / k.seconds)).collect();
    let low = points.iter().map(|p| p.0).fold(shown.peak_flops / bandwidth / 8.0, f64::min).log10().floor();
    let high = points.iter().map(|p| p.0).fold(shown.peak_flops / bandwidth * 8.0, f64::max).log10().ceil();
    let bottom = points.iter().map(|p| p.1).fold(shown.peak_flops / 100.0, f64::min).log10().floor();
    let top = shown.peak_flops.log10() + 0.2;
    let x = |intensity: f64| LEFT + (intensity.log10() - low) / (high - low) * (WIDTH - LEFT - 130.0);
    let y = |rate: f64| 10.0 + (top - rate.log10()) / (top - bottom) * HEIGHT;
    let mut out = String::new();
    let ridge = shown.peak_flops / bandwidth;
    let start = 10f64.powf(low).max(10f64.powf(bottom) / bandwidth);
    let _ = write!(
        out,
        "<path class=\"capacity\" d=\"M{:.1} {:.1}L{:.1} {:.1}H{:.1}\"/>",
        x(start),
        y(start * bandwidth),
        x(ridge),
        y(shown.peak_flops),
        WIDTH - 100.0
    );
    let mut label = |x: f64, y: f64, class: &str, words: String| text(&mut out, x, y, class, &words);
    let peak = format!("{:.0} TFLOP/s", shown.peak_flops / 1e12);
    label(x(ridge) + 6.0, y(shown.peak_flops) - 6.0, "note", peak);
    for decade in low as i32..=high as i32 {
        let intensity = 10f64.powi(decade);
        label(x(intensity), HEIGHT + 26.0, "tick", format!("{intensity} FLOP/byte"));
    }
    for decade in bottom as i32..=top as i32 {
        label(LEFT - 8.0, y(10f64.powi(decade)), "end", format!("{} TFLOP/s", 10f64.powi(decade - 12)));
    }
    let mut placed = Vec::new();
    for ((name, k), (intensity, rate)) in classes.into_iter().zip(points) {
        let radius = 3.0 + 12.0 * (k.seconds / longest).sqrt();
        let title =
            format!("{name}: {} kernels, {}, {:.1} TFLOP/s", k.count, seconds(k.seconds), rate / 1e12);
        let _ = write!(
            out,
            "<circle class=\"kernel\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius:.1}\"><title>{}</title></circle>",
            x(intensity),
            y(rate),
            escaped(&title)
        );
        let [x, y] = free_place(&mut placed, [x(intensity) + radius + 2.0, y(rate) + 3.0], name);
        text(&mut out, x, y, "note", name);
    }
    Some(drawing("roofline", HEIGHT + 34.0, "kernel classes under the roof of the device", &out))
}

/// Where a name can stand without lying over those `placed` before: as near above or below its place as there is room.
pub fn free_place(placed: &mut Vec<[f64; 3]>, [x, y]: [f64; 2], name: &str) -> [f64; 2] {
    const LINE: f64 = 12.0;
    let width = 6.0 * name.chars().count() as f64;
    let free = |y: f64| {
        let over =
            |other: &[f64; 3]| (other[1] - y).abs() < LINE && other[0] < x + width && x < other[0] + other[2];
        !placed.iter().any(over)
    };
    let lines = (0..).flat_map(|line| [f64::from(line), -f64::from(line)]);
    // As many lines as there are names always have a free one among them.
    let y = lines.map(|line| y + line * LINE).take(4 * placed.len() + 1).find(|y| free(*y)).unwrap_or(y);
    placed.push([x, y, width]);
    [x, y]
}
