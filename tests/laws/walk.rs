//! A walk over the schema of workloads: every field and every variant is drawn, upon shipped steps at their real depth, and laws that
//! cost little are held on what the checks take. A field that cannot be drawn fails.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use stepsim::core::engine::EngineError;
use stepsim::form::compare::workload::closed_form;
use stepsim::simulate::{Inputs, Options, Simulation, SimulationError};
use stepsim::step::spec::Disk;

use super::steps::{Draws, count};

/// Steps that fields are drawn upon, those that are played in no time first.
const STEPS: [&str; 13] = [
    "tiny-4",
    "gpt2-8",
    "mixtral-8x7b",
    "qwen-vl-7b",
    "llama-vision-11b",
    "llama3-8b-fsdp",
    "cxl-pool-8",
    "straggler-64",
    "llama3-70b-lora",
    "llama3-70b-offload",
    "llama3-70b",
    "qwen3-30b-a3b",
    "deepseek-v3",
];
/// The same with models whose layers are of several kinds, or of another.
const MODELS: [&str; 3] = ["gemma-3-12b", "deepseek-moe-16b", "llama-4-maverick"];

/// What is written for texts that are names, and for fields whose content has a form of its own.
const TEXTS: [(&str, &str); 11] = [
    ("topology", r#"["8xh100", "nodes:2*4,400,1,50,2"]"#),
    ("model", r#"["gpt2-1.5b"]"#),
    ("stack", r#"["nanotron", "fsdp2-eager"]"#),
    ("precision.recipe", r#"["fp8-block", "bf16"]"#),
    ("documents.file", r#"[[100, 200]]"#),
    ("documents.lengths.[]", r#"[100, 64]"#),
    ("expert_load.counts_file", r#"[[1, 2]]"#),
    ("parallelism.rank_map", r#"[[0, 1]]"#),
    ("model.layer_pattern.[].[]", r#"["local"]"#),
    ("parallelism.pipeline.order_file", r#"[{"ranks": ["F0 B0"]}]"#),
    ("name", r#"["x"]"#),
];

/// Places of which one excludes another, or needs it: what is written beside a field below the first.
const BESIDE: [(&str, &str, &str); 11] = [
    ("documents.rest", "documents.lengths", "[100, 200]"),
    ("documents.order", "documents.lengths", "[100, 200]"),
    ("parallelism.context.dynamic", "documents", r#"{"lengths": [100, 200]}"#),
    ("parallelism.pipeline.activation_limit", "parallelism.pipeline.schedule", r#""zb-auto""#),
    ("model.layer_pattern", "model.layer_kinds", r#"{"local": {}}"#),
    ("precision.recipe", "precision", "{}"),
    ("stack.", "stack", "{}"),
    ("modules.", "modules", r#"{"vision": {}}"#),
    ("parallelism.sharding.prefetch", "parallelism.sharding.kind", r#""zero3""#),
    ("parallelism.pipeline.order_file", "parallelism.pipeline.schedule", r#""file""#),
    (r#"parallelism.pipeline.schedule "file""#, "parallelism.pipeline.order_file", r#"{"ranks": ["F0 B0"]}"#),
];

/// Lists that stand as a whole.
const LISTS: [(&str, &str); 2] = [
    ("parallelism.order", r#"["tensor", "context", "data", "pipeline"]"#),
    (
        "stack.optimizer.passes",
        r#"["copy-gradients", "unscale", "norm", "clip", "update", "copy-weights", "zero-gradients"]"#,
    ),
];

/// Fields that no draw reaches yet.
const NOT_DRAWN: [&str; 0] = [];

/// A place in the schema, and what may stand there: a value of its own, or one of a type.
#[derive(Clone, Debug, PartialEq)]
struct Leaf {
    path: Vec<String>,
    /// A variant.
    is: Option<Value>,
    /// A type.
    of: String,
}

impl Leaf {
    fn name(&self) -> String {
        self.path.join(".")
    }
    /// Its name, and the variant where it is one.
    fn text(&self) -> String {
        self.is.as_ref().map_or(self.name(), |is| format!("{} {is}", self.name()))
    }
    /// What is tried, one after the other.
    fn values(&self) -> Vec<Value> {
        let name = self.name();
        if let Some((_, values)) = TEXTS.iter().find(|(path, _)| *path == name) {
            return serde_json::from_str(values).expect("a list");
        }
        match (&self.is, self.of.as_str()) {
            (Some(variant), _) => vec![variant.clone()],
            (_, "integer") => [2, 4, 1, 64, 8, 0].map(Value::from).into(),
            (_, "number") => [1.0, 0.5, 2.0, 0.0].map(Value::from).into(),
            (_, "boolean") => vec![true.into(), false.into()],
            _ => vec!["x".into()],
        }
    }
}

struct Schema(Value);

impl Schema {
    fn of_workloads() -> Schema {
        let text = include_str!("../../workloads/workload.schema.json");
        Schema(serde_json::from_str(text).expect("a schema"))
    }

    /// A schema and all that a value may be instead, with references followed.
    fn all<'a>(&'a self, schema: &'a Value) -> Vec<&'a Value> {
        let (mut found, mut at) = (vec![schema], 0);
        while let Some(one) = found.get(at).copied() {
            at += 1;
            if let Some(name) = one["$ref"].as_str().and_then(|name| name.rsplit('/').next()) {
                found.push(&self.0["$defs"][name]);
            }
            for kind in ["anyOf", "oneOf", "allOf"] {
                found.extend(one[kind].as_array().into_iter().flatten());
            }
        }
        found
    }

    /// What stands one step further in.
    fn inside<'a>(&'a self, schema: &'a Value, step: &str) -> Option<&'a Value> {
        let is_schema = |s: &&Value| s.is_object();
        self.all(schema).into_iter().find_map(|s| match step {
            "*" => s.get("additionalProperties").filter(is_schema),
            "[]" => s.get("items").filter(is_schema).or_else(|| s["prefixItems"].get(0)),
            name => s["properties"].get(name),
        })
    }

    /// What may stand at a place itself.
    fn here(&self, schema: &Value, path: &[String]) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        let mut add = |is: Option<Value>, of: &str| {
            let leaf = Leaf { path: path.to_vec(), is, of: of.to_string() };
            if leaf.is != Some(Value::Null) && !leaves.contains(&leaf) {
                leaves.push(leaf);
            }
        };
        for s in self.all(schema) {
            let variants: Vec<Value> = match (s.get("const"), s["enum"].as_array()) {
                (Some(one), _) => vec![one.clone()],
                (_, Some(some)) => some.clone(),
                _ => Vec::new(),
            };
            let types = s["type"].as_array().cloned().unwrap_or_else(|| vec![s["type"].clone()]);
            if variants.is_empty() {
                let plain = ["integer", "number", "boolean", "string"];
                types
                    .iter()
                    .filter_map(Value::as_str)
                    .filter(|t| plain.contains(t))
                    .for_each(|t| add(None, t));
            }
            variants.into_iter().for_each(|variant| add(Some(variant), ""));
        }
        leaves
    }

    /// All that may stand below a place.
    fn walk(&self, schema: &Value, path: &mut Vec<String>, leaves: &mut Vec<Leaf>) {
        leaves.extend(self.here(schema, path));
        let mut steps: BTreeSet<&str> = BTreeSet::new();
        for s in self.all(schema) {
            steps.extend(s["properties"].as_object().into_iter().flat_map(|p| p.keys().map(String::as_str)));
            steps.extend(s["additionalProperties"].is_object().then_some("*"));
            steps.extend((s["items"].is_object() || s["prefixItems"].is_array()).then_some("[]"));
        }
        for step in steps {
            let again = path.iter().filter(|name| *name == step).count() > 1;
            if !again
                && path.len() < 10
                && let Some(inside) = self.inside(schema, step)
            {
                path.push(step.to_string());
                self.walk(inside, path, leaves);
                path.pop();
            }
        }
    }

    fn leaves(&self) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        self.walk(&self.0, &mut Vec::new(), &mut leaves);
        leaves.retain(|leaf| leaf.name() != "base" && !leaf.path.is_empty());
        leaves
    }

    /// The least that may stand at a place.
    fn least(&self, schema: &Value, path: &[String]) -> Value {
        for s in self.all(schema) {
            let required: Vec<&str> =
                s["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            if !required.is_empty() && s["properties"].is_object() {
                let field = |name: &str| {
                    let at = [path, &[name.to_string()]].concat();
                    (name.to_string(), self.least(&s["properties"][name], &at))
                };
                return Value::Object(required.into_iter().map(field).collect());
            }
        }
        if let Some(leaf) = self.here(schema, path).first() {
            return leaf.values().remove(0);
        }
        match self.inside(schema, "[]") {
            Some(item) => json!([self.least(item, &[path, &["[]".to_string()]].concat())]),
            None => json!({}),
        }
    }

    /// Writes a value at a place, with what must stand beside it where nothing stands yet.
    fn put(&self, at: &mut Value, schema: &Value, path: &[String], done: usize, value: &Value) {
        let Some(step) = path.get(done) else {
            *at = value.clone();
            return;
        };
        let Some(inside) = self.inside(schema, step) else { return };
        let key = match step.as_str() {
            "[]" => {
                if at.as_array().is_none_or(Vec::is_empty) {
                    *at = json!([null]);
                }
                return self.put(&mut at[0], inside, path, done + 1, value);
            }
            "*" => at.as_object().and_then(|map| map.keys().next().cloned()).unwrap_or_else(|| "0".into()),
            name => name.to_string(),
        };
        if !at.is_object() {
            let mut fields = Map::new();
            let of = self.all(schema).into_iter().find(|s| s["properties"].get(&key).is_some());
            let required = of.into_iter().flat_map(|s| s["required"].as_array().into_iter().flatten());
            for name in required.filter_map(Value::as_str).filter(|name| *name != key) {
                let here = [&path[..done], &[name.to_string()]].concat();
                if let Some(field) = self.inside(schema, name) {
                    fields.insert(name.to_string(), self.least(field, &here));
                }
            }
            *at = Value::Object(fields);
        }
        self.put(&mut at[&key], inside, path, done + 1, value);
    }

    /// A leaf with a value, upon a step.
    fn upon(&self, step: &Value, leaf: &Leaf, value: &Value) -> Value {
        let (mut step, text) = (step.clone(), leaf.text());
        for (_, beside, content) in BESIDE.iter().filter(|(below, ..)| text.starts_with(below)) {
            let path: Vec<String> = beside.split('.').map(str::to_string).collect();
            self.put(&mut step, &self.0, &path, 0, &serde_json::from_str(content).expect("JSON"));
        }
        match LISTS.iter().find(|(list, _)| leaf.name() == format!("{list}.[]")) {
            Some((_, list)) => {
                let list = serde_json::from_str(list).expect("JSON");
                self.put(&mut step, &self.0, &leaf.path[..leaf.path.len() - 1], 0, &list);
            }
            None => self.put(&mut step, &self.0, &leaf.path, 0, value),
        }
        step
    }
}

/// Shipped steps with all that they take from elsewhere written out.
fn steps() -> Vec<Value> {
    let whole = |name: &str, sets: &[String]| {
        let inputs = Inputs::load(name, None, sets).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut step = serde_json::to_value(&inputs.workload.value).expect("JSON");
        step["model"] = serde_json::to_value(&*inputs.model).expect("JSON");
        step
    };
    let shipped = STEPS.iter().map(|name| whole(name, &[]));
    let models = MODELS.iter().map(|model| whole("gpt2-8", &[format!("model={model}")]));
    let narrow = [("h100", "fp8-block"), ("b200", "nvfp4")].map(|(device, recipe)| {
        whole("gpt2-8", &[format!("topology=8x{device}"), format!("precision.recipe={recipe}")])
    });
    shipped.chain(models).chain(narrow).collect()
}

fn accepted(step: &Value) -> Option<Inputs> {
    Inputs::from_json(&step.to_string(), None, &[], &Disk).ok()
}

#[test]
fn every_field_and_variant_of_a_workload_is_drawn() {
    let (schema, steps) = (Schema::of_workloads(), steps());
    for step in &steps {
        assert!(accepted(step).is_some(), "a shipped step, written out: {step}");
    }
    let leaves = schema.leaves();
    let drawn = |leaf: &Leaf| {
        let upon = |step: &Value| {
            leaf.values().iter().any(|value| accepted(&schema.upon(step, leaf, value)).is_some())
        };
        steps.iter().any(upon)
    };
    let missing: Vec<String> = leaves.iter().filter(|leaf| !drawn(leaf)).map(Leaf::text).collect();
    let fields: BTreeSet<String> = leaves.iter().map(Leaf::name).collect();
    println!("{} fields, {} variants, {} not drawn", fields.len(), leaves.len(), missing.len());
    let known: Vec<String> = NOT_DRAWN.map(str::to_string).to_vec();
    let new: Vec<&String> = missing.iter().filter(|name| !known.contains(name)).collect();
    let gone: Vec<&String> = known.iter().filter(|name| !missing.contains(name)).collect();
    assert!(new.is_empty(), "{} that cannot be drawn: {new:#?}", new.len());
    assert!(gone.is_empty(), "drawn by now, take them out of NOT_DRAWN: {gone:#?}");
}

/// One to three fields at once, upon any step: what the checks take runs to its end or out of memory, says nothing impossible, is
/// the same folded and whole, and is no shorter than its floor.
#[test]
fn laws_hold_wherever_the_walk_leads() {
    let (schema, steps) = (Schema::of_workloads(), steps());
    let leaves = schema.leaves();
    let mut draws = Draws(0x5eed_0055);
    let (mut played, mut refused, mut full, mut held) = (0, 0, 0, 0);
    while played < count() / 2 {
        let mut step = draws.of(&steps);
        for _ in 0..draws.of(&[1, 2, 3]) {
            let leaf = draws.of(&leaves);
            let value = draws.of(&leaf.values());
            step = schema.upon(&step, &leaf, &value);
        }
        let Some(inputs) = accepted(&step) else {
            refused += 1;
            continue;
        };
        let run = match Simulation::run(&inputs, &Options::default()) {
            Ok(run) => run,
            Err(SimulationError::Engine(EngineError::OutOfMemory { .. })) => {
                full += 1;
                continue;
            }
            Err(SimulationError::Engine(e)) => panic!("{e}\n{step}"),
            Err(_) => {
                refused += 1;
                continue;
            }
        };
        played += 1;
        let report = run.report(false);
        assert_eq!(report.impossible(), None, "{step}");
        assert!(report.hfu_causal >= report.mfu_causal * (1.0 - 1e-9), "{step}");
        let end = run.record.step_end;
        if inputs.machine.devices() <= 64 {
            let whole = Simulation::run(&inputs, &Options { fold: false, ..Options::default() });
            assert_eq!(whole.unwrap_or_else(|e| panic!("{e}\n{step}")).record.step_end, end, "{step}");
        }
        if let Ok(form) = closed_form(&inputs) {
            held += 1;
            assert!(form.floor * (1.0 - 1e-6) <= end.s(), "{} of {}\n{step}", form.floor, end.s());
        }
    }
    println!("{played} played, {held} held to their floor, {full} out of memory, {refused} refused");
}
