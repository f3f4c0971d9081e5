//! The clock that power leaves in a step: products draw most, and a step that holds few of them keeps its clock.
//!
//! A chip lowers its clock until its mean power, over some milliseconds, meets the limit. With power as a share of the
//! limit, products at the full rate draw 1/σ² (alone they run at the rate σ, `cost.sustained`, where the square of the
//! rate brings them to 1), kernels that memory bounds draw e (`cost.power_beside_products`). With seconds p of products
//! and o of everything else at the full clock, the rate r of a step's products solves
//! ```text
//! p·r/σ² + o·e = p/r + o      so  r = σ²·(k + √(k² + 4/σ²)) / 2,  k = (1 − e)·o/p,   at most 1
//! ```
//! Kernels that memory bounds lose with the clock too: of the share that `cost.sustained_memory` takes from them the
//! part (1 − r)/(1 − σ).
//!
//! Steps of several devices were fitted with σ itself. A device alone in its chassis has its air and supply for itself:
//! a step of one device runs at r, a step of a full chassis at σ, and each doubling between goes somewhat farther than the
//! one before, so that a step of two is 3 to 6 % longer (pairs of A100 with FSDP: 3 to 7 %).

use super::{Cost, DeviceCost};
use crate::model::{Item, Kernel, LayerPlan, Shard};
use stepsim_spec::facts::{Facts, facts};
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::{ParallelismSpec, WorkloadSpec};

/// Seconds of kernels at the full clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KernelMix {
    /// Their products at the full rate of a GEMM.
    pub products_s: f64,
    /// The rest of their time.
    pub others_s: f64,
}

impl KernelMix {
    /// The kernels of one sequence on one device: all layouts of a workload have the same mix. None where the power of
    /// kernels beside products is not known.
    pub fn of(
        workload: &WorkloadSpec,
        model: &ModelSpec,
        device: &DeviceCost,
        cost: &dyn Cost,
    ) -> Option<KernelMix> {
        device.spec.power_beside_products?;
        let mut alone = workload.clone();
        alone.parallelism = ParallelismSpec::default();
        alone.batch.micro_batch = 1;
        let (shard, training) = (Shard::new(&alone, model), &workload.training);
        let below = workload.trains_modules();
        let mut mix = MixSum { device: device.clone().cool(), cost, sum: KernelMix::default() };
        let mut kinds: Vec<(Option<&str>, bool, u64, f64)> = Vec::new();
        for layer in 0..model.layers {
            let kind = (model.kind_of(layer), training.trains_layer(model, layer));
            match kinds.iter_mut().find(|known| (known.0, known.1) == kind) {
                Some(known) => known.3 += 1.0,
                None => kinds.push((kind.0, kind.1, layer, 1.0)),
            }
        }
        for (_, _, layer, count) in kinds {
            let shard = Shard { trained: training.of_layer(model, layer, below), ..shard.clone() };
            mix.add(&LayerPlan::transformer(&model.layer(layer), &shard), count);
        }
        let last = Shard { trained: training.of_head(model), ..shard };
        mix.add(&LayerPlan::head(model, &last, true), 1.0);
        Some(mix.sum)
    }
}

/// A sum of kernels on a cool device.
struct MixSum<'a> {
    device: DeviceCost,
    cost: &'a dyn Cost,
    sum: KernelMix,
}

impl MixSum<'_> {
    /// Adds the passes of `count` layers.
    fn add(&mut self, plan: &LayerPlan, count: f64) {
        for kernel in plan.forward.iter().chain(&plan.backward).filter_map(Item::kernel) {
            let products = self.products_s(kernel);
            self.sum.products_s += count * products;
            self.sum.others_s += count * (self.cost.time(kernel, &self.device).s() - products).max(0.0);
        }
    }
    fn products_s(&self, kernel: &Kernel) -> f64 {
        kernel.flops / self.device.power_limit(kernel)
    }
}

impl DeviceCost {
    /// The same device at the clock that a mix of kernels leaves it in a step of `devices`.
    #[must_use]
    pub fn in_mix(mut self, mix: KernelMix, devices: u64) -> DeviceCost {
        let (sigma, memory) = (self.spec.sustained, self.spec.sustained_memory);
        let Some(beside) = self.spec.power_beside_products.filter(|_| sigma < 1.0) else { return self };
        let Facts { chassis_devices, chassis_fills, .. } = facts();
        let crowded = (devices.max(1) as f64).log(**chassis_devices as f64).min(1.0).powf(**chassis_fills);
        let rate = rate(mix, sigma, beside).powf(1.0 - crowded) * sigma.powf(crowded);
        self.spec.sustained = rate;
        self.spec.sustained_formats.values_mut().for_each(|own| *own = (*own * rate / sigma).min(1.0));
        self.spec.sustained_memory = 1.0 - (1.0 - memory) * (1.0 - rate) / (1.0 - sigma);
        self
    }
}

/// The rate of products in a mix, of the full one; formula above.
fn rate(mix: KernelMix, sigma: f64, beside: f64) -> f64 {
    if mix.products_s <= 0.0 {
        return 1.0;
    }
    let k = (1.0 - beside) * mix.others_s / mix.products_s;
    (sigma * sigma * (k + (k * k + 4.0 / (sigma * sigma)).sqrt()) / 2.0).min(1.0)
}
