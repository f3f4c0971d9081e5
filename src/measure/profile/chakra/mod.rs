//! Chakra execution traces (MLCommons): a rank's work as a graph of nodes, one file a rank; and ASTRA-sim's files
//! beside them.
//!
//! A node is a kernel with its operations and bytes, a collective, a send or a receive, with the nodes that it
//! waits for. [`nodes`] reads a file, [`programs()`] makes rank programs of them; [`messages`] is the format, which
//! timelines are also written in. [`network`] and [`AstraSystem`] are the two files that ASTRA-sim (a simulator that
//! plays such traces) takes beside them.
//!
//! Producers disagree: about the types of attributes (any number is taken for any), and about what is left out.

mod astra;
pub mod messages;
mod node;
mod order;
mod programs;
mod rates;

pub use astra::{AstraSystem, network};
pub use node::{ChakraNode, NodeKind, nodes};
pub use programs::programs;
pub use rates::DeviceRates;
