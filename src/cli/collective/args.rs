//! The arguments of `collective`.

use std::path::PathBuf;

use super::super::outputs::WRITTEN;
use super::asked::{parse_algorithm, parse_op};
use stepsim_fabric::collective::{Algorithm, Op};

/// Times a collective by size on a machine: algorithm, protocol, algorithm and bus bandwidth, slowest link.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The machine: a name, a file, or a simple one: switch:N,GBps,us ring:… line:… mesh:… torus:AxBxC,GBps,us
    /// nodes:K*G,GBps_in,us_in,GBps_out,us_out
    #[arg(long, short = 't', value_name = "TOPOLOGY")]
    pub topology: String,
    /// Changes a value of the machine file: path=value; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// all-reduce, all-gather, reduce-scatter, all-to-all, send-recv, ring-shift or expert-exchange
    #[arg(long, value_parser = parse_op)]
    pub op: Op,
    /// Sizes: 8:16Gi:x2 (from, to, factor), 1Mi:8Mi:+1Mi, or a list; the buffer of one rank, for all-gather and
    /// reduce-scatter the full one
    #[arg(long, default_value = "8:16Gi:x2", value_name = "SIZES")]
    pub bytes: String,
    /// The algorithm instead of the machine's choice
    #[arg(long, value_parser = parse_algorithm)]
    pub algorithm: Option<&'static dyn Algorithm>,
    /// Pipeline chunks of that algorithm instead of the best number
    #[arg(long, requires = "algorithm", value_parser = crate::asked::whole::<u32>(1..=65_536))]
    pub chunks: Option<u32>,
    /// The devices, in order: 0-63 or 0,2,4-7 [default: all; of send-recv the first two]
    #[arg(long, value_name = "LIST")]
    pub ranks: Option<String>,
    /// How finely it is played out
    #[arg(long, value_enum, default_value_t = DetailLevel::Fluid)]
    pub fidelity: DetailLevel,
    /// Writes the rows as JSON
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    pub report: Option<PathBuf>,
    /// Writes a page: all sizes, and with --fidelity steps the transfers of the largest over time (.html)
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    pub html: Option<PathBuf>,
}

/// How finely collectives are played out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DetailLevel {
    /// The closed form; no link is used.
    Formula,
    /// One activity for each phase over all its links.
    Fluid,
    /// Every transfer is a flow.
    Steps,
}
