//! How wide ranges have to be for four in five steps of a source that nothing was fitted to.
//!
//! What was measured before a price was made says little of what comes after it. So widths come from sources that nothing
//! was fitted to ([`MeasuredStep::unseen`]): each of their steps is asked about without its source, and its distance from
//! the middle, in reaches of the spread around it, gives the factors on ranges as near to evidence as it is: one below
//! the middle and one above it, since what a model leaves out makes steps slow.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::fold::Fold;
use super::measured_step::MeasuredStep;
use super::spread::{DeviationSpread, LEVELS, TAIL, quantile};

/// Classes of fewer steps take the width of the next nearer one.
pub const LEAST_STEPS: usize = 8;
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
    /// Factor on the reach of each step below the middle.
    pub below: f64,
    /// The same above it.
    pub above: f64,
    /// Both for nine in ten steps.
    pub nine_in_ten: [f64; 2],
}

/// Factors on ranges by class: how near the nearest measured step is.
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
    /// How many reaches of the spread it lies above the middle; below it less than zero.
    pub distance: f64,
    /// The class that it belongs to.
    pub class: &'static str,
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
        let mut least = [[1.0f64; 2]; 2];
        for class in LEVELS {
            let of = placed.iter().filter(|step| step.class == class && (step.unseen || !any));
            let mut distances: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
            of.for_each(|step| distances.entry(step.source).or_default().push(step.distance));
            let (steps, sources) = (distances.values().map(Vec::len).sum(), distances.len());
            if steps >= LEAST_STEPS {
                let needed = [TAIL, TAIL / 2.0].map(|tail| by_source(&distances, tail));
                least = [0, 1].map(|share| [0, 1].map(|side| needed[share][side].max(least[share][side])));
            }
            let [[below, above], nine_in_ten] =
                least.map(|sides| sides.map(|factor: f64| (ROUNDED * factor).round() / ROUNDED));
            widths.insert(class.to_string(), ClassWidth { steps, sources, below, above, nine_in_ten });
        }
        Widths(widths)
    }

    /// The factors on the reach below and above the middle in a class.
    pub fn of_class(&self, class: &str) -> [f64; 2] {
        self.0.get(class).map_or([1.0; 2], |width| [width.below, width.above])
    }

    /// The same for nine in ten steps.
    pub fn of_nine_in_ten(&self, class: &str) -> [f64; 2] {
        self.0.get(class).map_or([1.0; 2], |width| width.nine_in_ten)
    }
}

/// The distances below and above the middle within which all but a tail of the steps on either side lie; a source counts
/// by the root of its steps.
fn by_source(distances: &BTreeMap<&str, Vec<f64>>, tail: f64) -> [f64; 2] {
    let weigh = |of: &Vec<f64>| of.iter().map(|d| (*d, (of.len() as f64).sqrt().recip())).collect::<Vec<_>>();
    let mut weighed: Vec<(f64, f64)> = distances.values().flat_map(weigh).collect();
    weighed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: f64 = weighed.iter().map(|(_, weight)| weight).sum();
    let at = |part: f64| quantile(&weighed, part * all).unwrap_or_default();
    [-at(tail), at(1.0 - tail)]
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
            class: spread.class(),
        })
    });
    placed.collect()
}
