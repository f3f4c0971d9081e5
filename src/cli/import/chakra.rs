//! `stepsim import chakra`: Chakra execution traces, with ASTRA-sim's files, as rank programs and a machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::super::outputs::WRITTEN;
use super::super::write::write_json;
use super::super::{Failure, inputs, say};
use stepsim_fabric::topology::Machine;
use stepsim_measure::profile::chakra::{AstraSystem, DeviceRates, network, nodes, programs};
use stepsim_measure::replay::check;
use stepsim_spec::SpecError;
use stepsim_spec::topology::Topology;
use stepsim_spec::workload::Dtype;
use stepsim_spec::{LoadedSpec, from_value};

/// Turn Chakra execution traces into rank programs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim import chakra step.*.et --peak-tflops 989 --memory-GBps 3350 -o step.json
  stepsim replay step.json --on switch:8,400,1 -o step.pftrace

  stepsim import chakra step.*.et --system system.json --network network.yml --machine machine.json -o step.json
  stepsim replay step.json --on machine.json

A kernel takes its measured duration, or else the longer of its operations at the device's peak and its bytes at the
memory's rate. The machine of the replay decides the times of collectives and messages.")]
pub(super) struct Args {
    /// The traces, one a rank (.et or .et.gz), in the order of the numbers that their names end with, else as given
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Groups by name: a JSON object of lists of ranks [default: every group is all ranks]
    #[arg(long, value_name = "FILE")]
    groups: Option<PathBuf>,
    /// ASTRA-sim's system file (JSON): rates of the device, pieces and algorithms of collectives
    #[arg(long, value_name = "FILE")]
    system: Option<PathBuf>,
    /// ASTRA-sim's network file (YAML), for --machine
    #[arg(long, value_name = "FILE", requires = "machine")]
    network: Option<PathBuf>,
    /// Operations of a device in a second, in 10¹² [default: from --system, else from --device]
    #[arg(long, value_name = "TFLOPS")]
    peak_tflops: Option<f64>,
    /// Bytes of its memory in a second, in 10⁹ [default: from --system, else from --device]
    #[arg(long = "memory-GBps", value_name = "GBPS")]
    memory_gbps: Option<f64>,
    /// A shipped device or its file, whose peak (bf16) and memory are taken
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// The file that is written: rank programs (.json or .json.gz)
    #[arg(short, long = "output", alias = "out", value_name = "FILE", help_heading = WRITTEN)]
    out: PathBuf,
    /// Also write the machine of --network here
    #[arg(long, value_name = "FILE", requires = "network", help_heading = WRITTEN)]
    machine: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Wrong files (status 2); a file that cannot be written (status 1).
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let system = match &args.system {
        Some(path) => {
            let value = inputs::document(path, "ASTRA-sim's system file (JSON)")?;
            AstraSystem::of(&value, &path.display().to_string())?
        }
        None => AstraSystem::default(),
    };
    let rates = rates(args, &system)?;
    let groups: BTreeMap<String, Vec<u64>> = match &args.groups {
        Some(path) => {
            inputs::document(path, "an object of lists of ranks, by group: {\"0\": [0, 1], \"1\": [2, 3]}")?
        }
        None => BTreeMap::new(),
    };
    let machine = args.network.as_deref().map(|path| {
        let file = path.display().to_string();
        let machine = network(&inputs::text(path)?, &file, &system)?;
        let loaded: LoadedSpec<Topology> = from_value(machine.clone(), "network".into(), file.clone(), &[])?;
        Machine::build(&loaded.value).map_err(|e| e.in_file(&file))?;
        Ok::<_, SpecError>(machine)
    });
    let machine = machine.transpose()?;
    let mut traces = Vec::new();
    for path in &args.traces {
        let file = path.display().to_string();
        let nodes = nodes(&inputs::bytes(path)?, &file)?;
        traces.push((file, nodes));
    }
    by_number(&mut traces);
    let step = programs(&traces, &groups, rates, &system)?;
    check(&step, &[])?;
    write_json(&args.out, &step)?;
    let mut wrote = args.out.display().to_string();
    let mut on = "MACHINE".to_owned();
    if let (Some(machine), Some(path)) = (&machine, &args.machine) {
        write_json(path, machine)?;
        on = path.display().to_string();
        wrote = format!("{wrote} and {on}");
    }
    let ops: usize = step.ranks.iter().map(|r| r.ops.len()).sum();
    let mut text = format!("{} ranks, {ops} ops\n", step.ranks.len());
    for unknown in &step.unknown {
        text += &format!("  assumed: {unknown}\n");
    }
    say(&(text + &format!("wrote {wrote}\nnext: stepsim replay {} --on {on}\n", args.out.display())))
}

/// Puts traces in the order of the numbers that stand before the ends of their names (`step.10.et`), if all have one
/// of their own: a shell sorts them otherwise.
fn by_number<T>(traces: &mut [(String, T)]) {
    let number = |file: &str| {
        let name = file.strip_suffix(".gz").unwrap_or(file).strip_suffix(".et")?;
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        name[name.len() - digits..].parse::<u64>().ok()
    };
    let numbers: std::collections::BTreeSet<u64> =
        traces.iter().filter_map(|trace| number(&trace.0)).collect();
    if numbers.len() == traces.len() {
        traces.sort_by_key(|trace| number(&trace.0));
    }
}

/// The rates of a device: as said, else from the system file, else from the device.
fn rates(args: &Args, system: &AstraSystem) -> Result<DeviceRates, SpecError> {
    let said = |option: &str, value: Option<f64>, unit: f64| match value {
        Some(value) if !(value > 0.0 && value <= 1e12) => {
            Err(SpecError::file(format!("{option} {value}"), "is not allowed")
                .allowed("a number above 0, up to 1e12"))
        }
        value => Ok(value.map(|value| value * unit)),
    };
    let device = args
        .device
        .as_deref()
        .map(|name| stepsim_spec::load::<stepsim_spec::Device>(name, &[]))
        .transpose()?;
    let device = device.map(|loaded| loaded.value);
    let peak = device.as_ref().and_then(|d| d.peak(Dtype::Bf16)).map(|peak| peak.0);
    let memory = device.as_ref().and_then(|d| d.hbm.as_ref()).map(|hbm| hbm.gbps * 1e9);
    Ok(DeviceRates {
        flops: said("--peak-tflops", args.peak_tflops, 1e12)?.or(system.rates.flops).or(peak),
        bytes: said("--memory-GBps", args.memory_gbps, 1e9)?.or(system.rates.bytes).or(memory),
    })
}
