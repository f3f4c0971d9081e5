//! Mixture of experts: router, dispatch, experts, combine.
//!
//! A rank sends each of its tokens to `top_k` experts, so the all-to-all buffer holds top_k·T·h elements, and with an
//! even load a rank's experts receive as many rows as it sends. A load factor λ (fullest over mean) stretches both
//! the all-to-all and the grouped GEMMs of the rank that has it; a capacity factor caps it and drops the rest.

use super::item::{CommGroup, CommOp, CommPoint, Item, Kernel, KernelShape};
use super::layer::{Block, Blocks};
use super::mlp;
use super::{KernelClass, Scaling};
use crate::spec::model::MoeSpec;
use crate::spec::workload::{Dtype, Fp8Communication, Fp8Gemm, RecomputeModule};

const MOE: &[RecomputeModule] = &[RecomputeModule::Moe];

/// Adds router, shared experts, dispatch, experts and combine.
pub(super) fn add(b: &mut Blocks, moe: &MoeSpec) {
    let (m, s) = (b.model, b.shard);
    let ffn = moe.ffn.unwrap_or(m.ffn);
    let bytes = s.local_tokens() as f64 * m.hidden as f64 * s.saved_input(Fp8Gemm::Experts);
    b.save("MoE input", bytes, &[RecomputeModule::Norm], true);
    router(b, moe);
    if moe.shared_width(m) > 0 {
        mlp::add(b, "shared expert", moe.shared_width(m), Fp8Gemm::Experts, MOE, false);
        b.parameters.dense += if moe.shared_gate { m.hidden } else { 0 };
    }
    let routed = Routed::new(b, moe, ffn);
    routed.dispatch(b);
    routed.experts(b);
    routed.combine(b);
}

/// The router: one small GEMM in fp32 on each rank's own tokens, softmax and top-k.
fn router(b: &mut Blocks, moe: &MoeSpec) {
    let (m, s) = (b.model, b.shard);
    let t = s.local_tokens();
    let gemm = |name, rows, columns, inner| {
        Item::Kernel(Kernel::gemm(name, rows, columns, inner, 1, Dtype::Tf32, Dtype::Fp32.bytes()))
    };
    let scores = t * moe.experts;
    b.parameters.dense += m.hidden * moe.experts + if moe.router_bias { moe.experts } else { 0 };
    b.save("router scores", scores as f64 * 4.0, MOE, true);
    let top_k = |name| {
        Item::Kernel(Kernel::elementwise(KernelClass::Router, name, scores, 8.0 * scores as f64, Dtype::Fp32))
    };
    let input_grad = vec![top_k("top-k backward"), gemm("router input gradient", t, m.hidden, moe.experts)];
    let weight_grad = Item::Kernel(Kernel::weight_gradient(
        "router weight gradient",
        moe.experts,
        m.hidden,
        t,
        Dtype::Tf32,
        s.gradient_bytes,
    ));
    b.push(Block {
        forward: vec![gemm("router", t, moe.experts, m.hidden), top_k("top-k")],
        backward: [input_grad.clone(), vec![weight_grad.clone()]].concat(),
        input_grad,
        weight_grad: vec![weight_grad],
        modules: MOE.to_vec(),
    });
}

/// The routed experts of one rank.
struct Routed<'a> {
    moe: &'a MoeSpec,
    /// Rows that this rank sends: one per token and expert visited.
    sent: u64,
    /// Rows that its experts work on.
    rows: u64,
    /// Experts of this rank.
    experts: u64,
    /// Width of its share of one expert.
    width: u64,
    /// Received over sent.
    load: f64,
    /// Whether the input is gathered over the tensor-parallel ranks of an expert.
    gathers: bool,
}

