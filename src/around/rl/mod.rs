//! An iteration of reinforcement learning as a sequence of phases: weights to the generating devices, generation,
//! reward, forward passes for log-probabilities, training. Coarse; the training step alone is simulated.
//!
//! ```text
//! exchange   the weights of a generating rank, all-gathered from the ranks that hold one copy of the model (same
//!            devices), or sent over the slowest link between the two (devices of their own)
//! generation each replica by itself: prefill of admitted prompts, then decode steps, a token of each sequence
//!     decode step = max(weights and KV cache read / memory, products / peak) + 2 all-reduces a layer (tensor)
//! forward    the share of the training step that its forward kernels have
//! training   the simulated step, once an update
//! ```
//!
//! Decoding reads all weights for every token of the batch, so it is bound by memory: what a replica makes in a
//! second shrinks as sequences end, and the longest response of the slowest replica ends the phase ([`generation`]).
//! Samples of one prompt share its prefill.
//!
//! Left out, so that generation is a lower bound: what the host does between decode steps (scheduling, sampling,
//! detokenising), speculative decoding, preemption of running sequences, and what software does around an exchange
//! (renaming, new graphs). Of the phases: advantage computation, logging, checkpoints. Inference as a product is
//! outside of this program.
//!
//! Sources: HybridFlow (arXiv 2409.19256: phases and the exchange of weights between layouts), OpenRLHF (2405.11143),
//! "Efficiently scaling transformer inference" (2211.05102: what bounds decoding), vLLM (2309.06180: KV cache admits
//! sequences).

mod decoder;
pub mod generation;
mod iteration;
mod spec;

pub use decoder::Decoder;
pub use iteration::{Iteration, IterationPhase, PhaseLane, iteration};
pub use spec::{Forwards, GenerationSpec, RlSpec};
