//! The contents of a file: nodes, each with its work and its waits.

use std::collections::BTreeMap;

use super::messages::{ALLOWED, AnyValue, RawNode, messages, node_type};
use stepsim_spec::SpecError;

/// The work of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Computes.
    Compute,
    /// Sends to one rank.
    Send,
    /// Receives from one rank.
    Receive,
    /// Communicates with its group.
    Collective,
    /// Reads or writes another memory.
    Memory,
    /// Says something, does nothing.
    Other,
}

/// A node of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct ChakraNode {
    /// Its number, which dependencies name.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// The kind of work.
    pub kind: NodeKind,
    /// Numbers of the nodes that it waits for.
    pub after: Vec<u64>,
    /// How long it was measured to take, in nanoseconds (`duration_ns`, else `duration_micros` above 0).
    pub ns: Option<u64>,
    /// Attributes that are numbers.
    numbers: BTreeMap<String, f64>,
    /// Attributes that are texts.
    texts: BTreeMap<String, String>,
}

impl ChakraNode {
    /// An attribute that is a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.numbers.get(name).copied()
    }
    /// An attribute that is a text, or a number written out.
    pub fn text(&self, name: &str) -> Option<String> {
        self.texts.get(name).cloned().or_else(|| self.number(name).map(|n| n.to_string()))
    }
    /// True if the host runs it; where producers do not say, the device does.
    pub fn on_host(&self) -> bool {
        self.number("is_cpu_op").is_some_and(|flag| flag != 0.0)
    }
}

/// Reads the nodes of a trace; `file` is its name for messages.
///
/// # Errors
/// It is no such trace, is cut off, or two nodes have one number.
pub fn nodes(bytes: &[u8], file: &str) -> Result<Vec<ChakraNode>, SpecError> {
    let (head, raw) = messages(bytes, file)?;
    let wrong = |problem: String| SpecError::file(file, problem).allowed(ALLOWED);
    if raw.is_empty() {
        return Err(wrong(format!("holds no node (version {:?})", head.version)));
    }
    let mut known = BTreeMap::new();
    for (i, node) in (1..).zip(&raw) {
        if !(0..=10).contains(&node.kind) {
            return Err(wrong(format!("message {i}: no node has the type {}", node.kind)));
        }
        if let Some(first) = known.insert(node.id, i) {
            return Err(wrong(format!("messages {first} and {i} are both node {}", node.id)));
        }
    }
    Ok(raw.into_iter().map(node).collect())
}

fn node(raw: RawNode) -> ChakraNode {
    let (mut numbers, mut texts) = (BTreeMap::new(), BTreeMap::new());
    for attribute in raw.attr {
        match attribute.value {
            Some(AnyValue::Text(text)) => drop(texts.insert(attribute.name, text)),
            Some(value) => drop(value.number().map(|n| numbers.insert(attribute.name, n))),
            None => {}
        }
    }
    let mut after = [raw.ctrl_deps, raw.data_deps].concat();
    after.sort_unstable();
    after.dedup();
    let kind = match raw.kind {
        node_type::LOAD | node_type::STORE => NodeKind::Memory,
        node_type::COMPUTE => NodeKind::Compute,
        node_type::SEND => NodeKind::Send,
        node_type::RECEIVE => NodeKind::Receive,
        node_type::COLLECTIVE => NodeKind::Collective,
        _ => NodeKind::Other,
    };
    let exact = numbers.get("duration_ns").map(|ns| *ns as u64);
    let ns = exact.or(Some(raw.duration_micros.saturating_mul(1000)).filter(|ns| *ns > 0));
    ChakraNode { id: raw.id, name: raw.name, kind, after, ns, numbers, texts }
}
