//! The page about a plan.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::command_line::command;
use stepsim_core::units::grouped;
use stepsim_measure::score::ranges::told;
use stepsim_read::analysis::candidates::Candidate;
use stepsim_read::analysis::cost::joules_in_words;
use stepsim_read::analysis::report::Report;
use stepsim_read::page::lane::TimeRow;
use stepsim_read::page::sheet::{Sheet, gib, quoted, seconds, table};
use stepsim_simulate::behaviour::drawn;
use stepsim_simulate::page::{gather, step_looks};
use stepsim_simulate::{Inputs, Options, Simulation, SimulationError};
use stepsim_study::otherwise::{Depth, with_candidates};
use stepsim_study::plan::{RunPlan, SimulatedPlan};

/// Lines of a layout in the drawing over time.
const LINES: usize = 3;
/// Most candidates that are listed.
const CANDIDATES: usize = 8;

/// A layout that was played for the page.
struct PlanSide {
    name: String,
    planned: SimulatedPlan,
    /// Bytes of device memory at the peak, by class.
    memory: Vec<(String, u64)>,
    step_ns: u64,
    rows: Vec<TimeRow>,
}

impl PlanSide {
    /// The plan with `sets` on top; the first has its answer.
    fn of(
        plan: &RunPlan,
        name: &str,
        sets: &[String],
        answered: Option<&Report>,
    ) -> Result<PlanSide, SimulationError> {
        let all: Vec<String> = plan.machine_sets.iter().chain(sets).cloned().collect();
        let inputs = Inputs::load(&plan.workload.to_string(), Some(&plan.on), &all)?;
        let run = Simulation::run(&inputs, &Options::default())?;
        let report = told(&inputs, run.report(false));
        let shown = gather(&run, &drawn(&run));
        let every = shown.rows.len().div_ceil(LINES).max(1);
        let mut rows: Vec<TimeRow> = shown.rows.into_iter().step_by(every).collect();
        rows.iter_mut().for_each(|row| row.name = format!("{name} · {}", row.name));
        let hbm = report.memory.get("hbm");
        let memory = hbm.map(|tier| tier.by_class.clone().into_iter().collect()).unwrap_or_default();
        let planned = SimulatedPlan::of_report(&inputs, answered.cloned().unwrap_or(report));
        Ok(PlanSide { name: name.to_owned(), planned, memory, step_ns: shown.step_ns, rows })
    }
}

/// The step and its two rivals side by side, what would help, where each part comes from, and the next commands.
///
/// # Errors
/// A layout cannot be played, or the workload cannot be written as JSON.
pub(super) fn page(
    plan: &RunPlan,
    planned: &SimulatedPlan,
    tokens: Option<f64>,
    next: &[String],
) -> Result<String, Box<dyn std::error::Error>> {
    let inputs = plan.inputs()?;
    let (report, options) = (planned.report.clone(), Options::default());
    let candidates = with_candidates(&inputs, &options, report, Depth::Tables)?.candidates;
    let mut sides = vec![PlanSide::of(plan, "first", &[], Some(&planned.report))?];
    for (name, ranked) in ["second", "third"].iter().zip(&plan.beside) {
        sides.push(PlanSide::of(plan, name, &settings(&ranked.settings), None)?);
    }
    let mut sheet = Sheet::new(&format!("{} on {}", plan.name, plan.on), step_looks(), &[]);
    facts(&mut sheet, planned);
    sheet.lead(&planned.report.hangs_on);
    sheet.remark(&format!("Range: {}", planned.report.answer.range));
    not_understood(&mut sheet, plan);
    sheet.section("Layouts side by side", layouts_note(sides.len()), |out| {
        table(out, &heads(&sides), 1, side_by_side(plan, &sides, tokens));
    });
    let end_ns = sides.iter().map(|side| side.step_ns).max().unwrap_or_default();
    let rows = sides.iter_mut().flat_map(|side| std::mem::take(&mut side.rows)).collect();
    let note = "A few ranks of each layout on one scale: passes, below them why they stood still, and communication.";
    sheet.timeline("Passes over the step", note, end_ns, rows);
    sheet.section(
        "What would help",
        "Each change of the first layout is played by itself; % of the step saved.",
        |out| {
            table(
                out,
                &["what", "otherwise", "step", "less", "stepsim whatif … with"],
                2,
                otherwise(&candidates, planned.report.step_time_s),
            );
        },
    );
    origins(&mut sheet, plan, planned);
    sheet.section("What to do next", "", |out| {
        table(out, &["command"], 1, next.iter().map(|command| vec![command.clone()]));
    });
    sheet.command(&command(), &Value::Null, &[]);
    Ok(sheet.finish(serde_json::json!({}), &plan.workload)?)
}

/// A layout as settings.
fn settings(layout: &Map<String, Value>) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    layout.iter().map(|(path, value)| format!("{path}={}", text(value))).collect()
}

fn layouts_note(sides: usize) -> &'static str {
    match sides {
        1 => "The stated layout; for a model alone, and with --search, two others stand beside it.",
        _ => "The shortest, and two of another kind that only a measurement can rule out.",
    }
}

