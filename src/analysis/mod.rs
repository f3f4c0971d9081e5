//! Readers of a record: where the time went.
