//! How much of one field is enough: a bandwidth, a depth, a number of devices that share a link.
//!
//! ```text
//! range:   from … to, by default a 64th to 64 times what the field says, numbers of things from 1; or a list
//! ends:    both are played; where one is enough and the other is not, the border lies between them
//! halving: the middle (of the logarithms) is played until both sides of the border lie within `precision`, or 1
//! ```
//! A value is enough where the condition holds. Its words: `step` in seconds, `mfu`, `stall` (the share of the step
//! for which the mean rank stands still for copies between its device and other tiers), and any path of a report. `1%`
//! is 0.01; `1.02x` is 1.02 times the best step: of a bandwidth the step where it is 1,000 times the upper end, so
//! that nobody waits for it; of another field the shortest that was played: values inside the range are, and their
//! neighbours as long as the step falls, so that a best value between the ends is found. The same is asked of the
//! closed form, where it knows the words. Several paths (`a,b=1:8`) take one value together.
//!
//! Of numbers of things those are played that a step can have: a batch that the replicas do not divide is none.
//!
//! Hazard: one border is found on either side. Where what is enough has holes, others stay unseen.

use std::ops::ControlFlow;

use serde::Serialize;
use serde_json::{Value, json};

use super::base::StudyBase;
use super::columns::ReportColumns;
use super::condition::RowCondition;
use super::outcome::{How, PointOutcome, outcome_beside, reported};
use super::rows::{Row, StudyError};
use super::space::{StudyAxis, set_text};
use stepsim_core::pool;
use stepsim_form::compare::unclaimed;
use stepsim_simulate::RunStatus;
use stepsim_spec::SpecError;

/// How far a range goes from the field's own value, down and up.
const REACH: f64 = 64.0;
/// A bandwidth of so many times the upper end of its range is waited for by nobody.
const PLENTY: f64 = 1000.0;
/// Rounds in which a best value inside a range is looked for, and how much shorter a step must be to go on.
const ROUNDS: usize = 5;
const SHORTER: f64 = 1e-3;
/// Whole numbers of a range that are read at most, to see which a step can have.
const READ: f64 = 2000.0;
/// Words of a condition that every played step has.
const WORDS: [&str; 3] = ["step", "mfu", "stall"];

/// A field and the values that it may take.
#[derive(Clone, Debug, PartialEq)]
pub struct KneeField {
    /// Its path, or several with commas between them.
    pub path: String,
    /// Least value.
    pub from: f64,
    /// Greatest value.
    pub to: f64,
    /// It counts things: whole numbers.
    pub whole: bool,
    /// The only values between the two, rising; none: all are.
    pub listed: Vec<f64>,
}

impl KneeField {
    /// From `path`, `path=from:to`, or values as an axis has them (`path=1,2,4`, `path=64:4096:x2`); of a path alone
    /// the range is about what the workload or its machine says.
    ///
    /// # Errors
    /// It is no such text, or the field has no number there.
    pub fn of(text: &str, base: &StudyBase) -> Result<KneeField, SpecError> {
        let wrong = |problem: &str| {
            SpecError::file(format!("--field {text}"), problem)
                .allowed(
                    "a path of a number, path=from:to with 0 < from < to (of things that are counted 0 too), or \
                     path=1,2,4 and path=64:4096:x2; several paths with commas between them",
                )
                .hint("topology.node.memory[0].link.bandwidth_GBps_per_direction=10:400")
        };
        let Some((path, range)) = text.split_once('=') else {
            let own =
                own_value(base, text)?.ok_or_else(|| wrong("says no number from which a range could be"))?;
            let whole = own.is_u64();
            let value = own.as_f64().filter(|value| whole || *value > 0.0);
            let value = value.ok_or_else(|| wrong("is no number above 0"))?;
            let (from, to) = match (whole, value > 0.0) {
                (true, false) => (0.0, REACH),
                (true, true) => (1.0, value * REACH),
                _ => (value / REACH, value * REACH),
            };
            return Ok(KneeField { path: text.to_string(), from, to, whole, listed: Vec::new() });
        };
        if range.contains(',') || range.matches(':').count() == 2 {
            return KneeField::among(&StudyAxis::parse("--field", text)?)
                .ok_or_else(|| wrong("is no list of numbers above 0"));
        }
        let (from, to) = range.split_once(':').ok_or_else(|| wrong("is no range"))?;
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
        let counts = own_value(base, path)?.is_none_or(|own| own.is_u64());
        match (number(from), number(to)) {
            (Some(a), Some(b)) if a < b && (a > 0.0 || counts) => {
                let whole = counts && a.fract() == 0.0 && b.fract() == 0.0;
                Ok(KneeField { path: path.to_string(), from: a, to: b, whole, listed: Vec::new() })
            }
            _ => Err(wrong("is no range of numbers above 0")),
        }
    }

