//! Tests of the parts of this crate, one module a subject.

mod calculon;
mod describe_columns;
mod describe_layout;
mod describe_model;
mod describe_network;
mod describe_shape;
mod describe_size;
mod describe_stages;
mod hugging_face;
mod imports;
mod imports_budget;
mod imports_invocation;
mod imports_layers;
mod imports_named;
mod imports_stages;
mod imports_syntax_python_condition;
mod imports_syntax_shell;
mod imports_syntax_shell_beside;
mod imports_syntax_shell_slurm;
mod imports_vocabulary;
mod nccl_tests;
mod training_log;
