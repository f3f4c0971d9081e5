//! The verdict: what was measured against what is expected, and every cause played.

use super::cause::{CausePlay, CauseTable, SlowCause, scaled};
use super::fit::{FittedSize, fit};
use super::measured::MeasuredNumber;
use super::player::StepPlayer;
use super::telling::{self, Suspect, Telling};
use super::verdict::{ExplainedBy, Judgement, PlayedCause, StepVerdict};
use stepsim_bring::training_log::StepWork;
use stepsim_core::pool;
use stepsim_measure::score::ranges::{Accuracy, StepTraits};
use stepsim_read::analysis::report::Report;
use stepsim_simulate::{Inputs, SimulationError};

/// Deviation of the model from measured steps, on a scale of logarithms, where no range says it.
const UNKNOWN: f64 = 0.15;
/// The same where a step is held against itself.
const ITSELF: f64 = 0.03;
/// A switch differs from its model by more than the step does.
const OF_SWITCH: f64 = 0.04;
/// Four in five lie within this number of deviations on either side.
const FOUR_IN_FIVE: f64 = 1.2816;
/// A step that is nearer than this to the expected one needs no cause.
pub(super) const NEAR: f64 = 0.03;
/// A cause that reaches less than this part of the distance is none.
const PART: f64 = 0.6;
/// The share of the weight that the first two have where one number tells.
const TOLD: f64 = 0.7;
/// Deviation of a step with fields changed from the play of its cause, on a scale of logarithms: what the model is off
/// for the step itself the cause's size has taken in.
const FURTHER: f64 = 0.05;
/// A cause with less of the weight is not listed.
const SMALL: f64 = 0.005;

/// The distance that causes have to explain.
struct StepDistance {
    /// Seconds of the step as described.
    now: f64,
    /// Seconds that a played cause has to make of it.
    target: f64,
    /// Deviation of the model, on a scale of logarithms.
    deviation: f64,
    /// Measured seconds of a played one: 1, unless a reference is given.
    longer: f64,
}

/// Judges a measured step, whose simulated report with its range is given. Where the seconds are known that the same
/// step took when it was in order, only factors are compared.
///
/// # Errors
/// The table of causes cannot be read.
pub fn judge(
    inputs: &Inputs,
    report: &Report,
    measured: &MeasuredNumber,
    reference_s: Option<f64>,
) -> Result<StepVerdict, SimulationError> {
    let now = report.step_time_s;
    let should = reference_s.unwrap_or(now);
    let deviation = match (reference_s, report.answer.range_s) {
        (Some(_), _) => ITSELF,
        (None, Some([low, high])) => ((high / low).ln() / 2.0 / FOUR_IN_FIVE).max(ITSELF),
        (None, None) => UNKNOWN,
    };
    let distance =
        StepDistance { now, target: now * measured.seconds / should, deviation, longer: should / now };
    let nine_in_ten_s =
        report.answer.range_s.and(Accuracy::as_read(inputs, now).range().map(|range| range.nine_in_ten_s));
    let mut verdict = StepVerdict {
        judgement: judgement(inputs, measured, reference_s, nine_in_ten_s),
        nine_in_ten_s,
        measured_s: measured.seconds,
        read_as: measured.read_as.clone(),
        answer: report.answer.clone(),
        reference_s,
        distance_s: measured.seconds - should,
        ..StepVerdict::default()
    };
    let is_near = (measured.seconds / should).ln().abs() < NEAR;
    if verdict.judgement == Judgement::Normal && measured.is_worked_out {
        unless(measured, should, nine_in_ten_s, &mut verdict);
    } else if verdict.judgement != Judgement::Normal && !is_near {
        explain(inputs, measured, should, &distance, &mut verdict)?;
    }
    Ok(verdict)
}

/// A number that was worked out from a time is normal only as it is read: conventions in which the clock shows a step
/// outside of the range, the longest step first.
fn unless(measured: &MeasuredNumber, should: f64, range_s: Option<[f64; 2]>, verdict: &mut StepVerdict) {
    let [low, high] = range_s.unwrap_or([should; 2]);
    let outside = measured.readings.iter().filter(|(.., s)| *s < low || *s > high);
    let suspect = |(words, _, seconds): &(String, f64, f64)| Suspect {
        weight: (seconds / should).ln().abs(),
        ..reading(words, *seconds)
    };
    let suspects: Vec<Suspect> = outside.map(suspect).collect();
    let all = weight(&suspects);
    verdict.causes = by_class(suspects).into_iter().map(|class| explained(class, all)).collect();
    let clock = [Some(measured.seconds), verdict.causes.first().map(|class| class.causes[0].step_s)];
    let [Some(as_read), Some(otherwise)] = clock else { return };
    let what = "seconds of a step by the clock".to_string();
    verdict.telling = Some(Telling { what, seconds: Some([as_read, otherwise]), ..Telling::default() });
}

