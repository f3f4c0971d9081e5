//! The event loop.

mod record;

pub use record::Record;
