//! Fields in pairs: each is drawn beside each other that reads or moves the same quantity (`quantities` of
//! `tests/data/ranges.json`), several at once upon one step, so that few steps show many pairs. A field that acts with
//! some kind alone is drawn with that kind (`needs`). A step that breaks a law is told by the fewest of its fields that
//! break one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::law::{self, Outcome};
use super::ranges::{Document, Walk, below};
use super::schema::Leaf;
use crate::laws::steps::Draws;

/// Fields that are changed of one step.
const FIELDS: usize = 20;
/// Fields that are tried for them.
const TRIES: usize = 2 * FIELDS;
/// Fields among which the one with most new pairs is tried next.
const AMONG: usize = 6;

/// A field's value upon a step.
#[derive(Clone)]
pub struct Change {
    field: String,
    leaf: Leaf,
    value: Value,
}

/// Fields by quantity, and in which values two have stood beside each other.
pub struct Pairs<'a> {
    walk: &'a Walk,
    /// By name: the leaves at all places where it may stand.
    fields: BTreeMap<String, Vec<&'a Leaf>>,
    quantities: Vec<Vec<String>>,
    beside: BTreeMap<[String; 2], BTreeSet<[String; 2]>>,
}

impl<'a> Pairs<'a> {
    /// # Panics
    /// A field has no quantity.
    pub fn new(walk: &'a Walk) -> Pairs<'a> {
        let mut fields: BTreeMap<String, Vec<&Leaf>> = BTreeMap::new();
        let words = |leaf: &&Leaf| !leaf.place.iter().any(|step| walk.ranges.words.contains(step));
        for leaf in walk.leaves.iter().filter(words) {
            fields.entry(walk.ranges.field(&leaf.name())).or_default().push(leaf);
        }
        let of = |places: &Vec<String>| {
            let within = |field: &&String| places.iter().any(|place| below(field, place));
            fields.keys().filter(within).cloned().collect::<Vec<String>>()
        };
        let quantities: Vec<Vec<String>> = walk.ranges.quantities.values().map(of).collect();
        let missing: Vec<&String> =
            fields.keys().filter(|f| !quantities.iter().flatten().any(|q| q == *f)).collect();
        assert!(missing.is_empty(), "ranges.json, quantities: what do these read or move? {missing:?}");
        Pairs { walk, fields, quantities, beside: BTreeMap::new() }
    }

    /// Pairs there are, and those that stood beside each other.
    pub fn count(&self) -> [usize; 2] {
        let behind =
            |of: &[String], i: usize| of[i + 1..].iter().map(|b| pair(&of[i], b)).collect::<Vec<_>>();
        let within = |of: &Vec<String>| (0..of.len()).flat_map(|i| behind(of, i)).collect::<Vec<_>>();
        let all: BTreeSet<[String; 2]> = self.quantities.iter().flat_map(within).collect();
        [all.len(), self.beside.keys().filter(|pair| all.contains(*pair)).count()]
    }

    /// Fields that have stood beside none.
    pub fn alone(&self) -> Vec<&String> {
        self.fields.keys().filter(|field| !self.beside.keys().flatten().any(|f| f == *field)).collect()
    }

    /// How much a change would show beside what stands: a pair that has not been, or one in other values.
    fn new_beside(&self, change: &Change, standing: &[Change]) -> usize {
        let of = |s: &Change| {
            let (pair, values) = shown(s, change);
            self.beside.get(&pair).map_or(4, |seen| usize::from(!seen.contains(&values)))
        };
        standing.iter().map(of).sum()
    }

    /// A field with a value other than the one that stands, at a place of it that is nearest to the step's own.
    fn change(&self, draws: &mut Draws, document: &Document, field: &str) -> Option<Change> {
        let leaves = &self.fields[field];
        let nearest = leaves.iter().map(|leaf| document.missing(leaf)).min();
        let near: Vec<&&Leaf> =
            leaves.iter().filter(|leaf| Some(document.missing(leaf)) == nearest).collect();
        let leaf = (*draws.of(&near)).clone();
        let stands = document.standing(&leaf);
        let mut values = self.walk.values(&leaf, stands);
        values.retain(|value| Some(value) != stands);
        (!values.is_empty()).then(|| Change { field: field.into(), value: draws.of(&values), leaf })
    }

    /// The change behind each kind with which it acts, where none stands, and alone.
    fn ways(&self, draws: &mut Draws, document: &Document, change: Change) -> Vec<Vec<Change>> {
        let mut ways = Vec::new();
        for needs in
            self.walk.ranges.needs.iter().filter(|needs| needs.of.iter().any(|of| below(&change.field, of)))
        {
            let set =
                |kind: &BTreeMap<String, Value>| kind.iter().map(|(at, value)| self.set(at, value)).collect();
            let kinds: Vec<Vec<Change>> = needs.one.iter().map(set).collect();
            let stands = |change: &Change| document.standing(&change.leaf) == Some(&change.value);
            if !kinds.iter().any(|kind| kind.iter().all(stands)) {
                ways.extend(kinds);
            }
        }
        let first = draws.below(ways.len().max(1));
        ways.rotate_left(first);
        ways.push(Vec::new());
        ways.into_iter().map(|way| [way, vec![change.clone()]].concat()).collect()
    }

    /// A value at a place.
    fn set(&self, at: &str, value: &Value) -> Change {
        Change { field: self.walk.ranges.field(at), leaf: Leaf::at(at, value.clone()), value: value.clone() }
    }

    /// A step upon which fields of one quantity are changed; `number` says which quantity, and which field is first.
    pub fn draw(&self, draws: &mut Draws, number: usize) -> (Document, Vec<Change>) {
        let of = &self.quantities[number % self.quantities.len()];
        let first = &of[(number / self.quantities.len() * 733) % of.len()];
        let unseen: Vec<&String> = of.iter().filter(|f| !self.beside.contains_key(&pair(first, f))).collect();
        let second = if unseen.is_empty() { first } else { draws.of(&unseen) };
        // The step has the way to both, and of those that have, it has much of the quantity.
        let leaves = |of: &[&String]| of.iter().map(|field| &self.fields[*field][..]).collect::<Vec<_>>();
        let mut near = self.walk.nearest(&leaves(&of.iter().collect::<Vec<_>>()));
        near.sort_by_cached_key(|document| document.missing_of(&leaves(&[first, second])));
        let origin = draws.of(&near[..near.len().div_ceil(3)]).clone();
        let (mut document, mut standing) = (origin.clone(), Vec::<Change>::new());
        for at in 0..TRIES {
            let among: Vec<&String> = match at {
                0 => vec![first],
                1 => vec![second],
                _ => (0..AMONG).map(|_| &of[draws.below(of.len())]).collect(),
            };
            let is_free = |field: &&String| standing.iter().all(|s| s.field != **field);
            let drawn = among.into_iter().filter(is_free).filter_map(|f| self.change(draws, &document, f));
            let Some(change) = drawn.max_by_key(|change| self.new_beside(change, &standing)) else {
                continue;
            };
            let ways = self.ways(draws, &document, change);
            let taken = ways.into_iter().find_map(|way| Some((self.taken(&document, &standing, &way)?, way)));
            if let Some((changed, way)) = taken {
                document = changed;
                standing.extend(way);
            }
            if standing.len() >= FIELDS {
                break;
            }
        }
        (origin, standing)
    }

    /// The step with these changes too, where the checks take it and what stood stays: a field that is written over by
    /// another does not stand beside it.
    fn taken(&self, document: &Document, standing: &[Change], way: &[Change]) -> Option<Document> {
        let changed = self.upon(document, way);
        let stays = |s: &Change| changed.standing(&s.leaf) == document.standing(&s.leaf);
        (standing.iter().all(stays) && changed.inputs().is_ok()).then_some(changed)
    }

    /// The step with these fields.
    pub fn upon(&self, origin: &Document, changes: &[Change]) -> Document {
        changes.iter().fold(origin.clone(), |document, c| self.walk.upon(&document, &c.leaf, &c.value))
    }

    /// What stood beside each other was played.
    pub fn played(&mut self, changes: &[Change]) {
        for (i, a) in changes.iter().enumerate() {
            for (pair, values) in changes[i + 1..].iter().map(|b| shown(a, b)) {
                self.beside.entry(pair).or_default().insert(values);
            }
        }
    }

    /// Those of the changes with which the step is played: without what is refused, with more memory, or with half of
    /// them.
    pub fn playable(&self, origin: &Document, mut changes: Vec<Change>) -> Vec<Change> {
        const MEMORY: &str = "topology.device.hbm.GB";
        let is_at = |c: &Change, at: &str| below(&c.leaf.name(), at) || below(at, &c.leaf.name());
        while changes.len() > 2 {
            match law::plays(&self.upon(origin, &changes)) {
                Ok(Outcome::Played { .. }) | Err(_) => break,
                Ok(Outcome::Full) if !changes.iter().any(|c| is_at(c, MEMORY)) => {
                    changes.insert(0, self.set(MEMORY, &65536.into()));
                }
                Ok(Outcome::Refused(path)) => {
                    let at = format!("workload.{}", path.replace('[', ".[").replace("[0", "["));
                    let refused = changes.iter().rposition(|c| is_at(c, &at));
                    changes.remove(refused.unwrap_or(changes.len() - 1));
                }
                Ok(_) => changes.truncate(changes.len() / 2),
            }
        }
        changes
    }

    /// The fewest of these fields with which some law is broken, and which.
    pub fn fewest(&self, origin: &Document, changes: &[Change], broken: String) -> (Document, String) {
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
    pub fn held(&self, origin: &Document, changes: &[Change]) -> Result<Outcome, String> {
        let document = self.upon(origin, changes);
        match document.inputs() {
            Ok(_) => law::held(&document, Some(0)),
            Err(refused) => Ok(Outcome::Refused(refused.path)),
        }
    }
}

fn pair(a: &str, b: &str) -> [String; 2] {
    [a.min(b).to_string(), a.max(b).to_string()]
}

/// Two fields, and in which values they stand: numbers are alike.
fn shown(a: &Change, b: &Change) -> ([String; 2], [String; 2]) {
    let sort = |c: &Change| if c.value.is_number() { String::new() } else { c.value.to_string() };
    let (first, second) = if a.field <= b.field { (a, b) } else { (b, a) };
    (pair(&a.field, &b.field), [sort(first), sort(second)])
}
