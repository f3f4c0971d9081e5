//! Tests of the parts of this crate, one module a subject.

mod profile_classes;
mod profile_clock;
mod profile_event;
mod profile_scan;
mod profile_waterfall;
mod score_anchor;
mod score_card;
mod score_choice;
mod score_outcome;
mod score_pairs;
mod score_ranges_accuracy;
mod score_ranges_unlike;
mod score_ranges_widths;
mod score_statistics;
mod score_table;
mod summary;
