//! How wide ranges have to be for four in five steps of a source that nothing was fitted to.
//!
//! What was measured before a price was made says little of what comes after it. So widths come from sources that nothing
//! was fitted to ([`MeasuredStep::unseen`]): each of their steps is asked about without its source, and its distance from
//! the middle, in reaches of the spread around it, gives the factor on ranges as near to evidence as it is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::fold::Fold;
use super::measured_step::MeasuredStep;
use super::spread::{DeviationSpread, LEVELS};
use super::traits::StepTraits;

/// Share of steps that lie in the range which all other sources give them. It is eight points above the four fifths that
/// are promised: a source that is new to widths found by so few loses as much.
const INSIDE: f64 = 0.88;
/// Classes of fewer steps take the width of the next nearer one.
pub const LEAST_STEPS: usize = 8;
/// Micro-batches of so many tokens are short: their kernels are small, and hosts that are slower than told show.
const SHORT: u64 = 2048;
/// Factors are rounded to one part of so many.
const ROUNDED: f64 = 1e3;

/// The width of ranges in one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassWidth {
    /// Steps that it was found by.
    pub steps: usize,
    /// Their sources.
    pub sources: usize,
    /// Factor on the range of each step.
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
    /// True if nothing was fitted to it.
    pub unseen: bool,
    /// How many reaches of the spread it lies away from the middle.
    pub distance: f64,
    /// The class that it belongs to.
    pub class: String,
}

impl Widths {
    /// The factors with which four in five steps of every class lie in the range that the other sources give them.
    pub fn of(steps: &[MeasuredStep]) -> Widths {
        Widths::fitting(&placed(steps))
    }

    /// Of steps that nothing was fitted to, or of all where there are none. What is farther from evidence is no
    /// narrower.
    pub fn fitting(placed: &[StepDeviation<'_>]) -> Widths {
        let any = placed.iter().any(|step| step.unseen);
        let mut widths = BTreeMap::new();
        let mut least = [1.0f64; 2];
        for level in LEVELS {
            for short in [false, true] {
                let class = class(level, short);
                let of = placed.iter().filter(|step| step.class == class && (step.unseen || !any));
                let mut distances: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
                of.for_each(|step| distances.entry(step.source).or_default().push(step.distance));
                let (steps, sources) = (distances.values().map(Vec::len).sum(), distances.len());
                let needed = if steps < LEAST_STEPS { 1.0 } else { by_source(&distances) };
                let factor = needed.max(least[0]).max(if short { least[1] } else { 1.0 });
                least[usize::from(short)] = factor;
                let factor = (ROUNDED * factor).round() / ROUNDED;
                widths.insert(class, ClassWidth { steps, sources, factor });
            }
        }
        Widths(widths)
    }

    /// The factor on the range of a step.
    pub fn factor(&self, traits: &StepTraits, spread: &DeviationSpread) -> f64 {
        self.of_class(&class_of(traits, spread))
    }

    /// The factor of a class.
    pub fn of_class(&self, class: &str) -> f64 {
        self.0.get(class).map_or(1.0, |width| width.factor)
    }
}

/// The distance within which four in five steps lie; a source counts by the root of its steps.
fn by_source(distances: &BTreeMap<&str, Vec<f64>>) -> f64 {
    let weigh = |of: &Vec<f64>| of.iter().map(|d| (*d, (of.len() as f64).sqrt().recip())).collect::<Vec<_>>();
    let mut weighed: Vec<(f64, f64)> = distances.values().flat_map(weigh).collect();
    weighed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: f64 = weighed.iter().map(|(_, weight)| weight).sum();
    super::spread::quantile(&weighed, INSIDE * all).unwrap_or(1.0)
}

/// Steps beside what all sources but their own say of them; those of which nothing is evidence are left out.
pub fn placed(steps: &[MeasuredStep]) -> Vec<StepDeviation<'_>> {
    let placed = steps.iter().filter_map(|step| {
        let others = Fold::Source.others(steps, &step.source, &step.traits);
        let spread = DeviationSpread::known(&step.traits, &others).ok()?;
        Some(StepDeviation {
            source: &step.source,
            unseen: step.unseen,
            distance: spread.distance(step.ratio),
            class: class_of(&step.traits, &spread),
        })
    });
    placed.collect()
}

/// The class of a step: how near the nearest measured step is, and whether its micro-batches are short.
fn class_of(traits: &StepTraits, spread: &DeviationSpread) -> String {
    class(spread.class(), traits.tokens <= SHORT)
}

fn class(level: &str, short: bool) -> String {
    format!("{level}{}", if short { ", short" } else { "" })
}
