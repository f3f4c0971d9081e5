//! Axes and their product.

use std::collections::{BTreeSet, HashMap};

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value};

use super::base::StudyBase;
use super::condition::RowCondition;
use stepsim_spec::{SpecError, json};

/// Most points of one study.
pub const MOST_POINTS: u128 = 1_000_000;

/// Most points that are valued together: what is lost of a sweep that is killed.
const MOST_IN_GROUP: usize = 256;

/// Fields that change together: one, or several zipped.
#[derive(Clone, Debug, PartialEq)]
pub struct StudyAxis {
    /// Paths of the fields.
    pub paths: Vec<String>,
    /// Along the axis, a value for each path.
    pub values: Vec<Vec<Value>>,
    /// Behind them numbers of the one path, too many to be listed: for samples.
    more: Option<NumberRange>,
}

/// The numbers `from`, `from + by`, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NumberRange {
    from: u64,
    by: u64,
    count: u64,
}

impl StudyAxis {
    /// An axis of listed values.
    pub fn of(paths: Vec<String>, values: Vec<Vec<Value>>) -> StudyAxis {
        StudyAxis { paths, values, more: None }
    }
    /// How many values it has.
    pub fn len(&self) -> usize {
        self.values.len() + self.more.map_or(0, |more| more.count as usize)
    }
    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Refuses more values than can be looked at one by one.
    ///
    /// # Errors
    /// There are more than [`MOST_POINTS`].
    pub fn listed(&self) -> Result<(), SpecError> {
        if self.more.is_none() {
            return Ok(());
        }
        Err(SpecError::file(
            format!("--vary {}", self.paths.join(", ")),
            format!("{} values are too many", self.len()),
        )
        .allowed(format!("at most {MOST_POINTS} values"))
        .hint("take longer strides: 1:1048576:x2"))
    }
    /// A value for each path.
    pub fn at(&self, place: usize) -> Vec<Value> {
        match (self.values.get(place), self.more) {
            (None, Some(more)) => vec![(more.from + (place - self.values.len()) as u64 * more.by).into()],
            (listed, _) => listed.cloned().unwrap_or_default(),
        }
    }
    /// An axis from `path=a,b,c`; a part `from:to:xN` or `from:to:+N` is a range that multiplies or adds. `option` is
    /// what the text was given to.
    ///
    /// # Errors
    /// No path, no value, or a range without end.
    pub fn parse(option: &str, text: &str) -> Result<StudyAxis, SpecError> {
        let wrong = |problem: &str| {
            SpecError::file(format!("{option} {text}"), problem.to_string())
                .allowed("path=a,b,c, or path=from:to:xN and path=from:to:+N for ranges")
                .hint(format!(
                    "for example {option} batch.micro_batch=1,2,4 or {option} parallelism.tensor=1:8:x2"
                ))
        };
        let (path, list) = text.split_once('=').ok_or_else(|| wrong("not of the form path=a,b,c"))?;
        let (mut values, mut more) = (Vec::new(), None);
        for part in split(list) {
            if more.is_some() {
                return Err(wrong("a range of so many numbers stands last"));
            }
            match range(part) {
                Some(Ok(RangeKind::Listed(numbers))) => {
                    values.extend(numbers.into_iter().map(|n| vec![n.into()]))
                }
                Some(Ok(RangeKind::Long(numbers))) => more = Some(numbers),
                Some(Err(())) => return Err(wrong("a range that is empty, or has no end")),
                None => values.push(vec![value(part)]),
            }
        }
        let axis = StudyAxis { paths: vec![path.to_string()], values, more };
        if path.is_empty() || axis.is_empty() || list.is_empty() {
            return Err(wrong("no path or no value"));
        }
        Ok(axis)
    }

