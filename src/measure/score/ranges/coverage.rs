//! How many measured steps lie in their range, class by class.

use std::collections::{BTreeMap, BTreeSet};

use super::accuracy::{Accuracy, Circumstances, StepRange};
use super::class_coverage::{ClassCoverage, Coverage};
use super::measured_steps::MeasuredSteps;
use super::traits::StepTraits;

/// A measured step beside the range that all sources but its own give it.
#[derive(Clone, Debug)]
pub struct RangedStep<'a> {
    /// Who measured it.
    pub source: &'a str,
    /// Its classes.
    pub traits: &'a StepTraits,
    /// Measured seconds.
    pub measured_s: f64,
    /// Simulated seconds.
    pub model_s: f64,
    /// Its range.
    pub range: &'a StepRange,
}

impl MeasuredSteps {
    /// The coverage of these steps themselves, each with what all sources but its own say.
    pub fn coverage(&self) -> Vec<ClassCoverage> {
        let ranges = self.steps.iter().map(|step| {
            let without = Some(step.source.as_str());
            let circumstances = Circumstances { assumed: step.assumed, without };
            match self.accuracy(&step.traits, 1.0, &circumstances) {
                Accuracy::Range(range) => Some(range),
                _ => None,
            }
        });
        let ranges: Vec<Option<StepRange>> = ranges.collect();
        let ranged = self.steps.iter().zip(&ranges).filter_map(|(step, range)| {
            let (source, traits, measured_s) = (&step.source, &step.traits, step.ratio);
            Some(RangedStep { source, traits, measured_s, model_s: 1.0, range: range.as_ref()? })
        });
        let classes = Coverage::by_class(&ranged.collect::<Vec<_>>());
        classes.into_iter().map(|(name, of)| ClassCoverage { name, of: of.rounded() }).collect()
    }
}

impl Coverage {
    /// Shares and errors to a thousandth.
    fn rounded(self) -> Coverage {
        let [inside, below, width, model_error, estimate_error] =
            [self.inside, self.below, self.width, self.model_error, self.estimate_error]
                .map(|share| (1e3 * share).round() / 1e3);
        Coverage { inside, below, width, model_error, estimate_error, ..self }
    }

    /// Of all steps, and of each class.
    pub fn by_class(steps: &[RangedStep<'_>]) -> BTreeMap<String, Coverage> {
        let mut classes: BTreeMap<String, Vec<&RangedStep<'_>>> = BTreeMap::new();
        for step in steps {
            for class in step.traits.classes().into_iter().chain(["all".to_string()]) {
                classes.entry(class).or_default().push(step);
            }
        }
        classes.into_iter().map(|(class, of)| (class, Coverage::of(&of))).collect()
    }

    fn of(steps: &[&RangedStep<'_>]) -> Coverage {
        let mean = |of: &dyn Fn(&RangedStep<'_>) -> f64| {
            steps.iter().map(|step| of(step)).sum::<f64>() / steps.len().max(1) as f64
        };
        let share = |of: &dyn Fn(&RangedStep<'_>) -> bool| mean(&|step| f64::from(u8::from(of(step))));
        let off = |seconds: f64, step: &RangedStep<'_>| (seconds / step.measured_s - 1.0).abs();
        let mut widths: Vec<f64> =
            steps.iter().map(|s| s.range.range_s[1] / s.range.range_s[0] - 1.0).collect();
        widths.sort_by(f64::total_cmp);
        Coverage {
            steps: steps.len(),
            sources: steps.iter().map(|step| step.source).collect::<BTreeSet<_>>().len(),
            inside: share(&|s| (s.range.range_s[0]..=s.range.range_s[1]).contains(&s.measured_s)),
            below: share(&|s| s.measured_s < s.range.range_s[0]),
            width: widths.get(widths.len() / 2).copied().unwrap_or_default(),
            model_error: mean(&|step| off(step.model_s, step)),
            estimate_error: mean(&|step| off(step.range.estimate_s, step)),
        }
    }
}
