//! What mixes the tokens of a layer where it is not attention: state spaces and linear attention.
//!
//! Symbols as in the papers: a state-space head holds a state of `state` × `head_size`, a delta-rule head one of
//! `key_size` × `value_size`; sequences are worked on in chunks, inside which all products are matrix products.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::step::spec::problem::Problems;

/// What mixes tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Mixer {
    /// Attention, as `heads`, `attention` and `mla` say.
    #[default]
    Attention,
    /// Nothing: the layer is an MLP alone.
    None,
    /// State space with one decay a head (Mamba-2, arXiv 2405.21060).
    Mamba2(Mamba2Spec),
    /// State space with a decay for every channel and state (Mamba, arXiv 2312.00752).
    Mamba1(Mamba1Spec),
    /// Gated delta rule (Gated DeltaNet, arXiv 2412.06464).
    GatedDelta(GatedDeltaSpec),
    /// Delta rule with a decay for every channel (Kimi linear, arXiv 2510.26692).
    KimiDelta(KimiDeltaSpec),
    /// Linear attention with a fixed decay a head (Lightning attention, arXiv 2501.08313).
    Lightning(LightningSpec),
}

/// A Mamba-2 mixer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mamba2Spec {
    /// Heads.
    pub heads: u64,
    /// Width of one head.
    pub head_size: u64,
    /// Groups of heads that share their input and output maps (B, C).
    pub groups: u64,
    /// State of one channel.
    pub state: u64,
    /// Width of the convolution.
    #[serde(default = "four")]
    pub convolution: u64,
    /// Whether the convolution has a bias.
    #[serde(default = "yes")]
    pub convolution_bias: bool,
    /// Tokens of one chunk of the scan.
    #[serde(default = "chunk_256")]
    pub chunk: u64,
}

/// A Mamba-1 mixer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mamba1Spec {
    /// Width inside.
    pub inner: u64,
    /// State of one channel.
    pub state: u64,
    /// Rank of the step sizes' projection.
    pub dt_rank: u64,
    /// Width of the convolution.
    #[serde(default = "four")]
    pub convolution: u64,
    /// Whether step sizes, input and output maps are normalised (Jamba).
    #[serde(default)]
    pub inner_norms: bool,
}

/// A gated delta-rule mixer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GatedDeltaSpec {
    /// Query and key heads.
    pub key_heads: u64,
    /// Value heads.
    pub value_heads: u64,
    /// Width of a query or key head.
    pub key_size: u64,
    /// Width of a value head.
    pub value_size: u64,
    /// Width of the convolution.
    #[serde(default = "four")]
    pub convolution: u64,
    /// Tokens of one chunk.
    #[serde(default = "chunk_64")]
    pub chunk: u64,
}

/// A delta-rule mixer with a decay for every channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KimiDeltaSpec {
    /// Heads.
    pub heads: u64,
    /// Width of one head.
    pub head_size: u64,
    /// Width of the convolution.
    #[serde(default = "four")]
    pub convolution: u64,
    /// Tokens of one chunk.
    #[serde(default = "chunk_64")]
    pub chunk: u64,
}

/// A linear-attention mixer with a fixed decay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LightningSpec {
    /// Heads.
    pub heads: u64,
    /// Width of one head.
    pub head_size: u64,
    /// Tokens of one block.
    #[serde(default = "chunk_256")]
    pub block: u64,
}

fn yes() -> bool {
    true
}
fn four() -> u64 {
    4
}
fn chunk_64() -> u64 {
    64
}
fn chunk_256() -> u64 {
    256
}

impl Mixer {
    /// Heads that tensor parallelism cuts; `None` where it is attention or nothing.
    pub fn heads(&self) -> Option<u64> {
        match self {
            Mixer::Attention | Mixer::None => None,
            Mixer::Mamba2(m) => Some(m.heads),
            // Channels are independent: any divisor of the width will do.
            Mixer::Mamba1(m) => Some(m.inner),
            Mixer::GatedDelta(m) => Some(m.key_heads),
            Mixer::KimiDelta(m) => Some(m.heads),
            Mixer::Lightning(m) => Some(m.heads),
        }
    }

    /// The name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Mixer::Attention => "attention",
            Mixer::None => "none",
            Mixer::Mamba2(_) => "mamba-2",
            Mixer::Mamba1(_) => "mamba-1",
            Mixer::GatedDelta(_) => "gated delta",
            Mixer::KimiDelta(_) => "kimi delta",
            Mixer::Lightning(_) => "lightning",
        }
    }

    pub(super) fn validate(&self, p: &mut Problems, at: &str) {
        let mut sizes = |kind: &str, list: &[(&str, u64)]| {
            for (field, value) in list {
                p.size(format!("{at}.{kind}.{field}"), *value, 10_000_000);
            }
        };
        match self {
            Mixer::Attention | Mixer::None => {}
            Mixer::Mamba2(m) => {
                let list = [
                    ("heads", m.heads),
                    ("head_size", m.head_size),
                    ("groups", m.groups),
                    ("state", m.state),
                    ("convolution", m.convolution),
                    ("chunk", m.chunk),
                ];
                sizes("mamba2", &list);
                if m.groups > 0 && !m.heads.is_multiple_of(m.groups) {
                    p.add(
                        format!("{at}.mamba2.groups"),
                        m.groups,
                        format!("a divisor of heads ({})", m.heads),
                        "each group serves the same number of heads",
                    );
                }
            }
            Mixer::Mamba1(m) => sizes(
                "mamba1",
                &[
                    ("inner", m.inner),
                    ("state", m.state),
                    ("dt_rank", m.dt_rank),
                    ("convolution", m.convolution),
                ],
            ),
            Mixer::GatedDelta(m) => {
                let list = [
                    ("key_heads", m.key_heads),
                    ("value_heads", m.value_heads),
                    ("key_size", m.key_size),
                    ("value_size", m.value_size),
                    ("convolution", m.convolution),
                    ("chunk", m.chunk),
                ];
                sizes("gated-delta", &list);
                if m.key_heads > 0 && !m.value_heads.is_multiple_of(m.key_heads) {
                    p.add(
                        format!("{at}.gated-delta.value_heads"),
                        m.value_heads,
                        format!("a multiple of key_heads ({})", m.key_heads),
                        "each key head serves the same number of value heads",
                    );
                }
            }
            Mixer::KimiDelta(m) => sizes(
                "kimi-delta",
                &[
                    ("heads", m.heads),
                    ("head_size", m.head_size),
                    ("convolution", m.convolution),
                    ("chunk", m.chunk),
                ],
            ),
            Mixer::Lightning(m) => {
                sizes("lightning", &[("heads", m.heads), ("head_size", m.head_size), ("block", m.block)]);
            }
        }
    }
}