    /// Several axes as one along which all change together; `None` of none.
    ///
    /// # Errors
    /// Their lengths differ.
    pub fn zip(axes: Vec<StudyAxis>) -> Result<Option<StudyAxis>, SpecError> {
        let mut axes = axes.into_iter();
        let Some(mut zipped) = axes.next() else { return Ok(None) };
        for axis in axes {
            let (longer, other) = (zipped.len(), axis.len());
            if longer != other || zipped.more.is_some() || axis.more.is_some() {
                let name = axis.paths.join(", ");
                return Err(SpecError::file(
                    format!("--zip {name}"),
                    format!("{other} values beside {longer} of {}", zipped.paths.join(", ")),
                )
                .allowed("lists of one length: their values are taken together, one after the other"));
            }
            zipped.paths.extend(axis.paths);
            zipped.values.iter_mut().zip(axis.values).for_each(|(at, more)| at.extend(more));
        }
        Ok(Some(zipped))
    }
}

/// Splits at commas outside brackets and strings.
fn split(list: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut from, mut parts) = (0i32, false, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                parts.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[from..]);
    parts
}

/// The numbers of a range.
enum RangeKind {
    Listed(Vec<u64>),
    Long(NumberRange),
}

/// The numbers of `from:to:xN` or `from:to:+N`; `None` where the text has another form.
fn range(text: &str) -> Option<Result<RangeKind, ()>> {
    let mut parts = text.split(':');
    let (from, to, step) = (count(parts.next()?)?, count(parts.next()?)?, parts.next()?);
    let (times, by) = match (step.strip_prefix('x'), step.strip_prefix('+')) {
        (Some(n), _) => (true, count(n)?),
        (_, Some(n)) => (false, count(n)?),
        _ => return None,
    };
    if parts.next().is_some() {
        return None;
    }
    if from > to || by < 1 + u64::from(times) || (times && from == 0) {
        return Some(Err(()));
    }
    let follow = |n: &u64| if times { n.checked_mul(by) } else { n.checked_add(by) };
    let numbers = std::iter::successors(Some(from), follow).take_while(|n| *n <= to);
    let count = if times { 0 } else { ((to - from) / by).saturating_add(1) };
    Some(Ok(match u128::from(count) > MOST_POINTS {
        true => RangeKind::Long(NumberRange { from, by, count }),
        false => RangeKind::Listed(numbers.collect()),
    }))
}

/// A value as settings read it: JSON, or else a string.
fn value(text: &str) -> Value {
    let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_string()));
    value.as_f64().filter(|_| value.is_f64()).map_or(value, json::whole)
}

