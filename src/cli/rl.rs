//! `stepsim rl`: an iteration of reinforcement learning in phases, the training step simulated.

use std::io;
use std::path::{Path, PathBuf};

use super::outputs::WRITTEN;
use super::tables::table;
use super::write::write_json;
use super::{Failure, inputs, say};
use stepsim_around::rl::{Iteration, PhaseLane, RlSpec, iteration};
use stepsim_core::units::Time;
use stepsim_read::trace::writer::{CounterUnit, Sink, Slice, Value};
use stepsim_read::trace::{TimelineSummary, write_with};
use stepsim_simulate::{Inputs, Options, Simulation};
use stepsim_spec::SpecError;

/// Put an iteration of reinforcement learning together: generation, forward passes, training, weight exchange.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim rl examples/rl/llama3.1-8b-grpo.json
  stepsim rl examples/rl/qwen3-32b-grpo.json -o iteration.pftrace
  stepsim schema rl                                        every field

The training step is simulated; generation is prefill and decode steps of each replica, bound by memory, products and
collectives; what the host does between decode steps is not in it unless `step_overhead_us` says it.")]
pub struct Args {
    /// The iteration: a JSON file
    file: PathBuf,
    /// Change a field of the workload, behind those that the file sets; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// Write the phases as a timeline here (.pftrace, .json, .json.gz)
    #[arg(short, long, value_name = "FILE", help_heading = WRITTEN)]
    output: Option<PathBuf>,
    /// Write the result as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    report: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The input is wrong (status 2); the step does not run, or a file cannot be written.
pub fn run(args: &Args) -> Result<(), Failure> {
    let file = args.file.display().to_string();
    let spec: RlSpec = inputs::document(&args.file, "an iteration (`stepsim schema rl`)")?;
    spec.validate().map_err(|e| e.in_file(&file))?;
    let beside = |named: &str| -> String {
        let folder = args.file.parent().filter(|_| named.ends_with(".json"));
        folder.map_or(named.to_owned(), |folder| folder.join(named).display().to_string())
    };
    let sets = [spec.set.clone(), args.sets.clone()].concat();
    let topology = spec.topology.as_deref().map(beside);
    let load = |sets: &[String]| Inputs::load(&beside(&spec.workload), topology.as_deref(), sets);
    let mut inputs = load(&sets)?;
    if let Some(batch) = spec.batch_for(&inputs) {
        if sets.iter().any(|set| set.starts_with("batch.global=")) {
            let problem = format!(
                "{} sequences an update are not the tokens that are generated",
                inputs.workload.value.batch.global
            );
            let error = SpecError::at("batch.global", problem).in_file(&file);
            return Err(error.allowed(format!("{batch}, or nothing: it then follows")).into());
        }
        inputs = load(&[sets, vec![format!("batch.global={batch}")]].concat())?;
    }
    let step = Simulation::run(&inputs, &Options::default())?;
    let iteration = iteration(&spec, &inputs, &step).map_err(|e: SpecError| e.in_file(&file))?;
    if let Some(path) = &args.report {
        let value = serde_json::json!({
            "iteration": iteration, "step_time_s": step.record.step_end.s() , "workload": inputs.workload.name,
            "topology": inputs.topology.name, "spec": spec,
        });
        write_json(path, &value)?;
    }
    if let Some(path) = &args.output {
        draw(&iteration, path)?;
    }
    say(&text(&spec, &iteration))
}

fn text(spec: &RlSpec, of: &Iteration) -> String {
    let mut rows = table(&["phase", "on", "from", "takes", "share"]);
    for phase in &of.phases {
        rows.add_row([
            phase.name.to_owned(),
            phase.on.name().to_owned(),
            Time::from_s(phase.start_s).to_string(),
            Time::from_s(phase.s).to_string(),
            format!("{:.1} %", 100.0 * phase.s / of.s),
        ]);
    }
    let slowest = &of.slowest;
    format!(
        "{}\n{rows}\niteration {} on {} devices, {:.0} tokens/s a device\ngeneration: {} sequences, {} tokens \
         with prompts, on {} replicas; {:.0} tokens/s; the slowest made {} decode steps, the mean one was \
         done at {:.0} % of its time\ntraining: {} updates of {} tokens in all\n",
        if spec.description.is_empty() { "iteration" } else { &spec.description },
        Time::from_s(of.s),
        of.devices,
        of.tokens_per_s_per_device,
        of.sequences,
        of.tokens,
        of.replicas,
        of.generated_per_s,
        slowest.steps,
        100.0 * of.busy_share,
        spec.updates,
        of.trained_tokens,
    )
}

/// The phases on a row for each set of devices, and how many sequences the slowest replica runs.
fn draw(of: &Iteration, path: &Path) -> Result<(), Failure> {
    let ns = |s: f64| (s * 1e9).round() as u64;
    let write = |sink: &mut dyn Sink| -> io::Result<TimelineSummary> {
        sink.begin(&[])?;
        sink.process(1, "iteration")?;
        let training = sink.thread(1, "devices that train")?;
        let generation = sink.thread(1, "devices that generate")?;
        let counter = sink.counter_track(1, "slowest replica", "running sequences", CounterUnit::Number)?;
        let mut summary = TimelineSummary::default();
        let mut begun = 0.0;
        for phase in &of.phases {
            let kind = sink.kind(phase.name, "phase", &[])?;
            let slice = Slice {
                start: ns(phase.start_s),
                end: ns(phase.start_s + phase.s).max(ns(phase.start_s) + 1),
                ..Slice::default()
            };
            if phase.on != PhaseLane::Generation {
                sink.slice(training, kind, &slice)?;
            }
            if phase.on != PhaseLane::Training || phase.name == "generation" {
                sink.slice(generation, kind, &slice)?;
            }
            summary.slices += 1;
            if phase.name == "generation" {
                begun = phase.start_s;
            }
        }
        for (s, running) in &of.slowest.running {
            sink.counter(counter, ns(begun + s), Value::Uint(*running))?;
            summary.counter_values += 1;
        }
        sink.finish()?;
        Ok(summary)
    };
    write_with(path, &mut |sink| Ok(write(sink)?)).map(drop).map_err(Failure::run)
}
