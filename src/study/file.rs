//! Study files: what a sweep's command line says, kept.

use std::path::Path;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::columns::ReportColumns;
use super::condition::RowCondition;
use super::space::{PointSelection, StudyAxis, set_text};
use stepsim_spec::{SpecError, read_json, typed_json};

/// A study file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// The workload: a name, a path relative to where the command runs, or its content.
    #[serde(deserialize_with = "named")]
    pub workload: String,
    /// The machine, in the place of the one that the workload names.
    #[serde(default, deserialize_with = "perhaps_named")]
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
    /// Conditions that points must meet, as [`RowCondition`] reads them.
    #[serde(default, rename = "where")]
    pub conditions: Vec<String>,
    /// The number of points to draw.
    #[serde(default)]
    pub sample: Option<usize>,
    /// Seed of the draw.
    #[serde(default)]
    pub seed: u64,
    /// The columns of a row from the report of its step, as [`ReportColumns`] reads it.
    #[serde(default)]
    pub columns: Vec<String>,
}

/// A name, or content as the text that stands for it.
fn named<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a name, a path, or an object")]
    enum Named {
        Name(String),
        Content(Map<String, Value>),
    }
    Ok(match Named::deserialize(from)? {
        Named::Name(name) => name,
        Named::Content(map) => Value::Object(map).to_string(),
    })
}

fn perhaps_named<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    named(from).map(Some)
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
        Study::from_value(&value).map(Some).map_err(|e: SpecError| e.in_file(&file))
    }

    /// A study from the content of its file.
    ///
    /// # Errors
    /// It has other fields.
    pub fn from_value(value: &Value) -> Result<Study, SpecError> {
        typed_json(value)
    }

    /// Its axes: first `vary`, then `zip` as one.
    ///
    /// # Errors
    /// As [`StudyAxis::parse`] and [`StudyAxis::zip`].
    pub fn axes(&self) -> Result<Vec<StudyAxis>, SpecError> {
        let axis = |(path, values): (&String, &Value)| match values {
            Value::Array(list) => {
                Ok(StudyAxis::of(vec![path.clone()], list.iter().map(|value| vec![value.clone()]).collect()))
            }
            Value::String(text) => StudyAxis::parse("vary", &format!("{path}={text}")),
            other => StudyAxis::parse("vary", &format!("{path}={other}")),
        };
        let mut axes = self.vary.iter().map(axis).collect::<Result<Vec<_>, _>>()?;
        axes.extend(StudyAxis::zip(self.zip.iter().map(axis).collect::<Result<_, _>>()?)?);
        Ok(axes)
    }

    /// The chosen points of their product.
    ///
    /// # Errors
    /// A condition that is none.
    pub fn choice(&self) -> Result<PointSelection, SpecError> {
        let conditions =
            self.conditions.iter().map(|text| RowCondition::parse(text)).collect::<Result<_, _>>()?;
        Ok(PointSelection { conditions, sample: self.sample, seed: self.seed })
    }

    /// Its columns.
    ///
    /// # Errors
    /// One that no report has.
    pub fn columns(&self) -> Result<ReportColumns, SpecError> {
        ReportColumns::new(self.columns.iter().cloned())
    }

    /// Its settings as texts.
    pub fn sets(&self) -> Vec<String> {
        self.set.iter().map(|(path, value)| set_text(path, value)).collect()
    }
}
