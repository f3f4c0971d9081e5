//! Tests of the parts of this crate, one module a subject.

mod analytic;
mod compare_differences;
mod compare_estimators;
mod compare_formula_file;
