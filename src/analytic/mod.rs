//! The closed form, term by term.
