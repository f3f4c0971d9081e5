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
//! | `quirks` | the published form's known defects, each with a switch |
//!
//! "Restatement §" in docs is our restatement of Calculon's formulas, checked against Calculon itself.
//!
//! Hazards:
//! * This module shares nothing with the engine, else closed form and simulation would agree by construction.
//! * [`estimate`] does not refuse a step that does not fit in memory; [`Estimate::fits`] tells.

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
mod quirks;
mod tensor_parallel;
mod terms;

#[cfg(test)]
mod tests;

pub use block::{Block, BlockBytes, CommSums};
pub use costs::{Costs, NetOp, Rate, net_time};
pub use data_parallel::DataParallel;
pub use efficiency::Efficiency;
pub use kinds::{EngineKind, Kinds, Shape};
pub use layers::{Flags, Layer, LayerPass, layers};
pub use memory::{Classes, Memory};
pub use offload::{Offload, Required, Volume};
pub use outputs::{Outputs, Quantity};
pub use pipeline::{Counts, Pipeline};
pub use quirks::Quirks;
pub use tensor_parallel::{Comm, LayerComm, PerBlock, Side};
pub use terms::Terms;

use crate::lab::calculon::files::Calculon;
use tensor_parallel::Group;

/// The closed form of one step, with everything that it was made from.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// The layers of a block in order of the forward pass.
    pub layers: Vec<Layer>,
    /// Their sums.
    pub block: Block,
    /// Chunk times, p2p, offload overheads, bubble.
    pub pipeline: Pipeline,
    /// Data-parallel communication.
    pub data_parallel: DataParallel,
    /// Memory of one processor.
    pub memory: Memory,
    /// The eleven terms.
    pub terms: Terms,
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

