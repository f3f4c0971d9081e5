//! The key of an entry, as a type.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Number};

/// A key: a text, or a number or truth value that is written as one.
pub(crate) struct EntryKey<'de>(pub(crate) &'de str);

macro_rules! numbers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            number(&self.0.parse().map_err(|_| no_number())?, visitor)
        }
    )*};
}

/// Gives a number to a visitor.
pub(crate) fn number<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Result<V::Value, Error> {
    match (number.as_u64(), number.as_i64()) {
        (Some(n), _) => visitor.visit_u64(n),
        (_, Some(n)) => visitor.visit_i64(n),
        _ => visitor.visit_f64(number.as_f64().unwrap_or_default()),
    }
}

#[cold]
fn no_number() -> Error {
    Error::custom("invalid value: expected key to be a number in quotes")
}

impl<'de> Deserializer<'de> for EntryKey<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(self.0)
    }
    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64
    }
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            other => visitor.visit_borrowed_str(other),
        }
    }
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(BorrowedStrDeserializer::new(self.0))
    }
    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
