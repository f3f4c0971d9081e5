//! Results that no step can have: a report with one is a defect of the simulator, and no result.
//!
//! Of every report, in release builds too: model FLOPs are executed (MFU ≤ HFU ≤ 1), every nanosecond of a rank is busy
//! or a stall with a name, and the bytes of a memory's peak have a class and fit.

use super::{Breakdown, Report};

/// The most that rounding may add to a share.
const ROUNDING: f64 = 1e-6;

impl Report {
    /// An impossible result, if the report has one, with what to do.
    pub fn impossible(&self) -> Option<String> {
        let checks: [fn(&Report) -> Option<String>; 3] = [utilisation, time, memory];
        let what = checks.into_iter().find_map(|check| check(self))?;
        let (workload, topology) = (&self.workload, &self.topology);
        Some(format!(
            "a defect of stepsim: the step of `{workload}` on `{topology}` would have {what}\n  what to do: please \
             report it with the command and the file that `stepsim show {workload} --resolved > defect.json` writes; \
             the result is not to be used"
        ))
    }
}

/// Attention in full may be more than the peak where a mask leaves half of it out; by half it may not.
fn utilisation(r: &Report) -> Option<String> {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let peak = [("MFU (causal)", r.mfu_causal), ("HFU (causal)", r.hfu_causal)];
    let above = peak.into_iter().find(|(_, share)| *share > 1.0 + ROUNDING);
    let above = above.map(|(name, share)| format!("{name} {} of the devices' peak", percent(share)));
    let pairs = [("", r.mfu, r.hfu), (" (causal)", r.mfu_causal, r.hfu_causal)];
    let more = pairs.into_iter().find(|(_, mfu, hfu)| *hfu < mfu * (1.0 - ROUNDING));
    let more =
        more.map(|(how, mfu, hfu)| format!("MFU{how} {} and less HFU, {}", percent(mfu), percent(hfu)));
    above.or(more)
}

fn time(r: &Report) -> Option<String> {
    let sums = |time: &Breakdown| {
        let sum = time.busy_s + time.stalls_s.values().sum::<f64>();
        ((sum - r.run_time_s).abs() > ROUNDING * r.run_time_s).then_some(sum)
    };
    let of_stages = r.stages.iter().map(|stage| &stage.time);
    let sum = std::iter::once(&r.mean).chain(of_stages).find_map(sums)?;
    Some(format!("{sum} s busy or stalled of {} s", r.run_time_s))
}

fn memory(r: &Report) -> Option<String> {
    r.memory.iter().find_map(|(name, tier)| {
        let (peak, capacity) = (tier.peak_bytes, tier.capacity_bytes);
        let classes: u64 = tier.by_class.values().sum();
        match () {
            () if peak > capacity => Some(format!("{peak} bytes on `{name}`, which holds {capacity}")),
            () if classes != peak => {
                Some(format!("{peak} bytes on `{name}` of which {classes} have a class"))
            }
            () => None,
        }
    })
}
