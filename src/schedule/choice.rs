//! The word that an input file has for its schedule: one vocabulary, read from the registry.

use super::{ALL, OneFOneB, Schedule};
use stepsim_core::declare::by_name;

/// The choice in a file: a schedule by name or alias, or `file`. Written by its name.
#[derive(Clone, Copy)]
pub enum ScheduleChoice {
    /// This schedule.
    Named(&'static dyn Schedule),
    /// An order of the user's own, from a file beside it.
    File,
}

/// The word for [`ScheduleChoice::File`].
const FILE: &str = "file";
const ABOUT_FILE: &str = "the order stands in a file of your own";

impl ScheduleChoice {
    /// The choice of that name or alias.
    pub fn find(name: &str) -> Option<ScheduleChoice> {
        match super::find(name) {
            Ok(schedule) => Some(ScheduleChoice::Named(schedule)),
            Err(_) => (name == FILE).then_some(ScheduleChoice::File),
        }
    }
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            ScheduleChoice::Named(schedule) => schedule.name(),
            ScheduleChoice::File => FILE,
        }
    }
    /// Its distinction, in one line.
    pub fn about(self) -> &'static str {
        match self {
            ScheduleChoice::Named(schedule) => schedule.facts().about,
            ScheduleChoice::File => ABOUT_FILE,
        }
    }
    /// Its description in a schema, and its aliases.
    fn words(self) -> (String, &'static [&'static str]) {
        let (aliases, needs) = match self {
            ScheduleChoice::Named(schedule) => (schedule.facts().aliases, schedule.facts().needs),
            ScheduleChoice::File => (&[][..], ""),
        };
        let needs = if needs.is_empty() { String::new() } else { format!(" (needs {needs})") };
        (sentence(&format!("{}{needs}", self.about())), aliases)
    }
    /// All of them.
    pub fn all() -> impl Iterator<Item = ScheduleChoice> {
        ALL.iter().map(|schedule| ScheduleChoice::Named(*schedule)).chain([ScheduleChoice::File])
    }
}

impl Default for ScheduleChoice {
    fn default() -> ScheduleChoice {
        ScheduleChoice::Named(&OneFOneB)
    }
}

by_name!(ScheduleChoice, "Schedule", "Pipeline schedules.");

/// With a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}
