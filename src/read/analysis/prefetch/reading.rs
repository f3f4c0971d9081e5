//! The reading of copies to the device.

use std::fmt::Write;

use super::{PrefetchReport, copies, prefetch};
use crate::analysis::cells::write_list;
use crate::analysis::reading::{Reading, ReadingContext, Report, Run};
use stepsim_core::units::Time;

/// How far ahead copies to the device were issued, and should have been.
pub struct Prefetch;

impl Reading for Prefetch {
    fn read(&self, run: &mut Run<'_, '_>, report: &mut Report) {
        let weights = &run.weights;
        report.prefetch = prefetch(copies(run.causes, &run.turn.recurring, |rank| weights[rank.index()]));
    }

    /// The layer whose copy came latest.
    fn table(&self, r: &Report, out: &mut String, width: u16) {
        let late = |p: &&PrefetchReport| p.needed_s > p.had_s;
        let Some(worst) = r
            .prefetch
            .iter()
            .filter(late)
            .max_by(|a, b| (a.needed_s - a.had_s).total_cmp(&(b.needed_s - b.had_s)))
        else {
            return;
        };
        let (late, all) = (r.prefetch.iter().filter(late).count(), r.prefetch.len());
        let _ = writeln!(out, "\nPrefetch: too late for {late} of {all} layers and phases; worst:");
        let layer = worst.layer.map_or(String::new(), |l| format!("layer {l} "));
        let items = [
            format!("{layer}{}", worst.phase),
            format!("issued {} ahead", Time::from_s(worst.had_s)),
            format!("needed {} or {} layers", Time::from_s(worst.needed_s), worst.needed_layers),
        ];
        write_list(out, &items, width);
    }

    /// How many copies came too late.
    fn glance(&self, r: &Report, _: ReadingContext<'_>, out: &mut String, _: u16) {
        let late = r.prefetch.iter().filter(|p| p.needed_s > p.had_s).count();
        if late > 0 {
            let all = r.prefetch.len();
            let _ =
                writeln!(out, "Prefetch  too late for {late} of {all} layers and phases (--full: the worst)");
        }
    }
}
