//! The arguments of `estimate`.

use std::path::PathBuf;

use stepsim_study::space as units;

use super::super::outputs::WRITTEN;

/// The closed form of one training step: time term by term, memory, efficiencies.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Workload: the name of a shipped one, or a file of ours or of training software [default: gpt3-175b]; or
    /// Calculon's application, with its two other files behind it
    pub(crate) workload: Option<String>,
    /// Calculon's execution and system, behind its application: its own arithmetic
    #[arg(value_names = ["EXECUTION", "SYSTEM"], num_args = 2)]
    pub(crate) calculon: Vec<String>,
    /// Machine: a count and a name (`64xh100`), a name, a path, or a simple one like `switch:8,450,1`
    /// [default: the one the workload names]
    #[arg(short, long)]
    pub(crate) topology: Option<String>,
    /// Change a field: `batch.global=768`, `topology.nodes=16`; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Write the terms, the efficiencies and the memory as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    pub(crate) report: Option<PathBuf>,
    /// Rooflines, bounds by the machine's axes, and the arithmetic of a whole run too
    #[arg(long)]
    pub(crate) rules: bool,
    /// Tokens of the whole run that `--rules` speaks of [default: 20 for each parameter that a token passes]
    #[arg(long, value_name = "N", requires = "rules", value_parser = tokens)]
    pub(crate) tokens: Option<f64>,
    /// Devices that the whole run of `--rules` has, each at the pace of the estimate [default: the machine's]
    #[arg(long, value_name = "N", requires = "rules", value_parser = crate::asked::whole::<u64>(1..=100_000_000))]
    pub(crate) devices: Option<u64>,
    /// Only the rooflines of all shipped devices
    #[arg(long, conflicts_with_all = ["workload", "rules", "topology", "sets"])]
    pub(crate) rooflines: bool,
}

/// Tokens or samples of a run: `15T`, `300B`, `52k`, `2e12`.
pub(crate) fn tokens(text: &str) -> Result<f64, String> {
    let number = units::number(text).filter(|number| *number > 0.0 && *number <= 1e18);
    number.ok_or_else(|| "a number: 15T, 300B, 52k; at most 1e18".to_string())
}
