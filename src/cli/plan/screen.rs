//! A plan on one screen: the answer first, then what of it is in doubt, and the next commands.

use serde_json::Value;

use super::super::search::words::layout;
use stepsim_core::units::{Time, grouped};
use stepsim_read::analysis::answer::HEAD_ROOM;
use stepsim_study::plan::{RunPlan, SimulatedPlan};

const GIB: f64 = (1u64 << 30) as f64;

/// Columns of the names of lines.
const NAMES: usize = 10;

/// Lines of a screen that grow by words.
struct PlanScreen {
    text: String,
    width: usize,
}

impl PlanScreen {
    /// A name, and words that are wrapped behind it.
    fn add(&mut self, name: &str, words: &str) {
        let mut line = format!("  {name:<NAMES$}");
        let mut used = line.chars().count();
        for word in words.split(' ') {
            let long = word.chars().count() + 1;
            if used + long > self.width && used > NAMES + 2 {
                self.text += line.trim_end();
                self.text.push('\n');
                line = " ".repeat(NAMES + 2);
                used = NAMES + 2;
            }
            line = format!("{line} {word}");
            used += long;
        }
        self.text += line.trim_end();
        self.text.push('\n');
    }
}

/// The screen of a plan; `whole` is what the whole run takes.
pub(super) fn screen(plan: &RunPlan, planned: &SimulatedPlan, whole: Option<&str>, width: u16) -> String {
    let (report, answer) = (&planned.report, &planned.report.answer);
    let mut lines = PlanScreen { text: format!("{} on {}\n", plan.name, plan.on), width: width.into() };
    let tokens = grouped(planned.tokens_per_s_per_device().round() as u64);
    let step = Time::from_s(answer.step_time_s);
    lines.add("step", &format!("{step}, MFU {:.1} %, {tokens} tokens/s a device", 100.0 * answer.mfu));
    lines.add("range", &answer.range);
    lines.add("layout", &planned.layout);
    if let Some(stopped) = &plan.stopped {
        lines.add("", &format!("the search {}", stopped.sentence()));
    }
    if let Some(bytes) = answer.memory_peak_bytes {
        let of =
            answer.memory_capacity_bytes.map_or(String::new(), |all| format!(" of {:.1}", all as f64 / GIB));
        let room = (1.0 - HEAD_ROOM) * answer.memory_capacity_bytes.unwrap_or(u64::MAX) as f64;
        let doubt = match bytes as f64 > room {
            true => format!(
                ": it may not fit, memory of measured steps is known to about {:.0} %",
                100.0 * HEAD_ROOM
            ),
            false => String::new(),
        };
        lines.add("memory", &format!("{:.1}{of} GiB on the fullest device{doubt}", bytes as f64 / GIB));
    }
    if let Some(cost) = &answer.cost {
        let price = match cost.usd_per_million_tokens {
            None => "; in dollars with --set topology.device.price_USD_per_h=2.5",
            Some(_) => "",
        };
        lines.add("cost", &format!("{}{price}", cost.words()));
    }
    lines.add("hangs on", &report.hangs_on);
    if let Some(whole) = whole {
        lines.add("whole run", whole);
    }
    if let Some(packed) = SimulatedPlan::packed(plan) {
        lines.add("packed", &packed);
    }
    if let [first, more @ ..] = plan.assumed().as_slice() {
        lines.add("assumed", &format!("{first}{}", and_more(more.len())));
    }
    if let Some(bets) = plan.advice.as_ref().and_then(|advice| advice.risk().into_iter().next()) {
        lines.add("at risk", &bets);
    }
    for ranked in &plan.beside {
        let step = ranked.outcome.step_time_s.map_or(String::new(), |s| format!("{}: ", Time::from_s(s)));
        let mut settings = ranked.settings.clone();
        settings.retain(|path, value| says(&plan.workload, path) != Some(value));
        let behind = ranked.behind.as_ref().map_or(String::new(), |why| format!("; not first: {why}"));
        lines.add("or", &format!("{step}{}{behind}", layout(&settings)));
    }
    lines.text
}

/// The value of a field.
fn says<'a>(workload: &'a Value, path: &str) -> Option<&'a Value> {
    workload.pointer(&format!("/{}", path.replace('.', "/")))
}

fn and_more(n: usize) -> String {
    if n == 0 { String::new() } else { format!("; and {n} more: --sources") }
}
