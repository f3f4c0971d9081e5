//! The word that an input file has for its schedule: one vocabulary, read from the registry.

use super::{ALL, OneFOneB, Schedule};
use stepsim_core::declare::by_name;

/// The choice in a file: a schedule by name or alias, or `file`. Written by its name.
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
    /// Its distinction, in one line.
    pub fn about(self) -> &'static str {
        match self {
            Choice::Named(schedule) => schedule.facts().about,
            Choice::File => ABOUT_FILE,
        }
    }
    /// Its description in a schema, and its aliases.
    fn words(self) -> (String, &'static [&'static str]) {
        let (aliases, needs) = match self {
            Choice::Named(schedule) => (schedule.facts().aliases, schedule.facts().needs),
            Choice::File => (&[][..], ""),
        };
        let needs = if needs.is_empty() { String::new() } else { format!(" (needs {needs})") };
        (sentence(&format!("{}{needs}", self.about())), aliases)
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

by_name!(Choice, "Schedule", "Pipeline schedules.");

/// With a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}
