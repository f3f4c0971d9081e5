//! Lanes of a drawing over time: what was on when, in few enough pieces to be drawn.

use serde::Serialize;

/// Rows that are drawn.
pub const ROWS: usize = 16;
/// Items of the first lane that are drawn, over all rows, and of each other lane: more would make a page too heavy to
/// send.
const FIRST: usize = 14_000;
const OTHER: usize = 8_000;

/// The name and the colour of a kind of items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemStyle {
    /// In words.
    pub name: String,
    /// As `#rrggbb`.
    pub colour: &'static str,
}

/// Names and colours of the kinds of items, lane by lane; an item's kind is its place here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looks {
    /// Of passes, or kernels.
    pub passes: Vec<ItemStyle>,
    /// Of stalls.
    pub stalls: Vec<ItemStyle>,
    /// Of communication and copies.
    pub communication: Vec<ItemStyle>,
}

impl Looks {
    pub(super) fn lanes(&self) -> [&[ItemStyle]; 3] {
        [&self.passes, &self.stalls, &self.communication]
    }
}

/// A row of a drawing over time: each lane as `numbers`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimeRow {
    /// Its name.
    pub name: String,
    /// Passes, or kernels.
    pub passes: Vec<u64>,
    /// Why they stood still.
    pub stalls: Vec<u64>,
    /// Communication and copies.
    pub communication: Vec<u64>,
}

impl TimeRow {
    /// A row of `of` from items in any order; of those that overlap on a lane the first is shown. Where there are too
    /// many on the first lane to be told apart, those that change all the time become `mixed`.
    pub fn new(name: String, end: u64, of: usize, lanes: [Vec<LaneItem>; 3], mixed: Option<u32>) -> TimeRow {
        let most = [FIRST, OTHER, OTHER].map(|most| most / of.max(1));
        let mut lanes = lanes.into_iter().zip(most).zip([mixed, None, None]).map(|((items, most), mixed)| {
            let some = flatten(items).into_iter().filter(|item| item.start < item.end).collect();
            numbers(&thin(some, end, most, mixed))
        });
        let mut next = || lanes.next().unwrap_or_default();
        TimeRow { name, passes: next(), stalls: next(), communication: next() }
    }

    pub(super) fn lanes(&self) -> [&[u64]; 3] {
        [&self.passes, &self.stalls, &self.communication]
    }

    /// The kinds of items on a lane, each as often as it is there.
    pub(super) fn kinds(&self, lane: usize) -> impl Iterator<Item = usize> {
        self.lanes()[lane].chunks_exact(4).map(|item| item[2] as usize)
    }
}

/// `ROWS` of many, evenly picked.
pub fn few<T>(of: &[T]) -> impl Iterator<Item = &T> {
    let count = of.len().min(ROWS);
    (0..count).map(move |i| &of[i * (of.len() - 1) / (count - 1).max(1)])
}

/// Something that a rank did, or waited for, from `start` to `end` (nanoseconds).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneItem {
    /// From when.
    pub start: u64,
    /// Until when.
    pub end: u64,
    /// What: a number that the page has a name and a colour for.
    pub kind: u32,
    /// Its micro-batches, as [`tag`] writes them.
    pub tag: u32,
}

/// One micro-batch, or two of a pair, as a number: each plus one in 16 bits; 0 for none, and for those that do not fit.
pub fn tag(first: Option<u32>, second: Option<u32>) -> u32 {
    let [first, second] = [first, second].map(|m| m.map_or(0, |m| m.saturating_add(1)));
    if first.max(second) > 0xFFFF { 0 } else { first | second << 16 }
}

/// Items in order of time that do not overlap, `most` of them: of more, each kind in as many stretches of time as it
/// lasted, where it lasted longest, so that short waits after short kernels are seen. With `mixed`, by stretch the kind
/// that lasted longest, if anything lasted half of it, and that one where none of the kinds had nearly all of it.
pub fn thin(items: Vec<LaneItem>, end: u64, most: usize, mixed: Option<u32>) -> Vec<LaneItem> {
    if items.len() <= most {
        return items;
    }
    let bin = end.div_ceil(most as u64).max(1);
    let kinds = items.iter().map(|item| item.kind as usize + 1).max().unwrap_or(0);
    let mut covered = vec![0u64; most * kinds];
    for item in &items {
        let (mut at, kind) = (item.start, item.kind as usize);
        while at < item.end.min(end) {
            let n = (at / bin) as usize;
            let next = ((n as u64 + 1) * bin).min(item.end);
            covered[n.min(most - 1) * kinds + kind] += next - at;
            at = next;
        }
    }
    let mut thinned: Vec<LaneItem> = Vec::new();
    // By kind, and for nothing as the last, the time that it lasted more than it was drawn.
    let mut owed = vec![0i64; kinds + 1];
    for (n, of_bin) in covered.chunks(kinds).enumerate() {
        let (start, stop) = (n as u64 * bin, ((n as u64 + 1) * bin).min(end));
        let total: u64 = of_bin.iter().sum();
        let Some((kind, longest)) = of_bin.iter().enumerate().max_by_key(|(_, time)| **time) else {
            continue;
        };
        let kind = match mixed {
            _ if start >= stop => continue,
            Some(_) if total * 2 < bin => continue,
            Some(mixed) if longest * 10 < total * 9 => mixed,
            Some(_) => kind as u32,
            None => {
                let lasted = of_bin.iter().copied().chain([bin.saturating_sub(total)]);
                owed.iter_mut().zip(lasted).for_each(|(owed, lasted)| *owed += lasted as i64);
                let most = (0..=kinds).max_by_key(|kind| owed[*kind]).unwrap_or(kinds);
                owed[most] -= bin as i64;
                if most == kinds {
                    continue;
                }
                most as u32
            }
        };
        match thinned.last_mut() {
            Some(last) if last.kind == kind && last.end == start => last.end = stop,
            _ => thinned.push(LaneItem { start, end: stop, kind, tag: 0 }),
        }
    }
    thinned
}

/// One lane of items that may overlap: where several are on, the first in order of time is shown.
pub fn flatten(mut items: Vec<LaneItem>) -> Vec<LaneItem> {
    items.sort_by_key(|item| (item.start, item.end));
    let mut free = 0;
    let mut flat: Vec<LaneItem> = Vec::with_capacity(items.len());
    for item in items {
        let start = item.start.max(free);
        if start < item.end {
            flat.push(LaneItem { start, ..item });
            free = item.end;
        }
    }
    flat
}

/// Numbers that a page can read back: the gap before each item, how long it lasted, what it was, its tag.
pub fn numbers(items: &[LaneItem]) -> Vec<u64> {
    let mut at = 0;
    let mut numbers = Vec::with_capacity(items.len() * 4);
    for item in items {
        numbers.extend([item.start - at, item.end - item.start, u64::from(item.kind), u64::from(item.tag)]);
        at = item.end;
    }
    numbers
}
