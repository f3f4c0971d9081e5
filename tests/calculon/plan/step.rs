//! The cost of one step, piece by piece, and its assumptions.

use stepsim::core::units::Time;
use stepsim::plan::pipeline::Sends;
use stepsim::schedule::{InterleavedOneFOneB, OneFOneB, Order, Pass, Schedule, ScheduleError, Shape, Slot};

/// The cost of one block for one micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockTimes {
    /// Forward kernels.
    pub forward: Time,
    /// Exposed forward collectives.
    pub forward_comm: Time,
    /// Offload that the forward block is charged in closed form.
    pub forward_offload: Time,
    /// Recomputed kernels.
    pub recompute: Time,
    /// Exposed repeated collectives.
    pub redo_comm: Time,
    /// Both gradients.
    pub backward: Time,
    /// Exposed backward collectives.
    pub backward_comm: Time,
    /// Offload that the backward block is charged in closed form.
    pub backward_offload: Time,
}

/// A transfer: latency, then time on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimedTransfer {
    /// Bytes of one rank, for readers.
    pub bytes: f64,
    /// Before the wire is occupied.
    pub latency: Time,
    /// On the wire alone.
    pub wire: Time,
}

impl TimedTransfer {
    /// Both together.
    pub fn time(&self) -> Time {
        self.latency + self.wire
    }
}

/// Data-parallel communication.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum DataParallelPlan {
    /// One replica, or inference.
    #[default]
    None,
    /// So much after the last backward pass, whatever happens before.
    Exposed(Time),
    /// Event by event.
    Blocks {
        /// Reduction of one block's gradients.
        reduce: TimedTransfer,
        /// Gather of one block's weights, where the optimizer is sharded.
        gather: Option<TimedTransfer>,
        /// A block's communication starts when its last backward pass has ended; else after all passes.
        overlap: bool,
        /// The gather waits for the optimizer step of its block; else it follows its reduction.
        gather_after_step: bool,
    },
}

/// Copies of one block between device and offload memory; a time of zero: stays on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockCopies {
    /// Weights in, once per pass.
    pub weights: Time,
    /// Stored activations, out in the forward pass and in again in the backward pass.
    pub activations: Time,
    /// Optimizer state, in and out once per step.
    pub state: Time,
}

/// Bytes that one block holds on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceBlockBytes {
    /// Weights.
    pub weights: u64,
    /// Gradients.
    pub gradients: u64,
    /// Optimizer state.
    pub state: u64,
    /// Activations kept from forward to backward.
    pub stored: u64,
}

/// Slow-down of kernels while data-parallel communication runs, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slowdown {
    /// Forward and recomputed kernels.
    pub forward: u16,
    /// Backward kernels.
    pub backward: u16,
}

/// A network as the ranks see it: a port in each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ports {
    /// Bytes per second of one direction.
    pub bandwidth: f64,
    /// True if pipeline transfers use it.
    pub pipeline: bool,
    /// True if data-parallel collectives use it.
    pub data: bool,
    /// True if tensor-parallel collectives use it.
    pub tensor: bool,
}

/// A step of Calculon's, ready to be written as programs.
#[derive(Clone, Debug, PartialEq)]
pub struct CalculonStep {
    /// Pipeline ranks p.
    pub ranks: u32,
    /// Chunks of a rank V.
    pub chunks: u16,
    /// Micro-batches M.
    pub micro_batches: u32,
    /// Blocks of a chunk q, where the stages are even.
    pub blocks: u32,
    /// So many of the last ranks lack a block in their last chunk.
    pub missing: u32,
    /// False: forward passes only.
    pub training: bool,
    /// All blocks of a chunk but the last.
    pub base: BlockTimes,
    /// The last block of a chunk.
    pub edge: BlockTimes,
    /// Optimizer of one block.
    pub optimizer: Time,
    /// Activations to the next stage, and gradients back.
    pub p2p: [TimedTransfer; 2],
    /// The hold of a transfer on its sender.
    pub sends: Sends,
    /// True if the last stage's forward and the first stage's backward pass take as long as if they sent, too.
    pub ends_send: bool,
    /// Data-parallel communication.
    pub data: DataParallelPlan,
    /// Copies beside the kernels; else the blocks' own offload times count.
    pub copies: Option<BlockCopies>,
    /// Of kernels beside data-parallel communication.
    pub slowdown: Slowdown,
    /// Networks whose ports transfers share; empty: every transfer has the time it has alone.
    pub ports: Vec<Ports>,
    /// The bytes of a block.
    pub bytes: DeviceBlockBytes,
    /// Bytes of device memory.
    pub capacity: f64,
}

impl CalculonStep {
    /// The order of passes: 1F1B, or interleaved 1F1B in groups of p micro-batches (of the next larger number that
    /// Megatron's order runs with, where p does not divide M); in inference its forward passes.
    ///
    /// # Errors
    /// No group size runs, or there are more passes than an order may have.
    pub fn order(&self) -> Result<Order, ScheduleError> {
        let shape = Shape::new(self.ranks, self.micro_batches);
        let mut order = if self.chunks == 1 {
            OneFOneB.order(&shape)?
        } else {
            let (p, m) = (self.ranks, self.micro_batches);
            let legal = |g: &u32| m.is_multiple_of(*g) || m % g >= p;
            let group = (p..=m).find(legal).unwrap_or(p);
            InterleavedOneFOneB.order(&shape.with_chunks(self.chunks).with_group(group))?
        };
        if !self.training {
            let forward = |s: &Slot| s.parts().all(|p| p.pass == Pass::Forward);
            order.ranks.iter_mut().for_each(|slots| slots.retain(forward));
        }
        Ok(order)
    }
    /// Blocks of a chunk on a rank.
    pub(super) fn blocks_of(&self, rank: u32, chunk: u16) -> u32 {
        let lacks = chunk + 1 == self.chunks && rank + self.missing >= self.ranks;
        self.blocks - u32::from(lacks)
    }
    pub(super) fn all_blocks(&self, rank: u32) -> u32 {
        (0..self.chunks).map(|chunk| self.blocks_of(rank, chunk)).sum()
    }
    pub(super) fn block(&self, rank: u32, chunk: u16, block: u32) -> &BlockTimes {
        if block + 1 == self.blocks_of(rank, chunk) { &self.edge } else { &self.base }
    }
}
