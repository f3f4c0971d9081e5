//! Where in a document something is read.

use std::cell::Cell;

/// A place, up to the root; the root keeps the path of the innermost place that failed.
pub(crate) enum ValuePlace<'a> {
    /// The whole document.
    Root(&'a Cell<Option<String>>),
    /// Under a key, or a variant.
    Key(&'a ValuePlace<'a>, &'a str),
    /// An entry of a list.
    Index(&'a ValuePlace<'a>, usize),
}

impl ValuePlace<'_> {
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
            ValuePlace::Root(failed) => failed,
            ValuePlace::Key(parent, _) | ValuePlace::Index(parent, _) => parent.root(),
        }
    }

    fn path(&self) -> String {
        match self {
            ValuePlace::Root(_) => String::new(),
            ValuePlace::Key(ValuePlace::Root(_), key) => (*key).to_owned(),
            ValuePlace::Key(parent, key) => format!("{}.{key}", parent.path()),
            ValuePlace::Index(parent, index) => format!("{}[{index}]", parent.path()),
        }
    }
}
