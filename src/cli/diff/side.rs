//! One side of a comparison: a report, a workload to simulate, or a profile.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use crate::{Failure, inputs};
use stepsim_measure::profile::report::RankProfile;
use stepsim_measure::profile::{ClassTables, RankEvents, Window, read, report};
use stepsim_read::analysis::report::Report;
use stepsim_simulate::jump::reported;
use stepsim_simulate::{Inputs, Options};
use stepsim_spec::{Kind, SpecError, catalog};

/// So many differing fields of the inputs are shown.
const MOST_FIELDS: usize = 24;
/// The number of first bytes that tell a file's kind.
const HEAD: u64 = 1 << 16;

/// One side.
pub(super) enum DiffSide {
    /// A simulated step.
    Simulated {
        report: Box<Report>,
        /// Its workload and machine, where it was simulated now.
        inputs: Option<Value>,
    },
    /// The first rank of a profile.
    Measured {
        /// The reading of one rank.
        rank: Box<RankProfile>,
        /// The profile.
        profile: Box<RankEvents>,
    },
}

impl DiffSide {
    /// Reads or simulates a side.
    ///
    /// # Errors
    /// It is none of what a side may be, or does not run.
    pub fn read(name: &str, sets: &[String]) -> Result<DiffSide, Failure> {
        let path = Path::new(name);
        let is_file = name.contains('/') || name.contains(".json");
        let head = if is_file { head(path)? } else { String::new() };
        let has = |key: &str| head.contains(&format!("\"{key}\""));
        let fixed = |what: &str| match sets.first() {
            Some(set) => Err(Failure::from(
                SpecError::file(
                    format!("--set {set}"),
                    format!("{name} is {what}, which has no fields to set"),
                )
                .allowed("settings of a workload"),
            )),
            None => Ok(()),
        };
        if ["traceEvents", "deviceProperties", "distributedInfo", "schemaVersion"].into_iter().any(has)
            || head.trim_start().starts_with('[')
        {
            fixed("a profile")?;
            return profile(path);
        }
        if has("step_time_s") {
            fixed("a report")?;
            return saved(path);
        }
        if is_file && !has("model") && !has("base") {
            return Err(SpecError::file(name, "is no report, no workload and no profile")
                .allowed("what `stepsim run --report` wrote, a workload, or what torch.profiler exports")
                .into());
        }
        if !is_file && catalog::text(Kind::Workload, name).is_none() {
            let shipped = catalog::names(Kind::Workload).collect::<Vec<_>>();
            return Err(SpecError::file(name, "is neither a file nor a shipped workload")
                .allowed(shipped.join(", "))
                .into());
        }
        simulated(name, sets)
    }

    /// Its name.
    pub fn name(&self) -> String {
        match self {
            DiffSide::Simulated { report, .. } => format!("{} on {}", report.workload, report.topology),
            DiffSide::Measured { rank: p, .. } => {
                let device = p.device.as_ref().map_or(String::new(), |name| format!(" on {name}"));
                format!("{}: profile of rank {}{device}", p.file, p.rank)
            }
        }
    }

    /// The profile, where it was measured.
    pub fn profile(&self) -> Option<&RankEvents> {
        match self {
            DiffSide::Simulated { .. } => None,
            DiffSide::Measured { profile, .. } => Some(profile),
        }
    }

    /// The differences between the inputs of two simulated steps.
    pub fn differences(&self, other: &DiffSide) -> Vec<String> {
        let (DiffSide::Simulated { report: a, inputs: x }, DiffSide::Simulated { report: b, inputs: y }) =
            (self, other)
        else {
            return Vec::new();
        };
        let (Some(x), Some(y)) = (x, y) else {
            let show = |(what, a, b): (&str, String, String)| format!("{what}: {a} -> {b}");
            return a.run.differences(&b.run).into_iter().map(show).collect();
        };
        let mut found = Vec::new();
        fields(x, y, "", &mut found);
        let rest = found.len().saturating_sub(MOST_FIELDS);
        found.truncate(MOST_FIELDS);
        if rest > 0 {
            found.push(format!("and {rest} more fields of the inputs"));
        }
        found
    }
}

