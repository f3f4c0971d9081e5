//! Names of other files, or what stands in them.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, de};

/// The name of a shipped file, a path relative to the file that names it, or the content itself.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Reference<T> {
    /// The name of a shipped file (`gpt3-175b`), or a path relative to the file that names it.
    Named(String),
    /// The content itself.
    Inline(Box<T>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Reference<T> {
    /// Decides by the JSON type, so that an error inside a written-out value names its own field.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RefVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for RefVisitor<T> {
            type Value = Reference<T>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a name, a path, or an object")
            }
            fn visit_str<E: de::Error>(self, s: &str) -> Result<Self::Value, E> {
                Ok(Reference::Named(s.to_string()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let value = T::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Reference::Inline(Box::new(value)))
            }
        }
        deserializer.deserialize_any(RefVisitor(PhantomData))
    }
}
