//! Other people's files as a described run: columns of words, arguments, names of models and machines.
//!
//! It knows words, and what a workload is; it knows no terminal and no study.
//!
//! `spec` knows no file but ours: [`read_other_software`] tells it how others are read.

pub mod calculon;
pub mod describe;
mod foreign;
pub mod hugging_face;
mod import;
pub mod imports;
pub mod nccl_tests;
mod nccl_topology;
pub mod nvidia_smi;
mod nvidia_smi_graph;
mod nvidia_smi_matrix;
mod rocm_smi;
pub mod training_log;

pub use foreign::{FOREIGN, USUAL_BATCH, read_other_software};
pub use import::{import, import_model};
