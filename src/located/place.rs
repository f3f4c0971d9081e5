//! Where in a document something is read.

use std::cell::Cell;

/// A place, up to the root; the root keeps the path of the innermost place that failed.
pub(crate) enum Place<'a> {
    /// The whole document.
    Root(&'a Cell<Option<String>>),
    /// Under a key, or a variant.
    Key(&'a Place<'a>, &'a str),
    /// An entry of a list.
    Index(&'a Place<'a>, usize),
}

impl Place<'_> {
    /// Something is wrong here, unless it was further in.
    #[cold]
    #[inline(never)]
    pub(crate) fn note(&self) {
        let failed = self.root();
        let path = failed.take().unwrap_or_else(|| self.path());
        failed.set(Some(path));
    }

    fn root(&self) -> &Cell<Option<String>> {
        match self {
            Place::Root(failed) => failed,
            Place::Key(parent, _) | Place::Index(parent, _) => parent.root(),
        }
    }

    fn path(&self) -> String {
        match self {
            Place::Root(_) => String::new(),
            Place::Key(Place::Root(_), key) => (*key).to_owned(),
            Place::Key(parent, key) => format!("{}.{key}", parent.path()),
            Place::Index(parent, index) => format!("{}[{index}]", parent.path()),
        }
    }
}
