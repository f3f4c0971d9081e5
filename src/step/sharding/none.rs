//! Plain data parallelism: every rank holds everything, and gradients are summed by all-reduces.

use super::{Cuts, Extent, Facts};

/// Over nobody.
const WHOLE: Cuts<Extent> =
    Cuts { summed: Extent::All, ..Cuts::of(Extent::Nobody, Extent::Nobody, Extent::Nobody) };

/// No sharding.
pub const NONE: Facts =
    Facts { searched: true, ..Facts::new("none", "Nothing: every rank holds everything (DDP)", WHOLE) };
