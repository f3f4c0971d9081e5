//! The reading of communication by kind.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::CommunicationReport;
use crate::analysis::cells::{self, grouped, new_table, percent};
use crate::analysis::kind::OpKind;
use crate::analysis::reading::{Lines, Measure, PageContents, Reading, Report, Run, Sheet};
use crate::analysis::report::RankInfo;
use crate::analysis::run::RankReading;
use crate::analysis::stages::StageReport;
use crate::page::sheet::{bars, gib, seconds};
use stepsim_core::units::{Bytes, PS_PER_S};

/// Communication by kind: under kernels, exposed, or neither.
pub struct CommunicationReading;

impl Reading for CommunicationReading {
    fn read(&self, run: &mut Run<'_, '_>, report: &mut Report) {
        report.communication = communication(&run.ranks, run.info.ranks, |_| true);
    }

    fn table(&self, r: &Report, out: &mut String, width: u16) {
        if r.communication.is_empty() {
            return;
        }
        let columns = ["kind", "ran", "under kernels", "while idle", "exposed", "of step", "bytes", "ops"];
        let mut table = new_table(width, columns.map(String::from).to_vec());
        let step = r.run_time_s.max(f64::MIN_POSITIVE);
        for (kind, c) in &r.communication {
            table.add_row([
                format!("{} ({})", kind.words(), kind.name()),
                cells::seconds(c.ran_s),
                cells::seconds(c.under_kernels_s),
                cells::seconds(c.while_idle_s),
                cells::seconds(c.exposed_s),
                percent(c.exposed_s / step),
                Bytes(c.bytes.round() as u64).to_string(),
                grouped(c.ops.round() as u64),
            ]);
        }
        let _ = writeln!(
            out,
            "\nCommunication (mean of a rank; exposed: it stood still for it; idle: for other)\n{table}"
        );
    }

    fn page(&self, report: &Report, _: &PageContents, sheet: &mut Sheet) {
        if report.communication.is_empty() {
            return;
        }
        let note = "Green under kernels (only this is overlap), grey while the rank stood still for something \
                    else, red exposed: the rank stood still for it.";
        sheet.section("Communication", note, |out| out.push_str(&chart(report)));
    }

    fn compare(&self, a: &Report, b: &Report, lines: &mut Lines) {
        lines.section("communication");
        let kinds: BTreeSet<&OpKind> = a.communication.keys().chain(b.communication.keys()).collect();
        for kind in kinds {
            let of = |r: &Report| r.communication.get(kind).cloned().unwrap_or_default();
            let (x, y) = (of(a), of(b));
            lines.add(format!("{} exposed", kind.words()), Measure::Seconds, x.exposed_s, y.exposed_s);
            lines.add(
                format!("{} under kernels", kind.words()),
                Measure::Seconds,
                x.under_kernels_s,
                y.under_kernels_s,
            );
            lines.add(format!("{} bytes", kind.words()), Measure::Bytes, x.bytes, y.bytes);
        }
    }
}

/// By kind, the mean over the ranks that `wanted` picks by stage, each as often as it stands for.
pub(crate) fn communication(
    readings: &[RankReading],
    ranks: &[RankInfo],
    wanted: impl Fn(u32) -> bool,
) -> BTreeMap<OpKind, CommunicationReport> {
    let read = || readings.iter().zip(ranks).filter(|(_, info)| wanted(info.stage));
    let all: f64 = read().map(|(_, info)| info.members.len() as f64).sum();
    let mut kinds = BTreeMap::new();
    for kind in OpKind::ALL {
        let (mut times, mut ops, mut bytes) = ([0u128; 4], 0u64, 0u128);
        for (reading, of) in read() {
            let (k, weight) = (&reading.communication[kind as usize], of.members.len() as u64);
            for (sum, time) in times.iter_mut().zip([k.ran, k.under_kernels, k.exposed, k.op_time]) {
                *sum += u128::from(weight) * u128::from(time.0);
            }
            ops += weight * k.ops;
            bytes += u128::from(weight) * k.bytes;
        }
        if ops > 0 {
            let seconds = |sum: u128| sum as f64 / all / PS_PER_S;
            let [ran, under_kernels, exposed, op_time] = times;
            let report = CommunicationReport {
                ran_s: seconds(ran),
                under_kernels_s: seconds(under_kernels),
                while_idle_s: seconds(ran - under_kernels - exposed),
                exposed_s: seconds(exposed),
                op_seconds: seconds(op_time),
                bytes: bytes as f64 / all,
                ops: ops as f64 / all,
            };
            kinds.insert(kind, report);
        }
    }
    kinds
}

/// Communication by kind: under kernels, while the rank stood still for something else, exposed.
fn chart(report: &Report) -> String {
    let of_stage = |stage: &'_ StageReport| (format!("stage {}", stage.stage), stage.communication.clone());
    let stages = report.stages.iter().map(of_stage).filter(|_| report.stages.len() > 1);
    let all: Vec<_> = [("mean".to_owned(), report.communication.clone())].into_iter().chain(stages).collect();
    let whole = all.iter().flat_map(|(_, of)| of.values()).map(|c| c.ran_s).fold(0.0, f64::max);
    let line = |name: &str, kind: &OpKind, c: &CommunicationReport| {
        let part = |class: &str, what: &str, s: f64| (class.to_owned(), s, format!("{what}: {}", seconds(s)));
        let parts = vec![
            part("under", "under kernels", c.under_kernels_s),
            part("idle", "while the rank stood still for something else", c.while_idle_s),
            part("exposed", "exposed", c.exposed_s),
        ];
        (format!("{name} {}", kind.name()), parts, format!("{}, {} a rank", seconds(c.ran_s), gib(c.bytes)))
    };
    let lines = all.iter().flat_map(|(name, of)| of.iter().map(move |(kind, c)| line(name, kind, c)));
    bars("communication", "communication in three parts", whole, &lines.collect::<Vec<_>>())
}
