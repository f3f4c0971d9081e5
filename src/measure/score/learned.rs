//! A profile as prices: work by work, the simulated step is made to take the profile's time.
//!
//! Kernels of the profile are told by their names, the plan's by their class, and laid against each other by their
//! work: products, attention, the optimizer, and memory-bound kernels. A factor for each makes the plan's kernels take
//! the profile's time; one for collectives matches their time once all ranks were there, where several ranks tell; and
//! the host's makes the step last as long, by the rest. Factors of one change what others hide, so the step is played
//! again until it stays. Kernels whose names tell nothing, or that one side alone has, are listed with their time.
//!
//! Hazard: one rank's communication holds its wait for others, which no factor should stand for:
//! [`ProfileLessons::doubts`] says so.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use crate::profile::ProfileReport;
use crate::profile::classes::Family;
use crate::summary::work_of;
use stepsim_core::ids::DeviceId;
use stepsim_core::kernel_class::KernelClass;
use stepsim_fabric::collective::Op;
use stepsim_simulate::{Inputs, Options, Simulation};
use stepsim_spec::SpecError;

use super::same_run::{check_device, check_kernels, check_ranks};
pub use super::side::NotLearned;
use super::side::{MEMORY, StepSide, WORKS};

/// Between these, a factor is a price; beyond them, plan and profile are not the same run.
pub(super) const PRICE: [f64; 2] = [0.25, 4.0];
/// Plays at most.
const PLAYS: usize = 16;
/// Learned factors are rounded to one part of so many.
pub(super) const ROUNDED: f64 = 1e5;
/// A step that is so near, as a share, is near enough.
const NEAR: f64 = 2e-3;

/// A step that is farther off with all prices waits for something that is no price.
const FAR: f64 = 0.02;

/// The lessons of a profile.
#[derive(Clone, Debug, Serialize)]
pub struct ProfileLessons {
    /// Settings that give a run these prices.
    pub set: Vec<String>,
    /// Step and works, one a line.
    pub lines: Vec<LearnedLine>,
    /// Kernels of one side alone, or with a name that tells nothing, with their seconds.
    pub unmatched: Vec<(String, f64)>,
    /// Reasons against trusting it.
    pub doubts: Vec<String>,
}

/// One quantity in the profile, as simulated, and with what was learned.
#[derive(Clone, Debug, Serialize)]
pub struct LearnedLine {
    /// Which.
    pub what: String,
    /// Seconds in the profile.
    pub profile_s: f64,
    /// Seconds simulated before.
    pub before_s: f64,
    /// The factor on its prices, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<f64>,
    /// Seconds simulated with all of them.
    pub after_s: f64,
}

/// Factors by work, of the host and of collectives.
#[derive(Clone, Debug, PartialEq)]
struct LearnedFactors {
    works: BTreeMap<&'static str, f64>,
    host: f64,
    exchange: f64,
}

impl LearnedFactors {
    /// Refuses factors that are no prices.
    fn check(&self, target: &StepSide, before: &StepSide) -> Result<(), NotLearned> {
        let mut works = self.works.iter();
        works.try_for_each(|(work, times)| check_price(work, *times, target.work(work), before.work(work)))
    }

    fn settings(&self, inputs: &Inputs) -> Vec<String> {
        let times = |class: KernelClass| {
            let work = WORKS.iter().find(|work| **work == work_of(class)).copied().unwrap_or(MEMORY);
            self.works.get(work).or(self.works.get(MEMORY)).copied().unwrap_or(1.0)
        };
        slower(inputs, ROUNDED, times, self.host, self.exchange)
    }
}

/// Refuses a factor that is no price; the seconds are those measured and priced.
pub(super) fn check_price(work: &str, times: f64, measured_s: f64, priced_s: f64) -> Result<(), NotLearned> {
    if (PRICE[0]..=PRICE[1]).contains(&times) {
        return Ok(());
    }
    Err(NotLearned::Other(format!(
        "{:.3} ms of {work} kernels were measured and {:.3} ms are planned, {times:.2} times as much: more \
         likely the workload or the machine is not the one that was measured",
        1e3 * measured_s,
        1e3 * priced_s,
    )))
}