fn heads(sides: &[PlanSide]) -> Vec<&str> {
    std::iter::once("").chain(sides.iter().map(|side| side.name.as_str())).collect()
}

/// Rows over the layouts: what each is, takes, holds and costs.
fn side_by_side(plan: &RunPlan, sides: &[PlanSide], tokens: Option<f64>) -> Vec<Vec<String>> {
    let row = |what: &str, of: &dyn Fn(&PlanSide) -> String| {
        std::iter::once(what.to_owned()).chain(sides.iter().map(of)).collect::<Vec<_>>()
    };
    let mut rows = vec![
        row("layout", &|side| side.planned.layout.clone()),
        row("step", &|side| side.planned.report.answer.step_in_words()),
        row("MFU", &|side| format!("{:.1} %", 100.0 * side.planned.report.mfu)),
        row("tokens/s a device", &|side| grouped(side.planned.tokens_per_s_per_device().round() as u64)),
    ];
    if let Some(tokens) = tokens {
        rows.push(row("the whole run", &|side| side.planned.days(tokens)));
        let dollars = |side: &PlanSide| side.planned.dollars(tokens).unwrap_or_else(|| "no price".to_owned());
        rows.push(row("dollars of it", &dollars));
    }
    let used = |(_, bytes): &&(String, u64)| *bytes > 0;
    let classes: BTreeSet<&String> =
        sides.iter().flat_map(|side| side.memory.iter().filter(used)).map(|(class, _)| class).collect();
    for class in classes {
        let bytes = |side: &PlanSide| {
            side.memory.iter().find(|(name, _)| name == class).map_or(0, |(_, bytes)| *bytes)
        };
        rows.push(row(&format!("memory: {class}"), &|side| gib(bytes(side) as f64)));
    }
    let free = |side: &PlanSide| {
        let answer = &side.planned.report.answer;
        answer.memory_capacity_bytes.zip(answer.memory_peak_bytes).map(|(all, used)| all as f64 - used as f64)
    };
    rows.push(row("memory: head room", &|side| free(side).map_or(String::new(), gib)));
    let advice = plan.advice.iter().chain(plan.beside.iter().filter_map(|ranked| ranked.advice.as_ref()));
    let risks: Vec<String> = advice.map(|advice| advice.risk().join("; ")).collect();
    if risks.len() == sides.len() {
        rows.push(std::iter::once("at risk".to_owned()).chain(risks).collect());
    }
    rows
}

/// The candidates, the dearest first.
fn otherwise(candidates: &[Candidate], step_s: f64) -> impl Iterator<Item = Vec<String>> {
    candidates.iter().take(CANDIDATES).map(move |c| {
        let less = format!("{:.1} %", 100.0 * c.cost_s() / step_s);
        vec![c.what.clone(), c.otherwise.clone(), seconds(c.step_s), less, c.arguments(quoted)]
    })
}

/// Words that were not understood, where nobody overlooks them.
fn not_understood(sheet: &mut Sheet, plan: &RunPlan) {
    if !plan.not_understood.is_empty() {
        sheet.section("Not understood", "Each of these may change the step.", |out| {
            out.push_str("<div style=\"color: var(--alarm)\">");
            table(out, &["words"], 1, plan.not_understood.iter().map(|words| vec![words.clone()]));
            out.push_str("</div>");
        });
    }
}

/// Where each part of the run comes from.
fn origins(sheet: &mut Sheet, plan: &RunPlan, planned: &SimulatedPlan) {
    let row = |class: &str, why: &str| vec![class.to_owned(), why.to_owned()];
    let rows = plan
        .classes()
        .into_iter()
        .flat_map(|(class, lines)| lines.into_iter().map(move |line| row(class, line)));
    let rows: Vec<_> = rows.chain([row("layout", &planned.layout)]).collect();
    let note = "Stated, from the model, the software's default, or assumed because nothing says it.";
    sheet.section("Where each part comes from", note, |out| table(out, &["", "what"], 2, rows));
}
fn facts(sheet: &mut Sheet, planned: &SimulatedPlan) {
    let answer = &planned.report.answer;
    let mut facts = vec![
        (seconds(answer.step_time_s), "a step".to_owned()),
        (format!("{:.1} %", 100.0 * answer.mfu), "MFU".to_owned()),
        (
            grouped(planned.tokens_per_s_per_device().round() as u64),
            "tokens per second and device".to_owned(),
        ),
    ];
    facts.extend(answer.memory_peak_bytes.map(|bytes| {
        let of =
            answer.memory_capacity_bytes.map_or(String::new(), |all| format!(", of {}", gib(all as f64)));
        (gib(bytes as f64), format!("of memory on the fullest device{of}"))
    }));
    let cost = answer.cost.as_ref();
    let usd = cost.and_then(|cost| cost.usd_per_million_tokens);
    let joules = cost.and_then(|cost| cost.joules_per_token).map(|joules| 1e6 * joules);
    let costs = [usd.map(|usd| format!("{usd:.3} $")), joules.map(joules_in_words)];
    facts.extend(costs.into_iter().flatten().map(|cost| (cost, "a million tokens".to_owned())));
    sheet.facts(facts);
}
