//! What is wrong with a model's modules.

use super::{ModelSpec, ModuleSpec};
use crate::step::spec::problem::Problems;

/// Widest matrix and longest image that are taken seriously.
const MOST: u64 = 10_000_000;

impl ModelSpec {
    pub(super) fn validate_modules(&self, p: &mut Problems) {
        for (i, module) in self.modules.iter().enumerate() {
            let at = format!("modules[{i}]");
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if module.name.is_empty() || !module.name.chars().all(plain) {
                let hint = "workloads and settings name it: modules.vision.items";
                p.add(format!("{at}.name"), format!("{:?}", module.name), "letters, digits, - and _", hint);
            }
            if self.modules[..i].iter().any(|other| other.name == module.name) {
                let allowed = "a name that no other module has";
                p.add(format!("{at}.name"), format!("{:?}", module.name), allowed, "");
            }
            module.validate(p, &at, self.hidden);
        }
    }
}

impl ModuleSpec {
    fn validate(&self, p: &mut Problems, at: &str, hidden: u64) {
        let before = p.len();
        let sizes = [
            ("layers", self.layers),
            ("hidden", self.hidden),
            ("heads", self.heads),
            ("ffn", self.ffn),
            ("sequence", self.sequence),
            ("merge", self.merge),
            ("window", self.window.unwrap_or(1)),
            ("full_every", self.full_every.unwrap_or(1)),
            ("head_size", self.head_size.unwrap_or(1)),
            ("input.stride", self.input.stride),
        ];
        for (name, size) in sizes {
            p.size(format!("{at}.{name}"), size, if name == "layers" { 100_000 } else { MOST });
        }
        if p.len() > before {
            return;
        }
        if self.head_size.is_none() && !self.hidden.is_multiple_of(self.heads) {
            let allowed = format!("a divisor of hidden ({})", self.hidden);
            p.add(format!("{at}.heads"), self.heads, allowed, "or give head_size");
        }
        if self.full_every.is_some() && self.window.is_none() {
            let hint = "without windows every layer sees the whole image";
            p.add(format!("{at}.full_every"), self.full_every.unwrap_or(0), "nothing without window", hint);
        }
        if !self.sequence.is_multiple_of(self.merge) {
            let allowed = format!("a multiple of merge ({})", self.merge);
            p.add(format!("{at}.sequence"), self.sequence, allowed, "so many patches become one token");
        }
        let small =
            [self.input.position_rows, self.input.extra_tokens, self.input.norms, self.projector.norms];
        if let Some(n) = small.into_iter().find(|n| *n > MOST) {
            p.add(format!("{at}.input"), n, format!("counts of at most {MOST}"), "");
        }
        self.validate_matrices(p, at, hidden);
    }

    /// Each matrix reads what the one before it makes.
    fn validate_matrices(&self, p: &mut Problems, at: &str, hidden: u64) {
        let chains = [
            ("input.matrices", &self.input.matrices, self.hidden, "hidden"),
            ("projector.matrices", &self.projector.matrices, hidden, "the language model's hidden"),
        ];
        for (name, matrices, outputs, meaning) in chains {
            if matrices.is_empty() {
                p.add(format!("{at}.{name}"), "[]", "one matrix or more, each [inputs, outputs]", "");
            }
            for (i, matrix) in matrices.iter().enumerate() {
                matrix.iter().for_each(|width| p.size(format!("{at}.{name}[{i}]"), *width, MOST));
                let next = matrices.get(i + 1);
                let (wanted, of) = next.map_or((outputs, meaning), |n| (n[0], "what the next reads"));
                // Convolutions read several rows of what the one before made.
                let fits = matrix[1] == wanted
                    || (name == "input.matrices" && wanted.is_multiple_of(matrix[1].max(1)));
                if !fits || (next.is_none() && matrix[1] != wanted) {
                    p.add(format!("{at}.{name}[{i}][1]"), matrix[1], format!("{wanted}, {of}"), "");
                }
            }
        }
        let Some([first, _]) = self.projector.matrices.first() else { return };
        let widths = [self.hidden, self.hidden.saturating_mul(self.merge)];
        if !widths.contains(first) {
            let allowed =
                format!("{} (the mean of merged positions) or {} (side by side)", widths[0], widths[1]);
            p.add(format!("{at}.projector.matrices[0][0]"), first, allowed, "hidden, or hidden × merge");
        }
        if let Some(norm) = self.projector.token_norm.filter(|norm| norm.width != *first) {
            let allowed = format!("{first}, what the first matrix reads");
            p.add(format!("{at}.projector.token_norm.width"), norm.width, allowed, "");
        }
    }
}