/// The fields in which two values differ.
fn fields(a: &Value, b: &Value, at: &str, found: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let keys: BTreeSet<&String> = x.keys().chain(y.keys()).collect();
            for key in keys {
                let of = |m: &serde_json::Map<String, Value>| m.get(key).cloned().unwrap_or(Value::Null);
                let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                fields(&of(x), &of(y), &path, found);
            }
        }
        (a, b) if a != b => {
            let short = |v: &Value| {
                let text = v.to_string();
                if text.chars().count() > 60 {
                    text.chars().take(57).collect::<String>() + "..."
                } else {
                    text
                }
            };
            found.push(format!("{at}: {} -> {}", short(a), short(b)));
        }
        _ => {}
    }
}

fn unreadable(path: &Path, e: &std::io::Error) -> SpecError {
    SpecError::file(path.display().to_string(), format!("cannot be read: {e}"))
        .allowed("a report, a workload, or a profile (`--help`)")
}

/// The beginning of a file, unpacked.
fn head(path: &Path) -> Result<String, SpecError> {
    let start = || -> std::io::Result<Vec<u8>> {
        let mut magic = Vec::new();
        std::fs::File::open(path)?.take(2).read_to_end(&mut magic)?;
        let file = std::fs::File::open(path)?;
        let mut bytes = Vec::new();
        match magic.as_slice() {
            [0x1F, 0x8B] => flate2::read::MultiGzDecoder::new(file).take(HEAD).read_to_end(&mut bytes)?,
            _ => file.take(HEAD).read_to_end(&mut bytes)?,
        };
        Ok(bytes)
    };
    start().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|e| unreadable(path, &e))
}

fn saved(path: &Path) -> Result<DiffSide, Failure> {
    let allowed = "a report as `stepsim run --report FILE.json` writes it";
    let value: Value = inputs::document(path, allowed)?;
    if let Some((at, time)) = negative_time(&value, "") {
        let error = SpecError::at(at, format!("{time} is not allowed")).allowed("times of 0 or more");
        return Err(error.in_file(&path.display().to_string()).into());
    }
    let report = inputs::document(path, allowed)?;
    Ok(DiffSide::Simulated { report, inputs: None })
}

/// The first time of a report that is below zero, and where it stands. Differences of times, which may be, are in the
/// waterfall and in the answer.
fn negative_time(value: &Value, path: &str) -> Option<(String, f64)> {
    let fields = value.as_object()?.iter().filter(|(name, _)| *name != "waterfall" && *name != "answer");
    fields.into_iter().find_map(|(name, value)| {
        let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let is_time = name.ends_with("_s") || path.ends_with("_s");
        let below = value.as_f64().filter(|time| is_time && *time < 0.0);
        below.map(|time| (at.clone(), time)).or_else(|| negative_time(value, &at))
    })
}

fn profile(path: &Path) -> Result<DiffSide, Failure> {
    let mut profiles = read(path, &ClassTables::shipped()).map_err(Failure::input)?;
    let first = report(&mut profiles, Window::All).ranks.into_iter().next();
    let (rank, profile) = first.zip(profiles.into_iter().next()).ok_or_else(|| {
        Failure::from(SpecError::file(path.display().to_string(), "holds no rank of a profile"))
    })?;
    Ok(DiffSide::Measured { rank: Box::new(rank), profile: Box::new(profile) })
}

fn simulated(name: &str, sets: &[String]) -> Result<DiffSide, Failure> {
    let inputs = Inputs::load(name, None, sets)?;
    let report = reported(&inputs, &Options::default())?;
    let value = serde_json::json!({
        "workload": inputs.workload.value,
        "topology": inputs.topology.value,
    });
    Ok(DiffSide::Simulated { report: Box::new(report), inputs: Some(value) })
}