    /// The values of an axis of numbers.
    fn among(axis: &StudyAxis) -> Option<KneeField> {
        axis.listed().ok()?;
        let mut listed = axis.values.iter().map(|value| value[0].as_f64()).collect::<Option<Vec<f64>>>()?;
        listed.sort_by(f64::total_cmp);
        let (from, to) = (*listed.first()?, *listed.last()?);
        let whole = listed.iter().all(|value| value.fract() == 0.0);
        (from >= 0.0 && from < to).then(|| KneeField { path: axis.paths[0].clone(), from, to, whole, listed })
    }

    /// The settings of a value, one for each path.
    fn settings(&self, value: f64) -> impl Iterator<Item = (String, Value)> {
        let value = if self.whole { json!(value as u64) } else { json!(value) };
        self.path.split(',').map(move |path| (path.to_string(), value.clone()))
    }

    /// A value of a bandwidth that nobody waits for.
    fn plenty(&self) -> Option<f64> {
        let last = self.path.rsplit('.').next().unwrap_or_default();
        (last.contains("GBps") && self.listed.is_empty()).then_some(self.to * PLENTY)
    }

    /// The field with the values that a step can have, and the number of the others; as it is where they are too many
    /// to be read, or fewer than two are left.
    fn legal(&self, is_legal: &(dyn Fn(f64) -> bool + Sync), threads: usize) -> (KneeField, u64) {
        let all: Vec<f64> = match self.listed.as_slice() {
            [] if self.whole && self.to - self.from < READ => {
                (self.from as u64..=self.to as u64).map(|n| n as f64).collect()
            }
            listed => listed.to_vec(),
        };
        let read = pool::all(all.len(), threads, &|i| is_legal(all[i]));
        let listed: Vec<f64> = all.iter().zip(read).filter(|(_, legal)| *legal).map(|(n, _)| *n).collect();
        let left_out = (all.len() - listed.len()) as u64;
        match listed[..] {
            [from, .., to] if left_out > 0 => (KneeField { from, to, listed, ..self.clone() }, left_out),
            _ => (self.clone(), 0),
        }
    }

    /// A value between two, unless they are next to each other.
    pub fn between(&self, low: f64, high: f64, precision: f64) -> Option<f64> {
        if !self.listed.is_empty() {
            let inner: Vec<f64> = self.listed.iter().copied().filter(|x| low < *x && *x < high).collect();
            return inner.get(inner.len() / 2).copied();
        }
        if high <= low * (1.0 + precision) {
            return None;
        }
        let middle = (low * high).sqrt();
        let middle = if self.whole { middle.round() } else { four_digits(middle) };
        (low < middle && middle < high).then_some(middle).or_else(|| self.between_neighbours(low, high))
    }
    /// Small numbers of things, whose middle was rounded to one of them.
    fn between_neighbours(&self, low: f64, high: f64) -> Option<f64> {
        (self.whole && high - low > 1.0).then_some(low + 1.0)
    }
}

fn four_digits(x: f64) -> f64 {
    format!("{x:.3e}").parse().unwrap_or(x)
}

