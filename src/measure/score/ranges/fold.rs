//! What is left out of the measured steps where their own ranges are judged.

use super::measured_step::MeasuredStep;
use super::traits::StepTraits;

/// A part of the measured steps that goes with a step's own source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// Nothing more.
    Source,
    /// The steps on its device.
    Device,
    /// The steps on devices of its generation.
    Generation,
    /// The steps of its software, of any release.
    Software,
    /// The steps of its kind: of as many devices (one or several), weights trained, sort of memory and of model.
    Kind,
}

impl Fold {
    /// All, with what goes in words.
    pub const ALL: [(Fold, &str); 5] = [
        (Fold::Source, "source"),
        (Fold::Device, "source and device"),
        (Fold::Generation, "source and generation of devices"),
        (Fold::Software, "source and software"),
        (Fold::Kind, "source and kind"),
    ];

    /// The measured steps that are left to a step of a source.
    pub fn others<'a>(
        self,
        steps: &'a [MeasuredStep],
        source: &str,
        traits: &StepTraits,
    ) -> Vec<&'a MeasuredStep> {
        let goes = |other: &StepTraits| match self {
            Fold::Source => false,
            Fold::Device => other.device == traits.device,
            Fold::Generation => other.generation == traits.generation,
            Fold::Software => other.software() == traits.software(),
            Fold::Kind => other.kind() == traits.kind(),
        };
        steps.iter().filter(|step| step.source != source && !goes(&step.traits)).collect()
    }
}
