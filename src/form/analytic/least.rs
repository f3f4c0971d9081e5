//! The least time of a pass, summed unit by unit.

use std::ops::AddAssign;

use stepsim_price::model::Item;

/// The least time of a chain of ops.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Least {
    /// Kernels, one after the other.
    kernels: f64,
    /// Communication that the next kernel waits for.
    waits: f64,
    /// The longest of it in front of all kernels of a part, and behind them.
    edges: [f64; 2],
}

impl Least {
    /// Of items whose kernels take so long in all; `waits` gives the time of communication that nothing may hide.
    pub(super) fn of(items: &[Item], kernels: f64, waits: &[(usize, f64)]) -> Least {
        let is_kernel = |item: &Item| item.kernel().is_some();
        let (Some(first), Some(last)) = (items.iter().position(is_kernel), items.iter().rposition(is_kernel))
        else {
            return Least::default();
        };
        let sum = |inside: &dyn Fn(usize) -> bool| waits.iter().filter(|w| inside(w.0)).map(|w| w.1).sum();
        Least { kernels, waits: sum(&|_| true), edges: [sum(&|i| i < first), sum(&|i| i > last)] }
    }

    /// So many times.
    pub(super) fn times(self, k: f64) -> Least {
        Least { kernels: k * self.kernels, waits: k * self.waits, edges: self.edges.map(|edge| k * edge) }
    }

    /// Seconds of it as one pass.
    pub(super) fn pass(&self, waits: bool) -> f64 {
        let inside = self.waits - self.edges[0] - self.edges[1];
        self.kernels + if waits { inside.max(0.0) } else { 0.0 }
    }
}

impl AddAssign for Least {
    fn add_assign(&mut self, other: Least) {
        self.kernels += other.kernels;
        self.waits += other.waits;
        for (edge, other) in self.edges.iter_mut().zip(other.edges) {
            *edge = edge.max(other);
        }
    }
}
