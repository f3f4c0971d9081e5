//! Parts of `form`, one module a file of it.

mod analytic;
mod analytic_pass_time;
mod analytic_queues;
mod compare_differences;
mod compare_estimators;
mod compare_formula_file;
