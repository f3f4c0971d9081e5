//! Layer kinds: FLOPs, elements and bytes of each (restatement §2.2).
//!
//! Counts are `f64`: integers below 2⁵³ are exact in it, and no product of file values can overflow.

/// The engine that a layer computes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// GEMMs.
    Matrix,
    /// Everything else.
    Vector,
}

/// The three stages of a layer's compute.
pub const FORWARD: usize = 0;
/// Gradient of the activations.
pub const AGRAD: usize = 1;
/// Gradient of the weights.
pub const WGRAD: usize = 2;

/// The work, traffic and kept bytes of one layer.
#[derive(Clone, Copy, Debug)]
pub struct LayerShape {
    /// Engine of the three stages.
    pub unit: EngineKind,
    /// FLOP of forward, activation gradient, weight gradient.
    pub flops: [f64; 3],
    /// HBM bytes of forward, activation gradient, weight gradient.
    pub bytes: [f64; 3],
    /// Elements read.
    pub inputs: f64,
    /// Elements written.
    pub outputs: f64,
    /// Weight elements.
    pub weights: f64,
    /// Bytes of activations kept for the backward pass.
    pub stored_bytes: f64,
    /// Bytes of activation gradients.
    pub gradient_bytes: f64,
}

/// Makes shapes for elements of `beta` bytes.
#[derive(Clone, Copy, Debug)]
pub struct LayerShapes {
    /// Bytes of one element, β.
    pub beta: f64,
}

impl LayerShapes {
    /// A layer whose backward stages move its weights, stored activations S and gradients G: forward in + out + w,
    /// activation gradient w + S + G, weight gradient the same if there are weights.
    fn moving(
        &self,
        unit: EngineKind,
        flops: [f64; 3],
        (inputs, outputs, weights): (f64, f64, f64),
        (stored, gradient): (f64, f64),
    ) -> LayerShape {
        let backward = (weights + stored + gradient) * self.beta;
        LayerShape {
            unit,
            flops,
            bytes: [
                (inputs + outputs + weights) * self.beta,
                backward,
                if weights > 0.0 { backward } else { 0.0 },
            ],
            inputs,
            outputs,
            weights,
            stored_bytes: stored * self.beta,
            gradient_bytes: gradient * self.beta,
        }
    }

    /// GEMM of m×n by n×k: 2mnk FLOP in each stage.
    pub fn linear(&self, m: f64, n: f64, k: f64) -> LayerShape {
        self.linear_keeping(m, n, k, m * n, m * k)
    }
    /// GEMM that stores and differentiates other amounts than its input and output (tiled overlap).
    pub fn linear_keeping(&self, m: f64, n: f64, k: f64, stored: f64, gradient: f64) -> LayerShape {
        self.moving(EngineKind::Matrix, [2.0 * m * n * k; 3], (m * n, m * k, n * k), (stored, gradient))
    }
    /// `batch` GEMMs of two activations: 2Bmnk forward, twice that backward, no weights.
    pub fn batch_matmul(&self, batch: f64, m: f64, n: f64, k: f64) -> LayerShape {
        let (flops, inputs, outputs) = (2.0 * batch * m * n * k, batch * (m * n + n * k), batch * m * k);
        self.moving(EngineKind::Matrix, [flops, 2.0 * flops, 0.0], (inputs, outputs, 0.0), (inputs, outputs))
    }
    /// Layer norm over y elements with 2h weights: 9y, 14y, 7y FLOP.
    pub fn layer_norm(&self, y: f64, hidden: f64) -> LayerShape {
        self.moving(EngineKind::Vector, [9.0 * y, 14.0 * y, 7.0 * y], (y, y, 2.0 * hidden), (y, y))
    }
    /// Softmax over y elements: 5y, 8y FLOP.
    pub fn softmax(&self, y: f64) -> LayerShape {
        self.moving(EngineKind::Vector, [5.0 * y, 8.0 * y, 0.0], (y, y, 0.0), (y, y))
    }
    /// Dropout of y elements: y FLOP; its mask takes one byte an element, which is all it stores.
    pub fn dropout(&self, y: f64) -> LayerShape {
        let bytes = 2.0 * y * self.beta + y;
        let shape = self.moving(EngineKind::Vector, [y, y, 0.0], (y, y, 0.0), (y, y));
        LayerShape { bytes: [bytes, bytes, 0.0], stored_bytes: y, gradient_bytes: y, ..shape }
    }
    /// GeLU of y elements: 8y, 13y FLOP; fused, it stores nothing but moves the same bytes.
    pub fn gelu(&self, y: f64, fused: bool) -> LayerShape {
        let shape = self.moving(EngineKind::Vector, [8.0 * y, 13.0 * y, 0.0], (y, y, 0.0), (y, y));
        let kept = if fused { 0.0 } else { 1.0 };
        LayerShape {
            stored_bytes: kept * shape.stored_bytes,
            gradient_bytes: kept * shape.gradient_bytes,
            ..shape
        }
    }
    /// Residual addition of two tensors of y elements: y forward, 2y backward.
    pub fn add(&self, y: f64) -> LayerShape {
        self.moving(EngineKind::Vector, [y, 2.0 * y, 0.0], (2.0 * y, y, 0.0), (2.0 * y, y))
    }
    /// One tensor of y elements read by `users` layers: nothing forward; backward adds `users` gradients.
    pub fn fork(&self, y: f64, users: f64) -> LayerShape {
        let shape = self.moving(EngineKind::Vector, [0.0, users * y, 0.0], (y, 0.0, 0.0), (y, 0.0));
        LayerShape { bytes: [0.0, y * self.beta * (users + 1.0), 0.0], ..shape }
    }
    /// A tensor-parallel collective of y elements in a group of t. The reducing direction (backward on the gather side
    /// F, forward on the reduce side G) computes y(t − 1)/t FLOP. With reduce-scatter and all-gather (`rs_ag`) both
    /// directions touch memory and 1/t is kept; with all-reduce only the reducing one does.
    /// All zero when t = 1.
    pub fn collective(&self, y: f64, t: f64, gathers: bool, rs_ag: bool) -> LayerShape {
        let y = if t > 1.0 { y } else { 0.0 };
        let shape = self.moving(EngineKind::Vector, [0.0; 3], (y, y, 0.0), (y, y));
        let reducing = if gathers { AGRAD } else { FORWARD };
        let (mut flops, mut bytes) = ([0.0; 3], [0.0; 3]);
        flops[reducing] = y * (t - 1.0) / t;
        for stage in [FORWARD, AGRAD] {
            if rs_ag || stage == reducing {
                bytes[stage] = 2.0 * y * self.beta;
            }
        }
        let whole = y * self.beta;
        let (stored_bytes, gradient_bytes) = match (rs_ag, gathers) {
            (true, _) => (whole / t, whole / t),
            (false, true) => (0.0, whole),
            (false, false) => (whole, 0.0),
        };
        LayerShape { flops, bytes, stored_bytes, gradient_bytes, ..shape }
    }
}
