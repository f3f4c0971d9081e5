//! The closed form of one training step, term by term: Calculon's arithmetic (SC'23), as published and repaired.
//!
//! Notation: t, p, d tensor, pipeline and data parallelism; N blocks, n = ⌈N/p⌉ of them on a processor, in V chunks of
//! q = n/V; M micro-batches of b sequences of s tokens, x = b·s, A = x·h; β bytes an element. A chunk is q − 1 *base*
//! blocks and one *edge* block, whose output goes to the next stage.
//!
//! step = forward + backward + optimizer + exposed (forward and backward) offload + recompute
//!      + exposed re-communication + bubble + exposed tensor-, pipeline- and data-parallel communication
//!
//! | file | subject |
//! |---|---|
//! | `costs` | T(FLOP), T(bytes), T(collective) |
//! | `kinds`, `layers` | what a layer counts; the layers of a block |
//! | `tensor_parallel` | collectives of a layer, alone or tiled with its GEMM |
//! | `block`, `terms` | sums over a block and over the step |
//! | `offload`, `pipeline`, `data_parallel` | windows, bubble, overlap |
//! | `memory`, `efficiency`, `outputs` | both tiers; MFU; Calculon's 96 names |
//! | `beside` | the same step of ours beside it |
//!
//! "Restatement §" in docs is our restatement of Calculon's formulas, checked against Calculon itself.
//!
//! Hazards:
//! * This module shares nothing with the engine, else closed form and simulation would agree by construction.
//! * [`estimate`] does not refuse a step that does not fit in memory; [`CalculonEstimate::fits`] tells.

mod beside;
mod block;
mod costs;
mod data_parallel;
mod efficiency;
mod kinds;
mod layers;
mod memory;
mod offload;
mod outputs;
mod pipeline;
mod tensor_parallel;
mod terms;

pub use beside::{CalculonBeside, CalculonCause};
pub use block::BlockCosts;
pub use costs::{Costs, NetOp, net_time};
pub use data_parallel::DataParallel;
pub use efficiency::Efficiency;
pub use layers::{CalculonLayer, layers};
pub use memory::ProcessorMemory;
pub use pipeline::CalculonPipeline;
pub use tensor_parallel::PerBlock;
pub use terms::CalculonTerms;

use stepsim_bring::calculon::Calculon;
use tensor_parallel::TensorGroup;

/// The closed form of one step, with everything that it was made from.
#[derive(Clone, Debug)]
pub struct CalculonEstimate {
    /// Their sums.
    pub block: BlockCosts,
    /// Chunk times, p2p, offload overheads, bubble.
    pub pipeline: CalculonPipeline,
    /// Data-parallel communication.
    pub data_parallel: DataParallel,
    /// Memory of one processor.
    pub memory: ProcessorMemory,
    /// The eleven terms.
    pub terms: CalculonTerms,
    /// Efficiencies.
    pub efficiency: Efficiency,
    training: bool,
    capacity: [f64; 2],
}

/// A step that does not fit in a memory tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OverCapacity {
    /// Tier 1 (HBM) or 2.
    pub tier: u8,
    /// Bytes needed.
    pub needed: f64,
    /// Bytes there are.
    pub capacity: f64,
}

/// The closed form of `case`, as `published` with its known defects, or with all of them repaired:
///
/// * Each recomputed layer adds the block's running total to `block_re_*` instead of itself (calculon issue 5). Full
///   recomputation then shows about 7.6 times the forward FLOPs, which eats the windows in which data-parallel
///   communication hides. `block_re_time` is right either way.
/// * `pipe` overlap adds its exposed tile to the processing time and to the exposed time; repaired, only to the exposed
///   time.
/// * With an unsharded optimizer, the last chunk's data-parallel window holds the optimizer step once per block and
///   once more.
/// * With tiled overlap, edge blocks take over the base block's exposed time although `p2p_rs_ag` gives them other
///   collectives, and a repeated collective takes the forward one's although it hides behind the weight gradient.
/// * Offloaded optimizer state crosses the link in every micro-batch; repaired, in one of them.
/// * Windows subtract memory time in `roofline` mode too, where it is hidden behind compute already.
pub fn estimate(case: &Calculon, published: bool) -> CalculonEstimate {
    let (app, exe, sys) = (&case.app, &case.exe, &case.sys);
    let costs = Costs::new(case);
    let beta = exe.datatype.bytes() as f64;
    let elements = exe.microbatch_size as f64 * app.seq_size as f64 * app.hidden as f64;
    let group = TensorGroup::new(case, costs, elements, beta, published);
    let layers = layers(case, published);
    let block = BlockCosts::new(case, &group, &layers, published);
    let pipeline = CalculonPipeline::new(case, &costs, &block, published);
    let data_parallel = DataParallel::new(case, &costs, &block, &pipeline, published);
    let memory = ProcessorMemory::new(case, &block, &pipeline.counts);
    let terms = CalculonTerms::new(&block, &pipeline, &data_parallel, exe.training);
    let useful = block.forward.flops + block.agrad.flops + block.wgrad.flops + block.optimizer.flops;
    let blocks = pipeline.counts.blocks * pipeline.counts.microbatches;
    let batch = exe.batch_size as f64;
    let efficiency = Efficiency::new(useful, blocks, costs.matrix.peak(), batch, &terms);
    let capacity = [sys.mem1.capacity_gib, sys.mem2.capacity_gib].map(|gib| gib * (1u64 << 30) as f64);
    CalculonEstimate {
        block,
        pipeline,
        data_parallel,
        memory,
        terms,
        efficiency,
        training: exe.training,
        capacity,
    }
}

impl CalculonEstimate {
    /// Checks that the step fits in both memory tiers.
    ///
    /// # Errors
    /// The first tier that is too small.
    pub fn fits(&self) -> Result<(), OverCapacity> {
        let [capacity1, capacity2] = self.capacity;
        for (tier, held, capacity) in [(1, &self.memory.tier1, capacity1), (2, &self.memory.tier2, capacity2)]
        {
            let needed = held.total();
            if needed > capacity {
                return Err(OverCapacity { tier, needed, capacity });
            }
        }
        Ok(())
    }
}
