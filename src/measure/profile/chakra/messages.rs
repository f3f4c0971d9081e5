//! The messages of `et_def.proto` that are read or written here, and the stream of them that a file is.
//!
//! Source: MLCommons Chakra, `schema/protobuf/et_def.proto` (version 0.0.4). Fields that are not listed are passed
//! over.

use prost::Message;

pub use stepsim_read::trace::chakra_messages::{AnyValue, Attribute, GlobalMetadata, RawNode, node_type};

use stepsim_spec::SpecError;

/// The allowed kinds of trace files, for messages.
pub(super) const ALLOWED: &str =
    "a Chakra execution trace (.et, or packed .et.gz): messages of et_def.proto, each behind its length";
/// The longest message: nodes of real profiles, with the shapes of thousands of tensors, take some 100 kB.
const LONGEST: u64 = 64 << 20;
/// Most nodes of a file.
const MOST_NODES: usize = 1 << 24;

/// The messages of a trace; `file` is its name for messages to people.
///
/// # Errors
/// It is no such trace, is cut off, or is longer than anything that can be played.
pub(super) fn messages(bytes: &[u8], file: &str) -> Result<(GlobalMetadata, Vec<RawNode>), SpecError> {
    let mut stream = MessageStream { rest: bytes, whole: bytes.len(), file, read: 0 };
    let head: GlobalMetadata =
        stream.next()?.ok_or_else(|| SpecError::file(file, "is empty").allowed(ALLOWED))?;
    let mut nodes = Vec::new();
    while let Some(node) = stream.next()? {
        if nodes.len() == MOST_NODES {
            return Err(SpecError::file(file, format!("holds more than {MOST_NODES} nodes"))
                .allowed("traces of one step, or of a few"));
        }
        if node == RawNode::default() {
            return Err(
                SpecError::file(file, format!("message {} is empty", stream.read - 1)).allowed(ALLOWED)
            );
        }
        nodes.push(node);
    }
    Ok((head, nodes))
}

struct MessageStream<'a> {
    rest: &'a [u8],
    whole: usize,
    file: &'a str,
    read: usize,
}

impl MessageStream<'_> {
    fn next<M: Message + Default>(&mut self) -> Result<Option<M>, SpecError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let at = self.whole - self.rest.len();
        let wrong = |problem: String| {
            SpecError::file(self.file, format!("message {} at byte {at}: {problem}", self.read))
                .allowed(ALLOWED)
        };
        let length = prost::encoding::decode_varint(&mut self.rest).map_err(|e| wrong(e.to_string()))?;
        if length > LONGEST {
            return Err(wrong(format!("it says that it is {length} bytes long; the longest is {LONGEST}")));
        }
        let Some((message, rest)) = self.rest.split_at_checked(length as usize) else {
            let left = self.rest.len();
            return Err(wrong(format!(
                "it says that it is {length} bytes long, and {left} are left: the file is cut off"
            )));
        };
        let message = M::decode(message).map_err(|e| wrong(e.to_string()))?;
        self.rest = rest;
        self.read += 1;
        Ok(Some(message))
    }
}
