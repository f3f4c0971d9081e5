//! All rules that hold for a row, laid together.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::columns::DescribedColumns;
use super::field_columns::columns as columns_of_fields;
use super::origin::{ValueClass, ValueOrigin};
use super::shapes::Shapes;
use super::{measurements, shape, tables};
use stepsim_spec::names;
use stepsim_spec::rules::{FlopsCount, Layer, MachineRule, Pace, RuleSpec};
use stepsim_spec::words::normal;
use stepsim_spec::{Kind, LoadedSpec, ModelSpec, RulesSpec, SpecError, catalog, load, merge};

/// The shipped rules and the user's, the most general layer first.
#[derive(Clone, Debug)]
pub struct RuleBook {
    layers: Vec<RulesSpec>,
}

/// The rules' result for a row.
#[derive(Clone, Debug)]
pub struct Ruling {
    /// Its columns, filled.
    pub columns: DescribedColumns,
    /// Fields of the workload.
    pub workload: Value,
    /// The shipped model whose dimensions filled the columns.
    pub shape: Value,
    /// Fields of the model.
    pub model: Value,
    /// Lists of the workload that rules add to, by their paths.
    joined: BTreeMap<String, Vec<Value>>,
    /// The origins of fields: the workload's by their paths, the model's behind `model.`.
    pub origins: BTreeMap<String, ValueOrigin>,
    /// The machine.
    pub machine: MachineRule,
    /// How FLOPs are counted.
    pub flops: FlopsCount,
    /// The work that the time of a step spans.
    pub pace: Pace,
    /// Why the row cannot be mapped.
    pub skip: Option<String>,
}

impl RuleBook {
    /// The shipped rules, and the user's files beside them; a file with the name of a shipped one replaces it.
    ///
    /// # Errors
    /// A file of the user is wrong.
    pub fn load(files: &[String]) -> Result<RuleBook, SpecError> {
        let own: Vec<LoadedSpec<RulesSpec>> =
            files.iter().map(|path| load(path, &[])).collect::<Result<_, _>>()?;
        let kept = catalog::names(Kind::Rules).filter(|name| own.iter().all(|file| file.name != *name));
        let mut layers: Vec<RulesSpec> =
            kept.map(|name| Ok(load(name, &[])?.value)).collect::<Result<_, SpecError>>()?;
        layers.extend(own.into_iter().map(|file| file.value));
        layers.sort_by_key(|rules| rules.layer);
        for rule in layers.iter_mut().flat_map(|layer| &mut layer.rules) {
            rule.when.values_mut().for_each(|pattern| *pattern = normal_pattern(pattern));
        }
        Ok(RuleBook { layers })
    }

    /// The same without the rules of sources: every row is mapped as one of a source that nobody has written rules for.
    #[must_use]
    pub fn without_sources(mut self) -> RuleBook {
        self.layers.retain(|rules| rules.layer != Layer::Source);
        self
    }

    /// Columns that say nothing of how a step is run.
    pub fn silent(&self) -> BTreeSet<String> {
        self.layers.iter().flat_map(|rules| rules.silent.iter().cloned()).collect()
    }

    /// Columns that are lists of phrases.
    pub fn lists(&self) -> BTreeSet<String> {
        self.layers.iter().flat_map(|rules| rules.lists.iter().cloned()).collect()
    }