/// Units behind a number.
#[rustfmt::skip]
const UNITS: [(&str, f64); 11] = [
    ("", 1.0), ("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9), ("B", 1e9), ("T", 1e12),
    ("Ki", 1024.0), ("Mi", 1_048_576.0), ("Gi", 1_073_741_824.0), ("Ti", 1_099_511_627_776.0),
];

/// A number as people write it: `8192`, `1e7`, `1.5Gi`, `20M`, `300B`.
pub fn number(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (_, factor) = UNITS.iter().find(|(unit, _)| *unit == &text[digits.len()..])?;
    Some(digits.trim().parse::<f64>().ok()? * factor).filter(|number| number.is_finite())
}

/// A whole number as people write it.
pub fn count(text: &str) -> Option<u64> {
    let number = number(text)?;
    ((0.0..=1e18).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

/// A setting as `--set` takes it.
pub fn set_text(path: &str, value: &Value) -> String {
    match value {
        Value::String(text) if serde_json::from_str::<Value>(text).is_err() => format!("{path}={text}"),
        value => format!("{path}={value}"),
    }
}

/// A product of axes, or what is chosen of it. Points are numbered with the last axis fastest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Space {
    /// The last is fastest.
    pub axes: Vec<StudyAxis>,
    /// Numbers in the product of the points that were chosen, ascending; `None`: all.
    pub chosen: Option<Vec<u128>>,
}

/// The places on an axis whose values must be looked at: whole numbers between others are taken where those are.
pub fn telling(axis: &StudyAxis) -> Vec<usize> {
    let number = |j: &usize| axis.values[*j].iter().map(Value::as_u64).collect::<Option<Vec<_>>>();
    let (numbers, mut others): (Vec<usize>, Vec<usize>) =
        (0..axis.values.len()).partition(|j| axis.paths.len() == 1 && number(j).is_some());
    others.extend(numbers.iter().copied().min_by_key(number));
    others.extend(numbers.iter().copied().max_by_key(number));
    if axis.more.is_some() {
        others.extend([axis.values.len(), axis.len() - 1]);
    }
    others.sort_unstable();
    others.dedup();
    others
}

/// The chosen points of a product.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointSelection {
    /// All of these hold.
    pub conditions: Vec<RowCondition>,
    /// So many of them, drawn without putting back.
    pub sample: Option<usize>,
    /// Seed of the draw.
    pub seed: u64,
}

/// Failed draws in a row before a sample ends smaller than it was asked for.
const MOST_MISSES: usize = 100_000;

impl Space {
    /// The product of `axes`, each of whose values must mean something to `base` (beside the first values of the other
    /// axes).
    ///
    /// # Errors
    /// An axis without values, a path on two axes, too many points, a field that does not exist, a value that it cannot
    /// take.
    pub fn new(axes: Vec<StudyAxis>, base: &StudyBase) -> Result<Space, SpecError> {
        Space::of(axes, &PointSelection::default(), base)
    }

    /// The points of the product of `axes` that are chosen.
    ///
    /// # Errors
    /// As [`Space::new`] (only the sample must not be too large); a condition without a meaning, or that no point
    /// meets.
    pub fn of(axes: Vec<StudyAxis>, choice: &PointSelection, base: &StudyBase) -> Result<Space, SpecError> {
        for (i, axis) in axes.iter().enumerate() {
            if axis.is_empty() {
                return Err(SpecError::file(format!("--vary {}", axis.paths.join(", ")), "no values"));
            }
            let earlier = axes[..i].iter().flat_map(|a| &a.paths);
            if let Some(path) = earlier.into_iter().find(|p| axis.paths.contains(p)) {
                return Err(SpecError::file(format!("--vary {path}"), "given twice")
                    .hint("write all its values into one list"));
            }
        }
        let mut space = Space { axes, chosen: None };
        let product = space.product();
        let count = choice.sample.map_or(product, |sample| product.min(sample as u128));
        if count > MOST_POINTS {
            let lengths: Vec<String> = space.axes.iter().map(|a| a.len().to_string()).collect();
            return Err(SpecError::file(
                "--vary",
                format!("{count} points ({}) are too many", lengths.join(" × ")),
            )
            .allowed(format!("at most {MOST_POINTS} points"))
            .hint("leave values out, zip lists that belong together (--zip), or draw some (--sample)"));
        }
        for (i, axis) in space.axes.iter().enumerate() {
            for j in telling(axis) {
                let at = |k: usize| if k == i { j } else { 0 };
                let sets: Vec<String> = space.values(at).iter().map(|(p, v)| set_text(p, v)).collect();
                base.understands(&sets)?;
            }
        }
        if !choice.conditions.is_empty() || choice.sample.is_some_and(|n| (n as u128) < product) {
            space.chosen = Some(space.choose(choice, base)?);
        }
        Ok(space)
    }

    /// Numbers of the points that are chosen.
    fn choose(&self, choice: &PointSelection, base: &StudyBase) -> Result<Vec<u128>, SpecError> {
        let own = stepsim_located::to_value(base.unchecked_workload(&[])?).unwrap_or_default();
        let holds = |number: u128| -> Result<bool, SpecError> {
            let point = self.at(number);
            let field = |path: &str| {
                point.get(path).or_else(|| own.pointer(&format!("/{}", path.replace('.', "/")))).cloned()
            };
            choice.conditions.iter().try_fold(true, |all, condition| Ok(all && condition.holds(&field)?))
        };
        let product = self.product();
        let mut random = ChaCha8Rng::seed_from_u64(choice.seed);
        let chosen: Vec<u128> = if product <= MOST_POINTS {
            let all = (0..product).map(|number| Ok(holds(number)?.then_some(number)));
            let mut all: Vec<u128> = all.filter_map(Result::transpose).collect::<Result<_, SpecError>>()?;
            if let Some(sample) = choice.sample {
                let mut drawn = all.partial_shuffle(&mut random, sample).0.to_vec();
                drawn.sort_unstable();
                all = drawn;
            }
            all
        } else {
            let (mut drawn, mut misses) = (BTreeSet::new(), 0);
            let wanted = choice.sample.unwrap_or_default();
            while drawn.len() < wanted && misses < MOST_MISSES {
                let number = random.random_range(0..product);
                if holds(number)? && drawn.insert(number) {
                    misses = 0;
                } else {
                    misses += 1;
                }
            }
            drawn.into_iter().collect()
        };
        if chosen.is_empty() {
            return Err(SpecError::file("--where", "no point meets the conditions")
                .hint("`--dry-run` counts points without running them"));
        }
        Ok(chosen)
    }

    /// Points of the whole product, counted without making them.
    fn product(&self) -> u128 {
        self.axes.iter().fold(1u128, |n, axis| n.saturating_mul(axis.len() as u128))
    }
    /// Number of points.
    pub fn count(&self) -> usize {
        self.chosen.as_ref().map_or(self.product() as usize, Vec::len)
    }
    /// True if every point replaces this setting.
    pub fn replaces(&self, set: &str) -> bool {
        let path = set.split_once('=').map_or(set, |(path, _)| path);
        self.axes.iter().flat_map(|axis| &axis.paths).any(|axis| json::within(path, axis))
    }
    /// Lengths of the axes.
    pub fn lengths(&self) -> Vec<usize> {
        self.axes.iter().map(StudyAxis::len).collect()
    }
    /// True if not all points of the product were chosen.
    pub fn is_part(&self) -> bool {
        self.chosen.is_some()
    }
    /// Paths and values of a point.
    pub fn point(&self, index: usize) -> Map<String, Value> {
        self.at(self.number(index))
    }
    /// These points in groups that differ in `path` alone, in the order of their first points; each its own group
    /// where the path is not an axis by itself.
    pub fn groups(&self, points: &[usize], path: &str) -> Vec<Vec<usize>> {
        let covers = |p: &String| {
            path.strip_prefix(p.as_str()).is_some_and(|rest| matches!(rest.get(..1), None | Some(".")))
        };
        let covering: Vec<usize> =
            (0..self.axes.len()).filter(|at| self.axes[*at].paths.iter().any(covers)).collect();
        let place = match covering[..] {
            [place] if self.axes[place].paths == [path] => place,
            _ => return points.iter().map(|point| vec![*point]).collect(),
        };
        let length = |axis: &StudyAxis| axis.len() as u128;
        let step: u128 = self.axes[place + 1..].iter().map(length).product();
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut known: HashMap<u128, usize> = HashMap::new();
        for &point in points {
            let number = self.number(point);
            let others = number - number / step % length(&self.axes[place]) * step;
            let at = *known.entry(others).or_insert(groups.len());
            if at == groups.len() {
                groups.push(Vec::new());
            }
            groups[at].push(point);
            if groups[at].len() == MOST_IN_GROUP {
                known.remove(&others);
            }
        }
        groups
    }
    /// The number of a point in the whole product.
    fn number(&self, index: usize) -> u128 {
        self.chosen.as_ref().map_or(index as u128, |chosen| chosen[index])
    }
    /// Paths and values of a point of the whole product.
    fn at(&self, number: u128) -> Map<String, Value> {
        let mut rest = number;
        let mut at = vec![0; self.axes.len()];
        for (place, axis) in at.iter_mut().zip(&self.axes).rev() {
            let length = axis.len() as u128;
            *place = (rest % length) as usize;
            rest /= length;
        }
        self.values(|axis| at[axis])
    }
    fn values(&self, at: impl Fn(usize) -> usize) -> Map<String, Value> {
        let axes = self.axes.iter().enumerate();
        let pairs = axes.flat_map(|(i, axis)| axis.paths.iter().cloned().zip(axis.at(at(i))));
        pairs.collect()
    }
}
