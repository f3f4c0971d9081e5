//! What is drawn: ranges of fields, what must stand beside some, and the steps upon which fields are drawn
//! (`tests/data/ranges.json`). A range stands with the last names of a place, the longest counts.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use stepsim::simulate::Inputs;
use stepsim::spec::{Disk, Kind, SpecError};

use super::Draws;
use super::schema::{Leaf, Schema, steps_of};

#[derive(Deserialize)]
pub struct Ranges {
    /// Values by the last names of a place.
    ranges: BTreeMap<String, Vec<Value>>,
    /// Places where the checks take nothing.
    pub refused: Vec<String>,
    /// Lists that stand as a whole.
    lists: BTreeMap<String, Value>,
    /// What is written first where a leaf's text begins so.
    beside: Vec<Beside>,
    /// Machines that are not shipped, by name.
    machines: BTreeMap<String, Value>,
    /// Shipped steps with settings, those that are played in no time first.
    steps: Vec<Vec<String>>,
    /// Steps that broke a law once, found by the walk, with the fewest settings.
    broken_once: Vec<Vec<String>>,
    /// Fields whose values no quantity depends on, by their last names.
    pub words: Vec<String>,
    /// Places below which a field is the one below another.
    alike: Vec<[String; 2]>,
    /// Ends of places below which all is one field.
    one: Vec<String>,
    /// Places of the fields that read or move a quantity; with a dot at its end the field alone.
    pub quantities: BTreeMap<String, Vec<String>>,
    /// Kinds with one of which fields act.
    pub needs: Vec<Needs>,
}

#[derive(Deserialize)]
pub struct Needs {
    pub of: Vec<String>,
    pub one: Vec<BTreeMap<String, Value>>,
}

/// Whether a place is another or below it.
pub fn below(name: &str, of: &str) -> bool {
    match of.strip_suffix('.') {
        Some(of) => name == of,
        None => name.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ' '])),
    }
}

impl Ranges {
    /// The field in pairs that a place is.
    pub fn field(&self, place: &str) -> String {
        let other = |[from, to]: &[String; 2]| below(place, from).then(|| place.replacen(from, to, 1));
        let name = self.alike.iter().find_map(other).unwrap_or(place.to_string());
        let ends = self.one.iter().filter_map(|end| {
            let end_of = |(at, _): (usize, &str)| at + end.len();
            name.match_indices(end.as_str()).map(end_of).find(|at| below(&name, &name[..*at]))
        });
        name[..ends.min().unwrap_or(name.len())].to_string()
    }
}

#[derive(Deserialize)]
struct Beside {
    of: String,
    put: BTreeMap<String, Value>,
}

/// A step and its machine, all that they take from elsewhere written out.
#[derive(Clone, Debug)]
pub struct Document {
    pub workload: Value,
    pub machine: Value,
    /// What it is: the command that runs it.
    pub command: String,
}

impl Document {
    fn of(words: &[String], machines: &BTreeMap<String, Value>) -> Document {
        let command = words.join(" --set ") + " --set parallelism.data=null";
        let sets: Vec<String> = words[1..].iter().cloned().chain(["parallelism.data=null".into()]).collect();
        let own = words.iter().find_map(|word| machines.get(word.strip_prefix("topology=")?));
        let (base, own) = (json!({"base": words[0]}).to_string(), own.map(Value::to_string));
        let inputs = Inputs::from_json(&base, own.as_deref(), &sets, &Disk);
        let inputs = inputs.unwrap_or_else(|e| panic!("{command}: {e}"));
        Document { workload: Value::Null, machine: Value::Null, command }.written_out(&inputs)
    }
    /// With all that it leaves to others, as its inputs have it.
    pub fn written_out(&self, inputs: &Inputs) -> Document {
        let mut workload = serde_json::to_value(&inputs.workload.value).expect("JSON");
        workload["model"] = serde_json::to_value(&*inputs.model).expect("JSON");
        // What a stack says for others is said.
        if let Some(stack) = workload["stack"].as_object_mut() {
            stack.shift_remove("defaults");
        }
        let machine = serde_json::to_value(&inputs.topology.value).expect("JSON");
        Document { workload, machine, command: self.command.clone() }
    }
    /// Writes both files into a folder.
    pub fn keep(&self, folder: &Path, number: u64) {
        for (name, value) in [("", &self.workload), ("-machine", &self.machine)] {
            let path = folder.join(format!("pair-{number}{name}.json"));
            std::fs::write(&path, value.to_string()).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
    }
    /// What [`Document::keep`] wrote.
    pub fn kept(path: &Path) -> Document {
        let machine = path.to_string_lossy().replace(".json", "-machine.json");
        let read = |path: &str| {
            let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
        };
        let command = path.to_string_lossy().into_owned();
        Document { workload: read(&command), machine: read(&machine), command }
    }
    /// # Errors
    /// The checks refuse it.
    pub fn inputs(&self) -> Result<Inputs, SpecError> {
        Inputs::from_json(&self.workload.to_string(), Some(&self.machine.to_string()), &[], &Disk)
    }
    /// Values that stand on the way to a leaf.
    fn way<'a>(&'a self, leaf: &'a Leaf) -> impl Iterator<Item = &'a Value> {
        let root = if leaf.place[0] == "topology" { &self.machine } else { &self.workload };
        leaf.place[1..].iter().scan(root, |at, step| {
            *at = match step.as_str() {
                "[]" => at.get(0)?,
                "*" => at.as_object()?.values().next()?,
                name => at.get(name)?,
            };
            Some(*at)
        })
    }
    /// What stands at a leaf's place.
    pub fn standing<'a>(&'a self, leaf: &'a Leaf) -> Option<&'a Value> {
        self.way(leaf).nth(leaf.place.len() - 2)
    }
    /// Steps of the way to a leaf that do not stand.
    pub fn missing(&self, leaf: &Leaf) -> usize {
        leaf.place.len() - self.way(leaf).count()
    }
    /// The same of the nearest leaf of each.
    pub fn missing_of(&self, leaves: &[&[&Leaf]]) -> usize {
        leaves.iter().filter_map(|of| of.iter().map(|leaf| self.missing(leaf)).min()).sum()
    }
    fn part(&mut self, root: &str) -> &mut Value {
        if root == "topology" { &mut self.machine } else { &mut self.workload }
    }
}

pub struct Walk {
    schemas: BTreeMap<&'static str, Schema>,
    pub ranges: Ranges,
    pub documents: Vec<Document>,
    pub leaves: Vec<Leaf>,
}

impl Walk {
    pub fn new() -> Walk {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/ranges.json");
        let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{file}: {e}"));
        let ranges: Ranges = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{file}: {e}"));
        let schemas: BTreeMap<&str, Schema> = [("workload", Kind::Workload), ("topology", Kind::Topology)]
            .map(|(root, kind)| (root, Schema::of(kind)))
            .into();
        let below = |(root, schema): (&&str, &Schema)| {
            let under = |leaf: Leaf| Leaf { place: [vec![root.to_string()], leaf.place].concat(), ..leaf };
            schema.leaves().into_iter().map(under).collect::<Vec<_>>()
        };
        let leaves = schemas.iter().flat_map(below).collect();
        let documents = ranges.steps.iter().map(|words| Document::of(words, &ranges.machines)).collect();
        Walk { schemas, ranges, documents, leaves }
    }

