//! The mixer of a model's layer.

use super::attention::Attention;
use super::latent::LatentAttention;
use super::token_mixer::TokenMixer;
use crate::model::{Mixer, ModelSpec};

impl Mixer {
    /// The mixer of a layer of a model; `None` where nothing mixes its tokens.
    pub fn of(model: &ModelSpec) -> Option<Box<dyn TokenMixer + '_>> {
        match (&model.mixer, model.mla) {
            (Mixer::None, _) => None,
            (Mixer::Attention, Some(mla)) => Some(Box::new(LatentAttention { model, mla })),
            (Mixer::Attention, None) => Some(Box::new(Attention(model))),
            (own, _) => own.own().map(|(_, mixer)| mixer),
        }
    }
}
