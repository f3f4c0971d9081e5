//! Collectives on a torus, or on a line or box of it: both directions of each axis, all axes at once.
//!
//! **All-gather** over one axis of `n`: each shard of `V/n` travels right `⌊n/2⌋` hops and left `n−1−⌊n/2⌋`, stored at
//! each: `⌊n/2⌋·(α + V/(n·B))`; on a line, where shards must go all the way, `(n−1)·(α + V/(n·B))`.
//!
//! Over `D` axes the buffer is cut into `D` parts. Part `l` gathers along axis `l`, then `l+1`, and so on, so that at
//! any time each part has an axis to itself. A stage on an axis of `n` moves what earlier stages gathered as one
//! block. Two equal axes: `(x+y)·α/2 + V/(4B)·(1+1/y)`, which is `1/y` above the bound `V/(4B)`, because an even ring
//! uses `n/2` hops one way and one less the other. **Reduce-scatter** runs backwards, **all-reduce** is both.
//!
//! `torus-split` sends half of each shard to the chip opposite either way: `⌊n/2⌋·α + V·(n−1)/(2n·B)` on an even
//! ring, and `V/(2D·B)·(1 − 1/N)` in all on `D` equal axes of even length, the bound of the book.
//!
//! **All-to-all**: each pair's bytes take the shorter way, axis after axis, through the chips between; half each way
//! where both are equal. Bisection sets the time: an axis of `a` with wrap takes `a·S/(8B)` (odd `a`:
//! `(a − 1/a)·S/(8B)`), a line `⌊a/2⌋·⌈a/2⌉/a·S/B`; the slowest axis counts, and one α for each hop of the longest way.
//!
//! With axes of unequal length the parts finish their stages at different times. `fluid` and the closed form wait
//! for the slowest part between stages; `steps` does not, and parts then meet on one axis: measured 9 % more on 4×8.
//!
//! Source: "How to scale your model" (jax-ml scaling book), TPU chapters; bisection argument for the all-to-all.

use super::algorithm::Algorithm;
use super::geometry::{DomainWiring, Geometry, TorusAxis};
use super::pattern::Pattern;
use super::schedule::{RepeatedPattern, RoundGroup};
use super::{Op, Transfer};

/// See the module's text.
#[derive(Debug)]
pub struct TorusRings {
    /// True if shards for the chip opposite go half each way.
    pub split: bool,
}

fn axes(g: &Geometry) -> &[TorusAxis] {
    match &g.fabric {
        DomainWiring::Torus(axes) => axes,
        _ => &[],
    }
}

/// Rounds to the right and to the left on an axis.
fn rounds(axis: TorusAxis) -> [u32; 2] {
    if axis.wraps { [axis.len / 2, (axis.len - 1) / 2] } else { [axis.len - 1; 2] }
}

/// For each stage, the (axis, block in shards) of each part of the buffer.
fn stages(axes: &[TorusAxis]) -> Vec<Vec<(usize, u32)>> {
    let d = axes.len();
    let part = |stage: usize, l: usize| {
        let gathered = (0..stage).map(|s| axes[(l + s) % d].len).product();
        ((l + stage) % d, gathered)
    };
    (0..d).map(|stage| (0..d).map(|l| part(stage, l)).collect()).collect()
}

/// Phases of the all-gather, or of the reduce-scatter, which is the same backwards.
fn gather(axes: &[TorusAxis], unit: f64, split: bool, backwards: bool) -> Vec<RoundGroup> {
    let mut phases = Vec::new();
    for stage in stages(axes) {
        if split {
            phases.extend(halved(axes, &stage, unit, backwards));
        } else if stage.iter().all(|&(axis, _)| axes[axis].wraps) {
            let parts = stage.iter().enumerate().flat_map(|(lane, &(axis, weight))| {
                let [right, left] = rounds(axes[axis]);
                [(true, right), (false, left)].map(|(forward, times)| {
                    let pattern = Pattern::Neighbour { axis: axis as u8, forward: forward != backwards };
                    RepeatedPattern { pattern, weight, times, lane: lane as u16 }
                })
            });
            phases.push(RoundGroup::beside(parts.filter(|p| p.times > 0).collect(), unit));
        } else {
            phases.extend(round_by_round(axes, &stage, unit, backwards));
        }
    }
    if backwards {
        phases.reverse();
    }
    phases
}

