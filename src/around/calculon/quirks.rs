//! The known defects of the published closed form, each behind a switch.

use std::fmt;

macro_rules! quirks {
    ($($(#[doc = $doc:literal])+ $field:ident),+ $(,)?) => {
        /// The defects of the published closed form that are in force. [`Quirks::AS_PUBLISHED`] has all of them,
        /// [`Quirks::REPAIRED`] none.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Quirks {
            $($(#[doc = $doc])+ pub $field: bool,)+
        }

        impl Quirks {
            /// Calculon's own arithmetic, to the last digit.
            pub const AS_PUBLISHED: Quirks = Quirks { $($field: true),+ };
            /// The same model with its defects repaired.
            pub const REPAIRED: Quirks = Quirks { $($field: false),+ };
            /// The names of all switches.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),+];

            /// Sets one switch by name; false when there is none of that name.
            pub fn set(&mut self, name: &str, on: bool) -> bool {
                match name {
                    $(stringify!($field) => self.$field = on,)+
                    _ => return false,
                }
                true
            }
            /// Every switch with its state.
            pub fn states(&self) -> Vec<(&'static str, bool)> {
                vec![$((stringify!($field), self.$field)),+]
            }
        }
    };
}

quirks! {
    /// `block_re_*` add the running block total for every recomputed layer instead of the layer itself
    /// (calculon issue 5). Full recomputation then shows about 7.6 times the forward FLOPs, which eats the windows
    /// in which data-parallel communication hides. `block_re_time` is right either way.
    recompute_prefix_sums,
    /// `pipe` overlap adds its exposed tile to the processing time and to the exposed time; repaired, only to the
    /// exposed time.
    pipe_tile_twice,
    /// With an unsharded optimizer, the last chunk's data-parallel window holds the optimizer step once per block
    /// and once more.
    optimizer_window_twice,
    /// With tiled overlap, edge blocks take over the base block's exposed time although `p2p_rs_ag` gives them other
    /// collectives; repaired, they are computed with their own.
    edge_takes_base_exposure,
    /// With tiled overlap, a repeated collective takes over the exposed time of the forward one although it hides
    /// behind the weight gradient; repaired, it is computed against that.
    redo_takes_forward_exposure,
    /// Offloaded optimizer state crosses the link in every micro-batch; repaired, in one of them.
    optimizer_offload_every_microbatch,
    /// Windows subtract memory time in `roofline` mode too, where it is hidden behind compute already; repaired,
    /// `roofline` windows keep it.
    roofline_windows_lose_memory_time,
}

impl fmt::Display for Quirks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Quirks::AS_PUBLISHED => f.write_str("as published"),
            Quirks::REPAIRED => f.write_str("repaired"),
            _ => {
                let on: Vec<_> = self.states().into_iter().filter(|s| s.1).map(|s| s.0).collect();
                write!(f, "quirks on: {}", on.join(", "))
            }
        }
    }
}
