//! Kernels and exchanges on two streams: the longest path of one cell after the other.
//!
//! A **cell** is a layer's forward pass of one micro-batch and a layer's backward pass of another. Its data edges (' is the
//! cell before): attn(F) after combine(F)'; dispatch(F) after attn(F); mlp(F) after dispatch(F); combine(F) after mlp(F);
//! combine(B) after attn(B)'; mlp(B) after combine(B); dispatch(B) after mlp(B); attn(B) after dispatch(B); weight
//! gradients (W) after the kernels that made their inputs. Orders of the streams, as in DeepSeek's published profile of
//! DualPipe (deepseek-ai/profile-data, `train.json`) and in Megatron-LM's combined 1F1B with delayed weight gradients:
//!
//! * compute: attn(F), mlp(B), mlp(W), mlp(F), attn(B), attn(W)
//! * exchange: combine(B), dispatch(F), dispatch(B), combine(F)
//!
//! Without delay, W runs with its (B), and dispatch(B) waits for both.

/// An op of a graph on a few in-order streams; ops come in an order in which every wait points back.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Which stream; exchanges have odd numbers.
    pub stream: usize,
    /// How long it takes.
    pub time: f64,
    /// Ops that must have ended.
    pub after: Vec<usize>,
}

/// How long a graph takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Span {
    /// From the first start to the last end.
    pub makespan: f64,
    /// The part of it in which no kernel runs.
    pub exposed: f64,
}

/// Ends of the ops of a graph: each starts when its stream is free and what it waits for has ended.
fn ends(steps: &[Step]) -> Vec<f64> {
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
pub fn span(steps: &[Step]) -> Span {
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
    Span { makespan, exposed: makespan - covered }
}

/// What paired passes do to what comes behind them, from their first start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Paired {
    /// Until the last kernel ends: those of the next slot begin, also beside the last exchange.
    pub kernels: f64,
    /// The part of it in which no kernel runs.
    pub exposed: f64,
    /// Until the last layer's results are there.
    pub forward: f64,
    /// Until the gradients for the layer before are there.
    pub backward: f64,
}

const KERNELS: usize = 0;
const EXCHANGES: usize = 1;

/// Times of the parts of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cell {
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

impl Cell {
    /// So many cells one after the other; `fused`: weight gradients where they are made.
    pub fn span(&self, layers: usize, fused: bool) -> Span {
        span(&self.steps(layers, fused).0)
    }
    /// The same between other slots of a pipeline rank.
    pub fn paired(&self, layers: usize, fused: bool) -> Paired {
        let (steps, last) = self.steps(layers, fused);
        let ends = ends(&steps);
        let kernels = || steps.iter().zip(&ends).filter(|(step, _)| step.stream == KERNELS);
        let until = kernels().map(|(_, end)| *end).fold(0.0, f64::max);
        let busy: f64 = kernels().map(|(step, _)| step.time).sum();
        let [forward, backward] = last.map(|step| step.map_or(0.0, |i| ends[i]));
        Paired { kernels: until, exposed: until - busy, forward, backward }
    }
    /// The graph, and in it the ops that make the last results and gradients.
    fn steps(&self, layers: usize, fused: bool) -> (Vec<Step>, [Option<usize>; 2]) {
        let mut steps: Vec<Step> = Vec::with_capacity(10 * layers);
        let (mut combined, mut attended): (Option<usize>, Option<usize>) = (None, None);
        let [mlp_back, attn_back] = match fused {
            true => [self.mlp_back + self.mlp_weights, self.attn_back + self.attn_weights],
            false => [self.mlp_back, self.attn_back],
        };
        for _ in 0..layers {
            let mut push = |stream, time, after: Vec<usize>| {
                steps.push(Step { stream, time, after });
                steps.len() - 1
            };
            let combine_back = push(EXCHANGES, self.combine_back, Vec::from_iter(attended));
            let attn = push(KERNELS, self.attn, Vec::from_iter(combined));
            let dispatch = push(EXCHANGES, self.dispatch, vec![attn]);
            let mlp_back = push(KERNELS, mlp_back, vec![combine_back]);
            let dispatch_back = push(EXCHANGES, self.dispatch_back, vec![mlp_back]);
            if !fused {
                push(KERNELS, self.mlp_weights, vec![mlp_back]);
            }
            let mlp = push(KERNELS, self.mlp, vec![dispatch]);
            combined = Some(push(EXCHANGES, self.combine, vec![mlp]));
            let attn_back = push(KERNELS, attn_back, vec![dispatch_back]);
            attended = Some(attn_back);
            if !fused {
                push(KERNELS, self.attn_weights, vec![attn_back]);
            }
        }
        (steps, [combined, attended])
    }
}
