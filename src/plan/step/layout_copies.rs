//! Copies between two layouts of a message, where a stack makes them: in one, what each rank holds lies in one piece;
//! in the other, whole tensors do.
//!
//! * Sharded weights (ZeRO-3): what is gathered is copied to where each weight is whole, and gradients, in the format
//!   in which they are sent, to where each rank's share is (FSDP2: `split_with_sizes_copy`, `chunk_cat`).
//! * Sequences cut over tensor-parallel ranks: PyTorch's functional collectives gather and scatter along the first
//!   dimension, the sequences of a micro-batch; the tokens of one are the second (`torch.cat` of chunks). A tensor
//!   that is cut into pieces for overlap has no such copies.
//!
//! They run between the layer's own kernels.

use super::overlap::is_cut;
use super::residency::StateShares;
use super::unit::{FullRecompute, Unit};
use stepsim_core::kernel_class::KernelClass;
use stepsim_price::model::{CommGroup, CommOp, CommPoint, Item, Kernel};
use stepsim_schedule::Pass;
use stepsim_spec::workload::WorkloadSpec;

/// True if a step copies shards.
pub fn copies_shards(shares: &StateShares<'_>) -> bool {
    let workload = shares.workload;
    let cut = shares.degrees.dense.weights > 1;
    cut && workload.stack().copies.shards
}

/// The kernels of one pass through a unit with the copies that it needs. The pass may repeat forward.
pub fn with_copies(
    shares: &StateShares<'_>,
    unit: &Unit,
    (pass, repeats): (Pass, bool),
    items: Vec<Item>,
) -> Vec<Item> {
    let items = of_sequences(shares, items);
    if !copies_shards(shares) || items.is_empty() {
        return items;
    }
    let compute = shares.workload.precision.compute;
    let weights = unit.plan.parameters.total();
    let moved = 2.0 * weights as f64 * shares.weight_message_bytes;
    let gathered =
        gathers(unit, pass, repeats).then(|| copy(shares, "copy gathered weights", weights, moved));
    let trained = unit.plan.trained.total();
    let moved = trained as f64 * (compute.bytes() + shares.gradient_message_bytes);
    let reduced = (matches!(pass, Pass::Backward | Pass::WeightGrad) && !repeats && trained > 0)
        .then(|| copy(shares, "copy gradients to send", trained, moved));
    gathered.into_iter().chain(items).chain(reduced).collect()
}

/// True if a pass is the first to use weights that were gathered for it.
fn gathers(unit: &Unit, pass: Pass, repeats: bool) -> bool {
    match pass {
        Pass::Forward => true,
        Pass::Backward | Pass::InputGrad => repeats == (unit.recompute != FullRecompute::No),
        Pass::WeightGrad => false,
    }
}

/// Items with copies behind gathers and in front of scatters of sequences, those that run beside kernels left out.
fn of_sequences(shares: &StateShares<'_>, items: Vec<Item>) -> Vec<Item> {
    let workload: &WorkloadSpec = shares.workload;
    if !(workload.stack().copies.sequences && shares.degrees.tensor > 1) {
        return items;
    }
    let (overlap, ranks) = (workload.parallelism.tensor_overlap, workload.parallelism.tensor);
    let moves = |c: &CommPoint, op| c.group == CommGroup::Tensor && c.op == op && c.hidden_behind == 0;
    let around = |(at, item): (usize, &Item)| {
        let of = |name, c: &CommPoint| {
            let elements = (c.bytes as f64 / workload.precision.compute.bytes()) as u64;
            copy(shares, name, elements, 2.0 * c.bytes as f64)
        };
        let copies = item.comm().filter(|_| !is_cut(&items, at, overlap, ranks)).map(|c| {
            let front = moves(c, CommOp::ReduceScatter).then(|| of("copy sequences to scatter", c));
            let behind = moves(c, CommOp::AllGather).then(|| of("copy gathered sequences", c));
            [front, behind]
        });
        let [front, behind] = copies.unwrap_or_default();
        [front, Some(item.clone()), behind].into_iter().flatten()
    };
    items.iter().enumerate().flat_map(around).collect()
}

fn copy(shares: &StateShares<'_>, name: &'static str, elements: u64, bytes: f64) -> Item {
    let dtype = shares.workload.precision.compute;
    Item::Kernel(Kernel::elementwise(KernelClass::Copy, name, elements, bytes, dtype))
}
