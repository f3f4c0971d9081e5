//! Kernels and communication points: the items of a layer's lists.

use crate::moe::MoeExchange;
use stepsim_core::kernel_class::KernelClass;
use stepsim_spec::collectives::SecondStage;

use stepsim_spec::kernel::{AttentionGeneration, Format, Scaling};
use stepsim_spec::workload::Dtype;

/// The next work of a rank.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A kernel on the compute stream.
    Kernel(Kernel),
    /// Communication inside the layer.
    Comm(CommPoint),
}

impl Item {
    /// The kernel, where it is one.
    pub fn kernel(&self) -> Option<&Kernel> {
        match self {
            Item::Kernel(k) => Some(k),
            Item::Comm(_) => None,
        }
    }
    /// The communication point, where it is one.
    pub fn comm(&self) -> Option<&CommPoint> {
        match self {
            Item::Kernel(_) => None,
            Item::Comm(c) => Some(c),
        }
    }
}

/// One kernel on one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kernel {
    /// Its name in the field's words.
    pub name: &'static str,
    /// The kind of work.
    pub class: KernelClass,
    /// The shape, which decides its time.
    pub shape: KernelShape,
    /// Floating-point operations executed on matrix units (0 for element-wise kernels).
    pub flops: f64,
    /// Bytes moved to and from device memory when every operand is touched once.
    pub bytes: f64,
    /// Format of the inputs of its multiplications.
    pub dtype: Dtype,
    /// How elements of that format are scaled.
    pub scaling: Scaling,
    /// True for a hand-written kernel of a library, among kernels of the framework or its compiler.
    pub tuned: bool,
}

/// All of a kernel but its name, to look it up by: numbers as their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelKey(KernelClass, KernelShape, [u64; 2], Dtype, Scaling, bool);

/// The shape of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelShape {
    /// `batch` products of an m×k with a k×n matrix.
    Gemm {
        /// Rows of the output.
        m: u64,
        /// Columns of the output.
        n: u64,
        /// Length of the inner products.
        k: u64,
        /// Number of independent products.
        batch: u64,
        /// True if the output is added to the values already there, in fp32 (weight gradients).
        accumulate: bool,
    },
    /// One product per expert of a rank, in one launch.
    GroupedGemm {
        /// Experts.
        groups: u64,
        /// Rows of one expert's output (on average).
        m: u64,
        /// Columns of the output.
        n: u64,
        /// Length of the inner products.
        k: u64,
        /// True if the output is added to the values already there, in fp32 (weight gradients).
        accumulate: bool,
    },
    /// A fused attention kernel.
    Attention {
        /// Sequences.
        batch: u64,
        /// Query tokens of one sequence.
        queries: u64,
        /// Key–value tokens that a query of one sequence works on, those above the diagonal included.
        keys: u64,
        /// Key–value tokens of one sequence that some query sees: all that pass by a window.
        key_rows: u64,
        /// Query heads.
        heads: u64,
        /// Key–value heads.
        kv_heads: u64,
        /// Width of a query or key head.
        qk_size: u64,
        /// Width of a value head.
        v_size: u64,
        /// True if blocks above the diagonal are skipped.
        causal: bool,
        /// Forward or backward.
        direction: Direction,
        /// The generation of kernels; `None`: the best that the device has.
        generation: Option<AttentionGeneration>,
    },
    /// Anything bound by memory alone.
    Elementwise {
        /// Elements of its largest operand.
        elements: u64,
    },
}

/// Forward or backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Forward.
    Forward,
    /// Backward.
    Backward,
}

/// Communication between two kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CommPoint {
    /// Its name.
    pub name: &'static str,
    /// Among whom.
    pub group: CommGroup,
    /// The operation.
    pub op: CommOp,
    /// Full size S of the message in bytes (see the parent module).
    pub bytes: u64,
    /// Kernels that follow it in the same list and may run while it is in flight; what comes after them waits for
    /// it. 0: the next item waits.
    pub hidden_behind: u32,
    /// The exchange with experts that it is, if it is one of the four.
    pub exchange: Option<MoeExchange>,
    /// The second stage and kernel of an exchange that brings its own.
    pub staged: Option<SecondStage>,
}

/// Among whom a layer communicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommGroup {
    /// Tensor-parallel peers.
    Tensor,
    /// Context-parallel peers: all of them.
    Context,
    /// Two-level context parallelism: the inner all-to-all group.
    ContextInner,
    /// Two-level context parallelism: the outer ring.
    ContextOuter,
    /// Dynamic context parallelism: ranks of data × context, as a power of two.
    ContextOf(u8),
    /// Expert-parallel peers.
    Expert,
    /// Tensor-parallel peers inside an expert.
    ExpertTensor,
    /// Data-parallel peers: the ranks at the same place of each replica.
    Data,
}

