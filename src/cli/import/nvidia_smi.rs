//! `stepsim import nvidia-smi`: how the GPUs of a node are joined.

use std::path::PathBuf;

use serde_json::Value;

use super::super::outputs::WRITTEN;
use super::super::write::write_json;
use super::super::{Failure, inputs, say};
use stepsim_bring::nvidia_smi::{NodeRates, machine};
use stepsim_fabric::topology::Machine;
use stepsim_spec::topology::Topology;
use stepsim_spec::{LoadedSpec, SpecError, from_value};

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  (nvidia-smi topo -m; nvidia-smi) > topo.txt          with the total of the device's memory
  stepsim import nvidia-smi topo.txt --device h100-sxm --nodes 4 -o machine.json
  rocm-smi --showtopo > topo.txt; stepsim import nvidia-smi topo.txt --device mi300x -o machine.json
  stepsim run llama3-70b -t machine.json")]
pub struct Args {
    /// The output of `nvidia-smi topo -m` (and of plain `nvidia-smi` behind it if the memory counts), of `rocm-smi
    /// --showtopo`, or NCCL's topology file (NCCL_TOPO_DUMP_FILE); `-` is the standard input
    file: PathBuf,
    /// The device: a shipped name or a file
    #[arg(long)]
    device: String,
    /// Nodes of the machine
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = crate::asked::whole::<u32>(1..=65_536))]
    nodes: u32,
    /// One NVLink or xGMI link, one direction; default: the device's (25 for H100, 50 for B200, 48 for MI300X)
    #[arg(long = "nvlink-GBps", value_name = "GBPS")]
    nvlink: Option<f64>,
    /// A GPU's PCIe port, where there are no NVLinks
    #[arg(long = "pcie-GBps", value_name = "GBPS", default_value_t = 25.0)]
    pcie: f64,
    /// A network adapter, one direction, where the file does not say it
    #[arg(long = "nic-GBps", value_name = "GBPS", default_value_t = 50.0)]
    nic: f64,
    /// The file that is written
    #[arg(short, long, value_name = "MACHINE.json", default_value = "-", help_heading = WRITTEN)]
    output: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// Wrong files (status 2); a file that cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    for (option, value) in
        [("--nvlink-GBps", args.nvlink.unwrap_or(1.0)), ("--pcie-GBps", args.pcie), ("--nic-GBps", args.nic)]
    {
        if !(value > 0.0 && value <= 1e6) {
            let wrong = SpecError::file(format!("{option} {value}"), "is not allowed");
            return Err(wrong.allowed("a number above 0, up to 1e6").into());
        }
    }
    let rates =
        NodeRates { nvlink_gbps: args.nvlink, pcie_gbps: args.pcie, nic_gbps: args.nic, nodes: args.nodes };
    let file = args.file.display().to_string();
    let (value, assumed): (Value, _) = machine(&inputs::text(&args.file)?, &file, &args.device, &rates)?;
    // The file to be written must load.
    let loaded: LoadedSpec<Topology> = from_value(value.clone(), "machine".into(), file.clone(), &[])?;
    Machine::build(&loaded.value).map_err(|e| e.in_file(&file))?;
    write_json(&args.output, &value)?;
    if args.output.as_os_str() == "-" {
        return Ok(());
    }
    let mut text = String::new();
    for what in &assumed {
        text += &format!("  assumed: {what}\n");
    }
    say(&(text + &format!("wrote {0}\nnext: stepsim inspect gpt2-8 -t {0}\n", args.output.display())))
}