/// Settings that put factors on what the machine's device, host and collectives take, each to a part of so many.
pub(super) fn slower(
    inputs: &Inputs,
    parts: f64,
    times: impl Fn(KernelClass) -> f64,
    host: f64,
    exchange: f64,
) -> Vec<String> {
    let rounded = |x: f64| (x * parts).round() / parts;
    let cost = inputs.machine.device(DeviceId(0)).cost.clone().unwrap_or_default();
    let of = |class: &KernelClass| {
        let before = cost.slowness.get(class).copied().unwrap_or(1.0);
        (class.name(), rounded(times(*class) * before))
    };
    let kernels: BTreeMap<&str, f64> = KernelClass::ALL.iter().map(of).collect();
    let own = inputs.topology.value.collectives.clone().unwrap_or_default().slowness;
    let of = |op: &Op| (*op, rounded(exchange * own.get(op).copied().unwrap_or(1.0)));
    let collectives: BTreeMap<Op, f64> = Op::ALL.iter().map(of).collect();
    vec![
        format!("topology.device.cost.slowness={}", json!(kernels)),
        format!("topology.device.cost.host_slowness={}", rounded(cost.host_slowness * host)),
        format!("topology.collectives.slowness={}", json!(collectives)),
    ]
}

/// Plays the workload under factors.
struct FactorPlayer<'a> {
    load: &'a dyn Fn(&[String]) -> Result<Inputs, SpecError>,
    inputs: Inputs,
    merged: bool,
}

impl FactorPlayer<'_> {
    fn play(&self, factors: &LearnedFactors) -> Result<StepSide, NotLearned> {
        let inputs = (self.load)(&factors.settings(&self.inputs)).map_err(NotLearned::Spec)?;
        let run = Simulation::run(&inputs, &Options::default()).map_err(NotLearned::Run)?;
        let side = StepSide::simulated(&run.report(false));
        Ok(if self.merged { side.merged() } else { side })
    }
}

/// Prices with which a workload takes what profiles of it took. `load` reads the workload under settings.
///
/// # Errors
/// [`NotLearned`].
pub fn learn(
    load: &dyn Fn(&[String]) -> Result<Inputs, SpecError>,
    profiles: &ProfileReport,
) -> Result<ProfileLessons, NotLearned> {
    let inputs = load(&[]).map_err(NotLearned::Spec)?;
    check_device(&inputs, profiles)?;
    check_ranks(&inputs, profiles)?;
    let mut target = StepSide::mean(profiles);
    let merged = target.work("optimizer") == 0.0;
    if merged {
        target = target.merged();
    }
    target.exchange_s = (target.exchange_s - waits(profiles)).max(0.0);
    let player = FactorPlayer { load, inputs, merged };
    let works =
        WORKS.into_iter().filter(|work| !(merged && *work == "optimizer")).map(|work| (work, 1.0)).collect();
    let mut factors = LearnedFactors { works, host: 1.0, exchange: 1.0 };
    let before = player.play(&factors)?;
    check_kernels(&player.inputs, &target, &before)?;
    let mut after = before.clone();
    for _ in 0..3 {
        for (work, times) in &mut factors.works {
            *times *= ratio(target.work(work), after.work(work));
        }
        factors.exchange = (factors.exchange * ratio(target.exchange_s, after.exchange_s)).clamp(1e-3, 1e3);
        after = player.play(&factors)?;
    }
    factors.check(&target, &before)?;
    after = with_host(&player, &mut factors, &target, after)?;
    let set = factors.settings(&player.inputs);
    let step = after.step_s / target.step_s - 1.0;
    let rest = |side: &StepSide| (side.step_s - side.works.values().sum::<f64>()).max(0.0);
    let mut lines = vec![line("step", [&target, &before, &after].map(|side| side.step_s), None)];
    lines.extend(works_and_exchange(&target, &before, &factors, &after));
    let host = [&target, &before, &after].map(rest);
    lines.push(line("without kernels (host)", host, Some(factors.host)));
    Ok(ProfileLessons {
        set,
        lines,
        unmatched: unmatched(profiles, &target, &before),
        doubts: doubts(profiles, &target, &factors, Some(step)),
    })
}

