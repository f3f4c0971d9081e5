//! One sharded matrix product on a mesh: which collectives its shardings need, what they move, and what bounds it.
//!
//! Notation of "How to scale your model" (jax-ml scaling book, sharding chapter): `A[I_X,J_Y] B[J_Y,K] -> C[I_X,K]`. A
//! dimension carries the mesh axes that cut it; `{U_X}` after a result says that its sum over X is still to be done. A
//! device holds b·Π(size/axes) bytes of an array. The steps, in this order:
//!
//! 1. A contracted dimension that is cut on one side only: **all-gather** that side, or ([`Strategy::Reduce`]) slice
//!    the other side, which costs nothing, and go on as in 2.
//! 2. Cut on both sides: the local product is an unreduced sum {U}.
//! 3. One axis on a kept dimension of each: **all-gather** the side on which the result does not want it, else the
//!    smaller.
//! 4. The result: an unreduced axis becomes a **reduce-scatter** where a dimension wants it, an **all-reduce** where
//!    none does, nothing where {U} is wanted; an axis on another dimension an **all-to-all**; one too many an
//!    all-gather; one too few a slice.

mod format;
mod parse;
mod plan;
mod play;

pub use format::{Formats, NumberFormat};
pub use parse::{Array, Dim, Statement};
pub use plan::{ProductCollective, ShardedProduct, Strategy, plans};
pub use play::{PlayError, ProductRun, TimedCollective};
