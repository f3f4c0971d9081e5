//! `stepsim schema`: JSON Schema of the input files, of the reports and of the comparison.
//!
//! An editor that knows a file's schema completes its fields and marks mistakes while one types. The generated files
//! lie beside what they describe (`workloads/workload.schema.json`, …); CI generates them again and compares.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};

use super::outputs::WRITTEN;
use super::schema_fields::find;
use super::write::write_file;
use super::{Failure, say};
use stepsim_bring::imports::FormatTable;
use stepsim_core::declare::named;
use stepsim_form::compare::{Comparison, formula};
use stepsim_measure::profile::ProfileReport;
use stepsim_read::analysis::diff::Line;
use stepsim_read::analysis::report::Report;
use stepsim_simulate::whatif::WhatIfs;
use stepsim_spec as spec;
use stepsim_spec::Kind;
use stepsim_study::plan::PlanReport;
use stepsim_study::{JudgedRun, Row, SearchReport};

/// Print the JSON Schema of a kind of file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim schema workload > workload.schema.json
  stepsim schema workload --find prefetch        fields with that word in their path or meaning
  stepsim schema -o .            all of them, each in the folder where its files lie
  stepsim schema -o site --at https://example.org/stepsim    with addresses, and catalog.json for editors

An editor completes a file that says \"$schema\": \"./workload.schema.json\". For a folder, in VS Code:
\"json.schemas\": [{\"fileMatch\": [\"workloads/*.json\"], \"url\": \"./workloads/workload.schema.json\"}]")]
pub struct Args {
    /// Of which kind of file
    #[arg(value_enum, required_unless_present = "out")]
    of: Option<SchemaKind>,
    /// Print only fields that have this text in their path or meaning, a line each
    #[arg(long, value_name = "TEXT", requires = "of")]
    find: Option<String>,
    /// Write the schemas of all kinds into this folder, as it is laid out in the repository
    #[arg(short, long = "output", alias = "out", value_name = "DIR", conflicts_with = "of", help_heading = WRITTEN)]
    out: Option<PathBuf>,
    /// With --output: the address at which the folder will be published. Each schema names it, and catalog.json lists
    /// the schemas of input files as SchemaStore does
    #[arg(long, value_name = "URL", requires = "out", help_heading = WRITTEN)]
    at: Option<String>,
}

named! {
    path:
    /// The files with a schema.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
    pub enum SchemaKind {
        /// A training step (`workloads/*.json`)
        Workload = "workloads/workload.schema.json",
        /// A machine (`topologies/*.json`)
        Topology = "topologies/topology.schema.json",
        /// A device class (`topologies/devices/*.json`)
        Device = "topologies/devices/device.schema.json",
        /// A model (`workloads/models/*.json`)
        Model = "workloads/models/model.schema.json",
        /// A training software (`workloads/stacks/*.json`)
        Stack = "workloads/stacks/stack.schema.json",
        /// A precision recipe (`workloads/recipes/*.json`)
        Recipe = "workloads/recipes/recipe.schema.json",
        /// Rules and measured times of collectives (`topologies/collectives/*.json`)
        Collectives = "topologies/collectives/collectives.schema.json",
        /// Rules from rows of measurements to workloads (`workloads/rules/*.json`)
        Rules = "workloads/rules/rules.schema.json",
        /// The meaning of the arguments of a training software (`workloads/imports/*.json`)
        Import = "workloads/imports/import.schema.json",
        /// Interruptions, restarts and checkpoints (`workloads/reliability/*.json`)
        Reliability = "workloads/reliability/reliability.schema.json",
        /// The output of `stepsim run --report`
        Report = "examples/report.schema.json",
        /// The output of `stepsim plan --report`
        Plan = "examples/plan.schema.json",
        /// The output of `stepsim compare --report`
        Comparison = "examples/comparison.schema.json",
        /// A formula of a step (`stepsim compare --form`)
        Formula = "examples/formula.schema.json",
        /// The output of `stepsim analyze --report`
        Profile = "examples/profile.schema.json",
        /// A line of what `stepsim sweep -o` writes
        Row = "examples/row.schema.json",
        /// The output of `stepsim search --report`
        Search = "examples/search.schema.json",
        /// The output of `stepsim whatif --report`
        Whatif = "examples/whatif.schema.json",
        /// The output of `stepsim normal --json` and `stepsim gate --json`
        Verdict = "examples/verdict.schema.json",
        /// The output of `stepsim diff --report`
        Difference = "examples/difference.schema.json",
    }
}

