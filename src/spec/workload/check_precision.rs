//! Checks of a workload's precision recipes.

use super::{Dtype, WorkloadSpec};
use crate::model::ModelSpec;
use crate::problem::{Problem, Problems};

impl WorkloadSpec {
    /// Everything that keeps the recipe from fitting the model.
    pub(super) fn check_recipe(&self, p: &mut Problems, model: &ModelSpec) {
        let Some(recipe) = self.precision.recipe() else { return };
        if !recipe.is_narrow() && self.precision.fp8.is_some() {
            let hint = "name a recipe of 8 bits in precision.recipe, or leave precision.fp8 out";
            p.add("precision.fp8", "what it says", "nothing with a recipe of 16 bits", hint);
        }
        let Some(divides) = recipe.needs.divides else { return };
        let par = &self.parallelism;
        let tokens = self.batch.micro_batch * self.sequence(model) / par.context.size.max(1);
        let experts = model.moe.as_ref().map(|moe| moe.ffn.unwrap_or(model.ffn) / par.expert_tensor());
        let widths = [
            ("tokens of a micro-batch", Some(tokens)),
            ("model.hidden", Some(model.hidden)),
            ("model.ffn over tensor-parallel ranks", Some(model.ffn / par.tensor.max(1))),
            ("model.moe.ffn over tensor-parallel ranks", experts),
        ];
        for (what, width) in widths {
            if let Some(width) = width.filter(|w| !w.is_multiple_of(divides)) {
                p.add(
                    "precision.recipe",
                    format!("a recipe with scales for {divides} elements"),
                    format!("one that divides {width} ({what})"),
                    "choose a recipe with one factor a tensor, or other sizes",
                );
            }
        }
    }

    /// Formats of the recipe that a device lacks; `has` tells which it multiplies.
    pub fn lacking_formats(&self, has: impl Fn(Dtype) -> bool) -> Option<Problem> {
        let recipe = self.precision.recipe()?;
        let own = Some(&recipe.dtype).filter(|_| recipe.is_narrow());
        let lacking = recipe.needs.formats.iter().chain(own).find(|format| !has(**format))?;
        let problem = Problem {
            path: "precision.recipe".into(),
            value: format!("a recipe that needs {}", lacking.name()),
            allowed: "a recipe of formats that the device multiplies".into(),
            hint: "see peak_dense_TFLOPs of the device: MXFP8 and NVFP4 need Blackwell or its like".into(),
        };
        Some(problem)
    }
}
