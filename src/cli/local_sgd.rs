//! `stepsim local-sgd`: sites that train by themselves and exchange what they have changed every H steps.
//!
//! The step of one site is simulated on that site alone, the synchronous step on all sites; the exchange is the law of
//! [`stepsim_form::analytic::local_sgd`] over the links between the sites.

use std::path::PathBuf;

use serde::Serialize;

use super::outputs::WRITTEN;
use super::tables::table;
use super::write::write_report;
use super::{Failure, outputs, say};
use stepsim_core::ids::DeviceId;
use stepsim_fabric::collective::{Geometry, SiteLinks};
use stepsim_form::analytic::local_sgd::LocalSgd;
use stepsim_price::model::ParameterCount;
use stepsim_simulate::jump::figures;
use stepsim_simulate::{Head, Inputs, Options};
use stepsim_spec::SpecError;

/// Say what sites gain that exchange every H steps instead of every step (local SGD, DiLoCo).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim local-sgd llama3-70b -t h100-two-sites --set parallelism.data=null --set batch.global=1024
  stepsim local-sgd mine.json --inner-steps 100 --exchange-bytes 0.5 --overlap-steps 1 --fragments 4

The machine has sites, each with whole replicas (data parallelism across sites). The cost of a longer H in loss is
outside of this. An exchange sums the differences of all parameters; jitter of the wide area, and a gather inside the
site where its devices hold whole weights, are left out.")]
pub struct Args {
    /// Workload: the name of a shipped one, or a file of ours or of training software
    workload: String,
    /// Machine with sites: a name or a path [default: the one the workload names]
    #[arg(short, long)]
    topology: Option<String>,
    /// Change a field: `batch.global=1024`, `topology.sites.link_km=1000`; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// Steps of a site between two exchanges
    #[arg(long, default_value_t = 100, value_name = "H", value_parser = crate::asked::whole::<u64>(1..=1_000_000))]
    inner_steps: u64,
    /// Bytes of a parameter's difference as it is sent: 4, 2, 1, or 0.5 in four bits
    #[arg(long, default_value_t = 2.0, value_name = "BYTES", value_parser = bytes)]
    exchange_bytes: f64,
    /// Steps under which an exchange may run
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = crate::asked::whole::<u64>(0..=1_000_000))]
    overlap_steps: u64,
    /// Parts of the parameters that are exchanged in turn
    #[arg(long, default_value_t = 1, value_name = "F", value_parser = crate::asked::whole::<u64>(1..=100_000))]
    fragments: u64,
    /// Write the result as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    report: Option<PathBuf>,
}

/// Reads bytes of a parameter.
fn bytes(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "no number".to_string())?;
    if number > 0.0 && number <= 8.0 { Ok(number) } else { Err("allowed: above 0, at most 8".to_string()) }
}

/// The output of `--report`.
#[derive(Debug, Serialize)]
struct LocalSgdReport {
    head: Head,
    sites: u32,
    site_rate_gbytes_per_s: f64,
    way_s: f64,
    /// Of a step in which all sites sum their gradients.
    synchronous_step_s: f64,
    /// Of a step of one site by itself.
    inner_step_s: f64,
    inner_steps: u64,
    exchanged_bytes: f64,
    exchange_s: f64,
    exposed_share: f64,
    mean_step_s: f64,
    rate_to_hide_gbytes_per_s: f64,
    /// fp32 copy of the weights at the last exchange and outer momentum, on a device.
    more_memory_bytes: f64,
}

/// Runs the command.
///
/// # Errors
/// The input is wrong (status 2); a step does not run, or a file cannot be written.
pub fn run(args: &Args) -> Result<(), Failure> {
    let inputs = Inputs::load(&args.workload, args.topology.as_deref(), &args.sets)?;
    outputs::apart(&[("--report", args.report.as_deref())], &inputs.files())?;
    let devices: Vec<DeviceId> = (0..inputs.machine.devices()).map(DeviceId).collect();
    let sites = Geometry::of(&*inputs.machine, &devices).map_err(Failure::input)?.sites.ok_or_else(|| {
        Failure::input(
            SpecError::at("topology.sites", "the machine has no sites, or one")
                .allowed("a machine of several sites, like h100-two-sites")
                .hint("--topology h100-two-sites, or give the machine `sites`"),
        )
    })?;
    let inner =
        Inputs::load(&args.workload, args.topology.as_deref(), &one_site(&inputs, args, sites.count)?)?;
    let step =
        |inputs: &Inputs| Ok::<f64, Failure>(figures(inputs, &Options::default(), false)?.step_end.s());
    let outcome = outcome(args, &inputs, sites, (step(&inputs)?, step(&inner)?));
    write_report(args.report.as_deref(), &outcome)?;
    say(&text(&outcome))
}

