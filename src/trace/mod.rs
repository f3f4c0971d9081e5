//! Timelines for Perfetto and other viewers.
