//! Tensor-parallel overlap: a collective and the GEMM beside it cut into pieces that run at the same time.
//!
//! With t ranks, a message of S bytes and a GEMM of time T (cut along its rows, the tokens):
//! * **ring**: an all-gather becomes t−1 ring shifts of S/t; the GEMM works on the local rows first, then on each
//!   block as it arrives. A reduce-scatter becomes t−1 shifts of partial sums, each behind the piece that made them.
//! * **pipelined**: t collectives of S/t each, one for each piece of the GEMM.
//!
//! Where the pieces are even and nothing else is in the way, all-gather and GEMM together take k + (t−1)·max(c, k)
//! (ring) or c + (t−1)·max(c, k) + k (pipelined) instead of t·c + T, with c the time of one shift (collective) and k
//! the time of a piece of the GEMM.
//!
//! Only pairs with nothing between them are cut: the gather before a GEMM and the scatter behind one. Messages that
//! hide behind other kernels already (the gather of saved inputs, the sum of input gradients) stay whole, as in
//! Megatron-LM with Transformer Engine. (Wang et al., ASPLOS 2023; Transformer Engine `comm_gemm_overlap`.)
//!
//! Pieces run on three streams in turn, so that one fills the last wave of the one before (Transformer Engine,
//! `CommOverlapBase`, `num_max_streams`): together they take the time of the whole product, not of t small ones, and
//! each begins with a gap of its own where launches are simulated. The messages pass through user buffers by copy
//! engines: the first or the last of them, and their latencies, are what stays exposed.

use stepsim_price::model::{CommGroup, CommOp, CommPoint, Item, Kernel, KernelShape};
use stepsim_spec::workload::TensorOverlap;

/// The items of a pass with gathers and scatters cut into pieces over `ranks` tensor-parallel ranks.
pub fn decompose(items: &[Item], kind: TensorOverlap, ranks: u64) -> Vec<Item> {
    if kind == TensorOverlap::None || ranks < 2 {
        return items.to_vec();
    }
    let mut cut = Vec::with_capacity(items.len() * 2);
    let mut rest = items;
    while let Some((first, after)) = rest.split_first() {
        let pair = after.first().and_then(|second| match (first, second) {
            (Item::Comm(c), Item::Kernel(k)) if is_whole(c, CommOp::AllGather) => {
                Some(gather_behind(c, &piece(k, ranks)?, kind, ranks))
            }
            (Item::Kernel(k), Item::Comm(c)) if is_whole(c, CommOp::ReduceScatter) => {
                Some(scatter_behind(&piece(k, ranks)?, c, kind, ranks))
            }
            _ => None,
        });
        match pair {
            Some(pieces) => {
                cut.extend(pieces);
                rest = &after[1..];
            }
            None => {
                cut.push(first.clone());
                rest = after;
            }
        }
    }
    cut
}

/// True if the message at `at` is cut.
pub fn is_cut(items: &[Item], at: usize, kind: TensorOverlap, ranks: u64) -> bool {
    let cuts = |i: Option<usize>| {
        i.and_then(|i| items.get(i)?.kernel()).is_some_and(|kernel| piece(kernel, ranks).is_some())
    };
    kind != TensorOverlap::None
        && ranks > 1
        && items[at].comm().is_some_and(|c| {
            is_whole(c, CommOp::AllGather) && cuts(at.checked_add(1))
                || is_whole(c, CommOp::ReduceScatter) && cuts(at.checked_sub(1))
        })
}

fn is_whole(c: &CommPoint, op: CommOp) -> bool {
    c.group == CommGroup::Tensor && c.op == op && c.hidden_behind == 0
}

/// One of `ranks` pieces of a GEMM, cut along its rows; `None` where they do not divide or the kernel is no GEMM of
/// tokens (a weight gradient sums over them).
fn piece(kernel: &Kernel, ranks: u64) -> Option<Kernel> {
    let KernelShape::Gemm { m, batch: 1, accumulate: false, .. } = kernel.shape else { return None };
    if !m.is_multiple_of(ranks) {
        return None;
    }
    let t = ranks as f64;
    Some(Kernel { flops: kernel.flops / t, bytes: kernel.bytes / t, ..*kernel })
}

/// The parts of a message: t−1 shifts, or t collectives.
fn parts(comm: &CommPoint, kind: TensorOverlap, ranks: u64) -> (CommPoint, u32) {
    let op = if kind == TensorOverlap::Ring { CommOp::SendRecv } else { comm.op };
    let part = CommPoint { op, bytes: comm.bytes / ranks, ..*comm };
    (part, ranks as u32 - u32::from(kind == TensorOverlap::Ring))
}

/// All parts are queued at once; piece i waits for the part that brings its rows.
fn gather_behind(comm: &CommPoint, piece: &Kernel, kind: TensorOverlap, ranks: u64) -> Vec<Item> {
    let (part, count) = parts(comm, kind, ranks);
    // The first piece of a ring is local.
    let local = ranks as u32 - count;
    let parts = (0..count).map(|i| Item::Comm(part.behind(i + local)));
    parts.chain((0..ranks).map(|_| Item::Kernel(*piece))).collect()
}

/// Part i is queued behind piece i; what follows the last piece waits for all.
fn scatter_behind(piece: &Kernel, comm: &CommPoint, kind: TensorOverlap, ranks: u64) -> Vec<Item> {
    let (part, count) = parts(comm, kind, ranks);
    (0..ranks as u32)
        .flat_map(|i| {
            let left = ranks as u32 - 1 - i;
            let part = (i < count).then(|| Item::Comm(part.behind(left)));
            [Some(Item::Kernel(*piece)), part].into_iter().flatten()
        })
        .collect()
}
