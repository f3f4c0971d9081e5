//! The best executions of Calculon's models on Calculon's machines, also over variations of either.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use comfy_table::{Table, presets};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::asked::LayoutOptions;
use crate::progress::TerminalProgress;
use crate::sweep::draw;
use crate::tables::right;
use crate::write::{write_json, write_report};
use crate::{Failure, outputs, say};
use stepsim_core::pool;
use stepsim_form::calculon::closed_form::Quirks;
use stepsim_form::calculon::files::{Application, Datatype, Execution, FileNames, System};
use stepsim_form::calculon::search::{ExecutionRanking, ExecutionSpace, search};
use stepsim_simulate::RunStatus;
use stepsim_step::spec::Draft;
use stepsim_step::spec::model::ModelSpec;
use stepsim_study::{Plot, PointOutcome, Row, SearchOptions, StudyAxis};

/// Search in Calculon's closed form.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Calculon's files")]
pub(crate) struct OfFiles {
    /// All executions of a model (Calculon's application file, or a shipped model) on a machine (its system file)
    #[arg(long, num_args = 2, value_names = ["APP", "SYS"], requires_all = ["processors", "batch"])]
    calculon: Option<Vec<PathBuf>>,
    /// Processors of an execution, which uses all of them
    #[arg(long, value_name = "N", requires = "calculon", value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    processors: Option<u64>,
    /// Most sequences of a step; an execution takes the largest multiple of its data parallelism
    #[arg(long, value_name = "N", requires = "calculon", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    batch: Option<u64>,
    /// Number format: float8, float16, bfloat16, float32
    #[arg(long, value_name = "NAME", default_value = "float16")]
    datatype: String,
    /// Calculon's model with its known defects repaired
    #[arg(long, requires = "calculon")]
    repaired: bool,
    /// Draw two columns of the best of all points, coloured by a third, beside the output:
    /// `system.mem2.GBps,mfu,application`
    #[arg(long, value_name = "X,Y[,COLOUR]", requires_all = ["calculon", "output"])]
    plot: Vec<String>,
}

/// Values that fields of an execution are kept to.
type Only = BTreeMap<String, Vec<Value>>;

/// A point of a study and what is best there.
#[derive(Serialize)]
struct CalculonPoint {
    settings: Map<String, Value>,
    #[serde(flatten)]
    found: ExecutionRanking,
}

impl OfFiles {
    /// True if Calculon's files are given.
    pub(crate) fn given(&self) -> bool {
        self.calculon.is_some()
    }

    /// Runs the command.
    ///
    /// # Errors
    /// Wrong input, or a space in which nothing fits (status 2); a file that cannot be written (status 1).
    pub(crate) fn run(&self, options: &SearchOptions, asked: &LayoutOptions) -> Result<(), Failure> {
        let Some([app, sys]) = self.calculon.as_deref() else { return Ok(()) };
        let plots = self.plot.iter().map(|text| Plot::parse(text)).collect::<Result<Vec<_>, _>>();
        let plots = plots.map_err(Failure::input)?;
        let (report, output) = (asked.report.as_deref(), asked.output.as_deref());
        let written = [("--report", report), ("--output", output)];
        outputs::apart(&written, &[app.clone(), sys.clone()])?;
        let (axes, mut only) = sorted(options)?;
        let begun = Instant::now();
        let mut points = Vec::new();
        let (bar, all) = (TerminalProgress::of("parts of the space", 1), product(&axes));
        let count = all.len() as u64;
        for (before, settings) in (0..).zip(all) {
            let space = self.space(app, sys, &settings, std::mem::take(&mut only))?;
            let quirks = if self.repaired { Quirks::REPAIRED } else { Quirks::AS_PUBLISHED };
            // Spaces of other points are about as large as this one.
            let mut tell = |done, of| bar.toward(before * of + done, count * of);
            let found = search(&space, quirks, options.top, pool::threads(options.threads), &mut tell);
            let found = found.map_err(Failure::input)?;
            only = space.only;
            points.push(CalculonPoint { settings, found });
        }
        bar.done();
        write_report(report, &serde_json::json!({ "points": &points }))?;
        let mut text = text(&points, begun.elapsed().as_secs_f64());
        let best = points.iter().filter_map(|point| point.found.ranking.first());
        let best = best.max_by(|a, b| a.sample_rate.total_cmp(&b.sample_rate));
        let Some(best) = best else {
            say(&text)?;
            return Err(Failure::input(
                "no execution fits in memory: use more processors, or a machine with mem2",
            ));
        };
        if let Some(path) = output {
            write_json(path, &best.execution)?;
        }
        text += &drawn(&plots, &points, output)?;
        say(&text)
    }

