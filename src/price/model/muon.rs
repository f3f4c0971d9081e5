//! Muon: momentum made orthogonal, matrix by matrix, by Newton–Schulz iterations.
//!
//! On an m×n matrix X with m ≤ n, five times: A = X·Xᵀ, B = bA + cA·A, X ← aX + B·X: 2·5·(2m²n + m³) FLOPs in 16
//! bits. Before it the momentum is updated, after it the weight, which moves 4 bytes a parameter more than one fused
//! step does (26 with fp32 gradients, momentum and master weights).
//!
//! All weight matrices of layers are updated so, queries, keys, values, gate and up apart, each expert by itself;
//! tables, norms and biases by Adam. Tensor parallelism orthogonalises each shard by itself (Megatron's `blockwise`:
//! other mathematics, no bytes). Where ranks share optimizer state, each owns whole matrices (Megatron's
//! `LayerWiseDistributedOptimizer`): the update lasts as long as the most loaded owner needs; matrices are given out
//! by their FLOPs, largest first.
//!
//! Source: Jordan et al. 2024 (kellerjordan.github.io/posts/muon); Liu et al. 2025 (arXiv 2502.16982); Megatron-LM.
//!
//! Hazards: equal matrices are taken as one batched product; the buffers of an iteration are not counted as memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::{Kernel, KernelClass, Shard};
use stepsim_spec::model::{MatrixCut, ModelSpec};
use stepsim_spec::workload::Dtype;

/// Iterations of one update.
const ITERATIONS: u32 = 5;

/// Equal matrices that one rank holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MatrixBatch {
    /// Their shorter side.
    pub short: u64,
    /// Their longer side.
    pub long: u64,
    /// How many.
    pub count: u64,
    /// True for routed experts.
    pub expert: bool,
}

impl MatrixBatch {
    /// FLOPs of the iterations on one of them.
    pub fn flops(&self) -> f64 {
        let (m, n) = (self.short as f64, self.long as f64);
        2.0 * f64::from(ITERATIONS) * (2.0 * m * m * n + m * m * m)
    }
    /// Elements of all of them.
    pub fn elements(&self) -> u64 {
        self.short * self.long * self.count
    }
}

/// The matrices of a layer that a rank holds.
pub fn held(layer: &ModelSpec, shard: &Shard) -> Vec<MatrixBatch> {
    let of = |m: stepsim_spec::model::Matrix| {
        let t = if m.expert { shard.expert_tensor } else { shard.tensor };
        let cut = |side: u64, cut: MatrixCut| if m.cut == cut { side.div_ceil(t) } else { side };
        let (rows, columns) = (cut(m.rows, MatrixCut::Rows), cut(m.columns, MatrixCut::Columns));
        let count = if m.expert { m.count.div_ceil(shard.expert) } else { m.count };
        MatrixBatch { short: rows.min(columns), long: rows.max(columns), count, expert: m.expert }
    };
    layer.matrices().into_iter().map(of).collect()
}

/// Those of the most loaded owner where ranks share them: (dense, experts') owners.
pub fn owned(held: &[MatrixBatch], owners: (u32, u32)) -> Vec<MatrixBatch> {
    let mut shapes: BTreeMap<(bool, u64, u64), u64> = BTreeMap::new();
    for m in held {
        *shapes.entry((m.expert, m.short, m.long)).or_insert(0) += m.count;
    }
    let mut found = Vec::new();
    for (expert, n) in [(false, owners.0.max(1)), (true, owners.1.max(1))] {
        let mut all: Vec<MatrixBatch> = shapes
            .iter()
            .filter(|(shape, _)| shape.0 == expert)
            .map(|(&(expert, short, long), &count)| MatrixBatch { short, long, count, expert })
            .collect();
        all.sort_by(|a, b| b.flops().total_cmp(&a.flops()).then(a.cmp(b)));
        // Owners by their load in FLOPs, the least loaded first; each with its counts by shape.
        let mut loads: BinaryHeap<Reverse<(u64, u32)>> = (0..n).map(|owner| Reverse((0, owner))).collect();
        let mut counts = vec![vec![0u64; all.len()]; n as usize];
        for (shape, m) in all.iter().enumerate() {
            // Full rounds first: they add the same to all.
            for counts in &mut counts {
                counts[shape] += m.count / u64::from(n);
            }
            for _ in 0..m.count % u64::from(n) {
                if let Some(Reverse((load, owner))) = loads.pop() {
                    counts[owner as usize][shape] += 1;
                    loads.push(Reverse((load + m.flops() as u64, owner)));
                }
            }
        }
        let most = loads.into_iter().map(|Reverse(load)| load).max().map_or(0, |load| load.1);
        let counts = &counts[most as usize];
        found.extend(
            all.iter().zip(counts).filter(|c| *c.1 > 0).map(|(m, count)| MatrixBatch { count: *count, ..*m }),
        );
    }
    found
}

/// The iterations as kernels.
pub fn kernels(owned: &[MatrixBatch], compute: Dtype) -> Vec<Kernel> {
    let dtype = if compute.bytes() < 2.0 { Dtype::Bf16 } else { compute };
    let product = |m, n, k, batch| {
        Kernel::gemm("Newton-Schulz", m, n, k, batch, dtype, dtype.bytes()).of(KernelClass::Gemm)
    };
    let iteration = |m: &MatrixBatch| {
        [
            product(m.short, m.short, m.long, m.count),
            product(m.short, m.short, m.short, m.count),
            product(m.short, m.long, m.short, m.count),
        ]
    };
    (0..ITERATIONS).flat_map(|_| owned.iter().flat_map(iteration)).collect()
}
