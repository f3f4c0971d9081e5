//! The word that an input file has for its schedule: one vocabulary, read from the registry.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{ALL, OneFOneB, Schedule};

/// What a file chooses: a schedule by name or alias, or `file`. Written by its name.
#[derive(Clone, Copy)]
pub enum Choice {
    /// This schedule.
    Named(&'static dyn Schedule),
    /// An order of the user's own, from a file beside it.
    File,
}

/// The word for [`Choice::File`].
const FILE: &str = "file";
const ABOUT_FILE: &str = "the order stands in a file of your own";

impl Choice {
    /// The choice of that name or alias.
    pub fn find(name: &str) -> Option<Choice> {
        match super::find(name) {
            Ok(schedule) => Some(Choice::Named(schedule)),
            Err(_) => (name == FILE).then_some(Choice::File),
        }
    }
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Choice::Named(schedule) => schedule.name(),
            Choice::File => FILE,
        }
    }
    /// What distinguishes it, in one line.
    pub fn about(self) -> &'static str {
        match self {
            Choice::Named(schedule) => schedule.facts().about,
            Choice::File => ABOUT_FILE,
        }
    }
    /// All of them.
    pub fn all() -> impl Iterator<Item = Choice> {
        ALL.iter().map(|schedule| Choice::Named(*schedule)).chain([Choice::File])
    }
}

impl Default for Choice {
    fn default() -> Choice {
        Choice::Named(&OneFOneB)
    }
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for Choice {
    fn eq(&self, other: &Choice) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Choice {}

impl Serialize for Choice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Choice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Choice, D::Error> {
        static NAMES: LazyLock<Vec<&'static str>> =
            LazyLock::new(|| Choice::all().map(Choice::name).collect());
        let name = String::deserialize(deserializer)?;
        Choice::find(&name).ok_or_else(|| de::Error::unknown_variant(&name, &NAMES))
    }
}

impl JsonSchema for Choice {
    fn schema_name() -> Cow<'static, str> {
        "Schedule".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let word =
            |name: &str, about: String| json_schema!({"type": "string", "const": name, "description": about});
        let words = Choice::all().flat_map(|choice| {
            let (aliases, needs) = match choice {
                Choice::Named(schedule) => (schedule.facts().aliases, schedule.facts().needs),
                Choice::File => (&[][..], ""),
            };
            let needs = if needs.is_empty() { String::new() } else { format!(" (needs {needs})") };
            let sentence = sentence(&format!("{}{needs}", choice.about()));
            let aliases =
                aliases.iter().map(move |alias| word(alias, format!("The same as `{}`.", choice.name())));
            std::iter::once(word(choice.name(), sentence)).chain(aliases)
        });
        json_schema!({"description": "Pipeline schedules.", "oneOf": words.collect::<Vec<_>>()})
    }
}

/// With a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}
