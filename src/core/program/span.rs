//! Ranges of tables.

/// A range of a table, 8 bytes wide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// First index.
    pub start: u32,
    /// Number of entries.
    pub len: u32,
}

impl Span {
    /// Puts entries behind a table's own; returns where they then stand.
    pub fn append<T>(table: &mut Vec<T>, entries: impl IntoIterator<Item = T>) -> Span {
        let start = table.len() as u32;
        table.extend(entries);
        Span { start, len: table.len() as u32 - start }
    }
    /// As a range of `usize`.
    #[inline]
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
    /// True if it holds nothing.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}