    /// Fills a row and lays together what follows.
    ///
    /// # Errors
    /// The row could not be read, or a shipped model that a rule names is missing.
    pub fn rule(&self, words: &Map<String, Value>, shapes: &Shapes, by_name: bool) -> Result<Ruling, String> {
        let mut columns = DescribedColumns::new(words);
        self.other_names(&mut columns);
        let mut told = tables::take(&mut columns, &self.known());
        measurements::batch(&mut columns);
        let mut model = None;
        if let Some(known) = shapes.get(&columns.text("model_ref")) {
            let mut known = known.clone();
            known.retain(|key, _| key != "source");
            columns.take(&known);
            self.other_names(&mut columns);
        }
        shape::parameters(&mut columns);
        shaped(&mut columns, &mut model, by_name, names::shipped_exactly)?;
        self.fill(&mut columns, &mut model, by_name, Layer::Models)?;
        shaped(&mut columns, &mut model, by_name, names::shipped)?;
        self.fill(&mut columns, &mut model, by_name, Layer::Defaults)?;
        if shape::by_parameters(&mut columns) {
            self.fill(&mut columns, &mut model, by_name, Layer::Defaults)?;
        }
        measurements::recomputed(&mut columns);
        let mut ruling = Ruling {
            columns,
            workload: Value::Object(Map::new()),
            shape: model.unwrap_or_else(|| Value::Object(Map::new())),
            model: Value::Object(Map::new()),
            joined: BTreeMap::new(),
            origins: BTreeMap::new(),
            machine: MachineRule::default(),
            flops: FlopsCount::Model,
            pace: Pace::Step,
            skip: None,
        };
        for (layer, rule) in self.rules() {
            if holds(rule, &ruling.columns) {
                ruling.lay(layer, rule);
            }
        }
        ruling.lay_told(&mut told);
        Ok(ruling)
    }

    /// Names of columns that the vocabulary has something to say of.
    fn known(&self) -> BTreeSet<&str> {
        let names = self
            .layers
            .iter()
            .flat_map(|l| &l.aliases)
            .flat_map(|(name, others)| others.iter().chain([name]));
        let asked = self.rules().flat_map(|(_, rule)| rule.when.keys());
        let asked = asked.flat_map(|names| names.split('|'));
        let told = self.layers.iter().flat_map(|l| l.silent.iter().chain(&l.lists));
        let own =
            ["extra", "source", "kind", "q_lora_rank", "kv_lora_rank", "v_head_dim", "moe_every_layers"];
        let words = names.chain(told).map(String::as_str);
        words.chain(asked).chain(own).chain(columns_of_fields().map(|(_, c)| c)).collect()
    }

    /// All rules, the most general layer first.
    fn rules(&self) -> impl DoubleEndedIterator<Item = (Layer, &RuleSpec)> {
        self.layers.iter().flat_map(|rules| rules.rules.iter().map(|rule| (rules.layer, rule)))
    }

    fn other_names(&self, columns: &mut DescribedColumns) {
        for (column, names) in self.layers.iter().flat_map(|layer| &layer.aliases) {
            if let Some(name) = names.iter().find(|name| !columns.has(column) && columns.has(name)) {
                columns.rename(name, column);
            }
        }
    }

    /// Fills nulls until nothing more can be filled, the most particular layer first, `least` the last.
    fn fill(
        &self,
        columns: &mut DescribedColumns,
        shape: &mut Option<Value>,
        by_name: bool,
        least: Layer,
    ) -> Result<(), String> {
        let layers = || self.layers.iter().rev().filter(|l| l.layer >= least);
        loop {
            let mut changed = false;
            for (layer, rule) in layers().flat_map(|l| l.rules.iter().map(|r| (l.layer, r))) {
                if rule.fill.is_empty() && rule.shape.is_none() || !holds(rule, columns) {
                    continue;
                }
                // A name whose shape was dropped says nothing of dimensions.
                if !by_name && layer == Layer::Models && rule.when.values().any(|p| p.contains('@')) {
                    continue;
                }
                for (column, given) in &rule.fill {
                    let value = columns.value(given).unwrap_or_default();
                    if !value.is_null() && !columns.has(column) {
                        let origin = ValueOrigin::of_rule(layer, stated(rule, columns, given), &rule.why);
                        changed |= columns.fill(column, value, origin);
                    }
                }
                if let (Some(name), None) = (&rule.shape, &shape) {
                    *shape = Some(fill_shape(columns, name)?);
                    changed = true;
                }
            }
            if !changed {
                return Ok(());
            }
        }
    }
}