/// The value of a field in the workload or (`topology.…`) in its machine.
fn own_value(base: &StudyBase, path: &str) -> Result<Option<Value>, SpecError> {
    let (workload, site) = base.unchecked(&[])?;
    let (value, path) = match path.strip_prefix("topology.") {
        Some(inner) => (stepsim_located::to_value(&site.topology().value), inner),
        None => (stepsim_located::to_value(workload), path),
    };
    let path = path.split(',').next().unwrap_or_default();
    let pointer = format!("/{}", path.replace(['.', '['], "/").replace(']', ""));
    Ok(value.ok().and_then(|value| value.pointer(&pointer).cloned()).filter(Value::is_number))
}

/// When a value is enough.
#[derive(Clone, Debug, PartialEq)]
pub struct KneeCondition {
    text: String,
    columns: ReportColumns,
}

impl KneeCondition {
    /// Reads a condition such as `stall<1%`, `step<1.02x`, `mfu>0.7 and communication.h2d.exposed_s < 2`.
    ///
    /// # Errors
    /// It is none, or names what a report does not have.
    pub fn parse(text: &str) -> Result<KneeCondition, SpecError> {
        let condition = condition(text, 1.0)?;
        let columns = condition.paths().into_iter().filter(|path| !WORDS.contains(&path.as_str()));
        let columns =
            ReportColumns::new(columns).map_err(|e| SpecError { file: format!("--until {text}"), ..e })?;
        Ok(KneeCondition { text: text.to_string(), columns })
    }

    fn holds(&self, outcome: &PointOutcome, best_s: f64) -> Result<bool, SpecError> {
        let field = |path: &str| match path {
            "step" => outcome.step_time_s.map(Value::from),
            "mfu" => outcome.mfu.map(Value::from),
            "stall" => stall(outcome).map(Value::from),
            path => outcome.columns.get(path).cloned(),
        };
        Ok(outcome.status == RunStatus::Ok && condition(&self.text, best_s)?.holds(&field)?)
    }
}

fn condition(text: &str, best_s: f64) -> Result<RowCondition, SpecError> {
    RowCondition::of("--until", &units(text, best_s))
        .map_err(|e| e.hint("for example --until 'stall<1%', 'step<1.02x' or 'mfu>0.5'"))
}

/// The text with `1%` as a hundredth and `1.02x` as 1.02 times the best step.
pub fn units(text: &str, best_s: f64) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let in_word = rest[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.'));
        let end = rest[at..].find(|c: char| !c.is_ascii_digit() && c != '.').map_or(rest.len(), |n| at + n);
        let (before, number, after) = (&rest[..at], &rest[at..end], &rest[end..]);
        let ends = |after: &str| {
            let next = after.trim_start();
            next.is_empty() || [")", "and", "or", "&&", "||"].iter().any(|word| next.starts_with(word))
        };
        out += before;
        let value = number.parse::<f64>().ok().filter(|_| !in_word);
        (out, rest) = match (value, after.chars().next()) {
            (Some(value), Some('%')) if ends(&after[1..]) => {
                (out + &format!("{}", value / 100.0), &after[1..])
            }
            (Some(value), Some('x')) if ends(&after[1..]) => {
                (out + &format!("{}", value * best_s), &after[1..])
            }
            _ => (out + number, after),
        };
    }
    out + rest
}

/// The share of the step for which the mean rank stands still for copies between its device and other tiers.
fn stall(outcome: &PointOutcome) -> Option<f64> {
    let copies = ["h2d", "d2h"].iter().filter_map(|kind| outcome.exposed_s.get(*kind)).sum::<f64>();
    // An empty sum is −0.
    outcome.step_time_s.map(|step| (copies + 0.0) / step)
}

/// Where the border lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KneeBorder {
    /// From `value` on upward is enough.
    AtLeast,
    /// Up to `value` is enough.
    AtMost,
    /// From `value` to `up_to` is enough, and neither end of the range.
    Between,
    /// Both ends of the range are enough.
    Everywhere,
    /// Neither end is.
    Nowhere,
}

/// A value that was played.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KneePlay {
    /// Of the field.
    pub value: f64,
    /// It is enough.
    pub enough: bool,
    /// The share of the step for which the mean rank stands still for copies of tiers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall: Option<f64>,
    /// The step's figures.
    #[serde(flatten)]
    pub outcome: PointOutcome,
}

