//! Plain data parallelism: every rank holds everything, and gradients are summed by all-reduces.

use super::{CutExtent, Cuts, ShardingFacts};

/// Over nobody.
const WHOLE: Cuts<CutExtent> =
    Cuts { summed: CutExtent::All, ..Cuts::of(CutExtent::Nobody, CutExtent::Nobody, CutExtent::Nobody) };

/// No sharding.
pub const NONE: ShardingFacts = ShardingFacts {
    searched: true,
    ..ShardingFacts::new("none", "Nothing: every rank holds everything (DDP)", WHOLE)
};