/// The operation at a communication point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommOp {
    /// Everybody gets all shards.
    AllGather,
    /// Sums, one shard each.
    ReduceScatter,
    /// Sums for everybody.
    AllReduce,
    /// Everybody sends another part to everybody.
    AllToAll,
    /// One step around the ring: send to the next, receive from the one before.
    SendRecv,
    /// Rows of tokens to the ranks of their experts, or back, in two stages.
    ExpertExchange,
}

impl Kernel {
    /// `batch` products m×k by k×n that overwrite their output.
    pub fn gemm(
        name: &'static str,
        m: u64,
        n: u64,
        k: u64,
        batch: u64,
        dtype: Dtype,
        out_bytes: f64,
    ) -> Kernel {
        let (mf, nf, kf, bf) = (m as f64, n as f64, k as f64, batch as f64);
        Kernel {
            name,
            class: KernelClass::Gemm,
            shape: KernelShape::Gemm { m, n, k, batch, accumulate: false },
            flops: 2.0 * bf * mf * nf * kf,
            bytes: bf * ((mf * kf + kf * nf) * dtype.bytes() + mf * nf * out_bytes),
            dtype,
            scaling: Scaling::Tensor,
            tuned: false,
        }
    }
    /// A weight gradient: an m×k by k×n product added to gradients of `grad_bytes` a piece.
    pub fn weight_gradient(
        name: &'static str,
        m: u64,
        n: u64,
        k: u64,
        dtype: Dtype,
        grad_bytes: f64,
    ) -> Kernel {
        // Sums are read and written.
        let product = Kernel::gemm(name, m, n, k, 1, dtype, 2.0 * grad_bytes);
        let shape = KernelShape::Gemm { m, n, k, batch: 1, accumulate: true };
        Kernel { class: KernelClass::GemmWeightGrad, shape, ..product }
    }
    /// A kernel bound by memory, which moves `bytes` in all.
    pub fn elementwise(
        class: KernelClass,
        name: &'static str,
        elements: u64,
        bytes: f64,
        dtype: Dtype,
    ) -> Kernel {
        let shape = KernelShape::Elementwise { elements };
        Kernel { name, class, shape, flops: 0.0, bytes, dtype, scaling: Scaling::Tensor, tuned: false }
    }
    /// The same work as another class: `Kernel::gemm(…).of(KernelClass::GemmInputGrad)`.
    pub fn of(self, class: KernelClass) -> Kernel {
        Kernel { class, ..self }
    }
    /// The key that it is looked up by.
    pub fn key(&self) -> KernelKey {
        let numbers = [self.flops, self.bytes].map(f64::to_bits);
        KernelKey(self.class, self.shape, numbers, self.dtype, self.scaling, self.tuned)
    }
    /// The same work on scaled elements.
    pub fn scaled(self, scaling: Scaling) -> Kernel {
        Kernel { scaling, ..self }
    }
    /// Experts whose products it holds; 1 for any other kernel.
    pub fn groups(&self) -> u64 {
        match self.shape {
            KernelShape::GroupedGemm { groups, .. } => groups,
            _ => 1,
        }
    }
    /// Of how many pieces of a product it is one: those share its shape, and each has a part of its FLOPs and bytes.
    pub fn pieces(&self) -> f64 {
        match self.shape {
            KernelShape::Gemm { m, n, k, batch, .. } if self.flops > 0.0 => {
                (2.0 * batch as f64 * m as f64 * n as f64 * k as f64 / self.flops).round().max(1.0)
            }
            _ => 1.0,
        }
    }
    /// The product that it is a piece of.
    pub fn whole(&self) -> Kernel {
        let pieces = self.pieces();
        Kernel { flops: self.flops * pieces, bytes: self.bytes * pieces, ..*self }
    }
    /// The format that its price goes by.
    pub fn format(&self) -> Format {
        Format::of(self.dtype, self.scaling)
    }
}

impl CommPoint {
    /// A communication point that the next item waits for.
    pub fn new(name: &'static str, group: CommGroup, op: CommOp, bytes: f64) -> CommPoint {
        CommPoint {
            name,
            group,
            op,
            bytes: bytes.round() as u64,
            hidden_behind: 0,
            exchange: None,
            staged: None,
        }
    }
    /// The same, in flight while `kernels` more run.
    pub fn behind(mut self, kernels: u32) -> CommPoint {
        self.hidden_behind = kernels;
        self
    }
}
