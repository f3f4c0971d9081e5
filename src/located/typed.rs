//! A value as a type, as serde_json reads it, with the place of what is wrong.

use std::slice::Iter;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Map, Value, map};

use super::key::{EntryKey, number};
use super::place::ValuePlace;

/// A value at its place.
#[derive(Clone, Copy)]
pub(crate) struct ValueAt<'de, 'a> {
    /// The part that is read.
    pub(crate) value: &'de Value,
    /// Where it stands.
    pub(crate) place: &'a ValuePlace<'a>,
}

/// Entries of a list that are still to be read.
struct ListEntries<'de, 'a> {
    rest: Iter<'de, Value>,
    next: usize,
    place: &'a ValuePlace<'a>,
}

/// Fields of an object that are still to be read.
struct ObjectFields<'de, 'a> {
    rest: map::Iter<'de>,
    value: Option<(&'de str, &'de Value)>,
    place: &'a ValuePlace<'a>,
}

/// A variant, and what it holds.
struct EnumVariant<'de, 'a> {
    name: &'de str,
    value: Option<&'de Value>,
    place: &'a ValuePlace<'a>,
}

/// The word of [`Value`] in messages.
fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(b) => Unexpected::Bool(*b),
        Value::Number(n) => match (n.as_u64(), n.as_i64()) {
            (Some(n), _) => Unexpected::Unsigned(n),
            (_, Some(n)) => Unexpected::Signed(n),
            _ => Unexpected::Float(n.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}

#[cold]
#[inline(never)]
fn wrong(value: Option<&Value>, expected: &dyn Expected) -> Error {
    Error::invalid_type(value.map_or(Unexpected::UnitVariant, unexpected), expected)
}

#[cold]
#[inline(never)]
fn longer(length: usize, expected: &'static str) -> Error {
    Error::invalid_length(length, &expected)
}

fn list<'de, V: Visitor<'de>>(
    list: &'de [Value],
    place: &ValuePlace<'_>,
    visitor: V,
) -> Result<V::Value, Error> {
    let mut entries = ListEntries { rest: list.iter(), next: 0, place };
    let made = visitor.visit_seq(&mut entries)?;
    if entries.rest.len() == 0 { Ok(made) } else { Err(longer(list.len(), "fewer elements in array")) }
}

fn object<'de, V: Visitor<'de>>(
    object: &'de Map<String, Value>,
    place: &ValuePlace<'_>,
    visitor: V,
) -> Result<V::Value, Error> {
    let mut fields = ObjectFields { rest: object.iter(), value: None, place };
    let made = visitor.visit_map(&mut fields)?;
    if fields.rest.len() == 0 { Ok(made) } else { Err(longer(object.len(), "fewer elements in map")) }
}

impl<'de> SeqAccess<'de> for ListEntries<'de, '_> {
    type Error = Error;
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(value) = self.rest.next() else { return Ok(None) };
        let place = ValuePlace::Index(self.place, self.next);
        self.next += 1;
        seed.deserialize(ValueAt { value, place: &place }).map(Some).inspect_err(|_| place.note())
    }
    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

impl<'de> MapAccess<'de> for ObjectFields<'de, '_> {
    type Error = Error;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some((key, value));
        seed.deserialize(EntryKey(key)).map(Some).inspect_err(|_| ValuePlace::Key(self.place, key).note())
    }
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let (key, value) = self.value.take().ok_or_else(|| Error::custom("value is missing"))?;
        let place = ValuePlace::Key(self.place, key);
        seed.deserialize(ValueAt { value, place: &place }).inspect_err(|_| place.note())
    }
    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

impl<'de> EnumAccess<'de> for EnumVariant<'de, '_> {
    type Error = Error;
    type Variant = Self;
    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Error> {
        Ok((seed.deserialize(BorrowedStrDeserializer::new(self.name))?, self))
    }
}

impl<'de> VariantAccess<'de> for EnumVariant<'de, '_> {
    type Error = Error;
    fn unit_variant(self) -> Result<(), Error> {
        match self.value {
            None | Some(Value::Null) => Ok(()),
            Some(value) => {
                ValuePlace::Key(self.place, self.name).note();
                Err(wrong(Some(value), &"unit"))
            }
        }
    }
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        let place = ValuePlace::Key(self.place, self.name);
        let made = match self.value {
            Some(value) => seed.deserialize(ValueAt { value, place: &place }),
            None => Err(wrong(None, &"newtype variant")),
        };
        made.inspect_err(|_| place.note())
    }
    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        let place = ValuePlace::Key(self.place, self.name);
        let made = match self.value {
            Some(Value::Array(entries)) => list(entries, &place, visitor),
            other => Err(wrong(other, &"tuple variant")),
        };
        made.inspect_err(|_| place.note())
    }
    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let place = ValuePlace::Key(self.place, self.name);
        let made = match self.value {
            Some(Value::Object(fields)) => object(fields, &place, visitor),
            other => Err(wrong(other, &"struct variant")),
        };
        made.inspect_err(|_| place.note())
    }
}

macro_rules! numbers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.value {
                Value::Number(n) => number(n, visitor),
                other => Err(wrong(Some(other), &visitor)),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for ValueAt<'de, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(b) => visitor.visit_bool(*b),
            Value::Number(n) => number(n, visitor),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(entries) => list(entries, self.place, visitor),
            Value::Object(fields) => object(fields, self.place, visitor),
        }
    }
    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64
    }
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Bool(b) => visitor.visit_bool(*b),
            other => Err(wrong(Some(other), &visitor)),
        }
    }
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::String(text) => visitor.visit_borrowed_str(text),
            other => Err(wrong(Some(other), &visitor)),
        }
    }
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Array(entries) => list(entries, self.place, visitor),
            other => Err(wrong(Some(other), &visitor)),
        }
    }
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Object(fields) => object(fields, self.place, visitor),
            other => Err(wrong(Some(other), &visitor)),
        }
    }
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        // A list is no object, though serde_json takes its entries for fields in their order: nobody writes that, and
        // it is an eighth of the code that reads.
        self.deserialize_map(visitor)
    }
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let (name, value) = match self.value {
            Value::String(name) => (name, None),
            Value::Object(fields) => match fields.iter().next() {
                Some((name, value)) if fields.len() == 1 => (name, Some(value)),
                _ => return Err(Error::invalid_value(Unexpected::Map, &"map with a single key")),
            },
            other => return Err(wrong(Some(other), &"string or map")),
        };
        visitor.visit_enum(EnumVariant { name, value, place: self.place })
    }
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
    forward_to_deserialize_any! { char bytes byte_buf unit unit_struct tuple tuple_struct identifier }
}
