//! Fields in pairs: each is drawn beside each other that reads or moves the same quantity (`quantities` of
//! `tests/data/ranges.json`), several at once upon one step, so that few steps show many pairs. A step that breaks a law
//! is told by the fewest of its fields that break one.

use std::collections::BTreeMap;

use serde_json::Value;

use super::law::{self, Outcome};
use super::ranges::{Document, Walk};
use super::schema::Leaf;
use crate::laws::steps::Draws;

/// Fields that are changed of one step.
const FIELDS: usize = 14;
/// Fields that are tried for them.
const TRIES: usize = 3 * FIELDS;
/// Fields among which the one with most new pairs is tried next.
const AMONG: usize = 6;

/// The variants and types of one field.
struct Field<'a>(Vec<&'a Leaf>);

/// A field's value upon a step.
#[derive(Clone)]
pub struct Change<'a> {
    field: usize,
    leaf: &'a Leaf,
    value: Value,
}

/// Fields by quantity, and how often two have stood beside each other.
pub struct Pairs<'a> {
    walk: &'a Walk,
    fields: Vec<Field<'a>>,
    quantities: Vec<Vec<usize>>,
    beside: BTreeMap<[usize; 2], u32>,
}

impl<'a> Pairs<'a> {
    /// # Panics
    /// A field has no quantity.
    pub fn new(walk: &'a Walk) -> Pairs<'a> {
        let mut by_name: BTreeMap<String, Vec<&Leaf>> = BTreeMap::new();
        walk.leaves.iter().for_each(|leaf| by_name.entry(leaf.name()).or_default().push(leaf));
        let names: Vec<&String> = by_name.keys().collect();
        let below = |name: &str, of: &String| {
            name.strip_prefix(of.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let is_of = |name: &str, places: &[String]| places.iter().any(|place| below(name, place));
        let words = |name: &str| walk.ranges.words.iter().any(|word| name.rsplit('.').any(|n| n == word));
        let of = |places: &Vec<String>| {
            let within = |i: &usize| is_of(names[*i], places) && !words(names[*i]);
            (0..names.len()).filter(within).collect::<Vec<usize>>()
        };
        let quantities: Vec<Vec<usize>> = walk.ranges.quantities.values().map(of).collect();
        let has_none = |i: &usize| !words(names[*i]) && !quantities.iter().any(|of| of.contains(i));
        let missing: Vec<&String> = (0..names.len()).filter(has_none).map(|i| names[i]).collect();
        assert!(missing.is_empty(), "ranges.json, quantities: what do these read or move? {missing:?}");
        let fields = by_name.into_values().map(Field).collect();
        Pairs { walk, fields, quantities, beside: BTreeMap::new() }
    }

    /// Pairs there are, and those that stood beside each other.
    pub fn count(&self) -> [usize; 2] {
        let mut all = std::collections::BTreeSet::new();
        for of in &self.quantities {
            for (i, a) in of.iter().enumerate() {
                all.extend(of[i + 1..].iter().map(|b| [*a, *b]));
            }
        }
        [all.len(), self.beside.len()]
    }

    /// Fields that have stood beside none.
    pub fn alone(&self) -> Vec<String> {
        let paired: std::collections::BTreeSet<usize> = self.beside.keys().flatten().copied().collect();
        let in_some = self.quantities.iter().flatten().collect::<std::collections::BTreeSet<_>>();
        in_some.into_iter().filter(|i| !paired.contains(i)).map(|i| self.fields[*i].0[0].name()).collect()
    }

    fn new_beside(&self, field: usize, standing: &[Change<'a>]) -> usize {
        standing.iter().filter(|s| !self.beside.contains_key(&pair(s.field, field))).count()
    }

    /// A step upon which fields of one quantity are changed; `number` says which quantity, and which field is first.
    pub fn draw(&self, draws: &mut Draws, number: usize) -> (Document, Vec<Change<'a>>) {
        let of = &self.quantities[number % self.quantities.len()];
        let mut next = of[(number / self.quantities.len() * 733) % of.len()];
        let first = self.fields[next].0[0];
        let near = self.walk.nearest(first);
        let origin = draws.of(&near[..near.len().div_ceil(2)]).clone();
        let (mut document, mut standing) = (origin.clone(), Vec::<Change>::new());
        for _ in 0..TRIES {
            let leaf = draws.of(&self.fields[next].0);
            let values = self.walk.values(leaf, document.standing(leaf));
            let change = Change { field: next, leaf, value: draws.of(&values) };
            let changed = self.walk.upon(&document, leaf, &change.value);
            // A field may be written over by another: they do not stand beside each other.
            let stays = |s: &Change| changed.standing(s.leaf) == document.standing(s.leaf);
            if standing.iter().all(stays) && changed.inputs().is_ok() {
                document = changed;
                standing.push(change);
                if standing.len() == FIELDS {
                    break;
                }
            }
            let free = |field: &usize| standing.iter().all(|s| s.field != *field);
            let among: Vec<usize> = (0..AMONG).map(|_| draws.of(of)).filter(free).collect();
            next = among.into_iter().max_by_key(|f| self.new_beside(*f, &standing)).unwrap_or(next);
        }
        (origin, standing)
    }

    /// The step with these fields.
    pub fn upon(&self, origin: &Document, changes: &[Change<'a>]) -> Document {
        changes.iter().fold(origin.clone(), |document, c| self.walk.upon(&document, c.leaf, &c.value))
    }

    /// What stood beside each other was played.
    pub fn played(&mut self, changes: &[Change<'a>]) {
        for (i, a) in changes.iter().enumerate() {
            for b in &changes[i + 1..] {
                *self.beside.entry(pair(a.field, b.field)).or_default() += 1;
            }
        }
    }

    /// The fewest of these fields with which some law is broken, and which.
    pub fn fewest(&self, origin: &Document, changes: &[Change<'a>], broken: String) -> (Document, String) {
        let (mut changes, mut broken) = (changes.to_vec(), broken);
        let mut at = 0;
        while at < changes.len() {
            let mut fewer = changes.clone();
            fewer.remove(at);
            match self.held(origin, &fewer) {
                Err(law) => (changes, broken) = (fewer, law),
                Ok(_) => at += 1,
            }
        }
        (self.upon(origin, &changes), broken)
    }

    /// # Errors
    /// The law that the step with these fields breaks.
    pub fn held(&self, origin: &Document, changes: &[Change<'a>]) -> Result<Outcome, String> {
        let document = self.upon(origin, changes);
        match document.inputs() {
            Ok(_) => law::held(&document, Some(0)),
            Err(_) => Ok(Outcome::Refused),
        }
    }
}

fn pair(a: usize, b: usize) -> [usize; 2] {
    [a.min(b), a.max(b)]
}
