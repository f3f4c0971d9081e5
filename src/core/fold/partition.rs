//! The coarsest stable partition of a graph with labelled, weighted edges.
//!
//! Partition refinement with a queue of splitters. A splitter is a class S; for each label, every class it touches is
//! split by the sum of the weights from each vertex into S along that label. Of the parts of a class that has already
//! served as a splitter, the largest need not serve again: sums into it follow from those into the whole and the
//! other parts. So a vertex serves at most log₂ n times. For the same reason one class need not serve at all if the
//! sums into it and some others together are known to agree.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::interrupt;

/// An edge as seen from one of its ends.
#[derive(Clone, Copy, Debug)]
pub struct EdgeEnd {
    /// The other end.
    pub to: u32,
    /// Edges of different labels are summed apart.
    pub label: u32,
    /// At least 1.
    pub weight: u32,
}

/// An undirected graph: each edge is listed at both ends.
#[derive(Debug, Default)]
pub struct EdgeGraph {
    /// The edges of vertex v are those from `first[v]` to `first[v + 1]`.
    first: Vec<u32>,
    /// All edges, by vertex: the other end, and in the low `kind_bits` which of `kinds`.
    pub edges: PackedNumbers,
    kind_bits: u32,
    /// Label and weight: few differ.
    kinds: Vec<(u32, u32)>,
}

impl EdgeGraph {
    /// The edges of a vertex.
    #[inline]
    pub fn at(&self, vertex: u32) -> impl Iterator<Item = EdgeEnd> + Clone {
        self.range(vertex).map(|i| self.edge(self.edges.get(i)))
    }
    /// Where the edges of a vertex stand.
    #[inline]
    fn range(&self, vertex: u32) -> Range<usize> {
        self.first[vertex as usize] as usize..self.first[vertex as usize + 1] as usize
    }
    #[inline]
    fn edge(&self, word: u64) -> EdgeEnd {
        let (label, weight) = self.kinds[(word & ((1 << self.kind_bits) - 1)) as usize];
        EdgeEnd { to: (word >> self.kind_bits) as u32, label, weight }
    }
    /// Builds the lists from a source that names each edge once, as `add(a, b, label, weight)`; it is asked twice.
    pub fn build(vertices: usize, source: impl Fn(&mut dyn FnMut(u32, u32, u32, u32))) -> EdgeGraph {
        let mut first = vec![0u32; vertices + 2];
        let mut kinds = LabelKinds::default();
        source(&mut |a, b, label, weight| {
            first[a as usize + 2] += 1;
            first[b as usize + 2] += 1;
            kinds.number(label, weight);
        });
        for v in 2..first.len() {
            first[v] += first[v - 1];
        }
        let kind_bits = bits(kinds.list.len());
        let mut edges = PackedNumbers::new(first[vertices + 1] as usize, bits(vertices) + kind_bits);
        source(&mut |a, b, label, weight| {
            let kind = kinds.number(label, weight);
            for (from, to) in [(a, b), (b, a)] {
                let place = &mut first[from as usize + 1];
                edges.set(*place as usize, u64::from(to) << kind_bits | u64::from(kind));
                *place += 1;
            }
        });
        first.pop();
        EdgeGraph { first, edges, kind_bits, kinds: kinds.list }
    }
}

/// How many bits the numbers below `n` take.
pub fn bits(n: usize) -> u32 {
    n.saturating_sub(1).checked_ilog2().map_or(0, |most| most + 1)
}

/// Numbers of `bits` bits.
#[derive(Debug)]
pub enum PackedNumbers {
    /// Of at most 32 bits.
    Narrow(Vec<u32>),
    /// Of more.
    Wide(Vec<u64>),
}

impl Default for PackedNumbers {
    fn default() -> PackedNumbers {
        PackedNumbers::Narrow(Vec::new())
    }
}

