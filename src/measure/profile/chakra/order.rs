//! The order in which a rank goes through the nodes of its trace: behind what they wait for, the lowest number first.
//!
//! A graph of nodes has no order of its own, and a stream has. Numbers come from the producer, which wrote nodes down
//! as they were issued or derived.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use super::ChakraNode;

/// Dependencies that were left out, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DroppedDependencies {
    /// On nodes that the file does not hold, or on the node itself.
    pub dangling: u64,
    /// Those that closed a circle.
    pub circles: u64,
}

/// The nodes in order. Where all that are left wait for each other, the one of the lowest number goes first, and what
/// it would have waited for is dropped.
pub(super) fn in_order<'a>(
    nodes: &'a [ChakraNode],
    dropped: &mut DroppedDependencies,
) -> Vec<&'a ChakraNode> {
    let known: HashMap<u64, usize> = nodes.iter().enumerate().map(|(i, node)| (node.id, i)).collect();
    let mut left = vec![0u64; nodes.len()];
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (i, node) in nodes.iter().enumerate() {
        for before in &node.after {
            match known.get(before).filter(|before| **before != i) {
                Some(before) => {
                    next[*before].push(i);
                    left[i] += 1;
                }
                None => dropped.dangling += 1,
            }
        }
    }
    let key = |i: usize| (nodes[i].id, i);
    let mut ready: BinaryHeap<Reverse<(u64, usize)>> =
        (0..nodes.len()).filter(|i| left[*i] == 0).map(|i| Reverse(key(i))).collect();
    let mut waiting: BTreeSet<(u64, usize)> = (0..nodes.len()).filter(|i| left[*i] > 0).map(key).collect();
    let mut order = Vec::with_capacity(nodes.len());
    loop {
        let i = if let Some(Reverse((_, i))) = ready.pop() {
            i
        } else if let Some((_, i)) = waiting.pop_first() {
            dropped.circles += left[i];
            i
        } else {
            return order;
        };
        // A node that was forced past its inputs no longer waits for them.
        left[i] = u64::MAX;
        order.push(&nodes[i]);
        for &behind in &next[i] {
            if left[behind] != u64::MAX {
                left[behind] -= 1;
                if left[behind] == 0 {
                    waiting.remove(&key(behind));
                    ready.push(Reverse(key(behind)));
                }
            }
        }
    }
}
