//! Calculon's three files: its own arithmetic, alone (`estimate`) or beside the same step simulated (`compare`).

use std::path::{Path, PathBuf};

use super::inputs;
use super::progress::TerminalProgress;
use super::tables::{gib, table, term_table};
use super::write::{write_json, write_report};
use super::{Failure, say};
use stepsim_around::calculon::{CalculonBeside, CalculonEstimate, estimate};
use stepsim_bring::calculon::{Calculon, FileNames};

/// The case of an application with an execution and a system behind it; `None` where there is no such pair.
pub(super) fn case(application: Option<&str>, behind: &[String]) -> Result<Option<Calculon>, Failure> {
    let (Some(app), [exe, sys]) = (application, behind) else { return Ok(None) };
    read([app, exe, sys].map(PathBuf::from).each_ref()).map(Some)
}

/// Reads application, execution and system.
pub(super) fn read(files: [&PathBuf; 3]) -> Result<Calculon, Failure> {
    let [application, execution, system] = files.map(|file| file.display().to_string());
    let [app, exe, sys] = files.map(|file| inputs::text(file));
    Calculon::parse(FileNames { application, execution, system }, &app?, &exe?, &sys?).map_err(Failure::input)
}

/// Calculon's terms; with a report, its 96 outputs under its own names.
pub(super) fn alone(case: &Calculon, report: Option<&Path>) -> Result<(), Failure> {
    let published = estimate(case, true);
    if let Some(path) = report {
        write_json(path, &published.outputs())?;
    }
    say(&terms(&published))
}

fn terms(published: &CalculonEstimate) -> String {
    let mut text = format!("Calculon's form\n\n{}\n\n", term_table(&published.terms.named()).trim_fmt());
    let [first, second] = [&published.memory.tier1, &published.memory.tier2].map(|tier| gib(tier.total()));
    text += &format!("{:.2} % MFU; memory {first:.2} GiB, second tier {second:.2} GiB\n", percent(published));
    if let Err(over) = published.fits() {
        let more = gib(over.needed - over.capacity);
        text += &format!("does not fit: {more:.2} GiB more than tier {} has\n", over.tier);
    }
    text
}

fn percent(published: &CalculonEstimate) -> f64 {
    100.0 * published.efficiency.total
}

/// Both sides term by term and the causes of the difference; its terms alone where no software of ours runs the step.
pub(super) fn beside(case: &Calculon, report: Option<&Path>) -> Result<(), Failure> {
    let bar = TerminalProgress::new("comparing");
    let compared = CalculonBeside::new(case, &mut |ops| bar.at(ops));
    bar.done();
    let both = match compared {
        Ok(both) => both,
        Err(why) => {
            alone(case, report)?;
            return say(&format!("not played, as no step of ours is this one, or none fits: {why}\n"));
        }
    };
    write_report(report, &both.to_json())?;
    let mut text = format!("{}\nsimulated terms: {}\n\n", both.ours.what, both.ours.rank);
    let mut rows = table(&["step, seconds", "Calculon", "our closed form", "simulated"]);
    for (name, seconds) in both.terms() {
        rows.add_row([vec![name.to_string()], seconds.map(|s| format!("{s:.6}")).to_vec()].concat());
    }
    let totals = [both.published.terms.total(), both.ours.closed_form_s, both.ours.simulated_s];
    rows.add_row([vec!["total".to_string()], totals.map(|s| format!("{s:.6}")).to_vec()].concat());
    text += &format!("{}\n\n", rows.trim_fmt());
    let mut causes = table(&["seconds", "percent", "side", "what makes the difference"]);
    for column in [2, 3] {
        causes
            .column_mut(column)
            .into_iter()
            .for_each(|c| c.set_cell_alignment(comfy_table::CellAlignment::Left));
    }
    let share = |s: f64| format!("{:+.2}", 100.0 * s / totals[0]);
    for c in &both.causes {
        causes.add_row([format!("{:+.6}", c.seconds), share(c.seconds), c.side.to_string(), c.name.clone()]);
    }
    let sum = both.imported_s - totals[0];
    let whole = "`stepsim import calculon`, played, less Calculon's total";
    causes.add_row([format!("{sum:+.6}"), share(sum), "sum".to_string(), whole.to_string()]);
    text += &format!("{}\n\n", causes.trim_fmt());
    let [theirs, ours] = both.memory.map(gib);
    let mfu = percent(&both.published);
    say(&(text
        + &format!(
            "MFU by Calculon {mfu:.2} %; memory by Calculon {theirs:.2} GiB, by ours {ours:.2} GiB\n"
        )))
}
