//! Problems with a model's modules.

use super::{ModelSpec, ModuleSpec, ProjectorSpec};
use crate::problem::Problems;

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
            p.add(
                format!("{at}.sequence"),
                self.sequence,
                allowed,
                "the number of patches that become one token",
            );
        }
        let input = &self.input;
        if let Some(tile) = input.tile.filter(|tile| *tile == 0 || !self.sequence.is_multiple_of(*tile)) {
            let allowed = format!("a divisor of sequence ({})", self.sequence);
            p.add(format!("{at}.input.tile"), tile, allowed, "an image is whole tiles");
        }
        p.size(format!("{at}.input.pad_to"), input.pad_to, MOST);
        if self.gated_layers > self.layers || (self.gated_layers > 0 && self.full_every.is_some()) {
            let allowed = format!("0 to {} (layers), and 0 beside full_every", self.layers);
            p.add(format!("{at}.gated_layers"), self.gated_layers, allowed, "the last so many layers");
        }
        let beside = &self.projector.beside_layers;
        if beside.iter().any(|l| *l >= self.layers) || beside.windows(2).any(|two| two[0] >= two[1]) {
            let allowed = format!("layers in order, each less than {}", self.layers);
            p.add(format!("{at}.projector.beside_layers"), format!("{beside:?}"), allowed, "as [3, 7, 15]");
        }
        let small = [input.position_rows, input.extra_tokens, input.norms, input.gates];
        if let Some(n) = small.into_iter().find(|n| *n > MOST) {
            p.add(format!("{at}.input"), n, format!("counts of at most {MOST}"), "");
        }
        self.validate_input(p, at);
        self.validate_projector(p, &format!("{at}.projector"), &self.projector, hidden);
        if let Some(deep) = &self.deepstack {
            let in_order = deep.layers.windows(2).all(|two| two[0] < two[1]);
            if !deep.projector.beside_layers.is_empty() {
                let hint = "the projector behind the last layer may have them";
                p.add(format!("{at}.deepstack.projector.beside_layers"), "a list", "none", hint);
            }
            if !in_order || deep.layers.is_empty() || deep.layers.iter().any(|layer| *layer >= self.layers) {
                let allowed = format!("layers in order, each less than {}", self.layers);
                let hint = "as [8, 16, 24]";
                p.add(format!("{at}.deepstack.layers"), format!("{:?}", deep.layers), allowed, hint);
            }
            self.validate_projector(p, &format!("{at}.deepstack.projector"), &deep.projector, hidden);
        }
    }

    /// Convolutions may read several rows of what the one before made.
    fn validate_input(&self, p: &mut Problems, at: &str) {
        let several = |made: u64, read: u64| read.is_multiple_of(made.max(1));
        chain(p, &format!("{at}.input.matrices"), &self.input.matrices, (self.hidden, "hidden"), several);
    }

    fn validate_projector(&self, p: &mut Problems, at: &str, projector: &ProjectorSpec, hidden: u64) {
        let end = (hidden, "the language model's hidden");
        chain(p, &format!("{at}.matrices"), &projector.matrices, end, |made, read| made == read);
        if projector.norms > MOST {
            p.add(format!("{at}.norms"), projector.norms, format!("counts of at most {MOST}"), "");
        }
        let Some([first, _]) = projector.matrices.first() else { return };
        let hidden = self.hidden.saturating_mul(1 + projector.beside_layers.len() as u64);
        let widths = [hidden, hidden.saturating_mul(self.merge)];
        if !widths.contains(first) {
            let allowed =
                format!("{} (the mean of merged positions) or {} (side by side)", widths[0], widths[1]);
            p.add(format!("{at}.matrices[0][0]"), first, allowed, "hidden, or hidden × merge");
        }
        if let Some(norm) = projector.token_norm.filter(|norm| norm.width != *first) {
            let allowed = format!("{first}, what the first matrix reads");
            p.add(format!("{at}.token_norm.width"), norm.width, allowed, "");
        }
    }
}

/// Each matrix reads what the one before it makes, the last makes vectors of the width at the end.
fn chain(
    p: &mut Problems,
    at: &str,
    matrices: &[[u64; 2]],
    end: (u64, &str),
    fits: impl Fn(u64, u64) -> bool,
) {
    if matrices.is_empty() {
        p.add(at, "[]", "one matrix or more, each [inputs, outputs]", "");
    }
    for (i, matrix) in matrices.iter().enumerate() {
        matrix.iter().for_each(|width| p.size(format!("{at}[{i}]"), *width, MOST));
        let next = matrices.get(i + 1);
        let (wanted, of) = next.map_or(end, |next| (next[0], "what the next reads"));
        if matrix[1] != wanted && (next.is_none() || !fits(matrix[1], wanted)) {
            p.add(format!("{at}[{i}][1]"), matrix[1], format!("{wanted}, {of}"), "");
        }
    }
}
