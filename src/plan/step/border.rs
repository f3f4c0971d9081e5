//! Where the messages of a pipeline go.

use stepsim_core::ids::RankId;
use stepsim_fabric::topology::{Axis, Layout, Machine};

/// True if a pipeline has stages on more than one node.
pub fn leaves_node(machine: &Machine, layout: &Layout) -> bool {
    let stages = layout.group(RankId(0), &[Axis::Pp]);
    let mut nodes = stages.iter().map(|rank| machine.node_of(layout.device(*rank)));
    nodes.next().is_some_and(|first| nodes.any(|node| node != first))
}
