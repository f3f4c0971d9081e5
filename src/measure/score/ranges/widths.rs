//! How wide ranges have to be, class by class, for four in five measured steps to lie in them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::measured_step::MeasuredStep;
use super::spread::DeviationSpread;
use super::traits::StepTraits;
use crate::score::statistics::quantile;

/// Share of measured steps that lie in the range which all other sources give them. It is two points above the four
/// fifths that are promised, because a source that is new to the widths loses two.
const INSIDE: f64 = 0.82;
/// Classes of fewer steps widen nothing.
pub const LEAST_STEPS: usize = 20;
/// Assumed values of a step where nobody counts them: as many as most measured steps have.
pub(super) const USUAL_ASSUMED: u32 = 2;
/// Turns over all classes, and how far a turn goes.
const TURNS: usize = 100;
const PACE: f64 = 0.5;
/// So much of its logarithm a factor loses in each turn: several classes share what a step lacks, and a class that its
/// sources alone made narrow would be too narrow for the next source.
const DRAWN_BACK: f64 = 0.01;
/// Factors are rounded to one part of so many.
const ROUNDED: f64 = 1e3;

/// The width of ranges in one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassWidth {
    /// Its steps.
    pub steps: usize,
    /// Their sources.
    pub sources: usize,
    /// Factor on the range of each.
    pub factor: f64,
}

/// Factors on ranges by class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Widths(pub(super) BTreeMap<String, ClassWidth>);

/// A measured step beside the spread around it.
#[derive(Clone, Debug)]
pub struct StepDeviation<'a> {
    /// Its publication.
    pub source: &'a str,
    /// How many reaches of the spread it lies away from the middle.
    pub distance: f64,
    /// The classes that it belongs to.
    pub classes: Vec<String>,
    factor: f64,
}

impl Widths {
    /// The factors with which four in five steps of every class lie in the range that the other sources give them.
    pub fn of(steps: &[MeasuredStep]) -> Widths {
        Widths::fitting(placed(steps))
    }

    /// Turn by turn, each class gets the factor that it still lacks.
    pub fn fitting(mut placed: Vec<StepDeviation<'_>>) -> Widths {
        let mut classes: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (i, step) in placed.iter().enumerate() {
            step.classes.iter().for_each(|class| classes.entry(class.clone()).or_default().push(i));
        }
        classes.retain(|_, of| of.len() >= LEAST_STEPS);
        let mut factors = vec![1.0_f64; classes.len()];
        for _ in 0..TURNS {
            for (factor, of) in factors.iter_mut().zip(classes.values()) {
                let mut left: Vec<f64> = of.iter().map(|i| placed[*i].distance / placed[*i].factor).collect();
                left.sort_by(f64::total_cmp);
                let lacking = quantile(&left, INSIDE).unwrap_or(1.0).powf(PACE) * factor.powf(-DRAWN_BACK);
                of.iter().for_each(|i| placed[*i].factor *= lacking);
                *factor *= lacking;
            }
        }
        let width = |((class, of), factor): ((String, Vec<usize>), f64)| {
            let sources = of.iter().map(|i| placed[*i].source).collect::<BTreeSet<_>>().len();
            let factor = (ROUNDED * factor).round() / ROUNDED;
            (class, ClassWidth { steps: of.len(), sources, factor })
        };
        Widths(classes.into_iter().zip(factors).map(width).collect())
    }

    /// The factor on the range of a step: the product over its classes.
    pub fn factor(&self, traits: &StepTraits, spread: &DeviationSpread, assumed: u32) -> f64 {
        self.of_classes(&classes_of(traits, spread, assumed))
    }

    /// The product of the factors of some classes.
    pub fn of_classes(&self, classes: &[String]) -> f64 {
        classes.iter().filter_map(|class| self.0.get(class)).map(|width| width.factor).product()
    }
}

/// Steps beside what all sources but their own say of them.
pub fn placed(steps: &[MeasuredStep]) -> Vec<StepDeviation<'_>> {
    let place = |step: &'_ MeasuredStep| {
        let spread = DeviationSpread::around(&step.traits, steps, Some(&step.source))?;
        Some((spread.distance(step.ratio), classes_of(&step.traits, &spread, step.assumed)))
    };
    let placed = steps.iter().filter_map(|step| {
        let (distance, classes) = place(step)?;
        Some(StepDeviation { source: &step.source, distance, classes, factor: 1.0 })
    });
    placed.collect()
}

/// The classes of a step: its own, how near the nearest measured step is, and how much was assumed.
fn classes_of(traits: &StepTraits, spread: &DeviationSpread, assumed: u32) -> Vec<String> {
    let assumed = match assumed {
        0 => "assumed nothing",
        1..=3 => "assumed 1 to 3 values",
        _ => "assumed 4 values or more",
    };
    let circumstances = [spread.class(), assumed].map(str::to_string);
    traits.classes().into_iter().chain(circumstances).collect()
}
