//! Axes and their product.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::base::Base;
use crate::spec::{SpecError, read_json};

/// Most points of one study.
pub const MOST_POINTS: u128 = 1_000_000;

/// Fields that change together: one, or several zipped.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Paths of the fields.
    pub paths: Vec<String>,
    /// Along the axis, a value for each path.
    pub values: Vec<Vec<Value>>,
}

impl Axis {
    /// An axis from `path=a,b,c`; a part `from:to:xN` or `from:to:+N` is a range that multiplies or adds. `option` is what
    /// the text was given to.
    ///
    /// # Errors
    /// No path, no value, or a range without end.
    pub fn parse(option: &str, text: &str) -> Result<Axis, SpecError> {
        let wrong = |problem: &str| {
            SpecError::file(format!("{option} {text}"), problem.to_string())
                .allowed("path=a,b,c, or path=from:to:xN and path=from:to:+N for ranges")
                .hint(format!(
                    "for example {option} batch.micro_batch=1,2,4 or {option} parallelism.tensor=1:8:x2"
                ))
        };
        let (path, list) = text.split_once('=').ok_or_else(|| wrong("not of the form path=a,b,c"))?;
        let mut values = Vec::new();
        for part in split(list) {
            match range(part) {
                Some(Ok(numbers)) => values.extend(numbers.into_iter().map(|n| vec![n.into()])),
                Some(Err(())) => return Err(wrong("a range that is empty, or has no end")),
                None => values.push(vec![value(part)]),
            }
        }
        let axis = Axis { paths: vec![path.to_string()], values };
        if path.is_empty() || axis.values.is_empty() || list.is_empty() {
            return Err(wrong("no path or no value"));
        }
        Ok(axis)
    }

    /// Several axes as one along which all change together; `None` of none.
    ///
    /// # Errors
    /// Their lengths differ.
    pub fn zip(axes: Vec<Axis>) -> Result<Option<Axis>, SpecError> {
        let mut axes = axes.into_iter();
        let Some(mut zipped) = axes.next() else { return Ok(None) };
        for axis in axes {
            let (longer, other) = (zipped.values.len(), axis.values.len());
            if longer != other {
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

/// The numbers of `from:to:xN` or `from:to:+N`; `None` where the text has another form.
fn range(text: &str) -> Option<Result<Vec<u64>, ()>> {
    let mut parts = text.split(':');
    let (from, to, step) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
    let (times, by) = match (step.strip_prefix('x'), step.strip_prefix('+')) {
        (Some(n), _) => (true, n.parse::<u64>().ok()?),
        (_, Some(n)) => (false, n.parse::<u64>().ok()?),
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
    let numbers: Vec<u64> = numbers.take(MOST_POINTS as usize + 1).collect();
    Some(Ok(numbers))
}

/// A value as settings read it: JSON, or else a string.
fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_string()))
}

/// A setting as `--set` takes it.
pub fn set_text(path: &str, value: &Value) -> String {
    match value {
        Value::String(text) if serde_json::from_str::<Value>(text).is_err() => format!("{path}={text}"),
        value => format!("{path}={value}"),
    }
}

/// A product of axes. Points are numbered with the last axis fastest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Space {
    axes: Vec<Axis>,
}

impl Space {
    /// The product of `axes`, each of whose values must mean something to `base` (beside the first values of the other
    /// axes).
    ///
    /// # Errors
    /// An axis without values, a path on two axes, too many points, a field that does not exist, a value that it cannot
    /// take.
    pub fn new(axes: Vec<Axis>, base: &Base) -> Result<Space, SpecError> {
        for (i, axis) in axes.iter().enumerate() {
            if axis.values.is_empty() {
                return Err(SpecError::file(format!("--vary {}", axis.paths.join(", ")), "no values"));
            }
            let earlier = axes[..i].iter().flat_map(|a| &a.paths);
            if let Some(path) = earlier.into_iter().find(|p| axis.paths.contains(p)) {
                return Err(SpecError::file(format!("--vary {path}"), "given twice")
                    .hint("write all its values into one list"));
            }
        }
        let space = Space { axes };
        let count = space.product();
        if count > MOST_POINTS {
            let lengths: Vec<String> = space.axes.iter().map(|a| a.values.len().to_string()).collect();
            return Err(SpecError::file(
                "--vary",
                format!("{count} points ({}) are too many", lengths.join(" × ")),
            )
            .allowed(format!("at most {MOST_POINTS} points"))
            .hint("leave values out, or zip lists that belong together (--zip)"));
        }
        for (i, axis) in space.axes.iter().enumerate() {
            for j in 0..axis.values.len() {
                let at = |k: usize| if k == i { j } else { 0 };
                let sets: Vec<String> = space.chosen(at).iter().map(|(p, v)| set_text(p, v)).collect();
                base.understands(&sets)?;
            }
        }
        Ok(space)
    }

