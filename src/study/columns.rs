//! Columns that a study takes from the report of each point: `mean.stalls_s.pipeline_bubble`; and a formula that
//! is held to each.
//!
//! A path is checked against the report's schema before anything runs. A key of a table (a cause of stalls, a kind of
//! communication) that a step does not have is no mistake: its row is without the column. Of a caller's own section
//! (`own.NAME.…`) every path may be there.

use std::collections::BTreeMap;

use serde_json::Value;

use stepsim_form::compare::Formula;
use stepsim_read::analysis::report::Report;
use stepsim_spec::SpecError;

/// Paths of numbers and texts in a report, each with dots between names, and numbers for places in lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportColumns(pub Vec<String>, Option<Formula>);

impl ReportColumns {
    /// The columns of these paths.
    ///
    /// # Errors
    /// A report has no such path, or a table or list there.
    pub fn new(paths: impl IntoIterator<Item = String>) -> Result<ReportColumns, SpecError> {
        let mut columns = ReportColumns::default();
        for path in paths.into_iter().filter(|path| !path.is_empty()) {
            if columns.0.is_empty() || !columns.0.contains(&path) {
                columns.0.push(path);
            }
        }
        if !columns.0.is_empty() {
            let schema = schemars::schema_for!(Report).to_value();
            columns.0.iter().try_for_each(|path| check(&schema, path))?;
        }
        Ok(columns)
    }

    /// The same, with the columns of a formula.
    #[must_use]
    pub fn with_formula(self, formula: Option<Formula>) -> ReportColumns {
        ReportColumns(self.0, formula)
    }

    /// The formula that is held to each point.
    pub fn formula(&self) -> Option<&Formula> {
        self.1.as_ref()
    }

    /// True if none are of a report: a point then needs none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key that tells rows with these columns from others; empty if there are none.
    pub fn key(&self) -> String {
        let formula = self.1.iter().map(|formula| format!(" formula {}", formula.text()));
        self.0.iter().map(|path| format!(" {path}")).chain(formula).collect()
    }

    /// The values of the paths that a report has.
    pub(super) fn of(&self, report: &Report) -> BTreeMap<String, Value> {
        let report = stepsim_located::to_value(report).unwrap_or_default();
        let value = |path: &String| Some((path.clone(), report.pointer(&pointer(path))?.clone()));
        self.0.iter().filter_map(value).filter(|(_, value)| !value.is_null()).collect()
    }
}

fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

/// Checks that a path leads to a number, text or truth value by the schema of a report.
fn check(schema: &Value, path: &str) -> Result<(), SpecError> {
    let mut at = vec![schema];
    let mut walked = Vec::new();
    for name in path.split('.') {
        let next: Vec<&Value> = at.iter().flat_map(|node| inside(schema, node, name)).collect();
        if next.is_empty() {
            return Err(unknown(path, format!("there is no `{name}`{}", place(&walked)), &at));
        }
        walked.push(name);
        at = next.into_iter().flat_map(|node| variants(schema, node)).collect();
    }
    let is_leaf = |node: &&Value| {
        if **node == Value::Bool(true) {
            return true; // Whatever a caller's own reading says.
        }
        let kinds = node.get("type").map(Value::to_string).unwrap_or_default();
        node.get("enum").is_some()
            || ["number", "integer", "string", "boolean"].iter().any(|k| kinds.contains(k))
    };
    if at.iter().any(is_leaf) {
        return Ok(());
    }
    Err(unknown(path, format!("{path} is a table or a list, not a number"), &at))
}

fn place(walked: &[&str]) -> String {
    if walked.is_empty() { String::new() } else { format!(" in `{}`", walked.join(".")) }
}

fn unknown(path: &str, problem: String, at: &[&Value]) -> SpecError {
    let mut names: Vec<&str> = Vec::new();
    for node in at {
        names.extend(
            node.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(k, _)| k.as_str()),
        );
        names.extend(node.get("items").map(|_| "a number, the place in the list from 0"));
        names.extend(
            node.get("additionalProperties").map(|_| "a key of the table as `run --report` writes it"),
        );
    }
    SpecError::file(format!("--columns {path}"), problem)
        .allowed(names.join(", "))
        .hint("a path in what `stepsim run --report` writes, like mean.stalls_s.pipeline_bubble")
}

/// A schema, and those that it stands for or chooses among.
fn variants<'s>(schema: &'s Value, node: &'s Value) -> Vec<&'s Value> {
    let meant =
        node.get("$ref").and_then(Value::as_str).and_then(|name| schema.pointer(name.strip_prefix('#')?));
    let choices =
        ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|word| node.get(word)?.as_array()).flatten();
    let others = meant.into_iter().chain(choices).flat_map(|other| variants(schema, other));
    [node].into_iter().chain(others).collect()
}

/// The schemas under a name, or at a place, below a node.
fn inside<'s>(schema: &'s Value, node: &'s Value, name: &str) -> Vec<&'s Value> {
    let of = |node: &'s Value| {
        if *node == Value::Bool(true) {
            return Some(node);
        }
        let own = node.get("properties").and_then(|properties| properties.get(name));
        let any = node.get("additionalProperties").filter(|any| **any != Value::Bool(false));
        let item = node.get("items").filter(|_| name.parse::<u32>().is_ok());
        own.or(any).or(item)
    };
    variants(schema, node).into_iter().filter_map(of).collect()
}
