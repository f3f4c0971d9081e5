//! Validation of what is trained.

use super::{AdaptedMatrix, OptimizerKind, WorkloadSpec};
use crate::model::{Mixer, MlpKind, ModelSpec};
use crate::problem::Problems;

impl WorkloadSpec {
    /// Kinds of layers that are trained.
    fn check_kinds(&self, p: &mut Problems, model: &ModelSpec) {
        let Some(kinds) = &self.training.kinds else { return };
        let known: Vec<&str> = model.layer_kinds.keys().map(String::as_str).collect();
        let allowed = match known[..] {
            [] => format!("nothing: all layers of {} are of one kind", model.name),
            _ => format!("kinds of layers of {}: {}", model.name, known.join(", ")),
        };
        let unknown = kinds.iter().find(|kind| !known.contains(&kind.as_str()));
        if unknown.is_some() || known.is_empty() {
            let value = unknown.map_or("a list".into(), |kind| format!("{kind:?}"));
            p.add("training.kinds", value, allowed, "leave it out to train all of them");
            return;
        }
        let seen = self.seen_by(model);
        let trains = |layer| self.training.trains_layer(&seen, layer) && !seen.layer(layer).is_left_out();
        if !(0..seen.layers).any(trains) && !self.trains_modules() {
            let hint = if seen.leaves_out_layers() {
                "layers that attend to images are left out of a step without: name a module, as modules.vision.items"
            } else {
                "name a kind that some layer behind training.frozen_layers has"
            };
            let allowed = "kinds that the step has a layer of to train";
            p.add("training.kinds", format!("{kinds:?}"), allowed, hint);
        }
    }

    /// Problems of the choice of trained weights.
    pub(super) fn check_training(&self, p: &mut Problems, model: &ModelSpec) {
        let training = &self.training;
        if training.frozen_layers >= model.layers && training.frozen_layers > 0 {
            let (most, why) = match self.trains_modules() {
                true => (model.layers, "the model's layers"),
                false => {
                    (model.layers - 1, "one of the model's layers is trained, or a module in front of them")
                }
            };
            if training.frozen_layers > most {
                p.add("training.frozen_layers", training.frozen_layers, format!("0 to {most}: {why}"), "");
            }
        }
        self.check_kinds(p, model);
        if training.reference && !self.modules.is_empty() {
            let hint = "leave the modules out: the language model alone";
            p.add("training.reference", true, "a step without modules", hint);
        }
        let Some(adapters) = &training.adapters else {
            if let Some(format) = training.frozen_format {
                let value = format!("{format:?}").to_lowercase();
                p.add(
                    "training.frozen_format",
                    value,
                    "nothing without training.adapters",
                    "name adapters, or leave it out",
                );
            }
            return;
        };
        p.size("training.adapters.rank", adapters.rank, model.hidden);
        let kind = self.optimizer.kind;
        if matches!(kind, OptimizerKind::Muon | OptimizerKind::Adafactor) {
            let (value, allowed) =
                (format!("{kind:?}").to_lowercase(), "adam, adam8bit, lion, momentum or sgd");
            let hint = "its state follows from whole matrices; adapters have none";
            p.add("optimizer.kind", value, allowed, hint);
        }
        let mut wrong = |value: String, allowed: &str, hint: &str| {
            p.add("training.adapters.of", value, allowed, hint);
        };
        let layers: Vec<_> = model.layer_counts().into_iter().map(|(layer, _)| layer).collect();
        if layers.iter().any(|l| l.mixer != Mixer::Attention || l.mla.is_some()) {
            wrong(
                "a model with latent attention or scans".into(),
                "models whose layers all have plain attention",
                "such adapters are not simulated: stepsim plan MODEL --on MACHINE --batch N trains all weights",
            );
        }
        if layers.iter().any(|l| l.moe.as_ref().is_some_and(|moe| moe.latent.is_some())) {
            let hint = "adapters beside a latent width of experts are not simulated";
            wrong("a model whose experts have a latent width".into(), "experts as wide as the model", hint);
        }
        let Some(of) = &adapters.of else { return };
        let name = |m: &AdaptedMatrix| format!("{m:?}").to_lowercase();
        let twice = of.iter().enumerate().find(|(i, m)| of[..*i].contains(m));
        if of.is_empty() || twice.is_some() {
            let value = twice.map_or("an empty list".into(), |(_, m)| format!("{} twice", name(m)));
            let all = AdaptedMatrix::ALL.each_ref().map(name).join(", ");
            wrong(value, &format!("{all}, each at most once"), "leave it out for all");
        }
        for matrix in of {
            let lacks = match matrix {
                m if m.of_mlp() && layers.iter().any(|l| l.mlp == MlpKind::None) => "MLPs in all layers",
                AdaptedMatrix::Gate if !model.gated_mlp => "gated MLPs",
                _ => continue,
            };
            wrong(name(matrix), &format!("matrices that the model has: it lacks {lacks}"), "leave it out");
        }
    }
}