/// The settings that leave one site with its share of the batch.
fn one_site(inputs: &Inputs, args: &Args, sites: u32) -> Result<Vec<String>, Failure> {
    let (workload, sites) = (&inputs.workload.value, u64::from(sites));
    let data = workload.data_parallel(u64::from(inputs.machine.devices()));
    for (path, value) in [("batch.global", workload.batch.global), ("parallelism.data", data)] {
        if value % sites != 0 {
            return Err(Failure::input(
                SpecError::at(path, format!("{value} is not allowed"))
                    .allowed(format!("a multiple of the {sites} sites"))
                    .hint("each site holds whole replicas and takes its share of the batch"),
            ));
        }
    }
    let mut sets = args.sets.clone();
    sets.push("topology.sites=null".into());
    sets.push(format!("batch.global={}", workload.batch.global / sites));
    sets.push(format!("parallelism.data={}", data / sites));
    Ok(sets)
}

fn outcome(args: &Args, inputs: &Inputs, sites: SiteLinks, (together, alone): (f64, f64)) -> LocalSgdReport {
    let workload = &inputs.workload.value;
    let parameters = ParameterCount::of(&inputs.model).total() as f64;
    let of_site = f64::from(inputs.machine.devices() / sites.count);
    let law = LocalSgd {
        sites: sites.count,
        bytes: parameters * args.exchange_bytes,
        rate: sites.across.bandwidth() * of_site,
        latency_s: sites.across.alpha(),
        step_s: alone,
        inner_steps: args.inner_steps,
        overlap_steps: args.overlap_steps,
        fragments: args.fragments,
    };
    let cut = match workload.sharding().cuts_optimizer() {
        false => workload.ranks_per_replica() as f64 / workload.parallelism.context.size as f64,
        true => of_site,
    };
    LocalSgdReport {
        head: inputs.head(0),
        sites: sites.count,
        site_rate_gbytes_per_s: law.rate / 1e9,
        way_s: law.latency_s,
        synchronous_step_s: together,
        inner_step_s: alone,
        inner_steps: args.inner_steps,
        exchanged_bytes: law.sent(),
        exchange_s: law.outer_s(),
        exposed_share: law.exposed_share(),
        mean_step_s: law.mean_step_s(),
        rate_to_hide_gbytes_per_s: law.rate_to_hide() / 1e9,
        more_memory_bytes: 8.0 * parameters / cut,
    }
}

fn text(o: &LocalSgdReport) -> String {
    let rows = [
        ["step, gradients summed over all sites".into(), format!("{:.3} s", o.synchronous_step_s)],
        ["step of one site by itself".into(), format!("{:.3} s", o.inner_step_s)],
        ["exchange between sites".into(), format!("{:.3} s", o.exchange_s)],
        ["  leaves a site".into(), format!("{:.1} GB", o.exchanged_bytes / 1e9)],
        [
            format!("  waited for, of {} steps and it", o.inner_steps),
            format!("{:.2} %", 100.0 * o.exposed_share),
        ],
        ["mean step".into(), format!("{:.3} s", o.mean_step_s)],
        [
            "rate that hides it under all steps".into(),
            format!("{:.3} GB/s a site", o.rate_to_hide_gbytes_per_s),
        ],
        ["more memory on a device".into(), format!("{:.2} GiB", o.more_memory_bytes / f64::from(1 << 30))],
    ];
    let mut lines = table(&["of a run", ""]);
    rows.into_iter().for_each(|row: [String; 2]| {
        lines.add_row(row);
    });
    format!(
        "{} sites, {:.1} GB/s and {:.1} ms between them\n{}\n",
        o.sites,
        o.site_rate_gbytes_per_s,
        1e3 * o.way_s,
        lines.trim_fmt()
    )
}