/// Prices from profiles that hold a part of a step alone (a pair of passes, a few layers). `part` is the simulated
/// part: a timeline of one rank and window. The host keeps its pace, and so do collectives that one rank alone tells
/// of.
///
/// # Errors
/// [`NotLearned`].
pub fn learn_part(
    load: &dyn Fn(&[String]) -> Result<Inputs, SpecError>,
    profiles: &ProfileReport,
    part: &ProfileReport,
) -> Result<ProfileLessons, NotLearned> {
    let inputs = load(&[]).map_err(NotLearned::Spec)?;
    check_device(&inputs, profiles)?;
    let (mut target, mut before) = (StepSide::mean(profiles), StepSide::mean(part));
    if target.work("optimizer") == 0.0 || before.work("optimizer") == 0.0 {
        (target, before) = (target.merged(), before.merged());
    }
    target.exchange_s = (target.exchange_s - waits(profiles)).max(0.0);
    let times = |work: &&'static str| (*work, ratio(target.work(work), before.work(work)));
    let works = WORKS.iter().filter(|work| target.work(work) + before.work(work) > 0.0).map(times).collect();
    let all_tell = profiles.ranks.len() > 1;
    let exchange = if all_tell { ratio(target.exchange_s, before.exchange_s).clamp(1e-3, 1e3) } else { 1.0 };
    let factors = LearnedFactors { works, host: 1.0, exchange };
    check_kernels(&inputs, &target, &before)?;
    factors.check(&target, &before)?;
    let mut after = before.clone();
    after.works.iter_mut().for_each(|(work, seconds)| *seconds *= factors.works[work]);
    after.exchange_s *= exchange;
    let mut doubts = doubts(profiles, &target, &factors, None);
    if !all_tell && target.exchange_s > 0.0 {
        doubts.push("so collectives keep the prices of the network".to_string());
    }
    Ok(ProfileLessons {
        set: factors.settings(&inputs),
        lines: works_and_exchange(&target, &before, &factors, &after),
        unmatched: unmatched(profiles, &target, &before),
        doubts,
    })
}

/// The factor from simulated to measured seconds; 1 where either has none.
fn ratio(measured: f64, simulated: f64) -> f64 {
    if measured > 0.0 && simulated > 0.0 { measured / simulated } else { 1.0 }
}

/// The pace of the host with which the step lasts as long as the profile's, by halving; as before where none that is a
/// price does.
fn with_host(
    player: &FactorPlayer,
    factors: &mut LearnedFactors,
    target: &StepSide,
    before: StepSide,
) -> Result<StepSide, NotLearned> {
    let [mut low, mut high] = PRICE;
    let off = |side: &StepSide| (side.step_s / target.step_s - 1.0).abs();
    let mut best = (1.0, before.clone());
    let mut after = before;
    for _ in 0..PLAYS {
        if off(&best.1) < NEAR {
            break;
        }
        *(if after.step_s > target.step_s { &mut high } else { &mut low }) = factors.host;
        factors.host = f64::sqrt(low * high);
        after = player.play(factors)?;
        if off(&after) < off(&best.1) {
            best = (factors.host, after.clone());
        }
    }
    if off(&best.1) > FAR {
        factors.host = 1.0;
        return player.play(factors);
    }
    factors.host = best.0;
    Ok(best.1)
}

