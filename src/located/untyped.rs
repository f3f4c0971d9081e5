//! A text as a value, with the place where it is no JSON or names a key twice.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::fault::{ReadFault, fault};
use super::place::ValuePlace;

/// A text as a value: one document, to its end, whose objects name no key twice.
///
/// # Errors
/// The text is no JSON, a key stands twice, or a number overflows; the problem says line and column.
pub fn untyped(text: &str) -> Result<Value, ReadFault> {
    let failed = Cell::new(None);
    let place = ValuePlace::Root(&failed);
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Strict(&place).deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    value.map_err(|error| fault(failed.take(), &error))
}

/// A value at its place.
struct Strict<'a>(&'a ValuePlace<'a>);

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        let place = self.0;
        json.deserialize_any(self).inspect_err(|_| place.note())
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }
    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }
    fn visit_f64<E: Error>(self, v: f64) -> Result<Value, E> {
        Number::from_f64(v).map(Value::Number).ok_or_else(|| E::custom("a number that is not finite"))
    }
    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(v.into())
    }
    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(v.into())
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element_seed(Strict(&ValuePlace::Index(self.0, list.len())))? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        let unread = |_: &A::Error| ValuePlace::Key(self.0, "?").note();
        while let Some(key) = entries.next_key::<String>().inspect_err(unread)? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("the key `{key}` stands here twice")));
            }
            let value = entries.next_value_seed(Strict(&ValuePlace::Key(self.0, &key)))?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
