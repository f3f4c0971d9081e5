//! Kernels and exchanges on two streams: the longest path of one cell after the other.
//!
//! A **cell** is a layer's forward pass of one micro-batch and a layer's backward pass of another. Its data edges ('
//! is the cell before): attn(F) after combine(F)'; dispatch(F) after attn(F); mlp(F) after dispatch(F); combine(F)
//! after mlp(F); combine(B) after attn(B)'; mlp(B) after combine(B); dispatch(B) after mlp(B); attn(B) after
//! dispatch(B); weight gradients (W) after the kernels that made their inputs. Orders of the streams, as in
//! DeepSeek's published profile of DualPipe (deepseek-ai/profile-data, `train.json`) and in Megatron-LM's combined
//! 1F1B with delayed weight gradients:
//!
//! * compute: attn(F), mlp(B), mlp(W), mlp(F), attn(B), attn(W)
//! * exchange: combine(B), dispatch(F), dispatch(B), combine(F)
//!
//! Without delay, W runs with its (B), and dispatch(B) waits for both.

/// An op of a graph on a few in-order streams; ops come in an order in which every wait points back.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphTask {
    /// The stream; exchanges have odd numbers.
    pub stream: usize,
    /// How long it takes.
    pub time: f64,
    /// Ops that must have ended.
    pub after: Vec<usize>,
}

/// How long a graph takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GraphTime {
    /// From the first start to the last end.
    pub makespan: f64,
    /// The part of it in which no kernel runs.
    pub exposed: f64,
}

/// Ends of the ops of a graph: each starts when its stream is free and what it waits for has ended.
fn ends(steps: &[GraphTask]) -> Vec<f64> {
    let mut free = [0.0_f64; 4];
    let mut ends: Vec<f64> = Vec::with_capacity(steps.len());
    for step in steps {
        let start = step.after.iter().map(|i| ends[*i]).fold(free[step.stream], f64::max);
        free[step.stream] = start + step.time;
        ends.push(free[step.stream]);
    }
    ends
}

/// How long a graph takes, and how long no kernel runs meanwhile.
pub fn span(steps: &[GraphTask]) -> GraphTime {
    let ends = ends(steps);
    let kernels = steps.iter().zip(&ends).filter(|(step, _)| step.stream.is_multiple_of(2));
    let mut busy: Vec<(f64, f64)> = kernels.map(|(step, end)| (end - step.time, *end)).collect();
    busy.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut covered, mut until) = (0.0, 0.0_f64);
    for (start, end) in busy {
        covered += (end - start.max(until)).max(0.0);
        until = until.max(end);
    }
    let makespan = ends.into_iter().fold(0.0, f64::max);
    GraphTime { makespan, exposed: makespan - covered }
}

const KERNELS: usize = 0;
const EXCHANGES: usize = 1;

/// Times of the parts of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CellTimes {
    /// Forward: up to the dispatch.
    pub attn: f64,
    /// Forward: tokens to their experts.
    pub dispatch: f64,
    /// Forward: between dispatch and combine.
    pub mlp: f64,
    /// Forward: results back.
    pub combine: f64,
    /// Backward: gradients of the results, to the experts.
    pub combine_back: f64,
    /// Backward: input gradients between the exchanges.
    pub mlp_back: f64,
    /// Backward: gradients of the tokens, back.
    pub dispatch_back: f64,
    /// Backward: input gradients of the rest.
    pub attn_back: f64,
    /// Weight gradients between the exchanges.
    pub mlp_weights: f64,
    /// Weight gradients of the rest.
    pub attn_weights: f64,
}

/// A layer in a pass that is paired.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PairedLayer {
    /// Kernels alone: a dense layer, the embedding, the head.
    Kernels(f64),
    /// A layer with exchanges.
    Cell(CellTimes),
}

impl CellTimes {
    /// So many cells one after the other; `fused`: weight gradients where they are made.
    pub fn span(&self, layers: usize, fused: bool) -> GraphTime {
        let layers = vec![PairedLayer::Cell(*self); layers];
        span(&steps(&layers, &layers, fused))
    }
}