impl PackedNumbers {
    fn new(len: usize, bits: u32) -> PackedNumbers {
        if bits <= u32::BITS {
            PackedNumbers::Narrow(vec![0; len])
        } else {
            PackedNumbers::Wide(vec![0; len])
        }
    }
    #[inline]
    fn get(&self, i: usize) -> u64 {
        match self {
            PackedNumbers::Narrow(words) => u64::from(words[i]),
            PackedNumbers::Wide(words) => words[i],
        }
    }
    #[inline]
    fn set(&mut self, i: usize, word: u64) {
        match self {
            PackedNumbers::Narrow(words) => words[i] = word as u32,
            PackedNumbers::Wide(words) => words[i] = word,
        }
    }
}

/// Labels and weights, being numbered.
#[derive(Default)]
struct LabelKinds {
    list: Vec<(u32, u32)>,
    numbers: FxHashMap<(u32, u32), u32>,
    /// By label: the kind of its edge before, which most are of again.
    before: Vec<u32>,
}

impl LabelKinds {
    #[inline]
    fn number(&mut self, label: u32, weight: u32) -> u32 {
        match self.before.get(label as usize) {
            Some(&kind) if self.list.get(kind as usize) == Some(&(label, weight)) => kind,
            _ => self.look_up(label, weight),
        }
    }
    #[cold]
    fn look_up(&mut self, label: u32, weight: u32) -> u32 {
        let kind = *self.numbers.entry((label, weight)).or_insert_with(|| {
            self.list.push((label, weight));
            self.list.len() as u32 - 1
        });
        if self.before.len() <= label as usize {
            self.before.resize(label as usize + 1, u32::MAX);
        }
        self.before[label as usize] = kind;
        kind
    }
}

/// The coarsest stable partition that refines `colours` (dense from 0): the class of each vertex, in no special order
/// but the same one in every run. Edges must not join vertices of one initial colour.
///
/// The vertices from `told` on share no colour with those before. Of each label, vertices that this partition leaves
/// in one class must have the same sum of weights into all of them together.
pub fn coarsest_stable(graph: &EdgeGraph, colours: Vec<u32>, told: u32) -> Vec<u32> {
    let mut partition = Partition::new(colours);
    partition.spare_largest(told);
    match &graph.edges {
        PackedNumbers::Narrow(words) => refined(graph, words, partition),
        PackedNumbers::Wide(words) => refined(graph, words, partition),
    }
}

fn refined<W: Copy + Default + Into<u64>>(
    graph: &EdgeGraph,
    words: &[W],
    mut partition: Partition,
) -> Vec<u32> {
    let mut splitter = Splitter::new(graph, words);
    let mut next = 0;
    while let Some(&class) = partition.queue.get(next) {
        interrupt::check();
        next += 1;
        partition.queued[class as usize] = false;
        splitter.gather(partition.members(class));
        for label in 0..splitter.labels.len() {
            partition.split_by(splitter.edges_of(label));
        }
    }
    partition.class
}

/// The edges of one class, sorted by label.
struct Splitter<'g, W> {
    graph: &'g EdgeGraph,
    /// The edges of the graph, as it packs them.
    words: &'g [W],
    /// Labels that occur.
    labels: Vec<u32>,
    /// Number of edges of each possible label while gathering, then the end of its stretch of `edges`.
    end: Vec<u32>,
    /// Where the stretch of `labels[i]` begins.
    begin: Vec<u32>,
    edges: Vec<W>,
}