/// The border of a field between enough and not enough.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Knee {
    /// The value of the second field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub across: Option<Value>,
    /// Where the border lies.
    pub border: KneeBorder,
    /// The value next to the border that is enough; absent where there is no border.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The greatest value that is enough, where neither end of the range is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to: Option<f64>,
    /// The nearest value that is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_enough: Option<f64>,
    /// The step that `1x` means.
    pub best_s: f64,
    /// The value with this step; absent: a bandwidth that nobody waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_at: Option<f64>,
    /// The same value by the closed form, where it finds a border.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_form: Option<f64>,
    /// Values of the range that no step can have.
    pub left_out: u64,
    /// All that was played, by value.
    pub played: Vec<KneePlay>,
}

impl Knee {
    /// The step at the value that is enough; without a border at the upper end.
    pub fn at(&self) -> Option<&KneePlay> {
        let of_value = |value| self.played.iter().find(|played| played.value == value);
        self.value.map_or(self.played.last(), of_value)
    }
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KneeReport {
    /// The workload.
    pub workload: String,
    /// The machine.
    pub topology: String,
    /// Its devices.
    pub devices: u32,
    /// The field.
    pub field: String,
    /// When a value is enough.
    pub until: String,
    /// The second field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub across: Option<String>,
    /// For each value of the second field, or of the field alone.
    pub knees: Vec<Knee>,
    /// Effects of the step that the closed form has no term for: its border is not claimed.
    pub not_claimed: Vec<&'static str>,
    /// Steps that were played.
    pub simulated: usize,
}

impl KneeReport {
    /// All that was played, as rows of a sweep with `stall` and `enough` among their columns.
    pub fn rows(&self) -> Vec<Row> {
        let played = self.knees.iter().flat_map(|knee| knee.played.iter().map(move |play| (knee, play)));
        let row = |(point, (knee, play)): (usize, (&Knee, &KneePlay))| {
            let across = self.across.clone().zip(knee.across.clone());
            let mut outcome = play.outcome.clone();
            outcome.columns.extend(play.stall.map(|stall| ("stall".to_string(), json!(stall))));
            outcome.columns.insert("enough".into(), play.enough.into());
            let fields = self.field.split(',').map(|path| (path.to_string(), json!(play.value)));
            let settings = across.into_iter().chain(fields).collect();
            Row { key: String::new(), point: point as u64, settings, outcome }
        };
        played.enumerate().map(row).collect()
    }
}

/// A field, a condition, and how near the border is looked for.
#[derive(Clone, Debug)]
pub struct Question {
    /// The field.
    pub field: KneeField,
    /// When a value is enough.
    pub until: KneeCondition,
    /// A second field; each of its values gets its own border.
    pub across: Option<StudyAxis>,
    /// How near the two values next to the border are to each other, as a share.
    pub precision: f64,
    /// Threads; default: as many as processors.
    pub threads: Option<usize>,
}

/// Finds how much is enough: see the module. `progress` is told how many borders are found.
///
/// # Errors
/// Settings that mean nothing; a condition that does not go with what is played.
pub fn knee(
    base: &StudyBase,
    question: &Question,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<KneeReport, StudyError> {
    let Question { field, across, .. } = question;
    let places: Vec<Vec<(String, Value)>> = match across {
        None => vec![Vec::new()],
        Some(axis) => {
            axis.listed()?;
            axis.values
                .iter()
                .map(|values| axis.paths.iter().cloned().zip(values.clone()).collect())
                .collect()
        }
    };
    for place in &places {
        let settings = sets(place, field.settings(field.from));
        base.understands(&settings)
            .map_err(|e| SpecError { file: format!("--field {}", field.path), ..e })?;
    }
    let (_, site) = base.unchecked(&[])?;
    let threads = pool::threads(question.threads);
    // Borders side by side first, and what is left of the threads for each.
    let question = &Question { threads: Some((threads / places.len()).max(1)), ..question.clone() };
    let one = |i: usize| {
        let is_legal = |value: f64| base.inputs(&sets(&places[i], field.settings(value))).is_ok();
        let (field, left_out) = field.legal(&is_legal, threads);
        let question = &Question { field, ..question.clone() };
        let form = border(base, question, &places[i], None, How::ClosedForm).ok();
        let found = border(base, question, &places[i], form.as_ref(), How::Simulated)?;
        Ok::<_, SpecError>(Knee { closed_form: form.and_then(|form| form.value), left_out, ..found })
    };
    let (mut knees, mut end) = (Vec::new(), Ok(()));
    pool::each(places.len(), threads, &one, &mut |i, found| {
        match found {
            Ok(found) => knees.push((i, found)),
            Err(e) => {
                end = Err(StudyError::from(e));
                return ControlFlow::Break(());
            }
        }
        progress(knees.len() as u64)
    });
    end?;
    knees.sort_by_key(|(i, _)| *i);
    let across_of = |i: usize| places[i].first().map(|(_, value)| value.clone());
    let knees: Vec<Knee> = knees.into_iter().map(|(i, knee)| Knee { across: across_of(i), ..knee }).collect();
    Ok(KneeReport {
        workload: base.name().to_string(),
        topology: site.topology().name.clone(),
        devices: site.machine().devices(),
        field: field.path.clone(),
        until: question.until.text.clone(),
        across: across.as_ref().map(|axis| axis.paths.join(", ")),
        not_claimed: base.inputs(&[]).map(|inputs| unclaimed(&inputs)).unwrap_or_default(),
        simulated: knees.iter().map(|knee| knee.played.len() + usize::from(field.plenty().is_some())).sum(),
        knees,
    })
}

fn sets(place: &[(String, Value)], field: impl Iterator<Item = (String, Value)>) -> Vec<String> {
    place.iter().cloned().chain(field).map(|(path, value)| set_text(&path, &value)).collect()
}

fn seconds((_, outcome): &(f64, PointOutcome)) -> f64 {
    outcome.step_time_s.unwrap_or(f64::INFINITY)
}

/// Plays values inside a range, and then on both sides of the best as long as the step falls.
fn look_inside(
    field: &KneeField,
    precision: f64,
    points: &mut Vec<(f64, PointOutcome)>,
    play: &dyn Fn(&[f64]) -> Vec<PointOutcome>,
) {
    let mut least = f64::INFINITY;
    for round in 0..ROUNDS {
        let best = (0..points.len())
            .fold(0, |best, i| if seconds(&points[i]) < seconds(&points[best]) { i } else { best });
        let now = seconds(&points[best]);
        if round > 1 && (best == 0 || best + 1 == points.len() || now > least * (1.0 - SHORTER)) {
            break;
        }
        least = now;
        let around = points[best.saturating_sub(1)..points.len().min(best + 2)].windows(2);
        let inner: Vec<f64> = around.filter_map(|two| field.between(two[0].0, two[1].0, precision)).collect();
        let played = play(&inner);
        points.extend(inner.into_iter().zip(played));
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
}

/// The two values next to a border: the one that is enough, and the one that is not.
type Sides = [f64; 2];

/// Halvings to come, the next first: each as it follows where the closed form is right.
fn halvings(field: &KneeField, precision: f64, sides: Sides, form: Option<&Knee>, most: usize) -> Vec<f64> {
    let mut all = Vec::new();
    let [mut enough, mut not_enough] = sides;
    while all.len() < most
        && let Some(middle) = field.between(enough.min(not_enough), enough.max(not_enough), precision)
    {
        all.push(middle);
        let Some(border) = form.and_then(|form| form.value) else { break };
        let is_enough = if enough < not_enough { middle <= border } else { middle >= border };
        *if is_enough { &mut enough } else { &mut not_enough } = middle;
    }
    all
}

/// The border of one place, by halving; what the closed form says of it keeps further threads busy.
fn border(
    base: &StudyBase,
    question: &Question,
    place: &[(String, Value)],
    form: Option<&Knee>,
    how: How,
) -> Result<Knee, SpecError> {
    let Question { field, until, precision, .. } = question;
    if how == How::ClosedForm && !until.columns.is_empty() {
        return Err(SpecError::file("--until", "the closed form writes no report"));
    }
    let outcome = |value: f64| match base.inputs(&sets(place, field.settings(value))) {
        Ok(inputs) if until.columns.is_empty() => outcome_beside(&base.shared, &inputs, how),
        Ok(inputs) => reported(&base.shared, &inputs, how, &until.columns),
        Err(e) => PointOutcome::of_fault((&e).into()),
    };
    let threads = pool::threads(question.threads);
    let outcomes = |values: &[f64]| pool::all(values.len(), threads, &|i| outcome(values[i]));
    let asked: Vec<f64> = [field.from, field.to].into_iter().chain(field.plenty()).collect();
    let ends = outcomes(&asked);
    let mut points: Vec<(f64, PointOutcome)> = asked.into_iter().zip(ends).collect();
    let plenty = points.get(2).cloned();
    points.truncate(2);
    if plenty.is_none() {
        look_inside(field, *precision, &mut points, &outcomes);
    }
    let best = points.iter().chain(&plenty).min_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    let (best_s, best_at) = best.map_or((f64::INFINITY, None), |best| (seconds(best), Some(best.0)));
    if !best_s.is_finite() {
        let fault = points.iter().find_map(|(_, outcome)| outcome.message.clone());
        return Err(SpecError::file(format!("--field {}", field.path), fault.unwrap_or_default()));
    }
    let judged = |(value, outcome): (f64, PointOutcome)| -> Result<KneePlay, SpecError> {
        Ok(KneePlay { value, enough: until.holds(&outcome, best_s)?, stall: stall(&outcome), outcome })
    };
    let mut played = points.into_iter().map(judged).collect::<Result<Vec<_>, _>>()?;
    let [first, last] = [played.iter().position(|p| p.enough), played.iter().rposition(|p| p.enough)];
    let end = played.len() - 1;
    let border = match (first, last) {
        (Some(0), Some(last)) if last == end => KneeBorder::Everywhere,
        (Some(0), _) => KneeBorder::AtMost,
        (Some(_), Some(last)) if last == end => KneeBorder::AtLeast,
        (Some(_), _) => KneeBorder::Between,
        (None, _) => KneeBorder::Nowhere,
    };
    let mut sides: [Option<Sides>; 2] = [None; 2];
    for (side, at) in [first, last].into_iter().enumerate() {
        // Outside of what is enough lies what is not.
        let outer =
            |at: usize| if side == 0 { at.checked_sub(1) } else { Some(at + 1).filter(|at| *at <= end) };
        let Some((at, outer)) = at.and_then(|at| Some((at, outer(at)?))) else { continue };
        sides[side] = Some([played[at].value, played[outer].value]);
    }
    for sides in sides.iter_mut().flatten() {
        let mut known: Vec<(f64, PointOutcome)> = Vec::new();
        let next = |sides: Sides| halvings(field, *precision, sides, form, threads);
        while let Some(&middle) = next(*sides).first() {
            if known.iter().all(|(value, _)| *value != middle) {
                let values = next(*sides);
                known.extend(values.iter().copied().zip(outcomes(&values)));
            }
            let Some(at) = known.iter().position(|(value, _)| *value == middle) else { break };
            let step = judged(known.swap_remove(at))?;
            sides[usize::from(!step.enough)] = middle;
            played.push(step);
        }
    }
    played.sort_by(|a, b| a.value.total_cmp(&b.value));
    let side = sides[0].or(sides[1]);
    Ok(Knee {
        across: None,
        border,
        value: side.map(|[enough, _]| enough),
        up_to: sides[1].filter(|_| border == KneeBorder::Between).map(|[enough, _]| enough),
        not_enough: side.map(|[_, not_enough]| not_enough),
        best_s,
        best_at: best_at.filter(|at| plenty.is_none() || *at <= field.to),
        closed_form: None,
        left_out: 0,
        played,
    })
}
