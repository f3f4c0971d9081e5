//! Sums over the layers of one block (restatement §2.5).

use super::layers::{CalculonLayer, LayerPass};
use super::tensor_parallel::{PerBlock, TensorCollective, TensorGroup};
use stepsim_bring::calculon::{Calculon, CalculonOverlap, Recompute};

/// Sum of one direction's collectives, by block kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CommSums {
    /// Bytes.
    pub bytes: PerBlock<f64>,
    /// Seconds on the link.
    pub link_time: PerBlock<f64>,
    /// Seconds not hidden.
    pub exposed_time: PerBlock<f64>,
}

impl CommSums {
    fn add(&mut self, comm: &PerBlock<TensorCollective>) {
        let of = |field: fn(&TensorCollective) -> f64| PerBlock {
            base: field(&comm.base),
            edge: field(&comm.edge),
        };
        self.bytes = self.bytes.plus(of(|c| c.bytes));
        self.link_time = self.link_time.plus(of(|c| c.link_time));
        self.exposed_time = self.exposed_time.plus(of(|c| c.exposed_time));
    }
}

/// Bytes that one block keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockBytes {
    /// Weights W.
    pub weights: f64,
    /// Activations that exist while the block computes.
    pub working: f64,
    /// Activations kept from forward to backward.
    pub stored: f64,
    /// The block's input alone, kept with full recomputation.
    pub checkpoint: f64,
    /// Gradients in the number format, over D.
    pub weight_grads: f64,
    /// Gradients of the fp32 working copy, not sharded.
    pub weight_grads_fp32: f64,
    /// Activation gradients.
    pub activation_grads: f64,
    /// Optimizer state, over D.
    pub optimizer: f64,
}

/// One block on one processor for one micro-batch; the optimizer for one step.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockCosts {
    /// Forward.
    pub forward: LayerPass,
    /// Recomputation.
    pub recompute: LayerPass,
    /// Activation gradient.
    pub agrad: LayerPass,
    /// Weight gradient.
    pub wgrad: LayerPass,
    /// Optimizer.
    pub optimizer: LayerPass,
    /// Forward collectives.
    pub forward_comm: CommSums,
    /// Backward collectives.
    pub agrad_comm: CommSums,
    /// Repeated collectives.
    pub redo_comm: CommSums,
    /// The bytes that it keeps.
    pub bytes: BlockBytes,
    /// B/s at which tiled overlap hides every collective.
    pub tp_bandwidth_to_hide: f64,
}

fn add(sum: &mut LayerPass, stage: &LayerPass) {
    sum.flops += stage.flops;
    sum.bytes += stage.bytes;
    sum.flops_time += stage.flops_time;
    sum.memory_time += stage.memory_time;
    sum.time += stage.time;
}

impl BlockCosts {
    /// Sums `layers`. Without training, everything that belongs to the backward pass is zero.
    pub fn new(
        case: &Calculon,
        group: &TensorGroup<'_>,
        layers: &[CalculonLayer],
        published: bool,
    ) -> BlockCosts {
        let mut block = BlockCosts::default();
        let training = case.exe.training;
        for layer in layers {
            add(&mut block.forward, &layer.forward);
            block.forward_comm.add(&layer.comm.forward);
            block.add_bytes(layer, training);
            if training {
                block.add_backward(layer, published);
            }
            if layer.tiled && group.overlap != CalculonOverlap::None {
                block.require_bandwidth(group, layer, training);
            }
        }
        if case.exe.activation_recompute == Recompute::Full {
            block.bytes.stored = 0.0;
            block.bytes.checkpoint = group.bytes;
        }
        block
    }

    fn add_backward(&mut self, layer: &CalculonLayer, published: bool) {
        if layer.flags.recomputed {
            let time = self.recompute.time + layer.forward.time;
            // As published, each recomputed layer adds the block's running total instead of its own share.
            add(&mut self.recompute, if published { &self.forward } else { &layer.forward });
            self.recompute.time = time;
        }
        add(&mut self.agrad, &layer.agrad);
        add(&mut self.wgrad, &layer.wgrad);
        add(&mut self.optimizer, &layer.optimizer);
        self.agrad_comm.add(&layer.comm.agrad);
        self.redo_comm.add(&layer.comm.redo);
    }

    fn add_bytes(&mut self, layer: &CalculonLayer, training: bool) {
        let bytes = &mut self.bytes;
        bytes.weights += layer.weight_bytes;
        if !layer.flags.not_working {
            bytes.working += layer.shape.stored_bytes;
        }
        // A forward pass alone drops nothing for a backward pass to recover: every input counts.
        if !(training && layer.flags.not_stored) {
            bytes.stored += layer.shape.stored_bytes;
        }
        if training && layer.flags.output_dropped {
            bytes.stored -= layer.output_bytes;
        }
        if training {
            bytes.weight_grads += layer.weight_grad_bytes;
            bytes.weight_grads_fp32 += layer.weight_grad_fp32_bytes;
            bytes.activation_grads += layer.shape.gradient_bytes;
            bytes.optimizer += layer.optimizer_bytes;
        }
    }

    /// Largest bandwidth over the overlapped layers, forward and activation gradient, base and edge block.
    fn require_bandwidth(&mut self, group: &TensorGroup<'_>, layer: &CalculonLayer, training: bool) {
        let larger = |flops: f64, comm: &PerBlock<TensorCollective>| {
            group.bandwidth_to_hide(flops, &comm.base).max(group.bandwidth_to_hide(flops, &comm.edge))
        };
        let forward = larger(layer.forward.flops, &layer.comm.forward);
        let agrad = larger(layer.agrad.flops, &layer.comm.agrad);
        let need = if training { forward.max(agrad) } else { forward };
        self.tp_bandwidth_to_hide = self.tp_bandwidth_to_hide.max(need);
    }
}