impl<'g, W: Copy + Default + Into<u64>> Splitter<'g, W> {
    fn new(graph: &'g EdgeGraph, words: &'g [W]) -> Self {
        let labels = graph.kinds.iter().map(|(label, _)| *label as usize + 1).max().unwrap_or(0);
        let (end, begin) = (vec![0; labels], Vec::new());
        Splitter { graph, words, labels: Vec::new(), end, begin, edges: Vec::new() }
    }
    fn gather(&mut self, class: &[u32]) {
        let (graph, words) = (self.graph, self.words);
        let all = || class.iter().flat_map(|&v| &words[graph.range(v)]);
        for label in self.labels.drain(..) {
            self.end[label as usize] = 0;
        }
        for word in all() {
            let label = graph.edge((*word).into()).label;
            let count = &mut self.end[label as usize];
            if *count == 0 {
                self.labels.push(label);
            }
            *count += 1;
        }
        self.begin.clear();
        let mut total = 0;
        for &label in &self.labels {
            self.begin.push(total);
            total += std::mem::replace(&mut self.end[label as usize], total);
        }
        self.edges.resize(total as usize, W::default());
        for word in all() {
            let place = &mut self.end[graph.edge((*word).into()).label as usize];
            self.edges[*place as usize] = *word;
            *place += 1;
        }
    }
    fn edges_of(&self, i: usize) -> impl Iterator<Item = EdgeEnd> {
        let all = self.begin[i] as usize..self.end[self.labels[i] as usize] as usize;
        self.edges[all].iter().map(|word| self.graph.edge((*word).into()))
    }
}

/// The touched vertices of a class have no sum in common.
const UNEVEN: u64 = u64::MAX;

/// Vertices in an order in which each class is one stretch.
struct Partition {
    class: Vec<u32>,
    order: Vec<u32>,
    /// Where each vertex stands in `order`.
    place: Vec<u32>,
    /// Where each class begins in `order`.
    start: Vec<u32>,
    len: Vec<u32>,
    /// How many vertices of each class the splitter at hand touches; they stand first in their class.
    touched: Vec<u32>,
    /// Sum of weights of each vertex into the splitter at hand.
    sum: Vec<u64>,
    /// By class: the sum that its touched vertices have in common, or `UNEVEN`; and whether it splits.
    common: Vec<u64>,
    splits: Vec<bool>,
    /// Vertices touched.
    reached: Vec<u32>,
    /// Splitters in order; those before the cursor of the caller are done.
    queue: Vec<u32>,
    queued: Vec<bool>,
    /// Classes touched, and ends of the parts of the one at hand.
    hit: Vec<u32>,
    parts: Vec<u32>,
}

