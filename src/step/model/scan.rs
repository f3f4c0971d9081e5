//! Mixers without attention scores: state spaces and linear attention, worked on in chunks.
//!
//! A layer is one projection in, a short convolution, the scan, a gated norm, and a projection out; heads are cut over
//! tensor-parallel ranks as attention's are. With chunks of Q tokens, a state of N × P a head and G groups of maps, the
//! scan of Mamba-2 is five kernels (`mamba_ssm/ops/triton/ssd_combined.py`): products of maps (Q·Q·N a group), states of
//! chunks (N·P·Q a head), their passing on, outputs inside chunks (Q·P·Q) and outputs from states (Q·P·N). A delta rule
//! (`fla/ops/gated_delta_rule`) adds the inverse of a triangle and two more products with it. Backward repeats the
//! forward's states and does each product twice.
//!
//! Context parallelism swaps shards of the sequence for shards of heads before the convolution and back behind the scan
//! (Megatron's way), two all-to-alls a pass.

use super::KernelClass;
use super::blocks::{Block, Blocks};
use super::item::{CommGroup, CommOp, CommPoint, Item, Kernel};
use super::linear::{Cut, Linear};
use super::parameters;
use crate::step::spec::model::{GatedDeltaSpec, KimiDeltaSpec, LightningSpec, Mamba1Spec, Mamba2Spec, Mixer};
use crate::step::spec::workload::{Dtype, Fp8Gemm, RecomputeModule};

const CORE: &[RecomputeModule] = &[RecomputeModule::AttentionCore];

/// What a mixer needs of a rank, in elements a token where nothing else is said.
struct Scan {
    /// Width of the projection in.
    projected: u64,
    /// Width that is convolved; 0 without.
    convolved: u64,
    /// Width of the scan's output.
    inner: u64,
    /// Elements that the scan reads, each time it reads them.
    read: u64,
    /// Tokens of one chunk.
    chunk: u64,
    /// Products, each (rows, columns, inner length, how many of them for one chunk).
    products: Vec<(u64, u64, u64, u64)>,
    /// Of these, how many backward computes again before its own.
    repeated: usize,
    /// Elements of the states behind one chunk, in fp32.
    state: u64,
    /// Elements kept for backward beside what the projections keep.
    saved: u64,
}

/// Adds projection in, convolution, scan, gated norm and projection out.
pub(super) fn add(b: &mut Blocks) {
    let (m, s) = (b.model, b.shard);
    let scan = Scan::of(&m.mixer, s.tensor);
    let tokens = s.tokens();
    b.save_input(
        "mixer input",
        s.local_tokens() as f64 * m.hidden as f64 * s.saved_input(Fp8Gemm::Qkv),
        &[RecomputeModule::Norm],
        &[],
    );
    let before = b.parameters.dense;
    b.linear(Linear {
        name: "mixer in",
        grad_names: ["mixer in input gradient", "mixer in weight gradient"],
        inputs: m.hidden,
        outputs: scan.projected,
        cut: Cut::Columns,
        biases: false,
        gemm: Fp8Gemm::Qkv,
        modules: &[],
        parts: Vec::new(),
    });
    b.save("projected", (tokens * scan.projected) as f64 * s.act(), &[], false);
    b.save("scan", (tokens * scan.saved) as f64 * s.act(), CORE, false);
    let (forward, backward) = scan.passes(b);
    b.push(Block {
        forward,
        input_grad: backward.clone(),
        backward,
        modules: CORE.to_vec(),
        ..Block::default()
    });
    b.save_input("mixer output", (tokens * scan.inner) as f64 * s.act(), &[], &[]);
    b.linear(Linear {
        name: "mixer out",
        grad_names: ["mixer out input gradient", "mixer out weight gradient"],
        inputs: scan.inner,
        outputs: m.hidden,
        cut: Cut::Rows,
        biases: false,
        gemm: Fp8Gemm::Projection,
        modules: &[],
        parts: Vec::new(),
    });
    // Projections of low rank, convolutions and vectors are counted with the rest.
    b.parameters.dense = before + parameters::mixer(m).div_ceil(s.tensor);
}

impl Scan {
    /// Of one of `tensor` ranks that share the heads.
    fn of(mixer: &Mixer, tensor: u64) -> Scan {
        match mixer {
            Mixer::Mamba2(x) => Scan::mamba2(x, tensor),
            Mixer::Mamba1(x) => Scan::mamba1(x, tensor),
            Mixer::GatedDelta(x) => Scan::gated_delta(x, tensor),
            Mixer::KimiDelta(x) => Scan::kimi_delta(x, tensor),
            Mixer::Lightning(x) => Scan::lightning(x, tensor),
            Mixer::Attention | Mixer::None => {
                unreachable!("attention has a file of its own, nothing has no scan")
            }
        }
    }

    fn mamba2(x: &Mamba2Spec, tensor: u64) -> Scan {
        let (heads, groups) = (x.heads / tensor, (x.groups / tensor).max(1));
        let (q, n, p) = (x.chunk, x.state, x.head_size);
        let inner = heads * p;
        let convolved = inner + 2 * groups * n;
        Scan {
            projected: inner + convolved + heads,
            convolved,
            inner,
            read: 3 * inner + 2 * groups * n,
            chunk: q,
            products: vec![(q, q, n, groups), (n, p, q, heads), (q, p, q, heads), (q, p, n, heads)],
            repeated: 2,
            state: heads * n * p,
            saved: inner,
        }
    }