    /// Points, counted without making them.
    fn product(&self) -> u128 {
        self.axes.iter().fold(1u128, |n, axis| n.saturating_mul(axis.values.len() as u128))
    }
    /// Number of points.
    pub fn count(&self) -> usize {
        self.product() as usize
    }
    /// Lengths of the axes.
    pub fn lengths(&self) -> Vec<usize> {
        self.axes.iter().map(|axis| axis.values.len()).collect()
    }
    /// Paths and values of a point.
    pub fn point(&self, index: usize) -> Map<String, Value> {
        let mut rest = index;
        let mut at = vec![0; self.axes.len()];
        for (place, axis) in at.iter_mut().zip(&self.axes).rev() {
            *place = rest % axis.values.len();
            rest /= axis.values.len();
        }
        self.chosen(|axis| at[axis])
    }
    fn chosen(&self, at: impl Fn(usize) -> usize) -> Map<String, Value> {
        let axes = self.axes.iter().enumerate();
        let pairs =
            axes.flat_map(|(i, axis)| axis.paths.iter().cloned().zip(axis.values[at(i)].iter().cloned()));
        pairs.collect()
    }
}

/// A study file: what a sweep's command line says, kept.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// The workload: a name, or a path relative to where the command runs.
    pub workload: String,
    /// The machine, in the place of the one that the workload names.
    #[serde(default)]
    pub topology: Option<String>,
    /// Settings of all points.
    #[serde(default)]
    pub set: Map<String, Value>,
    /// Fields with their values: a list, or a text like `1:8:x2`.
    #[serde(default)]
    pub vary: Map<String, Value>,
    /// Fields that change together.
    #[serde(default)]
    pub zip: Map<String, Value>,
}

impl Study {
    /// Reads a study file; `None` where the file is something else (a workload).
    ///
    /// # Errors
    /// It cannot be read, or has other fields.
    pub fn load(path: &Path) -> Result<Option<Study>, SpecError> {
        let file = path.display().to_string();
        let unreadable = |e| SpecError::file(&file, format!("cannot be read: {e}")).hint("check the path");
        let value = read_json(&file, &std::fs::read_to_string(path).map_err(unreadable)?)?;
        if value.get("workload").is_none() {
            return Ok(None);
        }
        crate::spec::typed_json(&value).map(Some).map_err(|e: SpecError| e.in_file(&file))
    }

    /// Its axes: those of `vary`, then those of `zip` as one.
    ///
    /// # Errors
    /// As [`Axis::parse`] and [`Axis::zip`].
    pub fn axes(&self) -> Result<Vec<Axis>, SpecError> {
        let axis = |(path, values): (&String, &Value)| match values {
            Value::Array(list) => Ok(Axis {
                paths: vec![path.clone()],
                values: list.iter().map(|value| vec![value.clone()]).collect(),
            }),
            Value::String(text) => Axis::parse("vary", &format!("{path}={text}")),
            other => Axis::parse("vary", &format!("{path}={other}")),
        };
        let mut axes = self.vary.iter().map(axis).collect::<Result<Vec<_>, _>>()?;
        axes.extend(Axis::zip(self.zip.iter().map(axis).collect::<Result<_, _>>()?)?);
        Ok(axes)
    }

    /// Its settings as texts.
    pub fn sets(&self) -> Vec<String> {
        self.set.iter().map(|(path, value)| set_text(path, value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<Value> {
        Axis::parse("--vary", text).unwrap().values.into_iter().flatten().collect()
    }

    #[test]
    fn lists_and_ranges_are_read() {
        assert_eq!(values("a=1:8:x2"), [1, 2, 4, 8]);
        assert_eq!(values("a=0:6:+3,9"), [0, 3, 6, 9]);
        assert_eq!(values(r#"a=[1,2],{"b":1,"c":2},"x,y",zb-h1,null"#).len(), 5);
        for wrong in ["a", "a=", "=1", "a=8:1:x2", "a=0:8:x2", "a=1:8:x1", "a=1:8:+0"] {
            assert!(Axis::parse("--vary", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_last_axis_is_fastest_and_zipped_fields_go_together() {
        let axis = |text| Axis::parse("--vary", text).unwrap();
        let zipped = Axis::zip(vec![axis("b=1,2"), axis("c=3,4")]).unwrap().unwrap();
        let space = Space { axes: vec![axis("a=x,y"), zipped] };
        let points: Vec<String> = (0..4).map(|i| Value::from(space.point(i)).to_string()).collect();
        assert_eq!(points[1], r#"{"a":"x","b":2,"c":4}"#);
        assert_eq!(points[2], r#"{"a":"y","b":1,"c":3}"#);
        assert!(Axis::zip(vec![axis("b=1,2"), axis("c=3")]).is_err());
    }
}
