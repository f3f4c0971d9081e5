use std::collections::BTreeSet;

use stepsim_measure::score::ranges::Fold;
use stepsim_measure::score::ranges::measured_steps::MeasuredSteps;
use stepsim_measure::score::ranges::widths::*;

/// The law of ranges: of sources that nothing was fitted to, with widths that know nothing of a source either, four in
/// five steps lie in the range that all sources but their own give them, and nine in ten in the one of nine in ten.
#[test]
fn four_in_five_unseen_steps_lie_in_their_range() {
    let measured = MeasuredSteps::shipped();
    assert!(measured.steps.len() > 1000, "{} steps", measured.steps.len());
    let placed = placed(&measured.steps);
    let unseen: Vec<&StepDeviation<'_>> = placed.iter().filter(|step| step.unseen).collect();
    let sources: BTreeSet<&str> = unseen.iter().map(|step| step.source).collect();
    let (mut inside, mut within) = (Vec::new(), 0);
    for source in sources {
        let others: Vec<StepDeviation<'_>> =
            placed.iter().filter(|step| step.source != source).cloned().collect();
        let widths = Widths::fitting(&others);
        let of = unseen.iter().filter(|step| step.source == source);
        inside.extend(of.map(|step| {
            let has = |[below, above]: [f64; 2]| (-below..=above).contains(&step.distance);
            within += u32::from(has(widths.of_nine_in_ten(step.class)));
            has(widths.of_class(step.class))
        }));
    }
    let share = inside.iter().filter(|inside| **inside).count() as f64 / inside.len() as f64;
    let nine_in_ten = f64::from(within) / inside.len() as f64;
    println!("{share:.3} and {nine_in_ten:.3} of {} steps", inside.len());
    assert!((0.85..=0.95).contains(&nine_in_ten), "{nine_in_ten:.3} of {} steps", inside.len());
    assert!(inside.len() >= 50 && (0.75..=0.85).contains(&share), "{share:.3} of {} steps", inside.len());
}

/// A kind of steps, a software or a generation of devices that is left out has no range.
#[test]
fn what_was_never_measured_has_no_range() {
    let measured = MeasuredSteps::shipped();
    for (fold, what) in Fold::ALL.iter().filter(|(fold, _)| matches!(fold, Fold::Generation | Fold::Software))
    {
        let of_fold = measured.coverage.iter().find(|of| of.name == format!("without {what}"));
        let of = &of_fold.unwrap_or_else(|| panic!("{what}")).of;
        assert!(of.steps == 0 && of.without > 1000, "{fold:?}: {of:?}");
    }
}

/// The file's widths and coverage follow from its steps; the farther from evidence, the wider.
#[test]
fn the_shipped_widths_are_those_of_the_shipped_steps() {
    let measured = MeasuredSteps::shipped();
    assert_eq!(Widths::of(&measured.steps), measured.widths);
    let of = ["near", "not far", "far"].map(|level| measured.widths.of_class(level));
    assert!((0..2).all(|side| of.is_sorted_by(|a, b| a[side] <= b[side])), "{of:?}");
    assert_eq!(measured.coverage(), measured.coverage);
}
