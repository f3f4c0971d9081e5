//! `stepsim share`: several jobs on one machine.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::outputs::WRITTEN;
use super::screen::note_without_effect;
use super::tables::table;
use super::write::write_report;
use super::{Failure, say};
use stepsim_core::ids::{CommId, DeviceId, ResourceId};
use stepsim_read::analysis::links;
use stepsim_simulate::share::{JobTimes, SharedRun};
use stepsim_simulate::{Inputs, Settings, Site, expanded};
use stepsim_spec::{Disk, LoadedSpec, SpecError, WorkloadSpec, load};

/// Links that are listed.
const LINKS: usize = 5;

/// Play several jobs on one machine, each on devices of its own, and say what each loses to the others.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim share llama3-8b-fsdp@0-7,16-23 gpt2-8@8-15 -t 'h100-superpod-64' --set parallelism.data=null
  stepsim share a.json@0-63 b.json@64-127 -t h100-superpod-128 --report shared.json

A job is a workload and its devices, by their numbers on the machine: rank 0 is on the first. Each makes steps while the
others make theirs; nothing is drawn, and all begin at the same moment.")]
pub struct Args {
    /// WORKLOAD@DEVICES: a shipped name or a path, and numbers and ranges like `0-7,16-23`
    #[arg(required = true, num_args = 2.., value_name = "JOB")]
    jobs: Vec<String>,
    /// The machine: a name, a path, or a simple one
    #[arg(short, long)]
    topology: String,
    /// Change a field of all workloads, or of the machine (`topology.…`); repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// Steps of the job whose step is the longest
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = crate::asked::whole::<u32>(1..=16))]
    steps: u32,
    /// Simulate every rank, also those that must behave alike
    #[arg(long)]
    no_fold: bool,
    /// Write the result as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    report: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The input is wrong (status 2); a job does not run, or a file cannot be written.
pub fn run(args: &Args) -> Result<(), Failure> {
    let settings = Settings::of(&expanded(&args.sets, &Disk)?);
    let site = Site::load(&args.topology, &settings.machine)?;
    let all = site.machine().devices();
    let mut taken = vec![None; all as usize];
    let mut jobs: Vec<(String, Inputs)> = Vec::new();
    for text in &args.jobs {
        let (name, devices) = devices_of(text, all)?;
        for device in &devices {
            let before: &mut Option<&str> = &mut taken[device.index()];
            if let Some(before) = before {
                let problem = format!("device {} belongs to `{before}` too", device.0);
                return Err(SpecError::file(text, problem).allowed("devices that no other job has").into());
            }
            *before = Some(text);
        }
        let workload: LoadedSpec<WorkloadSpec> = load(name, &settings.workload)?;
        jobs.push((name.to_owned(), site.inputs_on(workload, &devices)?));
    }
    let inputs: Vec<Inputs> = jobs.iter().map(|job| job.1.clone()).collect();
    let inert = inputs.iter().flat_map(Inputs::without_effect).map(|inert| inert.to_string());
    note_without_effect(&inert.collect::<BTreeSet<String>>().into_iter().collect::<Vec<String>>());
    let shared = SharedRun::play(&inputs, args.steps, !args.no_fold)?;
    let links = shared_links(&shared, &inputs[0]);
    let named: Vec<TimedJob<'_>> = jobs.iter().map(|job| job.0.as_str()).zip(&shared.jobs).collect();
    let machine = &site.topology().name;
    write_report(args.report.as_deref(), &report(machine, &named, &links))?;
    say(&text(&named, &links))
}

/// A job by its workload, and its times.
type TimedJob<'a> = (&'a str, &'a JobTimes);

/// How much longer its step is beside the others, as a part of the step alone.
fn slowed(job: &JobTimes) -> f64 {
    job.together.s() / job.alone.s().max(f64::MIN_POSITIVE) - 1.0
}

/// The output of `--report`.
fn report(machine: &str, jobs: &[TimedJob<'_>], links: &[(String, f64)]) -> serde_json::Value {
    let job = |(name, job): &TimedJob<'_>| {
        serde_json::json!({
            "workload": name, "ranks": job.ranks.len(), "steps": job.steps, "alone_s": job.alone.s(),
            "together_s": job.together.s(), "slowed_by": slowed(job),
        })
    };
    let link = |(name, used): &(String, f64)| serde_json::json!({"link": name, "utilisation": used});
    serde_json::json!({
        "topology": machine, "jobs": jobs.iter().map(job).collect::<Vec<_>>(),
        "shared_links": links.iter().map(link).collect::<Vec<_>>(),
    })
}

fn text(jobs: &[TimedJob<'_>], links: &[(String, f64)]) -> String {
    let mut rows = table(&["job", "devices", "steps", "alone", "together", "slower by"]);
    for (name, job) in jobs {
        rows.add_row([
            name.to_string(),
            job.ranks.len().to_string(),
            job.steps.to_string(),
            job.alone.to_string(),
            job.together.to_string(),
            format!("{:.2} %", 100.0 * slowed(job)),
        ]);
    }
    let mut text = format!("{rows}\n");
    for (name, utilisation) in links {
        text += &format!("shared: {name}, {:.0} % used\n", 100.0 * utilisation);
    }
    if links.is_empty() {
        text += "the jobs share no link\n";
    }
    text
}

/// The busiest links that flows of more than one job cross, and the share of the time that they are used.
fn shared_links(shared: &SharedRun, inputs: &Inputs) -> Vec<(String, f64)> {
    let (world, folded) = (&shared.folded.world, &shared.folded);
    let of_rank = |rank: u32| shared.jobs.iter().position(|job| job.ranks.contains(&rank));
    let mut crossed: Vec<Option<Option<usize>>> = vec![None; world.resources().len()];
    for number in 0..world.comms().len() as u32 {
        let comm = CommId(number);
        let Some(first) = world.members_of(comm).first() else { continue };
        let job = of_rank(folded.ranks.representative[first.index()]);
        for path in 0..world.comms()[number as usize].paths.len {
            for (resource, _) in world.path(comm, path) {
                let by = &mut crossed[resource.index()];
                *by = match *by {
                    None => Some(job),
                    Some(one) if one == job => Some(one),
                    // By several.
                    Some(_) => Some(None),
                };
            }
        }
    }
    let several = |r: ResourceId| crossed[r.index()] == Some(None);
    let name =
        |r: ResourceId| inputs.machine.resource_name(ResourceId(folded.resources.representative[r.index()]));
    let busiest = links::busiest(world, &shared.record).into_iter().filter(|link| several(link.resource));
    busiest.take(LINKS).map(|link| (name(link.resource), link.utilisation)).collect()
}

/// Workload and devices of a job.
fn devices_of(text: &str, all: u32) -> Result<(&str, Vec<DeviceId>), SpecError> {
    let wrong = |problem: String| {
        SpecError::file(text, problem)
            .allowed(format!("WORKLOAD@DEVICES: numbers and ranges from 0 to {} like 0-7,16-23", all - 1))
    };
    let (name, list) = text.rsplit_once('@').ok_or_else(|| wrong("names no devices".into()))?;
    let mut devices = Vec::new();
    for part in list.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let number = |n: &str| n.trim().parse::<u32>().map_err(|_| wrong(format!("`{part}` is no device")));
        let (from, to) = (number(from)?, number(to)?);
        if from > to || to >= all {
            return Err(wrong(format!("`{part}` is not on the machine")));
        }
        devices.extend((from..=to).map(DeviceId));
    }
    Ok((name, devices))
}
