//! The reading of what a step costs.

use std::fmt::Write;

use super::{CostBasis, CostReport, cost};
use crate::analysis::cells::{new_table, percent, seconds};
use crate::analysis::reading::{Lines, Measure, PageContents, Reading, ReadingContext, Report, Run, Sheet};
use crate::page::sheet::{self, table};

/// Dollars and energy of a step.
pub struct StepCost;

/// Joules of a kilowatt-hour.
const KWH: f64 = 3.6e6;

impl Reading for StepCost {
    fn counts_turns(&self) -> bool {
        true
    }

    fn read(&self, run: &mut Run<'_, '_>, report: &mut Report) {
        let step = CostBasis {
            seconds: report.step_time_s,
            busy_s: report.mean.busy_s,
            kernels: &report.kernels,
            tokens: report.tokens_per_step,
            devices: report.devices,
        };
        report.cost = cost(step, &run.info.rates);
    }

    fn table(&self, r: &Report, out: &mut String, width: u16) {
        let Some(cost) = &r.cost else { return };
        let _ = writeln!(out, "\nCost\n  {}", cost.words());
        if let Some(step) = of_step(cost) {
            let _ = writeln!(out, "  {step}");
        }
        if cost.uses.is_empty() {
            return;
        }
        let head = ["a mean device", "time", "of step", "draws"].map(String::from).to_vec();
        let mut rows = new_table(width, head);
        for u in &cost.uses {
            let share = percent(u.time_s / r.step_time_s.max(f64::MIN_POSITIVE));
            rows.add_row([u.what.name().to_string(), seconds(u.time_s), share, format!("{:.0} W", u.watts)]);
        }
        let _ = writeln!(out, "{rows}");
    }

    fn glance(&self, r: &Report, _: ReadingContext<'_>, out: &mut String, _: u16) {
        if let Some(cost) = &r.cost {
            let _ = writeln!(out, "Cost      {}", cost.words());
        }
    }

    fn page(&self, r: &Report, _: &PageContents, out: &mut Sheet) {
        let Some(cost) = &r.cost else { return };
        let step = of_step(cost).map_or(String::new(), |step| format!(" {step}."));
        let note =
            format!("{}.{step} Of the boards alone, without hosts, network and cooling.", cost.words());
        let rows = cost.uses.iter().map(|u| {
            let share = format!("{:.1} %", 100.0 * u.time_s / r.step_time_s.max(f64::MIN_POSITIVE));
            vec![u.what.name().to_owned(), sheet::seconds(u.time_s), share, format!("{:.0} W", u.watts)]
        });
        out.section("Cost", &note, |out| {
            if !cost.uses.is_empty() {
                table(out, &["a mean device", "time", "of the step", "draws"], 1, rows);
            }
        });
    }

    fn compare(&self, a: &Report, b: &Report, lines: &mut Lines) {
        lines.section("cost");
        let of = |r: &Report, field: fn(&CostReport) -> Option<f64>| {
            r.cost.as_ref().and_then(field).unwrap_or(0.0)
        };
        let mut add = |what: &str, unit, field: fn(&CostReport) -> Option<f64>| {
            lines.add(what, unit, of(a, field), of(b, field));
        };
        add("a million tokens", Measure::Dollars, |c| c.usd_per_million_tokens);
        add("a step", Measure::Dollars, |c| c.step_usd);
        add("energy of a million tokens", Measure::Joules, |c| c.joules_per_token.map(|joules| 1e6 * joules));
        add("energy of a step", Measure::Joules, |c| c.step_joules);
        add("power of a device", Measure::Watts, |c| c.watts_per_device);
    }
}

impl CostReport {
    /// The cost of a million tokens, in a line.
    pub fn words(&self) -> String {
        let energy = self.joules_per_token.map(|joules| joules_in_words(1e6 * joules));
        let usd = self.usd_per_million_tokens.map(|usd| format!("{usd:.3} $"));
        let parts: Vec<String> = energy.into_iter().chain(usd).collect();
        let watts = self.watts_per_device.map_or(String::new(), |watts| format!("; {watts:.0} W a device"));
        format!("{} a million tokens{watts}", parts.join(", "))
    }
}

/// The cost of a step, in a line.
fn of_step(cost: &CostReport) -> Option<String> {
    let energy = cost.step_joules.map(|joules| match joules / KWH {
        kwh if kwh >= 0.01 => format!("{} ({kwh:.2} kWh)", joules_in_words(joules)),
        _ => joules_in_words(joules),
    });
    let usd = cost.step_usd.map(|usd| format!("{usd:.4} $"));
    let parts: Vec<String> = energy.into_iter().chain(usd).collect();
    (!parts.is_empty()).then(|| format!("{} a step", parts.join(", ")))
}

/// Joules in a unit that leaves few digits before the point.
pub fn joules_in_words(joules: f64) -> String {
    match joules {
        j if j < 1e3 => format!("{j:.1} J"),
        j if j < 1e5 => format!("{:.2} kJ", j / 1e3),
        j if j < 1e9 => format!("{:.2} MJ", j / 1e6),
        j => format!("{:.2} GJ", j / 1e9),
    }
}
