//! How tokens travel to experts: who gets how many rows over which link, and the kernels around it.
//!
//! With E experts on R ranks, g of them in one scale-up domain (a node, an NVLink rack), N = R/g domains, T tokens a
//! rank and top-k routing, a token touches on average D_n distinct domains and D_r distinct ranks
//! ([`Routing::distinct`]). A [`Dispatcher`] says how many rows a rank sends over the network and over scale-up links
//! from these ([`ExchangeRows`]); rows have the bytes of its rule ([`RowRule`]). One dispatcher is one file.
//!
//! * Combine is the mirror image of dispatch: the same rows over the same links, reversed. In backward, the gradient
//!   of the combine is a dispatch (with the forward's handle), and the gradient of the dispatch a combine
//!   ([`MoeExchange`]).
//! * Before an exchange moves rows, its ranks tell one another how many come (DeepEP's notify kernels). That takes
//!   next to nothing by itself; what profiles show there is the wait for the slowest rank, and so it is here: an
//!   exchange begins when all of its ranks have come to it, and the report calls the wait a late peer.
//! * No term is top_k·T·h·(R−1)/R to one pool, unless the dispatcher sends so (`alltoall`).
//!
//! Sources: DeepEP (github.com/deepseek-ai/DeepEP, `csrc/kernels/internode.cu` and the branch `hybrid-ep`), Megatron-LM
//! `core/transformer/moe`, Tutel (arXiv 2206.03382), DeepSeek-V3 (arXiv 2412.19437, section 3.2).

pub mod dispatch;
mod gate;
pub mod imbalance;
mod routing;
mod rows;
mod travel;

pub use dispatch::{Dispatcher, ExchangeKernels, ExchangeRows, Traffic, dispatcher};
pub use routing::{Distinct, Routing};
pub use rows::{MoeExchange, RowRule, payload_bytes};
pub use travel::Travel;
