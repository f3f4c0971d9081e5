use std::collections::BTreeMap;

use proptest::prelude::*;
use stepsim_core::fold::partition::*;

/// Rounds of refinement by complete signatures, as the definition says.
fn by_definition(graph: &EdgeGraph, colours: &[u32]) -> Vec<u32> {
    let mut colours = colours.to_vec();
    loop {
        let mut numbers = BTreeMap::new();
        let next: Vec<u32> = (0..colours.len())
            .map(|v| {
                let mut sums = BTreeMap::new();
                for e in graph.at(v as u32) {
                    *sums.entry((e.label, colours[e.to as usize])).or_insert(0u64) += u64::from(e.weight);
                }
                let fresh = numbers.len() as u32;
                *numbers.entry((colours[v], sums)).or_insert(fresh)
            })
            .collect();
        if numbers.len() == colours.iter().collect::<std::collections::BTreeSet<_>>().len() {
            return colours;
        }
        colours = next;
    }
}

fn same_partition(a: &[u32], b: &[u32]) -> bool {
    let (mut ab, mut ba) = (BTreeMap::new(), BTreeMap::new());
    a.iter().zip(b).all(|(x, y)| *ab.entry(x).or_insert(y) == y && *ba.entry(y).or_insert(x) == x)
}

/// Edges are told as they were named, whether their numbers fit 32 bits or not.
#[test]
fn edges_keep_their_ends_labels_and_weights() {
    assert_eq!([0, 1, 2, 3, 4, 5, 256, 257].map(bits), [0, 0, 1, 2, 2, 3, 8, 9]);
    for (vertices, wide) in [(1 << 16, false), ((1 << 16) + 1, true)] {
        let last = vertices as u32 - 1;
        // As many kinds as 16 bits number.
        let graph =
            EdgeGraph::build(vertices, |add| (0..1 << 16).for_each(|label| add(0, last, label, label + 1)));
        assert_eq!(matches!(graph.edges, PackedNumbers::Wide(_)), wide);
        let told = |at: u32| graph.at(at).map(|e| (e.to, e.label, e.weight)).collect::<Vec<_>>();
        let should = |to: u32| (0..1 << 16).map(|label| (to, label, label + 1)).collect::<Vec<_>>();
        assert_eq!((told(0), told(last)), (should(last), should(0)));
    }
}

proptest! {
    /// Bipartite graphs, sparse enough for chains of splits.
    #[test]
    fn agrees_with_the_definition(
        edges in prop::collection::vec((0u32..12, 12u32..30, 0u32..3, 1u32..3), 0..60),
        colours in prop::collection::vec(0u32..2, 30),
    ) {
        let graph = EdgeGraph::build(30, |add| edges.iter().for_each(|&(a, b, l, w)| add(a, b, l, w)));
        let kind = |v: usize| if v < 12 { 0 } else { 2 };
        let colours: Vec<u32> = colours.iter().enumerate().map(|(v, c)| c + kind(v)).collect();
        let should = by_definition(&graph, &colours);
        prop_assert!(same_partition(&coarsest_stable(&graph, colours.clone(), 30), &should));
        // The same where those on the left are told apart by all their edges, and most on the right need not serve.
        let mut numbers = BTreeMap::new();
        let finer = (0..30).map(|v| {
            let mut sums = [0; 3];
            graph.at(v).filter(|_| v < 12).for_each(|e| sums[e.label as usize] += e.weight);
            let next = numbers.len() as u32;
            *numbers.entry((colours[v as usize], sums)).or_insert(next)
        });
        let finer = finer.collect();
        prop_assert!(same_partition(&coarsest_stable(&graph, finer, 12), &should));
    }

    /// Long rings and paths: splits travel far, one class at a time.
    #[test]
    fn agrees_on_rings_with_marks(n in 2u32..40, marks in prop::collection::vec(0u32..40, 0..3)) {
        let graph = EdgeGraph::build(2 * n as usize, |add| {
            for i in 0..n {
                add(i, n + i, 0, 1);
                add((i + 1) % n, n + i, 1, 1);
            }
        });
        let colours: Vec<u32> =
            (0..2 * n).map(|v| if v >= n { 2 } else { u32::from(marks.contains(&v)) }).collect();
        let should = by_definition(&graph, &colours);
        prop_assert!(same_partition(&coarsest_stable(&graph, colours, 2 * n), &should));
    }
}
