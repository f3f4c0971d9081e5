//! The communicators of a world.

use std::ops::Index;

use rustc_hash::FxHashMap;

use super::span::Span;

/// An ordered group of ranks that communicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comm {
    /// Arrivals that start an action: the number of members, unless the world is folded.
    pub needed: u32,
    /// Its geometry: index into `World::profiles`.
    pub profile: u32,
    /// Span of `World::members`.
    pub members: Span,
    /// Span of `World::paths`.
    pub paths: Span,
}

/// Communicators by number. *Twins*, alike but for the slots that mean them, are written once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comms {
    /// By communicator: which of `entries` it is.
    entry: Vec<u32>,
    entries: Vec<Comm>,
}

impl Comms {
    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.entry.len()
    }
    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.entry.is_empty()
    }
    /// All of them, in order.
    pub fn iter(&self) -> CommIter<'_> {
        CommIter { entry: self.entry.iter(), entries: &self.entries }
    }
    /// The entries as written: some stand for several communicators, and some for none.
    pub fn entries(&self) -> &[Comm] {
        &self.entries
    }
    /// By communicator: which of the entries it is.
    pub fn entry(&self) -> &[u32] {
        &self.entry
    }
    /// Makes room for `more` further communicators.
    pub fn reserve(&mut self, more: usize) {
        self.entry.reserve(more);
    }
    /// Adds one.
    pub fn push(&mut self, comm: Comm) {
        self.entry.push(self.entries.len() as u32);
        self.entries.push(comm);
    }
    /// Adds one that is what another one is.
    pub fn push_twin(&mut self, of: usize) {
        self.entry.push(self.entry[of]);
    }
    /// Gives communicators other profiles; twins that get the same one stay twins.
    pub fn set_profiles(&mut self, profiles: impl Iterator<Item = (usize, u32)>) {
        let mut made: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        for (i, profile) in profiles {
            let entry = self.entry[i];
            self.entry[i] = *made.entry((entry, profile)).or_insert_with(|| {
                self.entries.push(Comm { profile, ..self.entries[entry as usize] });
                self.entries.len() as u32 - 1
            });
        }
    }
    /// Adds the communicators of another world, each entry changed for this one.
    pub fn extend(&mut self, other: &Comms, change: impl Fn(&Comm) -> Comm) {
        let first = self.entries.len() as u32;
        self.entry.extend(other.entry.iter().map(|entry| first + entry));
        self.entries.extend(other.entries.iter().map(change));
    }
}

impl Index<usize> for Comms {
    type Output = Comm;
    #[inline]
    fn index(&self, i: usize) -> &Comm {
        &self.entries[self.entry[i] as usize]
    }
}

impl<'a> IntoIterator for &'a Comms {
    type Item = &'a Comm;
    type IntoIter = CommIter<'a>;
    fn into_iter(self) -> CommIter<'a> {
        self.iter()
    }
}

/// The communicators of a world, in order.
#[derive(Clone, Debug)]
pub struct CommIter<'a> {
    entry: std::slice::Iter<'a, u32>,
    entries: &'a [Comm],
}

impl<'a> Iterator for CommIter<'a> {
    type Item = &'a Comm;
    #[inline]
    fn next(&mut self) -> Option<&'a Comm> {
        self.entry.next().map(|entry| &self.entries[*entry as usize])
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entry.size_hint()
    }
}

impl ExactSizeIterator for CommIter<'_> {}

impl FromIterator<Comm> for Comms {
    fn from_iter<I: IntoIterator<Item = Comm>>(all: I) -> Comms {
        let entries = Vec::from_iter(all);
        Comms { entry: (0..entries.len() as u32).collect(), entries }
    }
}