fn holds(rule: &RuleSpec, columns: &DescribedColumns) -> bool {
    let fits =
        |(names, pattern): (&String, &String)| names.split('|').any(|name| columns.fits(name, pattern));
    let holds = rule.when.iter().all(fits);
    if holds {
        // A pattern that is turned around, or that asks for nothing, has made nothing of the text.
        told(rule).for_each(|(column, pattern)| columns.heed_pattern(column, pattern));
    }
    holds
}

/// The columns of a rule whose patterns know a word.
fn told(rule: &RuleSpec) -> impl Iterator<Item = (&str, &String)> {
    let told = rule.when.iter().filter(|(_, pattern)| !pattern.is_empty() && !pattern.starts_with('!'));
    told.flat_map(|(names, pattern)| names.split('|').map(move |name| (name, pattern)))
}

/// The words that a rule rests on, if the description states all of them.
fn stated(rule: &RuleSpec, columns: &DescribedColumns, given: &Value) -> Option<String> {
    let product = given.as_str().and_then(|t| t.strip_prefix('=')).unwrap_or_default();
    let factors = product.split(['*', '/', '+']).map(str::trim).filter(|f| columns.has(f));
    let knows = told(rule).filter(|(column, pattern)| columns.fits(column, pattern));
    let names: BTreeSet<&str> = knows.map(|(column, _)| column).chain(factors).collect();
    let origins: Vec<ValueOrigin> = names.iter().filter_map(|name| columns.origin(name)).collect();
    let all = !origins.is_empty() && origins.iter().all(|o| o.from == ValueClass::Stated);
    all.then(|| origins.into_iter().map(|o| o.why).collect::<Vec<_>>().join(", "))
}

/// A pattern with its letters normalised; signs in front keep their meaning.
fn normal_pattern(pattern: &str) -> String {
    if pattern.trim_start_matches('!').starts_with(['<', '>']) {
        return pattern.to_string();
    }
    if let Some((body, but)) = pattern.split_once(" but ") {
        return format!("{} but {}", normal_pattern(body), normal_pattern(but));
    }
    let (not, body) = match pattern.strip_prefix('!') {
        Some(body) => ("!", body),
        None => ("", pattern),
    };
    let one = |alternative: &str| {
        let (sign, words) = match alternative.trim().split_at_checked(1) {
            Some((sign @ ("~" | "@"), words)) => (sign, words),
            _ => ("", alternative),
        };
        // Spaces beside a star are part of the pattern.
        let parts: Vec<String> = words.split('*').map(spaced).collect();
        format!("{sign}{}", parts.join("*").trim())
    };
    format!("{not}{}", body.split('|').map(one).collect::<Vec<_>>().join("|"))
}

/// A piece of a pattern, normalised, with the space that it had at its ends.
fn spaced(piece: &str) -> String {
    let space = |c: Option<char>| match c {
        Some(c) if c.is_whitespace() || matches!(c, '-' | '_') => " ",
        _ => "",
    };
    let middle = normal(piece);
    if middle.is_empty() {
        return space(piece.chars().next()).to_string();
    }
    format!("{}{middle}{}", space(piece.chars().next()), space(piece.chars().next_back()))
}

/// Takes the shape of the shipped model that the description names, where it states none.
fn shaped(
    columns: &mut DescribedColumns,
    shape: &mut Option<Value>,
    by_name: bool,
    named: fn(&str) -> Option<&'static str>,
) -> Result<(), String> {
    if by_name
        && shape.is_none()
        && !columns.has("layers")
        && let Some(name) = named(&columns.text("model")).or_else(|| named(&columns.text("model_ref")))
    {
        *shape = Some(fill_shape(columns, name)?);
    }
    Ok(())
}

