//! The word that a workload has for its sharding: one vocabulary, read from the registry.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{ALL, Facts, NONE};

/// A kind of sharding, by its facts. Written by its name.
#[derive(Clone, Copy)]
pub struct ShardingKind(&'static Facts);

impl ShardingKind {
    /// The kind of these facts.
    pub const fn of(facts: &'static Facts) -> ShardingKind {
        ShardingKind(facts)
    }
    /// The kind of that name or alias.
    pub fn find(name: &str) -> Option<ShardingKind> {
        ALL.iter().find(|facts| facts.is(name)).map(|facts| ShardingKind(facts))
    }
    /// What it is.
    pub fn facts(self) -> &'static Facts {
        self.0
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

impl fmt::Debug for ShardingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl PartialEq for ShardingKind {
    fn eq(&self, other: &ShardingKind) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for ShardingKind {}

impl Serialize for ShardingKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for ShardingKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ShardingKind, D::Error> {
        static NAMES: LazyLock<Vec<&'static str>> =
            LazyLock::new(|| ALL.iter().map(|facts| facts.name).collect());
        let name = String::deserialize(deserializer)?;
        ShardingKind::find(&name).ok_or_else(|| de::Error::unknown_variant(&name, &NAMES))
    }
}

impl JsonSchema for ShardingKind {
    fn schema_name() -> Cow<'static, str> {
        "ShardingKind".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let word =
            |name: &str, about: String| json_schema!({"type": "string", "const": name, "description": about});
        let words = ALL.iter().flat_map(|facts| {
            let aliases =
                facts.aliases.iter().map(|alias| word(alias, format!("The same as `{}`.", facts.name)));
            std::iter::once(word(facts.name, format!("{}.", facts.about))).chain(aliases)
        });
        json_schema!({
            "description": "What data-parallel ranks cut among them.",
            "oneOf": words.collect::<Vec<_>>()
        })
    }
}