impl SchemaKind {
    /// True if people write such files by hand.
    fn is_input(self) -> bool {
        !self.path().starts_with("examples/")
    }
    /// Its schema. An input file may name it for editors.
    fn schema(self) -> Value {
        let mut schema = self.bare_schema();
        if self.is_input() {
            let text = "The address of this schema, for editors.";
            schema["properties"]["$schema"] = json!({ "type": "string", "description": text });
        }
        schema
    }
    /// Its line in a catalogue of schemas at an address.
    fn entry(self, at: &str) -> Value {
        let (folder, _) = self.path().rsplit_once('/').unwrap_or_default();
        let words = self.to_possible_value();
        let name = words.as_ref().map_or("", |words| words.get_name());
        json!({
            "name": format!("stepsim {name}"),
            "description": words.as_ref().and_then(|words| words.get_help()).map(ToString::to_string),
            "fileMatch": match self {
                SchemaKind::Import => FormatTable::all().keys().map(|name| format!("{folder}/{name}.json")).collect(),
                _ => vec![format!("{folder}/*.json")],
            },
            "url": format!("{at}/{}", self.path()),
        })
    }
    fn bare_schema(self) -> Value {
        match self {
            SchemaKind::Workload => spec::schema_with_bases(Kind::Workload),
            SchemaKind::Topology => spec::schema_with_bases(Kind::Topology),
            SchemaKind::Device => spec::schema_with_bases(Kind::Device),
            SchemaKind::Model => spec::schema_with_bases(Kind::Model),
            SchemaKind::Stack => spec::schema_with_bases(Kind::Stack),
            SchemaKind::Recipe => spec::schema_with_bases(Kind::Recipe),
            SchemaKind::Collectives => spec::schema_with_bases(Kind::Collectives),
            SchemaKind::Rules => spec::schema_with_bases(Kind::Rules),
            SchemaKind::Import => schemars::schema_for!(FormatTable).to_value(),
            SchemaKind::Reliability => spec::schema_with_bases(Kind::Reliability),
            SchemaKind::Formula => formula::schema(),
            SchemaKind::Report => schemars::schema_for!(Report).to_value(),
            SchemaKind::Plan => schemars::schema_for!(PlanReport).to_value(),
            SchemaKind::Comparison => schemars::schema_for!(Comparison).to_value(),
            SchemaKind::Profile => schemars::schema_for!(ProfileReport).to_value(),
            SchemaKind::Row => schemars::schema_for!(Row).to_value(),
            SchemaKind::Search => schemars::schema_for!(SearchReport).to_value(),
            SchemaKind::Whatif => schemars::schema_for!(WhatIfs).to_value(),
            SchemaKind::Verdict => schemars::schema_for!(JudgedRun).to_value(),
            SchemaKind::Difference => schemars::schema_for!(Vec<Line>).to_value(),
        }
    }
    fn text(self, at: Option<&str>) -> String {
        let mut schema = self.schema();
        if let Some(at) = at {
            schema["$id"] = format!("{at}/{}", self.path()).into();
        }
        pretty(&schema)
    }
}

/// Runs the command.
///
/// # Errors
/// A file cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    match (&args.out, args.of) {
        (Some(folder), _) => write_all(folder, args.at.as_deref().map(|at| at.trim_end_matches('/'))),
        (None, Some(of)) => match &args.find {
            Some(text) => say(&find(&of.schema(), text)),
            None => say(&of.text(None)),
        },
        (None, None) => Err(Failure::input("name a kind of file, or a folder with --output")),
    }
}

/// All schemas, laid out as in the repository; with an address, a catalogue too.
fn write_all(folder: &Path, at: Option<&str>) -> Result<(), Failure> {
    for of in SchemaKind::ALL {
        write(&folder.join(of.path()), &of.text(at))?;
    }
    let Some(at) = at else { return Ok(()) };
    let entries: Vec<Value> =
        SchemaKind::ALL.into_iter().filter(|of| of.is_input()).map(|of| of.entry(at)).collect();
    let form = "https://json.schemastore.org/schema-catalog.json";
    write(
        &folder.join("catalog.json"),
        &pretty(&json!({ "$schema": form, "version": 1, "schemas": entries })),
    )
}

/// A tree of JSON values always has a text.
fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|e| Failure::run(format!("cannot make the folder `{}`: {e}", folder.display())))?;
    }
    // An equal file keeps its time: builds that look at it need not run again.
    if std::fs::read(path).is_ok_and(|old| old == text.as_bytes()) {
        return say(&format!("{}\n", path.display()));
    }
    write_file(path, text.as_bytes())?;
    say(&format!("{}\n", path.display()))
}