    /// Steps that broke a law once.
    pub fn broken_once(&self) -> impl Iterator<Item = Document> {
        self.ranges.broken_once.iter().map(|words| Document::of(words, &self.ranges.machines))
    }

    /// The values of the longest entry that a place ends with.
    fn range(&self, name: &str) -> Option<&Vec<Value>> {
        let begins = name.match_indices('.').map(|(at, _)| at + 1);
        std::iter::once(0).chain(begins).find_map(|begin| self.ranges.ranges.get(&name[begin..]))
    }

    /// What may be drawn for a leaf where `standing` stands; empty where the place has no range.
    pub fn values(&self, leaf: &Leaf, standing: Option<&Value>) -> Vec<Value> {
        let number = standing.and_then(Value::as_f64).filter(|n| *n > 0.0);
        let within = |n: &f64| {
            leaf.limits[0].is_none_or(|least| *n >= least) && leaf.limits[1].is_none_or(|most| *n <= most)
        };
        match (&leaf.variant, self.range(&leaf.name()), leaf.kind.as_str()) {
            (Some(variant), ..) => vec![variant.clone()],
            (_, Some(values), _) => values.clone(),
            (.., "boolean") => vec![true.into(), false.into()],
            (.., "integer") => {
                let near = number.into_iter().flat_map(|n| [2.0 * n, (n / 2.0).floor()]);
                let all = near.chain([1.0, 2.0, 4.0, 8.0, 64.0, 3.0]).filter(within);
                all.map(|n| Value::from(n as u64)).collect()
            }
            (.., "number") => {
                let near = number.into_iter().flat_map(|n| [2.0 * n, n / 2.0]);
                near.chain([1.0, 0.5, 2.0, 0.1]).filter(within).map(Value::from).collect()
            }
            _ => Vec::new(),
        }
    }

    fn put(&self, document: &mut Document, place: &[String], value: &Value) {
        let least = |leaf: &Leaf| {
            let under = Leaf { place: [&place[..1], &leaf.place].concat(), ..leaf.clone() };
            self.values(&under, None).into_iter().next().unwrap_or(json!("x"))
        };
        let schema = &self.schemas[place[0].as_str()];
        schema.write(document.part(&place[0]), &place[1..], value, &least);
    }

    /// A leaf with one of its values, upon a document.
    pub fn upon(&self, document: &Document, leaf: &Leaf, value: &Value) -> Document {
        let (mut changed, text) = (document.clone(), leaf.text());
        for (place, value) in self.ranges.beside.iter().filter(|b| below(&text, &b.of)).flat_map(|b| &b.put) {
            self.put(&mut changed, &steps_of(place), value);
        }
        match self.ranges.lists.iter().find(|(list, _)| below(&text, list)) {
            Some((list, content)) => self.put(&mut changed, &steps_of(list), content),
            None => self.put(&mut changed, &leaf.place, value),
        }
        changed.command += &format!(" --set {}={value}", leaf.name().trim_start_matches("workload."));
        changed
    }

    /// A step with up to three fields changed, the first given: those that the checks take of what is drawn, and what
    /// they say of the rest.
    pub fn draw(&self, draws: &mut Draws, first: &Leaf) -> (Document, Vec<SpecError>) {
        let near = self.nearest(&[&[first]]);
        let mut document = draws.of(&near[..near.len().div_ceil(2)]).clone();
        let (mut refused, mut leaf) = (Vec::new(), first.clone());
        for _ in 0..draws.of(&[1, 2, 3]) {
            let values = self.values(&leaf, document.standing(&leaf));
            let changed = self.upon(&document, &leaf, &draws.of(&values));
            match changed.inputs() {
                Ok(_) => document = changed,
                Err(e) => refused.push(e),
            }
            leaf = draws.of(&self.leaves);
        }
        (document, refused)
    }

    /// Documents in which more of the way to a leaf of each stands come first.
    pub fn nearest(&self, leaves: &[&[&Leaf]]) -> Vec<&Document> {
        let mut documents: Vec<&Document> = self.documents.iter().collect();
        documents.sort_by_cached_key(|document| document.missing_of(leaves));
        documents
    }
}