impl Partition {
    fn new(colours: Vec<u32>) -> Partition {
        let classes = colours.iter().map(|c| c + 1).max().unwrap_or(0) as usize;
        let mut len = vec![0; classes];
        for &colour in &colours {
            len[colour as usize] += 1;
        }
        let mut total = 0;
        let start: Vec<u32> = len.iter().map(|n| (total, total += n).0).collect();
        let (mut order, mut place, mut next) =
            (vec![0; colours.len()], vec![0; colours.len()], start.clone());
        for (vertex, &colour) in colours.iter().enumerate() {
            place[vertex] = next[colour as usize];
            order[place[vertex] as usize] = vertex as u32;
            next[colour as usize] += 1;
        }
        Partition {
            sum: vec![0; colours.len()],
            class: colours,
            order,
            place,
            start,
            len,
            touched: vec![0; classes],
            common: vec![0; classes],
            splits: vec![false; classes],
            reached: Vec::new(),
            queue: (0..classes as u32).collect(),
            queued: vec![true; classes],
            hit: Vec::new(),
            parts: Vec::new(),
        }
    }
    /// Lets the largest class among the vertices from `told` on not serve: sums into it follow from those into all of
    /// them.
    fn spare_largest(&mut self, told: u32) {
        let classes = self.class[told as usize..].iter().copied();
        if let Some(largest) = classes.max_by_key(|class| (self.len[*class as usize], *class)) {
            self.queued[largest as usize] = false;
            self.queue.retain(|class| *class != largest);
        }
    }
    fn members(&self, class: u32) -> &[u32] {
        let start = self.start[class as usize] as usize;
        &self.order[start..start + self.len[class as usize] as usize]
    }
    /// Splits every class by the sums of weights over one label's edges from a splitter.
    ///
    /// Most classes do not split: all their vertices are touched and have one sum. That is found without moving any.
    fn split_by(&mut self, edges: impl Iterator<Item = EdgeEnd>) {
        let (mut hit, mut reached) = (std::mem::take(&mut self.hit), std::mem::take(&mut self.reached));
        for edge in edges {
            let sum = &mut self.sum[edge.to as usize];
            if *sum == 0 {
                reached.push(edge.to);
            }
            *sum += u64::from(edge.weight);
        }
        for &vertex in &reached {
            let class = self.class[vertex as usize] as usize;
            let sum = self.sum[vertex as usize];
            if self.touched[class] == 0 {
                hit.push(class as u32);
                self.common[class] = sum;
            } else if self.common[class] != sum {
                self.common[class] = UNEVEN;
            }
            self.touched[class] += 1;
        }
        hit.retain(|&class| {
            let class = class as usize;
            let splits = self.common[class] == UNEVEN || self.touched[class] < self.len[class];
            self.touched[class] = 0;
            self.splits[class] = splits;
            splits
        });
        if !hit.is_empty() {
            for &vertex in &reached {
                self.touch(vertex);
            }
        }
        for class in hit.drain(..) {
            self.split(class);
        }
        for vertex in reached.drain(..) {
            self.sum[vertex as usize] = 0;
        }
        (self.hit, self.reached) = (hit, reached);
    }
    /// Moves a vertex to the touched ones at the head of its class, if that splits.
    fn touch(&mut self, vertex: u32) {
        let class = self.class[vertex as usize];
        if !self.splits[class as usize] {
            return;
        }
        let touched = &mut self.touched[class as usize];
        let to = self.start[class as usize] + *touched;
        *touched += 1;
        let from = self.place[vertex as usize];
        let other = self.order[to as usize];
        self.order.swap(from as usize, to as usize);
        self.place[vertex as usize] = to;
        self.place[other as usize] = from;
    }
    /// Splits one class by the sums of its vertices. The largest part keeps the class's number and place in the
    /// queue; the others become new classes and splitters.
    fn split(&mut self, class: u32) {
        let touched = std::mem::take(&mut self.touched[class as usize]);
        let (start, len) = (self.start[class as usize], self.len[class as usize]);
        let sum = &self.sum;
        let head = &mut self.order[start as usize..(start + touched) as usize];
        if head.iter().any(|&v| sum[v as usize] != sum[head[0] as usize]) {
            head.sort_unstable_by_key(|&v| (sum[v as usize], v));
            for (i, &vertex) in head.iter().enumerate() {
                self.place[vertex as usize] = start + i as u32;
            }
        }
        self.parts.clear();
        for (i, pair) in head.windows(2).enumerate() {
            if sum[pair[0] as usize] != sum[pair[1] as usize] {
                self.parts.push(start + i as u32 + 1);
            }
        }
        self.parts.push(start + touched);
        if touched < len {
            self.parts.push(start + len);
        }
        self.separate(class);
    }
    /// Makes classes of the parts of a class, whose ends are in `parts`.
    fn separate(&mut self, class: u32) {
        let begin = self.start[class as usize];
        let starts = || std::iter::once(begin).chain(self.parts.iter().copied());
        let (mut kept, mut longest) = (begin, 0);
        for (from, &to) in starts().zip(&self.parts) {
            if to - from > longest {
                (kept, longest) = (from, to - from);
            }
        }
        let mut from = begin;
        for &to in &self.parts {
            if from == kept {
                self.start[class as usize] = from;
                self.len[class as usize] = to - from;
            } else {
                let new = self.start.len() as u32;
                self.start.push(from);
                self.len.push(to - from);
                self.touched.push(0);
                self.common.push(0);
                self.splits.push(false);
                self.queued.push(true);
                self.queue.push(new);
                for &vertex in &self.order[from as usize..to as usize] {
                    self.class[vertex as usize] = new;
                }
            }
            from = to;
        }
    }
}
