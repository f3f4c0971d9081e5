//! The event loop.