/// Fills the dimensions of a shipped model, and returns it as JSON.
fn fill_shape(columns: &mut DescribedColumns, name: &str) -> Result<Value, String> {
    let model: ModelSpec = load(name, &[]).map_err(|e| e.to_string())?.value;
    let origin = ValueOrigin { from: ValueClass::Model, why: format!("the model {name}") };
    let made = stepsim_located::to_value(&model).map_err(|e| e.to_string())?;
    let of_model = |(field, column): (&'static str, _)| Some((field.strip_prefix("model.")?, column));
    let more = [("moe.shared_experts", "shared_experts"), ("moe.first_dense_layers", "dense_layers")];
    let kept = |(field, _): &(&str, &str)| !["name", "prediction_modules"].contains(field);
    for (field, column) in columns_of_fields().filter_map(of_model).chain(more).filter(kept) {
        let value = made.pointer(&format!("/{}", field.replace('.', "/")));
        if let Some(value) = value.filter(|value| !value.is_null() && value.as_u64() != Some(0)) {
            columns.fill(column, value.clone(), origin.clone());
        }
    }
    Ok(made)
}

impl Ruling {
    /// Puts before entries with a plus sign what rules before have added to the list.
    fn join_lists(&mut self, path: &str, value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.iter_mut().for_each(|(key, inner)| self.join_lists(&format!("{path}/{key}"), inner));
            }
            Value::Array(list) => {
                let added: Vec<Value> =
                    list.iter().filter_map(|v| v.as_str()?.strip_prefix('+')).map(Value::from).collect();
                if added.is_empty() {
                    return;
                }
                let joined = self.joined.entry(path.to_string()).or_default();
                joined.extend(added.into_iter().filter(|v| !joined.contains(v)).collect::<Vec<_>>());
                list.clone_from(joined);
            }
            _ => {}
        }
    }

    /// Lays over all what arguments say under the names that software gives them.
    fn lay_told(&mut self, told: &mut Vec<(String, String, Value)>) {
        for (words, path, value) in told.drain(..) {
            let (fields, at) = match path.strip_prefix("model.") {
                Some(path) => (&mut self.model, path),
                None => (&mut self.workload, path.as_str()),
            };
            if stepsim_spec::set_at(fields, at, value).is_ok() {
                self.origins.insert(path, ValueOrigin::stated(words));
            }
        }
    }

    /// Lays a rule over those before.
    fn lay(&mut self, layer: Layer, rule: &RuleSpec) {
        let origin = ValueOrigin::of_rule(layer, stated(rule, &self.columns, &Value::Null), &rule.why);
        let mut workload = self.columns.resolve(&Value::Object(rule.workload.clone()));
        self.join_lists("", &mut workload);
        let model = self.columns.resolve(&Value::Object(rule.model.clone()));
        leaves("", &workload, &mut |path, _| drop(self.origins.insert(path.to_string(), origin.clone())));
        leaves("model", &model, &mut |path, _| drop(self.origins.insert(path.to_string(), origin.clone())));
        merge(&mut self.workload, workload);
        merge(&mut self.model, model);
        if let Some(machine) = &rule.machine {
            let mine = &mut self.machine;
            mine.topology = machine.topology.clone().or(mine.topology.take());
            mine.device = machine.device.clone().or(mine.device.take());
            mine.class = machine.class.clone().or(mine.class.take());
            mine.domain = machine.domain.or(mine.domain);
            mine.set.extend(machine.set.iter().cloned());
        }
        self.flops = rule.flops.unwrap_or(self.flops);
        self.pace = rule.pace.unwrap_or(self.pace);
        self.skip = rule.skip.clone().or(self.skip.take());
    }
}

/// Calls with the path and value of everything inside a value that is no object.
pub fn leaves(path: &str, value: &Value, call: &mut dyn FnMut(&str, &Value)) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                leaves(&below, inner, call);
            }
        }
        other => call(path, other),
    }
}
