//! Whether anything like a step was measured at all, and what would have to be.

use std::collections::BTreeSet;

use super::measured_step::MeasuredStep;
use super::traits::StepTraits;

/// A rate this much beyond all measured ones is beyond what was measured: data sheets of one device differ by less.
const BEYOND: f64 = 1.25;
/// The rest of a step beside a part that it hangs on.
const HANGS_ON: f64 = 0.15;

/// Why no range can be told, and the cheapest measurement that would give one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoEvidence {
    /// What was never measured, in words.
    pub what: String,
    /// The measurement that would.
    pub measure: String,
}

impl NoEvidence {
    /// What is missing for a step among measured ones; `None` where each of its dear terms was measured somewhere.
    pub fn of(traits: &StepTraits, steps: &[&MeasuredStep]) -> Option<NoEvidence> {
        device(traits, steps)
            .or_else(|| rates(traits, steps))
            .or_else(|| pairs(traits, steps))
            .or_else(|| kind(traits, steps))
            .or_else(|| hangs(traits, steps))
    }

    /// A sentence.
    pub fn words(&self) -> String {
        format!("{}; {} would give a range", self.what, self.measure)
    }
}

/// The device: a step was measured on it, or kernels on it and steps on another of its generation.
fn device(traits: &StepTraits, steps: &[&MeasuredStep]) -> Option<NoEvidence> {
    let on_it = steps.iter().any(|step| step.traits.device == traits.device);
    let of_generation = steps.iter().any(|step| step.traits.generation == traits.generation);
    (!(on_it || traits.own_rates && of_generation)).then(|| NoEvidence {
        what: format!("no step on {} was measured", traits.device),
        measure: "ten steps of any model on one of them".into(),
    })
}

/// The rates: each within those of the measured steps; of products, of formats as wide.
fn rates(traits: &StepTraits, steps: &[&MeasuredStep]) -> Option<NoEvidence> {
    let asked = traits.rates.named();
    asked.into_iter().enumerate().find_map(|(i, (name, unit, rate))| {
        let rate = rate?;
        let same = steps.iter().filter(|step| i > 0 || step.traits.bits() == traits.bits());
        let measured = same.filter_map(|step| step.traits.rates.named()[i].2);
        let [least, most] = measured.fold([f64::INFINITY, 0.0], |[a, b], r| [a.min(r), b.max(r)]);
        (least <= most && !(least / BEYOND..=most * BEYOND).contains(&rate)).then(|| NoEvidence {
            what: format!("{name} at {rate} {unit}, beyond all that was measured ({least} to {most} {unit})"),
            measure: "ten steps on such a machine".into(),
        })
    })
}

/// The kind: some step of it was measured.
fn kind(traits: &StepTraits, steps: &[&MeasuredStep]) -> Option<NoEvidence> {
    let kind = traits.kind();
    (!steps.iter().any(|step| step.traits.kind() == kind)).then(|| NoEvidence {
        what: format!("no step was measured that has {}", kind.join(", ")),
        measure: "ten steps of it".into(),
    })
}

/// The kinds: each two of them were measured together.
fn pairs(traits: &StepTraits, steps: &[&MeasuredStep]) -> Option<NoEvidence> {
    let kinds = traits.kinds();
    let all = 0..kinds.len();
    let mut missing: BTreeSet<(usize, usize)> = all.flat_map(|i| (0..i).map(move |j| (j, i))).collect();
    for step in steps {
        if missing.is_empty() {
            return None;
        }
        let others = step.traits.kinds();
        missing.retain(|(i, j)| kinds[*i] != others[*i] || kinds[*j] != others[*j]);
    }
    let (i, j) = missing.pop_first()?;
    Some(NoEvidence {
        what: format!("no step was measured that has {} and {}", kinds[i], kinds[j]),
        measure: "ten steps of it".into(),
    })
}

/// The parts: none is much more of the step than of any that was measured.
fn hangs(traits: &StepTraits, steps: &[&MeasuredStep]) -> Option<NoEvidence> {
    traits.shares.named().into_iter().enumerate().find_map(|(i, (name, share))| {
        let most = steps.iter().map(|step| step.traits.shares.named()[i].1).fold(0.0, f64::max);
        (share > most + HANGS_ON).then(|| NoEvidence {
            what: format!(
                "{name} are {:.0} % of the step, and at most {:.0} % of a measured one",
                100.0 * share,
                100.0 * most
            ),
            measure: "ten steps of it".into(),
        })
    })
}
