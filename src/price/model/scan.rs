//! Mixers without attention scores: state spaces and linear attention, worked on in chunks.
//!
//! A layer is one projection in, a short convolution, narrow products that make the scan's maps (Mamba 1), the scan,
//! a gated norm, and a projection out; heads are cut over tensor-parallel ranks as attention's are. The mixer
//! decides the products, traffic and kept bytes of the scan ([`Scan`]). Backward repeats the forward's states and does
//! each product twice; kernels do so by themselves, and recomputation of attention's core does not reach them
//! (Megatron's `MambaMixer` knows no list of modules).
//!
//! Context parallelism swaps shards of the sequence for shards of heads before the convolution and back behind the scan
//! (Megatron's way), two all-to-alls a pass.

use super::KernelClass;
use super::blocks::{Block, LayerBuilder};
use super::item::{CommGroup, CommOp, CommPoint, Item, Kernel};
use super::layer_count;
use super::linear::{Linear, LinearSplit, products};
use stepsim_spec::model::Scan;
use stepsim_spec::workload::{Dtype, Fp8Gemm, RecomputeModule};

/// Adds projection in, convolution, scan, gated norm and projection out.
pub(super) fn add(b: &mut LayerBuilder, scan: &Scan) {
    let (m, s) = (b.model, b.shard);
    let tokens = s.tokens();
    let kept = s.kept_tokens() as f64 * m.hidden as f64 * s.saved_input(Fp8Gemm::Qkv);
    b.save_input("mixer input", kept, &[RecomputeModule::Norm], &[]);
    let before = b.parameters.dense;
    b.linear(Linear::new(
        products!("mixer in"),
        m.hidden,
        scan.projected,
        LinearSplit::Columns,
        Fp8Gemm::Qkv,
    ));
    b.save("projected", (tokens * scan.projected) as f64 * s.act(), &[], false);
    b.save("scan", (tokens * scan.saved) as f64 * s.act(), &[], false);
    let (forward, backward) = ScanKernels(scan).passes(b);
    b.push(Block::of(forward, backward, &[]));
    b.save_input("mixer output", (tokens * scan.inner) as f64 * s.act(), &[], &[]);
    b.linear(Linear::new(
        products!("mixer out"),
        scan.inner,
        m.hidden,
        LinearSplit::Rows,
        Fp8Gemm::Projection,
    ));
    // Projections of low rank, convolutions and vectors are counted with the rest.
    b.parameters.dense = before + layer_count::mixer(m).div_ceil(s.tensor);
}

/// The scan of a layer on its rank.
struct ScanKernels<'s>(&'s Scan);

impl ScanKernels<'_> {
    /// Kernels and communication of the two passes.
    fn passes(&self, b: &LayerBuilder) -> (Vec<Item>, Vec<Item>) {
        let (s, [ahead, back]) = (b.shard, self.0.kind.classes());
        let swap = |name, width: u64| {
            let bytes = (s.tokens() * width) as f64 * s.act();
            let point = CommPoint::new(name, CommGroup::Context, CommOp::AllToAll, bytes);
            (s.context.size > 1).then_some(Item::Comm(point))
        };
        let pass = |class, name, width: u64, times| {
            (width > 0).then(|| s.pass(class, name, s.tokens() * width, times))
        };
        let gemm = |name, rows, columns, inner| {
            Item::Kernel(Kernel::gemm(name, rows, columns, inner, 1, s.compute, s.act()))
        };
        let mut forward = Vec::new();
        forward.extend(swap("all-to-all mixer input", self.0.projected));
        forward.extend(pass(KernelClass::Other, "convolution", self.0.convolved, 2.0));
        for &(from, to) in &self.0.narrow {
            forward.push(gemm("scan maps", s.tokens(), to, from));
        }
        forward.extend(self.chunks(b, (ahead, "scan"), 1, 0));
        let normed = if self.0.gated_norm { self.0.inner } else { 0 };
        forward.extend(pass(KernelClass::Norm, "gated norm", normed, 3.0));
        forward.extend(swap("all-to-all mixer output", self.0.inner));
        let mut backward = Vec::new();
        backward.extend(swap("all-to-all mixer output gradient", self.0.inner));
        backward.extend(pass(KernelClass::NormBackward, "gated norm backward", normed, 5.0));
        backward.extend(self.chunks(b, (back, "scan backward"), 2, self.0.repeated));
        for &(from, to) in self.0.narrow.iter().rev() {
            backward.push(gemm("scan maps, input gradient", s.tokens(), from, to));
            backward.push(gemm("scan maps, weight gradient", to, from, s.tokens()));
        }
        backward.extend(pass(KernelClass::Other, "convolution backward", self.0.convolved, 4.0));
        backward.extend(swap("all-to-all mixer input gradient", self.0.projected));
        (forward, backward)
    }

    /// The scan: every product `times` over, the first `again` once more, and the states passed from chunk to chunk.
    fn chunks(
        &self,
        b: &LayerBuilder,
        (class, name): (KernelClass, &'static str),
        times: u64,
        again: usize,
    ) -> Vec<Item> {
        let s = b.shard;
        let chunks = s.tokens().div_ceil(self.0.chunk).max(1);
        let products = self.0.products.iter().enumerate().map(|(i, &(rows, columns, inner, count))| {
            let batch = chunks * count * (times + u64::from(i < again));
            Item::Kernel(Kernel::gemm(name, rows, columns, inner, batch, s.compute, s.act()).of(class))
        });
        let states = (chunks * self.0.state) as f64 * 12.0 * times as f64;
        let mut items: Vec<Item> = products.collect();
        if items.is_empty() {
            // Without products the scan is bound by what it reads and writes.
            items.push(s.pass(KernelClass::Other, name, s.tokens() * self.0.read, times as f64));
        } else {
            let (class, elements) = (KernelClass::Other, chunks * self.0.state);
            let passing = Kernel::elementwise(class, "state passing", elements, states, Dtype::Fp32);
            items.push(Item::Kernel(passing));
        }
        items
    }
}
