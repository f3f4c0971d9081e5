//! The spread of the measured steps that are like a step, before classes widen or narrow it.

use std::collections::BTreeMap;

use super::evidence::NoEvidence;
use super::measured_step::MeasuredStep;
use super::traits::StepTraits;

/// Weight of the guess that a simulated step is right, in measured steps of the same traits and of one source.
const PRIOR: f64 = 1.0;
/// A half of a range is at least this, as a logarithm.
const LEAST_HALF: f64 = 0.03;
/// Measured steps that weigh less say nothing.
const LEAST_WEIGHT: f64 = 1e-9;
/// Share of steps below a range, and above it.
pub(super) const TAIL: f64 = 0.1;
/// A step is like nothing that was measured if no measured step is more alike than this.
const LEAST_LIKENESS: f64 = 0.002;

/// Logarithms of measured over simulated seconds: the middle, and how far the range reaches below and above it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviationSpread {
    /// The middle.
    pub middle: f64,
    /// Reach below it.
    pub below: f64,
    /// Reach above it.
    pub above: f64,
    /// The likeness of the nearest measured step.
    pub nearest: f64,
}

/// Steps as like as these are near, or not far.
const NEAR: f64 = 0.15;
const NOT_FAR: f64 = 0.06;
/// How near the nearest measured step is, the nearest first.
pub const LEVELS: [&str; 3] = ["near", "not far", "far"];

impl DeviationSpread {
    /// The spread around a step of whose dear terms each was measured somewhere.
    ///
    /// # Errors
    /// What was not.
    pub fn known(traits: &StepTraits, steps: &[&MeasuredStep]) -> Result<DeviationSpread, NoEvidence> {
        if let Some(missing) = NoEvidence::of(traits, steps) {
            return Err(missing);
        }
        let spread = DeviationSpread::around(traits, steps);
        spread.filter(|spread| spread.nearest >= LEAST_LIKENESS).ok_or_else(|| NoEvidence {
            what: "nothing like it was measured".into(),
            measure: "ten steps of it".into(),
        })
    }

    /// The spread around a step; `None` where nothing weighs. The deviations of others are reduced to kernels
    /// alone, and grow again with what this step waits for.
    pub fn around(traits: &StepTraits, steps: &[&MeasuredStep]) -> Option<DeviationSpread> {
        let mut weighed: Vec<(f64, f64, &str)> = Vec::with_capacity(steps.len());
        let mut sources: BTreeMap<&str, f64> = BTreeMap::new();
        let mut nearest: f64 = 0.0;
        let own = traits.shares.deviates();
        for step in steps {
            let weight = traits.likeness(&step.traits);
            if weight > LEAST_WEIGHT {
                nearest = nearest.max(weight);
                *sources.entry(&step.source).or_default() += weight;
                weighed.push((step.ratio.ln() / step.traits.shares.deviates(), weight, step.source.as_str()));
            }
        }
        // A source of many rows counts by the root of what they weigh: they share its machine and its habits.
        let counted = |(ratio, weight, source): (f64, f64, &str)| (ratio, weight / sources[source].sqrt());
        let mut ratios: Vec<(f64, f64)> = weighed.into_iter().map(counted).collect();
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: f64 = ratios.iter().map(|(_, weight)| weight).sum();
        let [low, middle, high] = [TAIL, 0.5, 1.0 - TAIL]
            .map(|part| quantile(&ratios, part * total).map(|deviation| own * deviation));
        let middle = middle? * total / (total + PRIOR);
        Some(DeviationSpread {
            middle,
            below: (middle - low?).max(LEAST_HALF),
            above: (high? - middle).max(LEAST_HALF),
            nearest,
        })
    }

    /// The class of steps that the nearest measured one is so like.
    pub fn class(&self) -> &'static str {
        match self.nearest {
            likeness if likeness > NEAR => LEVELS[0],
            likeness if likeness > NOT_FAR => LEVELS[1],
            _ => LEVELS[2],
        }
    }

    /// How many times its reach a ratio's logarithm lies above the middle; below it less than zero.
    pub fn distance(&self, ratio: f64) -> f64 {
        let away = ratio.ln() - self.middle;
        away / if away < 0.0 { self.below } else { self.above }
    }
}

/// The value below which so much weight lies, of sorted values with weights, half of its own weight counted.
pub(super) fn quantile(sorted: &[(f64, f64)], part: f64) -> Option<f64> {
    let mut below = 0.0;
    let mut last: Option<(f64, f64)> = None;
    for &(value, weight) in sorted {
        let at = below + weight / 2.0;
        if at >= part {
            let Some((before, value_before)) = last else { return Some(value) };
            let share = if at > before { (part - before) / (at - before) } else { 1.0 };
            return Some(value_before + share * (value - value_before));
        }
        last = Some((at, value));
        below += weight;
    }
    last.map(|(_, value)| value)
}
