//! The word that a workload has for its sharding: one vocabulary, read from the registry.

use super::{ALL, NONE, ShardingFacts};
use stepsim_core::declare::by_name;

/// A kind of sharding, by its facts. Written by its name.
#[derive(Clone, Copy)]
pub struct ShardingKind(&'static ShardingFacts);

impl ShardingKind {
    /// The kind of these facts.
    pub const fn of(facts: &'static ShardingFacts) -> ShardingKind {
        ShardingKind(facts)
    }
    /// The kind of that name or alias.
    pub fn find(name: &str) -> Option<ShardingKind> {
        ALL.iter().find(|facts| facts.is(name)).map(|facts| ShardingKind(facts))
    }
    /// The facts of this kind.
    pub fn facts(self) -> &'static ShardingFacts {
        self.0
    }
    fn name(self) -> &'static str {
        self.0.name
    }
    /// Its description in a schema, and its aliases.
    fn words(self) -> (String, &'static [&'static str]) {
        (format!("{}.", self.0.about), self.0.aliases)
    }
    /// All that are known by name.
    pub fn all() -> impl Iterator<Item = ShardingKind> {
        ALL.iter().map(|facts| ShardingKind(facts))
    }
}

impl Default for ShardingKind {
    fn default() -> ShardingKind {
        ShardingKind(&NONE)
    }
}

by_name!(ShardingKind, "ShardingKind", "What data-parallel ranks cut among them.");