    /// No products of matrices: each channel and state by itself.
    fn mamba1(x: &Mamba1Spec, tensor: u64) -> Scan {
        let inner = x.inner / tensor;
        Scan {
            projected: 2 * inner,
            convolved: inner,
            inner,
            read: 4 * inner + 2 * x.state,
            chunk: 256,
            products: Vec::new(),
            repeated: 0,
            state: inner * x.state,
            saved: 2 * inner,
        }
    }

    fn gated_delta(x: &GatedDeltaSpec, tensor: u64) -> Scan {
        let (key_heads, heads) = ((x.key_heads / tensor).max(1), x.value_heads / tensor);
        let (keys, values) = (key_heads * x.key_size, heads * x.value_size);
        Scan {
            projected: 2 * keys + 2 * values + 2 * heads,
            convolved: 2 * keys + values,
            ..Scan::delta_rule(heads, x.key_size, x.value_size, x.chunk, 2 * keys + values)
        }
    }

    fn kimi_delta(x: &KimiDeltaSpec, tensor: u64) -> Scan {
        let heads = x.heads / tensor;
        let inner = heads * x.head_size;
        let mut scan = Scan::delta_rule(heads, x.head_size, x.head_size, x.chunk, 3 * inner);
        // Decay and gate are widened from one head's width.
        scan.products.push((x.chunk, inner, x.head_size, 2));
        Scan { projected: 3 * inner + heads + 2 * x.head_size, convolved: 3 * inner, ..scan }
    }

    /// Keys with keys, both products with the inverse, states in and out, queries with states and keys, and values.
    fn delta_rule(heads: u64, k: u64, v: u64, c: u64, mixed: u64) -> Scan {
        let products = vec![
            (c, c, k, heads),
            (c, k, c, heads),
            (c, v, c, heads),
            (c, v, k, heads),
            (k, v, c, heads),
            (c, v, k, heads),
            (c, c, k, heads),
            (c, v, c, heads),
        ];
        Scan {
            projected: 0,
            convolved: 0,
            inner: heads * v,
            read: 2 * mixed + heads * v,
            chunk: c,
            products,
            repeated: 5,
            state: heads * k * v,
            saved: mixed + heads * (v + c),
        }
    }

    fn lightning(x: &LightningSpec, tensor: u64) -> Scan {
        let (heads, d, q) = (x.heads / tensor, x.head_size, x.block);
        let inner = heads * d;
        Scan {
            projected: 4 * inner,
            convolved: 0,
            inner,
            read: 3 * inner,
            chunk: q,
            products: vec![(q, q, d, heads), (q, d, q, heads), (d, d, q, heads), (q, d, d, heads)],
            repeated: 1,
            state: heads * d * d,
            saved: inner,
        }
    }

    /// Kernels and communication of the two passes.
    fn passes(&self, b: &Blocks) -> (Vec<Item>, Vec<Item>) {
        let s = b.shard;
        let moved = |width: u64, times: f64| times * (s.tokens() * width) as f64 * s.act();
        let swap = |name, width: u64| {
            let point = CommPoint::new(name, CommGroup::Context, CommOp::AllToAll, moved(width, 1.0));
            (s.context.size > 1).then_some(Item::Comm(point))
        };
        let pass = |class, name, width: u64, times| {
            let elements = s.tokens() * width;
            let kernel = Kernel::elementwise(class, name, elements, moved(width, times), s.compute);
            (width > 0).then_some(Item::Kernel(kernel))
        };
        let mut forward = Vec::new();
        forward.extend(swap("all-to-all mixer input", self.projected));
        forward.extend(pass(KernelClass::Other, "convolution", self.convolved, 2.0));
        forward.extend(self.chunks(b, "scan", 1, 0));
        forward.extend(pass(KernelClass::Norm, "gated norm", self.inner, 3.0));
        forward.extend(swap("all-to-all mixer output", self.inner));
        let mut backward = Vec::new();
        backward.extend(swap("all-to-all mixer output gradient", self.inner));
        backward.extend(pass(KernelClass::NormBackward, "gated norm backward", self.inner, 5.0));
        backward.extend(self.chunks(b, "scan backward", 2, self.repeated));
        backward.extend(pass(KernelClass::Other, "convolution backward", self.convolved, 4.0));
        backward.extend(swap("all-to-all mixer input gradient", self.projected));
        (forward, backward)
    }

    /// The scan: every product `times` over, the first `again` once more, and the states passed from chunk to chunk.
    fn chunks(&self, b: &Blocks, name: &'static str, times: u64, again: usize) -> Vec<Item> {
        let s = b.shard;
        let chunks = s.tokens().div_ceil(self.chunk).max(1);
        let products = self.products.iter().enumerate().map(|(i, &(rows, columns, inner, count))| {
            let batch = chunks * count * (times + u64::from(i < again));
            Item::Kernel(
                Kernel::gemm(name, rows, columns, inner, batch, s.compute, s.act()).of(KernelClass::Scan),
            )
        });
        let states = (chunks * self.state) as f64 * 12.0 * times as f64;
        let read = (s.tokens() * self.read) as f64 * s.act() * times as f64;
        let passing = Kernel::elementwise(
            KernelClass::Other,
            "state passing",
            chunks * self.state,
            states,
            Dtype::Fp32,
        );
        let mut items: Vec<Item> = products.collect();
        if items.is_empty() {
            // Without products the scan is bound by what it reads and writes.
            let elements = s.tokens() * self.read;
            items.push(Item::Kernel(Kernel::elementwise(
                KernelClass::Other,
                name,
                elements,
                read,
                s.compute,
            )));
        } else {
            items.push(Item::Kernel(passing));
        }
        items
    }
}
