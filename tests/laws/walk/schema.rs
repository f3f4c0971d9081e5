//! What a JSON Schema says may be written: every place with every variant and type, and how to write a value there.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use stepsim::spec;
use stepsim::spec::Kind;

/// Names a place by its steps: a field, `*` for any key of a map, `[]` for an element of a list.
pub type Place = Vec<String>;

/// A place, with one variant or one type of what may stand there.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    pub place: Place,
    pub variant: Option<Value>,
    /// `integer`, `number`, `boolean` or `string`; empty for a variant.
    pub kind: String,
    pub limits: [Option<f64>; 2],
}

impl Leaf {
    /// A value at a place.
    pub fn at(place: &str, value: Value) -> Leaf {
        Leaf { place: steps_of(place), variant: Some(value), kind: String::new(), limits: [None; 2] }
    }
    pub fn name(&self) -> String {
        self.place.join(".")
    }
    /// Its place, and the variant where it is one.
    pub fn text(&self) -> String {
        self.variant.as_ref().map_or(self.name(), |variant| format!("{} {variant}", self.name()))
    }
}

pub struct Schema(Value);

/// A list's elements are one step further in.
pub fn steps_of(place: &str) -> Place {
    place.split('.').map(str::to_string).collect()
}

impl Schema {
    pub fn of(kind: Kind) -> Schema {
        Schema(spec::schema(kind))
    }

    /// A schema and all that a value may be instead, with references followed.
    fn alternatives<'a>(&'a self, schema: &'a Value) -> Vec<&'a Value> {
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
        self.alternatives(schema).into_iter().find_map(|s| match step {
            "*" => s.get("additionalProperties").filter(is_schema),
            "[]" => s.get("items").filter(is_schema).or_else(|| s["prefixItems"].get(0)),
            name => s["properties"].get(name),
        })
    }

    /// What may stand at a place itself.
    fn here(&self, schema: &Value, place: &[String]) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        let mut add = |variant: Option<&Value>, kind: &str, limits| {
            let leaf =
                Leaf { place: place.to_vec(), variant: variant.cloned(), kind: kind.to_string(), limits };
            if variant.is_none_or(|v| !v.is_null()) && !leaves.contains(&leaf) {
                leaves.push(leaf);
            }
        };
        for s in self.alternatives(schema) {
            let variants = s["enum"].as_array().into_iter().flatten().chain(s.get("const"));
            let before = variants.clone().count();
            variants.for_each(|variant| add(Some(variant), "", [None; 2]));
            let types = s["type"].as_array().cloned().unwrap_or_else(|| vec![s["type"].clone()]);
            for kind in types.iter().filter_map(Value::as_str).filter(|_| before == 0) {
                if ["integer", "number", "boolean", "string"].contains(&kind) {
                    add(None, kind, [s["minimum"].as_f64(), s["maximum"].as_f64()]);
                }
            }
        }
        leaves
    }

    /// Everything that may stand below a place; a kind that contains itself is followed once.
    fn walk(&self, schema: &Value, place: &mut Place, leaves: &mut Vec<Leaf>) {
        leaves.extend(self.here(schema, place));
        let mut steps: BTreeSet<&str> = BTreeSet::new();
        for s in self.alternatives(schema) {
            steps.extend(s["properties"].as_object().into_iter().flat_map(|p| p.keys().map(String::as_str)));
            steps.extend(s["additionalProperties"].is_object().then_some("*"));
            steps.extend((s["items"].is_object() || s["prefixItems"].is_array()).then_some("[]"));
        }
        for step in steps {
            let again = place.iter().filter(|name| *name == step).count() > 1;
            if let Some(inside) = self.inside(schema, step).filter(|_| !again) {
                place.push(step.to_string());
                self.walk(inside, place, leaves);
                place.pop();
            }
        }
    }

    pub fn leaves(&self) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        self.walk(&self.0, &mut Vec::new(), &mut leaves);
        leaves
    }

    /// Writes a value at a place; where an object is begun, `least` gives the fields that it must have.
    pub fn write(&self, whole: &mut Value, place: &[String], value: &Value, least: &dyn Fn(&Leaf) -> Value) {
        let begun = Writing { schema: self, place, value, least };
        begun.at(whole, &self.0, 0);
    }
}

struct Writing<'a> {
    schema: &'a Schema,
    place: &'a [String],
    value: &'a Value,
    least: &'a dyn Fn(&Leaf) -> Value,
}

impl Writing<'_> {
    fn at(&self, here: &mut Value, schema: &Value, done: usize) {
        let Some(step) = self.place.get(done) else {
            *here = self.value.clone();
            return;
        };
        let Some(inside) = self.schema.inside(schema, step) else { return };
        let key = match step.as_str() {
            "[]" => {
                if here.as_array().is_none_or(Vec::is_empty) {
                    *here = Value::Array(vec![Value::Null]);
                }
                return self.at(&mut here[0], inside, done + 1);
            }
            "*" => match here.as_object().and_then(|map| map.keys().next().cloned()) {
                Some(key) => key,
                None => self.key(done),
            },
            name => name.to_string(),
        };
        if !here.is_object() {
            *here = self.begun(schema, &self.place[..done], &key);
        }
        self.at(&mut here[&key], inside, done + 1);
    }

    /// The first key of a map: a name of its own, in the ranges under `KEY`.
    fn key(&self, done: usize) -> String {
        let place = [&self.place[..done], &["KEY".to_string()]].concat();
        let leaf = Leaf { place, variant: None, kind: "string".into(), limits: [None; 2] };
        (self.least)(&leaf).as_str().unwrap_or_default().to_string()
    }

    /// An object with the fields that must stand beside `key`.
    fn begun(&self, schema: &Value, place: &[String], key: &str) -> Value {
        let all = self.schema.alternatives(schema);
        let of = all.into_iter().find(|s| s["properties"].get(key).is_some());
        let required = of.into_iter().flat_map(|s| s["required"].as_array().into_iter().flatten());
        let field = |name: &str| {
            let inside = self.schema.inside(schema, name)?;
            Some((name.to_string(), self.smallest(inside, &[place, &[name.to_string()]].concat())))
        };
        let fields = required.filter_map(Value::as_str).filter(|name| *name != key).filter_map(field);
        Value::Object(fields.collect::<Map<_, _>>())
    }

    /// The least that may stand at a place.
    fn smallest(&self, schema: &Value, place: &[String]) -> Value {
        let all = self.schema.alternatives(schema);
        let object = all.iter().find(|s| s["properties"].is_object() && s["required"].is_array());
        match (self.schema.here(schema, place).first(), object, self.schema.inside(schema, "[]")) {
            (Some(leaf), None, _) => leaf.variant.clone().unwrap_or_else(|| (self.least)(leaf)),
            (_, Some(_), _) => self.begun(schema, place, ""),
            (_, _, Some(item)) => {
                let least = all.iter().find_map(|s| s["minItems"].as_u64()).unwrap_or(1);
                let item = self.smallest(item, &[place, &["[]".to_string()]].concat());
                Value::Array(vec![item; least as usize])
            }
            _ => Value::Object(Map::new()),
        }
    }
}
