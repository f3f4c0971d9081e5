//! Pending ends, the earliest first: a short sorted list, and behind it a radix heap.
//!
//! Time never goes back, so that events far off need no order yet. They lie in heaps by the highest bit in which
//! their time differs from a moment before all of them: whatever has a lower such bit is earlier (Ahuja, Mehlhorn,
//! Orlin, Tarjan, *Faster algorithms for the shortest path problem*, J. ACM 37, 1990). When the list is over, the
//! first heap becomes the list if it is short; otherwise it is dealt out anew over lower bits. Each event is moved a
//! few times, to the end of a list, where a binary heap compares it with one event in each of its levels.
//!
//! The order is the order of the whole keys, which are unique, wherever they lie inside.

/// A heap that is no longer becomes the list.
const SHORT: usize = 16;
/// A longer list gives back its later half.
const LONG: usize = 2 * SHORT;
/// One for each bit of a time and one for those that do not differ; the last is for both upper bits.
const HEAPS: usize = 64;

/// Events, each a time above 64 bits of its own.
#[derive(Debug)]
pub struct Agenda {
    /// Events before `edge`, in order; those in front of `head` are over.
    near: Vec<u128>,
    head: usize,
    edge: u64,
    /// Events from `edge` on, by the number of bits that tell their time from `base`, which is no later.
    far: [Vec<u128>; HEAPS],
    /// One bit for each of `far` that holds something.
    filled: u64,
    base: u64,
}

impl Default for Agenda {
    /// Nothing to come.
    fn default() -> Agenda {
        let far = [const { Vec::new() }; HEAPS];
        Agenda { near: Vec::new(), head: 0, edge: 0, far, filled: 0, base: 0 }
    }
}

impl Agenda {
    /// Adds an event.
    #[inline]
    pub fn push(&mut self, event: u128) {
        if time_of(event) < self.edge {
            self.push_near(event);
        } else {
            self.push_far(event);
        }
    }

    #[inline]
    fn push_near(&mut self, event: u128) {
        let place = self.head + self.near[self.head..].partition_point(|other| *other < event);
        self.near.insert(place, event);
        if self.near.len() - self.head > LONG {
            self.give_back();
        }
    }

    #[inline]
    fn push_far(&mut self, event: u128) {
        let heap = heap_of(time_of(event), self.base);
        self.far[heap].push(event);
        self.filled |= 1 << heap;
    }

    /// The first event.
    #[inline]
    pub fn first(&mut self) -> Option<u128> {
        if self.head == self.near.len() && self.filled != 0 {
            self.refill();
        }
        self.near.get(self.head).copied()
    }

    /// Takes the first event, which is there.
    #[inline]
    pub fn pop(&mut self) {
        self.head += 1;
        if self.head >= LONG && 2 * self.head >= self.near.len() {
            self.near.drain(..self.head);
            self.head = 0;
        }
    }

    /// Makes a list of the earliest events.
    #[cold]
    fn refill(&mut self) {
        self.near.clear();
        self.head = 0;
        while self.filled != 0 {
            let heap = self.filled.trailing_zeros() as usize;
            if heap > 0 && self.near.len() + self.far[heap].len() > SHORT {
                if !self.near.is_empty() {
                    break;
                }
                self.deal(heap);
                continue;
            }
            // Equal times come alone: they keep their order of arrival, and any number of them is a list.
            self.near.append(&mut self.far[heap]);
            self.filled &= !(1 << heap);
            self.edge = end_of(heap, self.base);
            if self.near.len() > SHORT {
                break;
            }
        }
        if self.filled == 0 {
            self.edge = u64::MAX;
        }
        self.near.sort_unstable();
    }

    /// Deals out the first heap anew.
    fn deal(&mut self, heap: usize) {
        let mut events = std::mem::take(&mut self.far[heap]);
        self.filled &= !(1 << heap);
        self.base = events.iter().map(|event| time_of(*event)).min().unwrap_or(self.base);
        for event in events.drain(..) {
            self.push_far(event);
        }
        // The last heap may have got some back.
        if self.far[heap].is_empty() {
            self.far[heap] = events;
        }
    }

    /// Shortens the list by its later events, all of one moment staying together.
    #[cold]
    fn give_back(&mut self) {
        let list = &self.near[self.head..];
        let [first, middle, last] = [list[0], list[list.len() / 2], list[list.len() - 1]].map(time_of);
        let edge = match middle {
            _ if middle < last => middle + 1,
            _ if first < middle => middle,
            _ => {
                self.edge = middle.saturating_add(1);
                return;
            }
        };
        let stay = self.head + list.partition_point(|event| time_of(*event) < edge);
        self.edge = edge;
        self.base_before(time_of(self.near[self.head]));
        for i in stay..self.near.len() {
            self.push_far(self.near[i]);
        }
        self.near.truncate(stay);
    }

    /// Moves `base` back, if need be: events that differ from it in lower bits only now differ in one and the same.
    fn base_before(&mut self, moment: u64) {
        if moment >= self.base {
            return;
        }
        let heap = heap_of(moment, self.base);
        let (lower, upper) = self.far.split_at_mut(heap);
        lower.iter_mut().for_each(|events| upper[0].append(events));
        self.filled &= !0 << heap;
        self.filled |= u64::from(!upper[0].is_empty()) << heap;
        self.base = moment;
    }

    /// All events, in no order.
    pub fn iter(&self) -> impl Iterator<Item = u128> + '_ {
        self.near[self.head..].iter().chain(self.far.iter().flatten()).copied()
    }
}

/// The moment of an event.
#[inline]
pub fn time_of(event: u128) -> u64 {
    (event >> 64) as u64
}

/// The heap of a moment: the number of the lowest bits in which it differs from `base`.
#[inline]
fn heap_of(moment: u64, base: u64) -> usize {
    let bits = u64::BITS - (moment ^ base).leading_zeros();
    (bits as usize).min(HEAPS - 1)
}

/// The first moment behind a heap's.
fn end_of(heap: usize, base: u64) -> u64 {
    let end = match heap.checked_sub(1) {
        Some(bit) if heap < HEAPS - 1 => (u128::from(base >> bit) + 2) << bit,
        Some(_) => return u64::MAX,
        None => u128::from(base) + 1,
    };
    end.min(u128::from(u64::MAX)) as u64
}
