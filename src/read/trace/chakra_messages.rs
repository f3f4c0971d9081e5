//! The messages of Chakra's `et_def.proto` that are read or written.
//!
//! Source: MLCommons Chakra, `schema/protobuf/et_def.proto` (version 0.0.4). Fields that are not listed are passed
//! over.

use prost::Message;

/// Numbers of `NodeType`.
pub mod node_type {
    /// Reads another memory.
    pub const LOAD: i32 = 2;
    /// Writes another memory.
    pub const STORE: i32 = 3;
    /// Computes.
    pub const COMPUTE: i32 = 4;
    /// Sends to one rank.
    pub const SEND: i32 = 5;
    /// Receives from one rank.
    pub const RECEIVE: i32 = 6;
    /// Communicates with its group.
    pub const COLLECTIVE: i32 = 7;
}

/// The first message.
#[derive(Clone, PartialEq, Message)]
pub struct GlobalMetadata {
    /// Of the schema.
    #[prost(string, tag = "1")]
    pub version: String,
    /// Anything.
    #[prost(message, repeated, tag = "2")]
    pub attr: Vec<Attribute>,
}

/// Each other message.
#[derive(Clone, PartialEq, Message)]
pub struct RawNode {
    /// Its number; 0 is a number too, and not written then.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// One of [`node_type`].
    #[prost(int32, tag = "3")]
    pub kind: i32,
    /// Numbers of nodes that it is queued behind.
    #[prost(uint64, repeated, tag = "4")]
    pub ctrl_deps: Vec<u64>,
    /// Numbers of nodes whose results it takes.
    #[prost(uint64, repeated, tag = "5")]
    pub data_deps: Vec<u64>,
    /// When it began.
    #[prost(uint64, tag = "6")]
    pub start_time_micros: u64,
    /// How long it took.
    #[prost(uint64, tag = "7")]
    pub duration_micros: u64,
    /// All else that its kind has.
    #[prost(message, repeated, tag = "10")]
    pub attr: Vec<Attribute>,
}

/// A value with a name.
#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its value; lists are passed over.
    #[prost(oneof = "AnyValue", tags = "3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29")]
    pub value: Option<AnyValue>,
}

/// A value of one of protobuf's types; producers differ in which they take for what.
#[derive(Clone, PartialEq, prost::Oneof)]
#[expect(missing_docs, reason = "the names are protobuf's types")]
pub enum AnyValue {
    #[prost(double, tag = "3")]
    Double(f64),
    #[prost(float, tag = "5")]
    Float(f32),
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(string, tag = "29")]
    Text(String),
}

impl AnyValue {
    /// As a number, which a truth value is too.
    pub fn number(&self) -> Option<f64> {
        Some(match self {
            AnyValue::Double(x) => *x,
            AnyValue::Float(x) => f64::from(*x),
            AnyValue::Int32(x) | AnyValue::Sint32(x) | AnyValue::Sfixed32(x) => f64::from(*x),
            AnyValue::Int64(x) | AnyValue::Sint64(x) | AnyValue::Sfixed64(x) => *x as f64,
            AnyValue::Uint32(x) | AnyValue::Fixed32(x) => f64::from(*x),
            AnyValue::Uint64(x) | AnyValue::Fixed64(x) => *x as f64,
            AnyValue::Bool(x) => f64::from(u8::from(*x)),
            AnyValue::Text(_) => return None,
        })
    }
}
