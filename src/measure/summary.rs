//! A measured step beside a simulated one, or beside another measured one: by work of the kernels and communication.

use std::collections::BTreeMap;

use crate::profile::classes::Family;
use crate::profile::report::RankProfile;
use stepsim_core::kernel_class::{KernelClass, KernelKind};
use stepsim_read::analysis::kind::OpKind;
use stepsim_read::analysis::lines::{Line, Lines, Measure};
use stepsim_read::analysis::report::Report;
use stepsim_read::analysis::stalls::{StallCause, WaitKind};

/// The readings of one rank that measured and simulated steps share, in seconds of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankSummary {
    /// The step.
    pub step_s: f64,
    /// Computing kernels.
    pub compute_s: f64,
    /// Nothing ran, or the compute stream stood still for something that is no communication.
    pub idle_s: f64,
    /// Communication: it ran, under kernels, exposed.
    pub communication_s: [f64; 3],
    /// Kernels by the work that they do.
    pub kernels: BTreeMap<String, (f64, f64)>,
    /// Model FLOPs over the peak.
    pub mfu: f64,
}

impl From<&RankProfile> for RankSummary {
    /// Of several steps, their mean. The device's window counts, not the marks of the host, which may end before it.
    fn from(p: &RankProfile) -> RankSummary {
        let steps = p.steps.len().max(1) as f64;
        let mut kernels: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        for k in p.kernels.values().filter(|k| k.family == Family::Compute) {
            let work = if k.work.is_empty() { "other" } else { &k.work };
            let sum = kernels.entry(work.to_string()).or_default();
            *sum = (sum.0 + k.count as f64 / steps, sum.1 + k.total_s / steps);
        }
        let exposed = p.exposed_communication_s;
        RankSummary {
            step_s: p.window_s / steps,
            compute_s: p.compute_s / steps,
            idle_s: p.idle_s.values().sum::<f64>() / steps,
            communication_s: [p.communication_s, p.communication_s - exposed, exposed].map(|s| s / steps),
            kernels,
            mfu: p.mfu.unwrap_or(0.0),
        }
    }
}

/// The work of a class of kernels in the words of profiles.
pub fn work_of(class: KernelClass) -> &'static str {
    match (class.kind(), class.name()) {
        (_, name) if name.starts_with("attention") => "attention",
        (_, name) if name.starts_with("optimizer") || name.starts_with("gradient") => "optimizer",
        (KernelKind::Scan, _) => "mixed",
        (
            KernelKind::Gemm(_) | KernelKind::GroupedGemm(_) | KernelKind::Batched | KernelKind::Attention,
            _,
        ) => "gemm",
        (KernelKind::MemoryBound(_), _) => "memory-bound",
    }
}

impl From<&Report> for RankSummary {
    fn from(r: &Report) -> RankSummary {
        let mut kernels: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        for k in &r.kernels {
            let sum = kernels.entry(work_of(k.class).to_string()).or_default();
            *sum = (sum.0 + k.count, sum.1 + k.time_s);
        }
        let of_communication = |cause: &StallCause| {
            use WaitKind::{Bubble, Host, Optimizer, Tail};
            !matches!(cause.waiting(), Bubble | Tail | Host | Optimizer)
        };
        let (exposed, idle): (Vec<_>, Vec<_>) = r.mean.stalls_s.iter().partition(|s| of_communication(s.0));
        let sum = |of: Vec<(&StallCause, &f64)>| of.into_iter().map(|s| s.1).sum::<f64>();
        let host = |k: &OpKind| matches!(k, OpKind::Compute | OpKind::Host);
        let kinds = || r.communication.iter().filter(|c| !host(c.0)).map(|c| c.1);
        let under: f64 = kinds().map(|c| c.under_kernels_s).sum();
        let ran: f64 = kinds().map(|c| c.ran_s).sum();
        RankSummary {
            step_s: r.step_time_s,
            compute_s: r.mean.busy_s,
            idle_s: sum(idle),
            communication_s: [ran, under, sum(exposed)],
            kernels,
            mfu: r.mfu,
        }
    }
}

/// Two steps line by line.
pub fn beside(a: &RankSummary, b: &RankSummary) -> Vec<Line> {
    let mut lines = Lines::default();
    lines.section("step");
    lines.add("step time", Measure::Seconds, a.step_s, b.step_s);
    lines.add("MFU", Measure::Fraction, a.mfu, b.mfu);
    lines.add("compute", Measure::Seconds, a.compute_s, b.compute_s);
    let names = ["communication ran", "communication under kernels", "communication exposed"];
    for ((name, x), y) in names.into_iter().zip(a.communication_s).zip(b.communication_s) {
        lines.add(name, Measure::Seconds, x, y);
    }
    lines.add("idle", Measure::Seconds, a.idle_s, b.idle_s);
    let of = |s: &RankSummary, part: fn(&(f64, f64)) -> f64| {
        s.kernels.iter().map(|(work, k)| (work.clone(), part(k))).collect::<BTreeMap<_, _>>()
    };
    lines.section("kernels");
    lines.all(Measure::Seconds, &of(a, |k| k.1), &of(b, |k| k.1));
    lines.section("number of kernels");
    lines.all(Measure::Count, &of(a, |k| k.0), &of(b, |k| k.0));
    lines.lines
}