    /// The space at a point of the study.
    fn space(
        &self,
        app: &Path,
        sys: &Path,
        settings: &Map<String, Value>,
        only: Only,
    ) -> Result<ExecutionSpace, Failure> {
        let of_system = |(path, value): (&String, &Value)| {
            path.strip_prefix("system.").map(|field| (field.to_string(), value.clone()))
        };
        let changes: Vec<(String, Value)> = settings.iter().filter_map(of_system).collect();
        let number = |path: &str, usual: Option<u64>| match settings.get(path) {
            None => Ok(usual.unwrap_or(1)),
            Some(value) => value.as_u64().filter(|n| (1..=1 << 32).contains(n)).ok_or_else(|| {
                Failure::input(format!("--vary {path}: {value}\n  allowed: whole numbers from 1 on"))
            }),
        };
        let app = settings.get("application").and_then(Value::as_str).map_or(app, Path::new);
        let datatype = Value::String(self.datatype.clone());
        let datatype: Datatype = serde_json::from_value(datatype).map_err(|_| {
            Failure::input(format!(
                "--datatype {}\n  allowed: float8, float16, bfloat16, float32",
                self.datatype
            ))
        })?;
        Ok(ExecutionSpace {
            app: application(app)?,
            sys: System::load(sys, &changes).map_err(Failure::input)?,
            names: FileNames {
                application: app.display().to_string(),
                system: sys.display().to_string(),
                ..FileNames::default()
            },
            processors: number("processors", self.processors)?,
            batch: number("batch", self.batch)?,
            datatype,
            only,
        })
    }
}

/// An application file, or what it keeps of a shipped model.
fn application(path: &Path) -> Result<Application, Failure> {
    if path.extension().is_some() && path.exists() {
        return Application::load(path).map_err(Failure::input);
    }
    let draft = Draft::<ModelSpec>::load(&path.display().to_string()).map_err(Failure::input)?;
    Ok(Application::of(&draft.with(&[]).map_err(Failure::input)?.value))
}

/// Variations of model and machine, and the values that fields of the execution are kept to.
fn sorted(options: &SearchOptions) -> Result<(Vec<StudyAxis>, Only), Failure> {
    let fixed = options.fix.iter().map(|text| StudyAxis::parse("--fix", text));
    let fixed: Vec<StudyAxis> = fixed.collect::<Result<_, _>>().map_err(Failure::input)?;
    let varies = |axis: &StudyAxis| {
        let path = axis.paths[0].as_str();
        path.starts_with("system.") || ["application", "processors", "batch"].contains(&path)
    };
    let (axes, fields): (Vec<StudyAxis>, Vec<StudyAxis>) =
        fixed.into_iter().chain(options.vary.iter().cloned()).partition(varies);
    let only = fields
        .into_iter()
        .map(|mut axis| (axis.paths.remove(0), axis.values.into_iter().flatten().collect()));
    Ok((axes, only.collect()))
}