/// A convention of the number as a cause.
fn reading(words: &str, seconds: f64) -> Suspect {
    Suspect {
        class: "reading".into(),
        what: words.to_owned(),
        size: None,
        seconds,
        weight: 0.0,
        played: None,
        look: "how the number is made".into(),
    }
}

/// How a step stands to its range, or to a reference.
fn judgement(
    inputs: &Inputs,
    measured: &MeasuredNumber,
    reference_s: Option<f64>,
    range_s: Option<[f64; 2]>,
) -> Judgement {
    let work = StepWork::of(inputs);
    let s = measured.seconds;
    if work.flops / s > work.peak {
        return Judgement::Impossible;
    }
    let around = |reference: f64| [reference * (1.0 - 2.0 * ITSELF), reference * (1.0 + 2.0 * ITSELF)];
    match reference_s.map(around).or(range_s) {
        None => Judgement::Unknown,
        Some([_, high]) if s > high => Judgement::Slow,
        Some([low, _]) if s < low => Judgement::Fast,
        Some(_) => Judgement::Normal,
    }
}

/// Plays all causes, and puts those that reach the number in order.
fn explain(
    inputs: &Inputs,
    measured: &MeasuredNumber,
    should: f64,
    distance: &StepDistance,
    verdict: &mut StepVerdict,
) -> Result<(), SimulationError> {
    let stack = StepTraits::of(inputs).map(|traits| traits.stack);
    let mut table = CauseTable::of(inputs, stack.as_deref())?;
    let player = StepPlayer::of(inputs);
    let tried =
        pool::all(table.causes.len(), pool::threads(None), &|i| distance.tried(&player, &table.causes[i]));
    let mut suspects = Vec::new();
    for (cause, tried) in table.causes.iter().zip(tried) {
        match tried {
            CauseTrial::Reaches(suspect) => suspects.push(*suspect),
            CauseTrial::Short(seconds) => verdict.dropped.push((cause.what.clone(), seconds)),
            CauseTrial::Nothing => {}
        }
    }
    suspects.extend(readings(measured, should, distance));
    for step in &measured.further {
        for suspect in &mut suspects {
            let played = suspect.played.clone().unwrap_or_default();
            // A cause that these settings do not let be is none.
            let seconds = player.seconds(&played, &step.sets).unwrap_or(f64::INFINITY);
            suspect.weight *= normal((distance.longer * seconds / step.seconds).ln(), FURTHER);
        }
    }
    let is_made =
        |sets: Option<Vec<String>>| measured.further.iter().any(|step| Some(&step.sets) == sets.as_ref());
    table.experiments.retain(|experiment| !is_made(scaled(&experiment.scale, inputs)));
    let all: f64 = weight(&suspects);
    suspects.retain(|s| s.weight > SMALL * all);
    let classes = by_class(suspects);
    // A size that is fitted reaches any number; a switch that misses it explains nothing.
    let reaches = |s: &Suspect| {
        let off = (distance.longer * s.seconds / measured.seconds).ln().abs();
        s.size.is_none() && off <= FOUR_IN_FIVE * distance.deviation
    };
    verdict.is_told = classes.first().and_then(|class| class.first()).is_some_and(reaches)
        && classes.iter().take(2).map(|class| weight(class)).sum::<f64>() >= TOLD * all;
    let first_two = [0, 1].map(|i| classes.get(i).and_then(|class| class.first()));
    verdict.telling = telling::of(&player, &table.experiments, first_two, distance.longer);
    verdict.causes = classes.into_iter().map(|class| explained(class, all)).collect();
    Ok(())
}

fn weight(suspects: &[Suspect]) -> f64 {
    suspects.iter().map(|s| s.weight).sum()
}

/// Suspects by class, in each the likeliest first, and the likeliest class first.
fn by_class(mut suspects: Vec<Suspect>) -> Vec<Vec<Suspect>> {
    suspects.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let mut classes: Vec<Vec<Suspect>> = Vec::new();
    for suspect in suspects {
        match classes.iter_mut().find(|class| class[0].class == suspect.class) {
            Some(class) => class.push(suspect),
            None => classes.push(vec![suspect]),
        }
    }
    classes.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    classes
}

fn explained(class: Vec<Suspect>, all: f64) -> ExplainedBy {
    let share = weight(&class) / all;
    let first = |of: fn(&Suspect) -> &String| class.first().map(of).cloned().unwrap_or_default();
    let (name, look) = (first(|s| &s.class), first(|s| &s.look));
    let played = |s: Suspect| PlayedCause {
        what: s.what,
        size: s.size,
        step_s: s.seconds,
        sets: s.played.filter(|p| p.change.is_none()).map_or_else(Vec::new, |p| p.sets),
    };
    ExplainedBy { class: name, share, look, causes: class.into_iter().map(played).collect() }
}