/// The graph of a forward pass's layers beside a backward pass's layers, each in its order: cells are paired first
/// with last, other kernels run between them, surplus cells alone.
fn steps(forward: &[PairedLayer], backward: &[PairedLayer], fused: bool) -> Vec<GraphTask> {
    let mut steps = Vec::with_capacity(6 * (forward.len() + backward.len()));
    let mut f = PassQueue::new(forward.iter().flat_map(forward_ops).collect());
    let mut b = PassQueue::new(backward.iter().flat_map(|layer| backward_ops(layer, fused)).collect());
    let mut left = [true, b.walk_to_exchange(&mut steps)];
    while left != [false, false] {
        left[0] = left[0] && f.walk_to_exchange(&mut steps); // attn(F), dispatch(F)
        left[1] = left[1] && b.walk_to_exchange(&mut steps); // mlp(B), dispatch(B)
        b.weights(&mut steps); // mlp(W)
        left[0] = left[0] && f.walk_to_exchange(&mut steps); // mlp(F), combine(F)
        left[1] = left[1] && b.walk_to_exchange(&mut steps); // attn(B), and the next combine(B)
        b.weights(&mut steps); // attn(W)
    }
    steps
}

/// An op of one pass.
#[derive(Clone, Copy, Debug)]
enum CellOp {
    Kernels(f64),
    Exchange(f64),
    /// Weight gradients whose inputs are there; they run later.
    Weights(f64),
}

fn forward_ops(layer: &PairedLayer) -> Vec<CellOp> {
    match layer {
        PairedLayer::Kernels(time) => vec![CellOp::Kernels(*time)],
        PairedLayer::Cell(c) => {
            vec![
                CellOp::Kernels(c.attn),
                CellOp::Exchange(c.dispatch),
                CellOp::Kernels(c.mlp),
                CellOp::Exchange(c.combine),
            ]
        }
    }
}

fn backward_ops(layer: &PairedLayer, fused: bool) -> Vec<CellOp> {
    let c = match layer {
        PairedLayer::Kernels(time) => return vec![CellOp::Kernels(*time)],
        PairedLayer::Cell(c) => c,
    };
    let made = |gradient: f64, weights: f64| {
        if fused {
            [CellOp::Kernels(gradient + weights), CellOp::Weights(0.0)]
        } else {
            [CellOp::Kernels(gradient), CellOp::Weights(weights)]
        }
    };
    let [mlp, mlp_weights] = made(c.mlp_back, c.mlp_weights);
    let [attn, attn_weights] = made(c.attn_back, c.attn_weights);
    let (combine, dispatch) = (CellOp::Exchange(c.combine_back), CellOp::Exchange(c.dispatch_back));
    vec![combine, mlp, mlp_weights, dispatch, attn, attn_weights]
}

/// A pass on its way into the graph.
struct PassQueue {
    left: std::collections::VecDeque<CellOp>,
    /// The op that it pushed last; the next op waits for it.
    last: Option<usize>,
    /// Weight gradients that may run.
    weights: f64,
}

impl PassQueue {
    fn new(ops: std::collections::VecDeque<CellOp>) -> PassQueue {
        PassQueue { left: ops, last: None, weights: 0.0 }
    }
    /// Pushes ops up to and including the next exchange; false when nothing is left.
    fn walk_to_exchange(&mut self, steps: &mut Vec<GraphTask>) -> bool {
        while let Some(op) = self.left.pop_front() {
            let (stream, time) = match op {
                CellOp::Kernels(time) => (KERNELS, time),
                CellOp::Exchange(time) => (EXCHANGES, time),
                CellOp::Weights(time) => {
                    self.weights += time;
                    continue;
                }
            };
            steps.push(GraphTask { stream, time, after: Vec::from_iter(self.last) });
            self.last = Some(steps.len() - 1);
            if stream == EXCHANGES {
                return true;
            }
        }
        false
    }
    /// Pushes the weight gradients that may run.
    fn weights(&mut self, steps: &mut Vec<GraphTask>) {
        if self.weights > 0.0 {
            steps.push(GraphTask { stream: KERNELS, time: self.weights, after: Vec::new() });
            self.weights = 0.0;
        }
    }
}