/// A stage in which shards for the chip opposite go half each way, in a round of their own.
fn halved(
    axes: &[TorusAxis],
    stage: &[(usize, u32)],
    unit: f64,
    backwards: bool,
) -> impl Iterator<Item = RoundGroup> {
    let phase = |weight: u32, times: &dyn Fn(TorusAxis) -> u32| {
        let parts = stage.iter().enumerate().flat_map(|(lane, &(axis, block))| {
            let times = times(axes[axis]);
            [true, false].map(|forward| {
                let pattern = Pattern::Neighbour { axis: axis as u8, forward: forward != backwards };
                RepeatedPattern { pattern, weight: weight * block, times, lane: lane as u16 }
            })
        });
        RoundGroup::beside(parts.filter(|p| p.times > 0).collect(), unit / 2.0)
    };
    let whole = phase(2, &|axis| (axis.len - 1) / 2);
    let opposite = phase(1, &|axis| (axis.len + 1) % 2);
    [whole, opposite].into_iter().filter(|phase| !phase.parts.is_empty())
}

/// A stage with lines among its axes: which chips still have something to pass on changes from round to round.
fn round_by_round(axes: &[TorusAxis], stage: &[(usize, u32)], unit: f64, backwards: bool) -> Vec<RoundGroup> {
    let last = stage.iter().map(|&(axis, _)| rounds(axes[axis])[0]).max().unwrap_or(0);
    (0..last)
        .map(|round| {
            let mut parts = Vec::new();
            for (lane, &(axis, weight)) in stage.iter().enumerate() {
                for (forward, times) in [true, false].into_iter().zip(rounds(axes[axis])) {
                    if round < times {
                        let axis8 = axis as u8;
                        let pattern = if axes[axis].wraps {
                            Pattern::Neighbour { axis: axis8, forward: forward != backwards }
                        } else {
                            Pattern::Line { axis: axis8, forward, round: round as u16, backwards }
                        };
                        parts.push(RepeatedPattern { pattern, weight, times: 1, lane: lane as u16 });
                    }
                }
            }
            RoundGroup::beside(parts, unit)
        })
        .collect()
}

/// Bytes over the busiest link of an axis in an all-to-all, over `S`.
fn all_to_all_load(axis: TorusAxis) -> f64 {
    let a = f64::from(axis.len);
    match (axis.wraps, axis.len % 2) {
        (true, 0) => a / 8.0,
        (true, _) => (a - 1.0 / a) / 8.0,
        (false, _) => f64::from(axis.len / 2) * f64::from(axis.len.div_ceil(2)) / a,
    }
}

impl Algorithm for TorusRings {
    fn name(&self) -> &'static str {
        if self.split { "torus-split" } else { "torus" }
    }
    fn aliases(&self) -> &'static [&'static str] {
        if self.split { &[] } else { &["bidirectional-ring", "bidirectional-line", "torus2d", "torus3d"] }
    }
    fn supports(&self, op: Op, g: &Geometry) -> Result<(), String> {
        match (op, &g.fabric) {
            (_, DomainWiring::Torus(axes)) if axes.is_empty() => Err("the group has one member".into()),
            (_, DomainWiring::Torus(axes)) if self.split && !axes.iter().all(|a| a.wraps) => {
                Err("on a line no chip is reached both ways".into())
            }
            (Op::AllToAll, _) if self.split => Err("it reduces and gathers".into()),
            (Op::AllReduce | Op::AllGather | Op::ReduceScatter | Op::AllToAll, DomainWiring::Torus(_)) => {
                Ok(())
            }
            (_, DomainWiring::Torus(_)) => Err("it reduces, gathers and exchanges".into()),
            _ => Err("the group does not fill a line, ring or box of a torus".into()),
        }
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> f64 {
        let (axes, bytes) = (axes(g), t.bytes as f64);
        if t.op == Op::AllToAll {
            let load = axes.iter().map(|&a| all_to_all_load(a)).fold(0.0, f64::max);
            let hops: u32 = axes.iter().map(|a| a.longest_way()).sum();
            return g.intra.time(f64::from(hops), load * bytes);
        }
        let unit = bytes / f64::from(g.size) / axes.len() as f64;
        let part = |&(axis, block): &(usize, u32)| {
            let rounds = f64::from(rounds(axes[axis])[0]);
            let blocks = if self.split { f64::from(axes[axis].len - 1) / 2.0 } else { rounds };
            g.intra.time(rounds, blocks * f64::from(block) * unit)
        };
        let once: f64 = stages(axes).iter().map(|stage| stage.iter().map(part).fold(0.0, f64::max)).sum();
        if t.op == Op::AllReduce { 2.0 * once } else { once }
    }
    fn phases(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> Vec<RoundGroup> {
        let axes = axes(g);
        let shard = t.bytes as f64 / f64::from(g.size);
        let unit = shard / axes.len() as f64;
        match t.op {
            Op::AllToAll => vec![RoundGroup::new(Pattern::TorusPairs, 1, shard / 2.0)],
            Op::AllGather => gather(axes, unit, self.split, false),
            Op::ReduceScatter => gather(axes, unit, self.split, true),
            _ => {
                let mut phases = gather(axes, unit, self.split, true);
                phases.extend(gather(axes, unit, self.split, false));
                phases
            }
        }
    }
}