/// Conventions in which the number is the expected one.
fn readings(measured: &MeasuredNumber, should: f64, distance: &StepDistance) -> Vec<Suspect> {
    let of = |(words, weight, seconds): &(String, f64, f64)| {
        let off = (seconds / should).ln();
        Suspect { weight: weight * normal(off, distance.deviation), ..reading(words, *seconds) }
    };
    let nearer =
        |s: &Suspect| (s.seconds / should).ln().abs() < (1.0 - PART) * (measured.seconds / should).ln().abs();
    measured.readings.iter().map(of).filter(nearer).collect()
}

/// The outcome of a cause.
enum CauseTrial {
    Reaches(Box<Suspect>),
    /// The most that it makes of the step, in seconds.
    Short(f64),
    /// It is nothing that this step has, or leaves the step as it is.
    Nothing,
}

impl StepDistance {
    /// Logarithm of the factor between the described step and what it has to become.
    fn all(&self) -> f64 {
        (self.target / self.now).ln()
    }

    fn tried(&self, player: &StepPlayer<'_>, cause: &SlowCause) -> CauseTrial {
        match (cause.idle, cause.has_size()) {
            (true, _) if self.all() > 0.0 => self.idle(cause),
            (true, _) => CauseTrial::Nothing,
            (_, true) if self.all() > 0.0 => self.fitted(player, cause),
            (_, true) => CauseTrial::Nothing,
            _ => self.switched(player, cause),
        }
    }

    /// Time in which devices do nothing.
    fn idle(&self, cause: &SlowCause) -> CauseTrial {
        let size = self.target - self.now;
        let fitted = FittedSize { size, seconds: self.target, slope: self.target / size };
        let usual = usual(cause, &fitted, size / self.now, self.deviation);
        self.suspect(
            cause,
            Some(size * self.longer),
            self.target,
            usual,
            CausePlay { idle_s: size, ..CausePlay::default() },
        )
    }

    fn fitted(&self, player: &StepPlayer<'_>, cause: &SlowCause) -> CauseTrial {
        let play = |size: f64| player.seconds(&cause.played(player.inputs, size)?, &[]);
        let mut far = self.now;
        let fitted = fit([cause.least(), cause.most], self.now, self.target, &mut far, &play);
        let moves = (far / self.now).ln() > NEAR;
        match fitted {
            None if moves => CauseTrial::Short(far),
            None => CauseTrial::Nothing,
            Some(fitted) => {
                let usual = usual(cause, &fitted, fitted.size, self.deviation);
                let played = cause.played(player.inputs, fitted.size).unwrap_or_default();
                self.suspect(cause, Some(fitted.size), fitted.seconds, usual, played)
            }
        }
    }

    fn switched(&self, player: &StepPlayer<'_>, cause: &SlowCause) -> CauseTrial {
        let played = cause.played(player.inputs, 1.0);
        let Some((played, seconds)) = played.and_then(|p| Some((p.clone(), player.seconds(&p, &[])?))) else {
            return CauseTrial::Nothing;
        };
        let reached = (seconds / self.now).ln() / self.all();
        if reached < PART {
            return if reached > 0.05 { CauseTrial::Short(seconds) } else { CauseTrial::Nothing };
        }
        let off = (seconds / self.target).ln();
        self.suspect(cause, None, seconds, normal(off, self.deviation.hypot(OF_SWITCH)), played)
    }

    fn suspect(
        &self,
        cause: &SlowCause,
        size: Option<f64>,
        seconds: f64,
        usual: f64,
        played: CausePlay,
    ) -> CauseTrial {
        CauseTrial::Reaches(Box::new(Suspect {
            class: cause.class.clone(),
            what: cause.words(size),
            size,
            seconds,
            weight: cause.weight * usual,
            played: Some(played),
            look: cause.look.clone(),
        }))
    }
}

/// How usual a fitted size is: its density on the scale of the step's logarithm, with the model's deviation.
fn usual(cause: &SlowCause, fitted: &FittedSize, size: f64, deviation: f64) -> f64 {
    let of = |(middle, about): &(f64, f64)| {
        normal((size / middle).ln(), about.ln().hypot(deviation * fitted.slope)) * fitted.slope
    };
    cause.usual.iter().map(of).sum::<f64>() / cause.usual.len().max(1) as f64
}

/// Density of a normal variable.
fn normal(off: f64, deviation: f64) -> f64 {
    (-0.5 * (off / deviation).powi(2)).exp() / deviation
}
