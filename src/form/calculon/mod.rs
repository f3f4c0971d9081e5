//! Calculon (calculon-ai/calculon, SC'23), the closed-form model that the simulator is validated against: its files,
//! its arithmetic, and the same step as events.
//!
//! Each module uses only those before it (a test holds it so):
//!
//! `files` → `closed_form` → `search` → `plan` → `simulate` → `compare`.
//!
//! Nothing outside but the command line uses this folder; it uses the simulator as any other program could.

pub mod closed_form;
pub mod compare;
pub mod files;
pub mod plan;
pub mod search;
pub mod simulate;

pub use files::Calculon;
