//! The work of a layer (computed, sent, kept), and how long its kernels take on a device.
//!
//! The rooms; each uses only the rooms before it: `documents` → `moe` → `model` → `cost`
//!
//! Invariant: it knows no fabric, no schedule's order, and no plan: a price is one rank's, for one micro-batch.

pub mod cost;
pub mod documents;
pub mod model;
pub mod moe;