/// The waits of ranks for each other in collectives, mean over ranks and steps.
fn waits(profiles: &ProfileReport) -> f64 {
    let Some(skew) = &profiles.collectives else { return 0.0 };
    let steps = profiles.ranks.first().map_or(1, |rank| rank.steps.len().max(1)) as f64;
    skew.ranks.iter().map(|rank| rank.waits_s).sum::<f64>() / skew.ranks.len().max(1) as f64 / steps
}

pub(super) fn line(what: &str, [profile_s, before_s, after_s]: [f64; 3], times: Option<f64>) -> LearnedLine {
    LearnedLine { what: what.to_string(), profile_s, before_s, times, after_s }
}

fn works_and_exchange(
    target: &StepSide,
    before: &StepSide,
    factors: &LearnedFactors,
    after: &StepSide,
) -> Vec<LearnedLine> {
    let sides = [target, before, after];
    let works = factors.works.iter().filter(|(work, _)| target.work(work) + before.work(work) > 0.0);
    let mut lines: Vec<LearnedLine> =
        works.map(|(work, times)| line(work, sides.map(|side| side.work(work)), Some(*times))).collect();
    lines.push(line("collectives", sides.map(|side| side.exchange_s), Some(factors.exchange)));
    lines
}

/// Kernels without a counterpart, or with a name that does not tell their work.
fn unmatched(profiles: &ProfileReport, target: &StepSide, before: &StepSide) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    let ranks = profiles.ranks.len().max(1) as f64;
    let mut untold: BTreeMap<String, f64> = BTreeMap::new();
    for rank in &profiles.ranks {
        let steps = rank.steps.len().max(1) as f64;
        for (class, kernels) in &rank.kernels {
            let told = WORKS.contains(&kernels.work.as_str());
            if kernels.family == Family::Compute && !told {
                *untold.entry(class.clone()).or_default() += kernels.total_s / ranks / steps;
            }
        }
        *untold.entry("copies of the driver".into()).or_default() += rank.copies_s / ranks / steps;
    }
    let why = |class: String| match class.as_str() {
        "copies of the driver" => "only in the profile, priced as waiting: copies of the driver".to_string(),
        _ => format!("work not told by its name, counted as {MEMORY}: {class}"),
    };
    found.extend(untold.into_iter().filter(|(_, s)| *s > 0.0).map(|(class, s)| (why(class), s)));
    let works = WORKS.map(|work| (work, target.work(work), before.work(work)));
    for (what, a, b) in works.into_iter().chain([("collectives", target.exchange_s, before.exchange_s)]) {
        if a > 0.0 && b == 0.0 {
            found.push((format!("only in the profile, priced as waiting: {what}"), a));
        } else if a == 0.0 && b > 0.0 {
            found.push((format!("only in the plan, priced as before: {what}"), b));
        }
    }
    found
}

/// `off` is how far the step is from the profile's, as a share.
fn doubts(
    profiles: &ProfileReport,
    target: &StepSide,
    factors: &LearnedFactors,
    off: Option<f64>,
) -> Vec<String> {
    let mut doubts = Vec::new();
    if profiles.ranks.len() == 1 && target.exchange_s > 0.0 {
        doubts.push("collectives of one rank hold its wait for others; give the profiles of all".to_string());
    }
    let stages = profiles.missing_ranks.len();
    if profiles.ranks.len() > 1 && stages > 0 {
        doubts.push(format!("{stages} ranks of the job have no profile; stages of a pipeline differ"));
    }
    if let Some(off) = off.filter(|off| off.abs() > FAR) {
        doubts.push(format!(
            "the step is {:+.1} % off with all prices, and no host between a quarter and four times the \
             stack's explains it: the profile waits for what the plan does not have (late ranks, data, \
             synchronisations; `stepsim analyze` names it), or overlaps otherwise",
            100.0 * off
        ));
    }
    if !(PRICE[0]..=PRICE[1]).contains(&factors.exchange) {
        doubts.push(format!(
            "collectives took {:.2} times what the network would: more likely their bytes or the machine's \
             links are others",
            factors.exchange
        ));
    }
    doubts
}