/// All points of some axes, the last changing fastest.
fn product(axes: &[StudyAxis]) -> Vec<Map<String, Value>> {
    axes.iter().fold(vec![Map::new()], |points, axis| {
        let with = |point: &Map<String, Value>, values: &Vec<Value>| {
            let mut point = point.clone();
            point.extend(axis.paths.iter().cloned().zip(values.iter().cloned()));
            point
        };
        points
            .iter()
            .flat_map(|point| axis.values.iter().map(|values| with(point, values)).collect::<Vec<_>>())
            .collect()
    })
}

fn drawn(plots: &[Plot], points: &[CalculonPoint], output: Option<&Path>) -> Result<String, Failure> {
    let rows: Vec<Row> = points.iter().enumerate().map(|(i, point)| row(i, point)).collect();
    draw(plots, &rows, output.unwrap_or(Path::new("search")))
}

/// The best of a point as a row of a study.
fn row(i: usize, point: &CalculonPoint) -> Row {
    let outcome = match point.found.ranking.first() {
        None => PointOutcome { status: RunStatus::OutOfMemory, ..PointOutcome::default() },
        Some(best) => PointOutcome {
            status: RunStatus::Ok,
            step_time_s: Some(best.output("total_time")),
            mfu: Some(best.output("total_efficiency")),
            memory_peak_bytes: Some(best.output("proc_mem_tier1_cap_req") as u64),
            ..PointOutcome::default()
        },
    };
    Row { key: String::new(), point: i as u64, settings: point.settings.clone(), outcome }
}

fn text(points: &[CalculonPoint], seconds: f64) -> String {
    let executions: u64 = points.iter().map(|point| point.found.executions).sum();
    let fit: u64 = points.iter().map(|point| point.found.fit).sum();
    let mut text = format!("{executions} executions in {seconds:.1} s, {fit} of them fit\n");
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header([
        "point",
        "sequences/s",
        "step",
        "MFU",
        "tier 1",
        "tier 2",
        "tier 2 needs",
        "execution",
    ]);
    let one = points.len() == 1;
    for point in points {
        let settings: Vec<String> =
            point.settings.iter().map(|(path, value)| format!("{path} {}", plain(value))).collect();
        if point.found.ranking.is_empty() {
            table.add_row([settings.join(", "), "nothing fits".to_string()]);
        }
        for best in point.found.ranking.iter().take(if one { usize::MAX } else { 1 }) {
            let gib = |name: &str| format!("{:.1} GiB", best.output(name) / (1u64 << 30) as f64);
            table.add_row([
                settings.join(", "),
                format!("{:.3}", best.sample_rate),
                format!("{:.3} s", best.output("total_time")),
                format!("{:.1} %", 100.0 * best.output("total_efficiency")),
                gib("proc_mem_tier1_cap_req"),
                gib("proc_mem_tier2_cap_req"),
                format!("{:.0} GB/s", best.output("offload_mem_bw_req") / 1e9),
                short(&best.execution),
            ]);
        }
    }
    right(&mut table, 1..7);
    text += &format!("\n{}\n", table.trim_fmt());
    text
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).map_or_else(|_| String::new(), |value| plain(&value))
}

/// An execution in a line.
fn short(e: &Execution) -> String {
    let mut words = vec![format!(
        "t {} p {} d {} v {} b {}, recompute {}, {}",
        e.tensor_par,
        e.pipeline_par,
        e.data_par,
        e.pipeline_interleaving,
        e.microbatch_size,
        word(&e.activation_recompute),
        word(&e.tensor_par_comm_type),
    )];
    let overlap = word(&e.tensor_par_overlap);
    let options = [
        (overlap != "none", overlap.as_str()),
        (e.seq_par_ag_redo, "gathered again"),
        (e.data_par_overlap, "data overlapped"),
        (e.optimizer_sharding, "sharded optimizer"),
        (e.weight_offload, "weights away"),
        (e.activations_offload, "activations away"),
        (e.optimizer_offload, "optimizer away"),
    ];
    words.extend(options.into_iter().filter(|(on, _)| *on).map(|(_, word)| word.to_string()));
    words.join(", ")
}