/// The closed form of `case` with the published form's defects switched as `quirks` says.
pub fn estimate(case: &Calculon, quirks: Quirks) -> Estimate {
    let (app, exe, sys) = (case.app(), case.exe(), case.sys());
    let costs = Costs::new(case);
    let beta = exe.datatype.bytes() as f64;
    let elements = exe.microbatch_size as f64 * app.seq_size as f64 * app.hidden as f64;
    let group = Group::new(case, costs, elements, beta, quirks);
    let layers = layers(case, quirks);
    let block = Block::new(case, &group, &layers, quirks);
    let pipeline = Pipeline::new(case, &costs, &block, quirks);
    let data_parallel = DataParallel::new(case, &costs, &block, &pipeline, quirks);
    let memory = Memory::new(case, &block, &pipeline.counts);
    let terms = Terms::new(&block, &pipeline, &data_parallel, exe.training);
    let useful = block.forward.flops + block.agrad.flops + block.wgrad.flops + block.optimizer.flops;
    let blocks = pipeline.counts.blocks * pipeline.counts.microbatches;
    let batch = exe.batch_size as f64;
    let efficiency = Efficiency::new(useful, blocks, costs.matrix.peak(), batch, &terms);
    let capacity = [sys.mem1.capacity_gib, sys.mem2.capacity_gib].map(|gib| gib * (1u64 << 30) as f64);
    Estimate {
        layers,
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

impl Estimate {
    /// Whether the step fits in both memory tiers.
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

    /// Calculon's 96 outputs.
    pub fn outputs(&self) -> Outputs {
        let Estimate { block, pipeline, data_parallel: dp, memory, terms, efficiency, training, .. } = self;
        let (counts, training) = (&pipeline.counts, *training);
        Outputs {
            block_fw_flops: block.forward.flops,
            block_fw_flops_time: block.forward.flops_time,
            block_fw_mem_accessed: block.forward.bytes,
            block_fw_mem_time: block.forward.memory_time,
            block_fw_time: block.forward.time,
            baseblock_fw_tp_time: block.forward_comm.link_time.base,
            edgeblock_fw_tp_time: block.forward_comm.link_time.edge,
            baseblock_fw_tp_time_exposed: block.forward_comm.exposed_time.base,
            edgeblock_fw_tp_time_exposed: block.forward_comm.exposed_time.edge,
            block_re_flops: block.recompute.flops,
            block_re_flops_time: block.recompute.flops_time,
            block_re_mem_accessed: block.recompute.bytes,
            block_re_mem_time: block.recompute.memory_time,
            block_re_time: block.recompute.time,
            baseblock_recomm_time: block.redo_comm.link_time.base,
            edgeblock_recomm_time: block.redo_comm.link_time.edge,
            baseblock_recomm_time_exposed: block.redo_comm.exposed_time.base,
            edgeblock_recomm_time_exposed: block.redo_comm.exposed_time.edge,
            block_agrad_flops: block.agrad.flops,
            block_agrad_flops_time: block.agrad.flops_time,
            block_agrad_mem_accessed: block.agrad.bytes,
            block_agrad_mem_time: block.agrad.memory_time,
            block_agrad_time: block.agrad.time,
            baseblock_agrad_tp_time: block.agrad_comm.link_time.base,
            edgeblock_agrad_tp_time: block.agrad_comm.link_time.edge,
            baseblock_agrad_tp_time_exposed: block.agrad_comm.exposed_time.base,
            edgeblock_agrad_tp_time_exposed: block.agrad_comm.exposed_time.edge,
            block_wgrad_flops: block.wgrad.flops,
            block_wgrad_flops_time: block.wgrad.flops_time,
            block_wgrad_mem_accessed: block.wgrad.bytes,
            block_wgrad_mem_time: block.wgrad.memory_time,
            block_wgrad_time: block.wgrad.time,
            block_optim_flops: block.optimizer.flops,
            block_optim_flops_time: block.optimizer.flops_time,
            block_optim_mem_accessed: block.optimizer.bytes,
            block_optim_mem_time: block.optimizer.memory_time,
            block_optim_time: block.optimizer.time,
            baseblock_fw_tp_size: block.forward_comm.bytes.base,
            edgeblock_fw_tp_size: block.forward_comm.bytes.edge,
            baseblock_bw_tp_size: block.agrad_comm.bytes.base,
            edgeblock_bw_tp_size: block.agrad_comm.bytes.edge,
            baseblock_recomm_size: block.redo_comm.bytes.base,
            edgeblock_recomm_size: block.redo_comm.bytes.edge,
            block_fw_pp_size: pipeline.forward_bytes,
            block_bw_pp_size: pipeline.backward_bytes,
            block_dp_size: dp.block_bytes,
            tp_bw_overlap_req: block.tp_bandwidth_to_hide,
            dp_bw_overlap_req_chunk: dp.chunk_bandwidth,
            dp_bw_overlap_req_tail: dp.tail_bandwidth,
            block_weight_space: block.bytes.weights,
            block_act_working_space: block.bytes.working,
            block_act_storage_space: block.bytes.stored,
            block_act_checkpoint_size: block.bytes.checkpoint,
            block_weight_grad_space: block.bytes.weight_grads,
            block_weight_grad_space_no_sharding: block.bytes.weight_grads_fp32,
            block_act_grad_space: block.bytes.activation_grads,
            block_optimizer_space: block.bytes.optimizer,
            weight_space_with_offload: memory.when_offloaded.weights,
            act_space_with_offload: memory.when_offloaded.activations,
            act_checkpoint_size_with_offload: if training {
                memory.when_offloaded.checkpoints
            } else {
                f64::NAN
            },
            act_grad_space_with_offload: memory.when_offloaded.activation_grads,
            weight_grad_space_with_offload: memory.when_offloaded.weight_grads,
            optimizer_space_with_offload: memory.when_offloaded.optimizer,
            weight_space: memory.whole.weights,
            act_space: memory.whole.activations,
            act_checkpoint_size: memory.whole.checkpoints,
            act_grad_space: memory.whole.activation_grads,
            weight_grad_space: memory.whole.weight_grads,
            optimizer_space: memory.whole.optimizer,
            fw_time: terms.forward,
            bw_time: terms.backward,
            optim_step_time: terms.optimizer,
            recompute_time: terms.recompute,
            recomm_link_time: counts.step(block.redo_comm.link_time),
            recomm_exposed_time: terms.recommunication,
            bubble_time: terms.bubble,
            tp_comm_link_time: counts.step(block.forward_comm.link_time)
                + counts.step(block.agrad_comm.link_time),
            pp_comm_link_time: terms.pipeline_parallel,
            dp_comm_link_time: dp.link_time,
            tp_comm_exposed_time: terms.tensor_parallel,
            pp_comm_exposed_time: terms.pipeline_parallel,
            dp_comm_exposed_time: terms.data_parallel,
            fw_offload_exposed_time: terms.forward_offload,
            bw_offload_exposed_time: terms.backward_offload,
            total_time: terms.total(),
            act_offload_bw_req: pipeline.offload.required.activations,
            weight_offload_bw_req: pipeline.offload.required.weights,
            optim_offload_bw_req: pipeline.offload.required.optimizer,
            offload_mem_bw_req: pipeline.offload.required.all,
            proc_mem_tier1_cap_req: memory.tier1.total(),
            proc_mem_tier2_cap_req: memory.tier2.total(),
            useful_flops: efficiency.useful_flops,
            compute_efficiency: efficiency.compute,
            system_efficiency: efficiency.system,
            total_efficiency: efficiency.total,
            sample_rate: efficiency.sample_rate,
        }
    }
}
