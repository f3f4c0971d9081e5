//! Token mixers, a kind a file: attention, latent attention, state spaces, linear attention.
//!
//! A mixer says by [`TokenMixer`] how many parameters it has, what it multiplies, and, where it is no attention, what
//! its [`Scan`] computes, moves and keeps. Parameter counts, FLOPs, the kernels of a layer, checks of the file and
//! the names in reports come from there. A new mixer is a file with its fields and that trait, and a line in the list
//! below.
//!
//! Symbols as in the papers: a state-space head holds a state of `state` × `head_size`, a delta-rule head one of
//! `key_size` × `value_size`; sequences are worked on in chunks, inside which all products are matrix products.

mod attention;
mod defaults;
mod delta_rule;
mod latent;
mod of_model;
mod scan;
mod sizes;
mod token_mixer;

pub use attention::qk_norm_and_sinks;
pub use scan::Scan;
pub use token_mixer::{MixingFlops, TokenMixer};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::{Problem, Problems};

/// Declares the mixers with fields of their own: file, variant, fields, name in files, what it is.
macro_rules! mixers {
    ($($file:ident $variant:ident($fields:ident) $key:literal $about:literal,)*) => {
        $(mod $file; pub use $file::$fields;)*

        /// The token mixer of a layer.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum Mixer {
            /// Attention, as `heads`, `attention` and `mla` say.
            #[default]
            Attention,
            /// Nothing: the layer is an MLP alone.
            None,
            $(#[doc = $about] #[serde(rename = $key)] $variant($fields),)*
        }

        impl Mixer {
            /// The names in files of mixers with fields of their own.
            pub const OWN: &[&str] = &[$($key),*];

            /// The mixer where it has fields of its own, with the name under which they stand.
            fn own(&self) -> Option<(&'static str, Box<dyn TokenMixer>)> {
                match self {
                    Mixer::Attention | Mixer::None => None,
                    $(Mixer::$variant(fields) => Some(($key, Box::new(*fields))),)*
                }
            }
        }
    };
}

mixers! {
    mamba2 Mamba2(Mamba2Spec) "mamba2" "State space with one decay a head (Mamba-2, arXiv 2405.21060).",
    mamba1 Mamba1(Mamba1Spec) "mamba1"
        "State space with a decay for every channel and state (Mamba, arXiv 2312.00752).",
    gated_delta GatedDelta(GatedDeltaSpec) "gated-delta" "Gated delta rule (Gated DeltaNet, arXiv 2412.06464).",
    kimi_delta KimiDelta(KimiDeltaSpec) "kimi-delta"
        "Delta rule with a decay for every channel (Kimi linear, arXiv 2510.26692).",
    lightning Lightning(LightningSpec) "lightning"
        "Linear attention with a fixed decay a head (Lightning attention, arXiv 2501.08313).",
    short_convolution ShortConvolution(ShortConvolutionSpec) "short-convolution"
        "Gated short convolution (LFM2, arXiv 2511.23404).",
    rwkv7 Rwkv7(Rwkv7Spec) "rwkv7" "Delta rule with decay, rate and removed key by channel (RWKV-7, arXiv 2503.14456).",
}

impl Mixer {
    /// True for attention, latent or not.
    pub fn is_attention(&self) -> bool {
        matches!(self, Mixer::Attention)
    }

    /// All whole numbers among its own fields are sizes.
    pub(super) fn validate(&self, p: &mut Problems, at: &str) {
        let Some((key, mixer)) = self.own() else { return };
        let written = stepsim_located::to_value(self).unwrap_or_default();
        for (field, value) in written[key].as_object().into_iter().flatten() {
            p.size(format!("{at}.{key}.{field}"), value.as_u64(), 10_000_000);
        }
        if let Some(problem) = mixer.problem() {
            p.push(Problem { path: format!("{at}.{key}.{}", problem.path), ..problem });
        }
    }
}
