//! How many measured steps lie in their range, class by class.

use std::collections::{BTreeMap, BTreeSet};

use super::accuracy::StepRange;
use super::class_coverage::{ClassCoverage, Coverage};
use super::fold::Fold;
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
    /// Its range; none where nothing is evidence.
    pub range: Option<&'a StepRange>,
}

impl MeasuredSteps {
    /// The coverage of these steps themselves: class by class what all sources but its own say of a step, and of all
    /// and of those that nothing was fitted to what is left of it where more is left out.
    pub fn coverage(&self) -> Vec<ClassCoverage> {
        let folds = Fold::ALL.iter().map(|(fold, left_out)| self.without(*fold, left_out));
        folds.flatten().collect()
    }

    fn without(&self, fold: Fold, left_out: &str) -> Vec<ClassCoverage> {
        let ranges: Vec<Option<StepRange>> = (self.steps.iter())
            .map(|step| {
                let others = fold.others(&self.steps, &step.source, &step.traits);
                self.accuracy_by(&others, &step.traits, 1.0).range().cloned()
            })
            .collect();
        let ranged = |only_unseen: bool| {
            let of = self.steps.iter().zip(&ranges).filter(move |(step, _)| step.unseen || !only_unseen);
            let ranged = of.map(|(step, range)| RangedStep {
                source: &step.source,
                traits: &step.traits,
                measured_s: step.ratio,
                model_s: 1.0,
                range: range.as_ref(),
            });
            ranged.collect::<Vec<_>>()
        };
        let mut classes = match fold {
            Fold::Source => Coverage::by_class(&ranged(false)),
            _ => BTreeMap::from([(format!("without {left_out}"), Coverage::of(&ranged(false)))]),
        };
        classes.insert(format!("without {left_out}, unseen"), Coverage::of(&ranged(true)));
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
        let mut classes: BTreeMap<String, Vec<RangedStep<'_>>> = BTreeMap::new();
        for step in steps {
            for class in step.traits.classes().into_iter().chain(["all".to_string()]) {
                classes.entry(class).or_default().push(step.clone());
            }
        }
        classes.into_iter().map(|(class, of)| (class, Coverage::of(&of))).collect()
    }

    fn of(steps: &[RangedStep<'_>]) -> Coverage {
        let ranged: Vec<(&RangedStep<'_>, &StepRange)> =
            steps.iter().filter_map(|step| Some((step, step.range?))).collect();
        let mean = |of: &dyn Fn(&RangedStep<'_>, &StepRange) -> f64| {
            // A sum of nothing is minus zero.
            (0.0 + ranged.iter().map(|(step, range)| of(step, range)).sum::<f64>())
                / ranged.len().max(1) as f64
        };
        let share = |of: &dyn Fn(f64, [f64; 2]) -> bool| {
            mean(&|s, r| f64::from(u8::from(of(s.measured_s, r.range_s))))
        };
        let mut widths: Vec<f64> =
            ranged.iter().map(|(_, range)| range.range_s[1] / range.range_s[0] - 1.0).collect();
        widths.sort_by(f64::total_cmp);
        Coverage {
            steps: ranged.len(),
            without: steps.len() - ranged.len(),
            sources: ranged.iter().map(|(step, _)| step.source).collect::<BTreeSet<_>>().len(),
            inside: share(&|measured, [low, high]| (low..=high).contains(&measured)),
            below: share(&|measured, [low, _]| measured < low),
            width: widths.get(widths.len() / 2).copied().unwrap_or_default(),
            model_error: mean(&|step, _| (step.model_s / step.measured_s - 1.0).abs()),
            estimate_error: mean(&|step, range| (range.estimate_s / step.measured_s - 1.0).abs()),
        }
    }
}
