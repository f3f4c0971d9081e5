//! The arguments of `estimate`.

use std::path::PathBuf;

use super::super::outputs::WRITTEN;
use stepsim_form::calculon::closed_form::Quirks;

/// The closed form of one training step: time term by term, memory, efficiencies.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Workload: the name of a shipped one, or a file of ours or of training software [default: gpt3-175b]
    #[arg(conflicts_with = "calculon")]
    pub(crate) workload: Option<String>,
    /// Machine: a count and a name (`64xh100`), a name, a path, or a simple one like `switch:8,450,1`
    /// [default: the one the workload names]
    #[arg(short, long, conflicts_with = "calculon")]
    pub(crate) topology: Option<String>,
    /// Change a field: `batch.global=768`, `topology.nodes=16`; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE", conflicts_with = "calculon")]
    pub(crate) sets: Vec<String>,
    /// Calculon's application, execution and system file (.json or .json.gz), read unchanged
    #[arg(long, num_args = 3, value_names = ["APP", "EXE", "SYS"])]
    pub(crate) calculon: Option<Vec<PathBuf>>,
    /// Calculon's arithmetic with all its known defects (the default)
    #[arg(long, conflicts_with = "repaired", requires = "calculon")]
    pub(crate) as_published: bool,
    /// The same model with its known defects repaired
    #[arg(long, requires = "calculon")]
    pub(crate) repaired: bool,
    /// Switch one defect on or off; repeatable
    #[arg(long, requires = "calculon", value_name = "NAME=on|off", value_parser = parse_quirk)]
    pub(crate) quirk: Vec<(String, bool)>,
    /// Write the numbers as JSON: Calculon's 96 outputs by name, or the terms of a workload
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    pub(crate) report: Option<PathBuf>,
    /// Rooflines, bounds by the machine's axes, and the arithmetic of a whole run too
    #[arg(long, conflicts_with = "calculon")]
    pub(crate) rules: bool,
    /// Tokens of the whole run that `--rules` speaks of [default: 20 for each parameter that a token passes]
    #[arg(long, value_name = "N", requires = "rules", value_parser = tokens)]
    pub(crate) tokens: Option<f64>,
    /// Devices that the whole run of `--rules` has, each at the pace of the estimate [default: the machine's]
    #[arg(long, value_name = "N", requires = "rules", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) devices: Option<u64>,
    /// Only the rooflines of all shipped devices
    #[arg(long, conflicts_with_all = ["workload", "calculon", "rules", "topology", "sets"])]
    pub(crate) rooflines: bool,
    /// Print the cost of every layer of a block too
    #[arg(long, requires = "calculon")]
    pub(crate) layers: bool,
}

/// Reads a number like 15e12.
pub(crate) fn tokens(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "no number".to_string())?;
    if (1.0..=1e18).contains(&number) { Ok(number) } else { Err("allowed: 1 to 1e18".to_string()) }
}

/// Reads `name=on` or `name=off`.
pub(crate) fn parse_quirk(text: &str) -> Result<(String, bool), String> {
    let known = || format!("allowed: {}, each with =on or =off", Quirks::NAMES.join(", "));
    let (name, state) = text.split_once('=').ok_or_else(known)?;
    let on = match state {
        "on" => true,
        "off" => false,
        _ => return Err(known()),
    };
    if Quirks::NAMES.contains(&name) { Ok((name.to_string(), on)) } else { Err(known()) }
}

impl Args {
    pub(crate) fn quirks(&self) -> Quirks {
        let mut quirks = if self.repaired { Quirks::REPAIRED } else { Quirks::AS_PUBLISHED };
        for (name, on) in &self.quirk {
            quirks.set(name, *on);
        }
        quirks
    }
}