impl<'a> Routed<'a> {
    fn new(b: &Blocks, moe: &'a MoeSpec, ffn: u64) -> Routed<'a> {
        let s = b.shard;
        let capped = moe.capacity_factor.unwrap_or(f64::INFINITY);
        let load = s.expert_load.min(capped);
        let sent = s.local_tokens() * moe.top_k;
        let gathers = s.expert_tensor > 1 && s.sequence_parallel;
        let received = (sent as f64 * load).round() as u64;
        Routed {
            moe,
            sent,
            rows: received * if gathers { s.expert_tensor } else { 1 },
            experts: moe.experts / s.expert,
            width: ffn / s.expert_tensor,
            load,
            gathers,
        }
    }

    /// Tokens sorted by expert and sent there (and gathered inside the expert).
    fn dispatch(&self, b: &mut Blocks) {
        let (m, s) = (b.model, b.shard);
        let sent = (self.sent * m.hidden) as f64;
        let permute = |name| {
            Item::Kernel(Kernel::elementwise(
                KernelClass::Permute,
                name,
                self.sent * m.hidden,
                2.0 * sent * s.act(),
                s.compute,
            ))
        };
        let swap = |name, element: f64| {
            Item::Comm(CommPoint::new(name, CommGroup::Expert, CommOp::AllToAll, sent * self.load * element))
        };
        let tensor = |name, op| {
            let bytes = (self.rows * m.hidden) as f64 * s.act();
            Item::Comm(CommPoint::new(name, CommGroup::ExpertTensor, op, bytes))
        };
        let mut forward = vec![permute("permute tokens")];
        let mut backward = Vec::new();
        if self.gathers {
            backward.push(tensor("reduce-scatter expert input gradient", CommOp::ReduceScatter));
        }
        if s.expert > 1 {
            forward.push(swap("dispatch tokens", s.message(Fp8Communication::ExpertDispatch)));
            backward.push(swap("dispatch backward", s.act()));
        }
        if self.gathers {
            forward.push(tensor("all-gather expert input", CommOp::AllGather));
        }
        backward.push(permute("permute backward"));
        b.push(Block {
            forward,
            input_grad: backward.clone(),
            backward,
            modules: MOE.to_vec(),
            ..Block::default()
        });
    }

    /// The experts' GEMMs, grouped.
    fn experts(&self, b: &mut Blocks) {
        let (m, s) = (b.model, b.shard);
        let up = if m.gated_mlp { 2 * self.width } else { self.width };
        let matrices = up * m.hidden + self.width * m.hidden;
        b.parameters.expert += self.experts * matrices;
        let rows = self.rows as f64;
        let element = s.saved_input(Fp8Gemm::Experts);
        b.save("expert input", rows * m.hidden as f64 * element, MOE, true);
        self.grouped(b, ["expert up", "expert up input gradient", "expert up weight gradient"], m.hidden, up);
        b.save("expert activation input", rows * up as f64 * s.saved_activation(), MOE, false);
        let with_activation = [RecomputeModule::Activation, RecomputeModule::Moe];
        mlp::activation(b, self.rows * self.width, m.gated_mlp, &with_activation);
        b.save("expert down input", rows * self.width as f64 * element, &with_activation, true);
        self.grouped(
            b,
            ["expert down", "expert down input gradient", "expert down weight gradient"],
            self.width,
            m.hidden,
        );
        // Rows are weighed at the activation, so nothing of the combine is kept.
    }
    fn grouped(&self, b: &mut Blocks, names: [&'static str; 3], inputs: u64, outputs: u64) {
        let s = b.shard;
        let per_expert = self.rows.div_ceil(self.experts.max(1)).max(1);
        let (e, rows) = (self.experts as f64, self.rows as f64);
        let (i, o) = (inputs as f64, outputs as f64);
        let kernel = |class, name, m, n, k, dtype: Dtype| {
            let accumulate = class == KernelClass::GroupedGemmWeightGrad;
            let weights = e * i * o * if accumulate { 2.0 * s.gradient_bytes } else { dtype.bytes() };
            let tokens = if accumulate {
                rows * (i + o) * dtype.bytes()
            } else {
                rows * (k as f64 * dtype.bytes() + n as f64 * s.act())
            };
            Item::Kernel(Kernel {
                name,
                class,
                shape: KernelShape::GroupedGemm { groups: self.experts, m, n, k, accumulate },
                flops: 2.0 * rows * i * o,
                bytes: weights + tokens,
                dtype,
                scaling: Scaling::Tensor,
            })
        };
        let dtype = s.gemm_dtype(Fp8Gemm::Experts);
        let forward = kernel(KernelClass::GroupedGemm, names[0], per_expert, outputs, inputs, dtype);
        let input_grad =
            kernel(KernelClass::GroupedGemmInputGrad, names[1], per_expert, inputs, outputs, dtype);
        let weight_grad = {
            let dtype = s.weight_gradient_dtype(Fp8Gemm::Experts);
            kernel(KernelClass::GroupedGemmWeightGrad, names[2], outputs, inputs, per_expert, dtype)
        };
        let gradient = rows * o * s.weight_gradient_dtype(Fp8Gemm::Experts).bytes();
        b.note_gemm(rows * i * s.act(), rows * o * s.act(), gradient);
        b.push(Block {
            forward: vec![forward],
            input_grad: vec![input_grad.clone()],
            weight_grad: vec![weight_grad.clone()],
            backward: vec![input_grad, weight_grad],
            modules: MOE.to_vec(),
        });
    }

    /// Rows sent back, weighed and summed for each token.
    fn combine(&self, b: &mut Blocks) {
        let (m, s) = (b.model, b.shard);
        let sent = (self.sent * m.hidden) as f64;
        let per_token = sent / self.moe.top_k as f64;
        let unpermute = |name| {
            Item::Kernel(Kernel::elementwise(
                KernelClass::Unpermute,
                name,
                self.sent * m.hidden,
                (sent + per_token) * s.act(),
                s.compute,
            ))
        };
        let swap = |name| {
            Item::Comm(CommPoint::new(name, CommGroup::Expert, CommOp::AllToAll, sent * self.load * s.act()))
        };
        let tensor = |name, op| {
            let bytes = (self.rows * m.hidden) as f64 * s.act();
            Item::Comm(CommPoint::new(name, CommGroup::ExpertTensor, op, bytes))
        };
        let mut forward = Vec::new();
        let mut backward = vec![unpermute("combine backward")];
        if s.expert_tensor > 1 {
            let op = if self.gathers { CommOp::ReduceScatter } else { CommOp::AllReduce };
            forward.push(tensor("sum expert output", op));
        }
        if s.expert > 1 {
            forward.push(swap("combine tokens"));
            backward.push(swap("combine backward tokens"));
        }
        if self.gathers {
            backward.push(tensor("all-gather expert output gradient", CommOp::AllGather));
        }
        forward.push(unpermute("unpermute tokens"));
        b.push(Block {
            forward,
            input_grad: backward.clone(),
            backward,
            modules: MOE.to_vec(),
            ..Block::default()
        });
    }
}
