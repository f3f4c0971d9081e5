//! Readings of a record: [`analysis`] and its reports, timelines ([`trace`]), parts of pages ([`page`]) and their
//! colours ([`palette`]).
//!
//! Invariant: it knows a record, and not which step, model or machine it came from.

pub mod analysis;
pub mod page;
pub mod palette;
pub mod trace;
